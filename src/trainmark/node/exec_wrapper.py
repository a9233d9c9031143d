"""Wrapper that sets limits and then execs a run's program; runs as a script and imports only the stdlib.

    python -I -S exec_wrapper.py SUPERVISOR_PID MEMORY_BYTES REPORT WORD...

The kernel kills the process when its supervisor dies (Linux only) and limits its private memory to MEMORY_BYTES
(0: no limit).

With a file descriptor as REPORT ("-": without one), the program is a child of this process, which adopts the processes
that the program leaves behind: the kernel makes it their parent instead of init, whatever their session and environment
are. It writes the program's exit code (negative for a signal) to REPORT, and ends when its last child has ended.
"""

import contextlib
import ctypes
import os
import resource
import signal
import sys

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_NOT_FOUND = 127
_TITLE = b"trainmark-wrapper"
_OF_GROUP = (
    *(signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2),
    *(signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF),
)
"""The signals that may be sent to the program's group, of which this process is a member."""


def main() -> None:
    """Set the limits, then replace this process, or a child of it, by the program."""
    supervisor, memory, report, words = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4:]
    _die_with(supervisor)
    if report != "-":
        _adopt_until_child(int(report))
    if memory:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    try:
        os.execvp(words[0], words)  # noqa: S606 - starting the run's program is the purpose
    except OSError as error:
        sys.stderr.write(f"cannot start {words[0]}: {error.strerror}\n")
        sys.exit(_NOT_FOUND)


def _die_with(supervisor: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        # The supervisor died before prctl took effect.
        os.kill(os.getpid(), signal.SIGKILL)


def _adopt_until_child(report: int) -> None:
    """Return in a child of this process; this process itself waits for all of its children and exits."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    here = os.getpid()
    # If SIGCHLD is ignored, the kernel keeps no exit code.
    before = {signal.SIGCHLD: signal.signal(signal.SIGCHLD, signal.SIG_DFL)}
    before |= {number: signal.signal(number, lambda _number, _frame: None) for number in _OF_GROUP}
    program = os.fork()
    if program:
        _hide_words()
        os._exit(_wait_for_all(program, report))
    os.close(report)
    for number, handler in before.items():
        signal.signal(number, handler)
    _die_with(here)


def _hide_words() -> None:
    """Replace the command line that others see of this process: the program's words are those of its child alone."""
    with contextlib.suppress(OSError, ValueError, IndexError), open("/proc/self/stat", "rb") as file:  # noqa: PTH123
        # The fields 48 and 49 of proc(5), counted from 1: the name in parentheses is the second.
        fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[45]), int(fields[46])
        if 0 < start < end:
            ctypes.memset(start, 0, end - start)
            ctypes.memmove(start, _TITLE, min(len(_TITLE), end - start - 1))


def _wait_for_all(program: int, report: int) -> int:
    """Reap every child, report the exit code of ``program``, and return it as this process's own."""
    code = 0
    with contextlib.suppress(ChildProcessError):
        while True:
            child, status = os.wait()
            if child == program:
                code = os.waitstatus_to_exitcode(status)
                with contextlib.suppress(OSError):
                    os.write(report, f"{code}\n".encode())
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    main()
