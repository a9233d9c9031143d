"""The models, a module ``FRAMEWORK_TASK`` each, with ``open_training``; extensions have a folder like this one."""

import sys
from pathlib import Path

__path__ = [str(Path(root) / "models") for root in sys.modules[__name__.rpartition(".")[0]].__path__]
