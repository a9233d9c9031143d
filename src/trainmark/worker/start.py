"""Starts the worker: ``python start.py --framework pytorch …`` in an environment that has no trainmark.

The folder of this file must not be on ``sys.path``: a folder in it that is called like a framework would be
imported in the framework's place. So the folder is loaded as the package ``trainmark_worker``, and that at
module level, because a spawned data-loading process imports this file anew before it unpickles its work.

``TRAINMARK_EXTENSIONS`` names folders of others, separated as in ``PATH``. What lies in the ``worker`` folder of one
belongs to the package too: a framework, or in ``tasks`` a task. ``TRAINMARK_BYTECODE`` is the folder for compiled
modules where Python writes none.
"""

import argparse
import importlib
import importlib.util
import os
import sys
from collections.abc import Sequence
from pathlib import Path

PACKAGE = "trainmark_worker"
EXTENSIONS = "TRAINMARK_EXTENSIONS"
BYTECODE = "TRAINMARK_BYTECODE"


def load_package() -> None:
    """Make this folder importable as ``trainmark_worker``, and as nothing else."""
    here = Path(__file__).resolve().parent
    sys.path[:] = [entry for entry in sys.path if not entry or Path(entry).resolve() != here]
    if PACKAGE in sys.modules:
        return
    roots = [Path(entry).resolve() for entry in os.environ.get(EXTENSIONS, "").split(os.pathsep) if entry]
    extensions = [str(root / "worker") for root in roots if (root / "worker").is_dir()]
    spec = importlib.util.spec_from_file_location(
        PACKAGE, str(here / "__init__.py"), submodule_search_locations=[str(here), *extensions]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules[PACKAGE] = package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)


def limit_threads(words: Sequence[str]) -> None:
    """Set ``OMP_NUM_THREADS`` to ``--threads``: OpenMP reads it once, when numpy or a framework loads it."""
    flags = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    flags.add_argument("--threads", nargs="?")
    given, _ = flags.parse_known_args(words)
    if given.threads not in (None, "0"):
        os.environ["OMP_NUM_THREADS"] = given.threads


# A container's image often sets ``PYTHONDONTWRITEBYTECODE``; each run would then compile the framework's sources.
if sys.dont_write_bytecode and os.environ.get(BYTECODE):
    sys.dont_write_bytecode, sys.pycache_prefix = False, os.environ[BYTECODE]
limit_threads(sys.argv[1:])
load_package()

if __name__ == "__mp_main__":
    # A loader process that was spawned: nothing but this line lets it end with a worker that is killed.
    importlib.import_module(PACKAGE + ".core.signals").end_with_parent()

if __name__ == "__main__":
    program = importlib.import_module(PACKAGE + ".core.program")
    sys.exit(program.main(sys.argv[1:], leaves=True))
