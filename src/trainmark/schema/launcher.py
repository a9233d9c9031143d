"""The programs that start the ranks of a run on its hosts."""

from enum import StrEnum


class Launcher(StrEnum):
    """The program that starts the ranks; a single rank is always started directly.

    - ``process``: no launcher, because there is only one process.
    - ``torchrun``: PyTorch's launcher.
    - ``ranks``: one process per rank, which reads its rank from the variables that torchrun would set, like the
      built-in workers.
    - ``multiproc``: the program's own launcher script (the card's ``starter``) with the flags of NVIDIA's
      ``multiproc.py``.
    - ``mpirun``: OpenMPI from the first node, for Horovod over MPI.
    - ``paddle``: ``paddle.distributed.launch``.
    - ``spawn``: one process per node, which sees all devices of the node and uses them or starts their ranks itself.
    - ``command``: the card's command is the whole command line, interpreter or launcher included, and starts the ranks
      of its node itself.
    """

    PROCESS = "process"
    TORCHRUN = "torchrun"
    RANKS = "ranks"
    MULTIPROC = "multiproc"
    MPIRUN = "mpirun"
    PADDLE = "paddle"
    SPAWN = "spawn"
    COMMAND = "command"

    @property
    def needs_starter(self) -> bool:
        """True if a card with this launcher must name the script that starts the ranks."""
        return self is Launcher.MULTIPROC
