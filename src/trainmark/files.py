"""Writing files so that a reader never sees half of one. Every room may import this module."""

import json
import os
import threading
from pathlib import Path
from typing import Any

_DEVICES = Path("/dev")


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write ``content`` to ``path`` so that ``path`` is, at every moment, the old file or the whole new one.

    The bytes go to a temporary file in the same folder, are flushed to the disk, and take the place of
    ``path`` in one rename. What is no file, as ``/dev/null``, a terminal or a pipe, is written into and stays what it
    is. A link is replaced and never followed, as a folder that came from elsewhere may have some; those of ``/dev``
    are the exception. On failure (a full disk) the temporary file is removed and ``OSError`` is raised.
    """
    data = content.encode() if isinstance(content, str) else content
    if path.exists() and (path.parent == _DEVICES or not (path.is_file() or path.is_symlink())):
        with path.open("wb") as stream:
            stream.write(data)
        return
    # Of a process, and within it of a thread: several may write the same.
    temporary = path.with_name(f".{path.name}.{threading.get_native_id()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def to_json(value: Any) -> str:
    """Return ``value`` as indented JSON with a newline at its end; non-finite numbers raise ``ValueError``."""
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
