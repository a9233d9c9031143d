"""Import of NumPy without the threads of its linear algebra, which cost more CPU time than reading a small log."""

import os

_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def import_numpy() -> None:
    """Import NumPy with one thread for linear algebra; the environment stays as it was, for child processes.

    OpenBLAS reads the number of threads when it is loaded, and starts them at once.
    """
    added = [name for name in _ONE_THREAD if name not in os.environ]
    os.environ.update({name: _ONE_THREAD[name] for name in added})
    try:
        import numpy  # noqa: F401
    finally:
        for name in added:
            del os.environ[name]
