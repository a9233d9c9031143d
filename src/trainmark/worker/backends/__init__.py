"""The frameworks' backends, a folder each (``core/backend.py``); extensions have a folder like this one in theirs."""

import sys
from pathlib import Path

__path__ = [str(Path(root) / "backends") for root in sys.modules[__name__.rpartition(".")[0]].__path__]
