"""Runs the scheduler or a server of MXNet's parameter server; started by a rank as a process of its own.

    DMLC_ROLE=server … python server.py PARENT

``import mxnet`` does the work and returns when all ranks have left. The process dies with the rank that started it.
"""

import ctypes
import os
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Tie this process's life to its parent's, then serve."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(sys.argv[1]):
        sys.exit("trainmark-worker: the rank that started this parameter server has ended")
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != here]
    import mxnet  # noqa: F401


if __name__ == "__main__":
    main()
