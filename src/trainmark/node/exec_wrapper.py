"""Wrapper that sets limits and then execs a run's program; runs as a script and imports only the stdlib.

    python -I -S exec_wrapper.py SUPERVISOR_PID MEMORY_BYTES WORD...

The kernel kills the process when its supervisor dies (Linux only) and limits its private memory to MEMORY_BYTES
(0: no limit).
"""

import ctypes
import os
import resource
import signal
import sys

_PR_SET_PDEATHSIG = 1
_NOT_FOUND = 127


def main() -> None:
    """Set the limits, then replace this process by the program."""
    supervisor, memory, words = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        # The supervisor died before prctl took effect.
        os.kill(os.getpid(), signal.SIGKILL)
    if memory:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    try:
        os.execvp(words[0], words)  # noqa: S606 - starting the run's program is the purpose
    except OSError as error:
        sys.stderr.write(f"cannot start {words[0]}: {error.strerror}\n")
        sys.exit(_NOT_FOUND)


if __name__ == "__main__":
    main()
