"""The tasks, a folder each: ``some_task`` is the task ``some-task``.

Each has a ``TASK`` (``core/task.py``) in its ``__init__.py``. Extensions have a folder like this one in theirs.
"""

import sys
from pathlib import Path

__path__ = [str(Path(root) / "tasks") for root in sys.modules[__name__.rpartition(".")[0]].__path__]
