"""The programs that start the ranks of a run on its hosts."""

from enum import StrEnum


class Launcher(StrEnum):
    """The program that starts the ranks; a single rank is always started directly.

    ``process``: nobody, there is one process. ``torchrun``. ``ranks``: each rank is a process of its own that
    finds its place in the variables that torchrun would set, as the built-in workers do. ``multiproc``: the
    program's own starter (the card's ``starter``) with the flags of NVIDIA's ``multiproc.py``. ``mpirun``: OpenMPI
    from the first node, for Horovod over MPI. ``paddle``: ``paddle.distributed.launch``. ``spawn``: one process a
    node, which sees the node's devices and uses or starts all of them itself.
    """

    PROCESS = "process"
    TORCHRUN = "torchrun"
    RANKS = "ranks"
    MULTIPROC = "multiproc"
    MPIRUN = "mpirun"
    PADDLE = "paddle"
    SPAWN = "spawn"

    @property
    def needs_starter(self) -> bool:
        """True if a card with this launcher must name the script that starts the ranks."""
        return self is Launcher.MULTIPROC
