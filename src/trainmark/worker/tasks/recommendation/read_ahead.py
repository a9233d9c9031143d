"""What a thread takes from an iterator beforehand, for formats that a framework's loader does not read by numbers."""

import queue
import threading
from collections.abc import Iterator
from typing import Any


class ReadAhead:
    """The items of an iterator, which a thread takes from it beforehand, up to ``count`` and the one in its hand."""

    def __init__(self, items: Iterator[Any], count: int) -> None:
        """Start the thread."""
        self._read: queue.Queue[Any] = queue.Queue(count)
        self._over = threading.Event()
        threading.Thread(target=_read, args=(items, self._read, self._over), daemon=True).start()

    def __iter__(self) -> "ReadAhead":
        """Return itself."""
        return self

    def __next__(self) -> Any:
        """Wait for the next item."""
        return self._read.get()

    def __del__(self) -> None:
        """Let the thread end: nobody will take what it reads."""
        self._over.set()


def _read(items: Iterator[Any], read: "queue.Queue[Any]", over: threading.Event) -> None:
    for item in items:
        while not over.is_set():
            try:
                read.put(item, timeout=1)
                break
            except queue.Full:
                continue
        if over.is_set():
            return
