"""Arrival times of a log's bytes: a thread that records when a program's output grew, without touching the output."""

import threading
import time
from pathlib import Path
from types import TracebackType

from trainmark.node.run_files import restored

INTERVAL_S = 0.01
"""Seconds between two looks at the log's size: the resolution of the arrival times."""


class ArrivalClock:
    """A context manager that appends ``UNIX_TIME SIZE`` to ``path`` each time that ``log`` has become longer.

    The program writes into the log itself, so it is never slowed down. A full disk ends the noting, not the run.
    """

    def __init__(self, log: Path, path: Path, interval_s: float = INTERVAL_S) -> None:
        self._log, self._path, self._interval_s = log, path, interval_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="trainmark-arrivals", daemon=True)

    def __enter__(self) -> "ArrivalClock":
        """Start noting."""
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Note the last size and stop; the file is then complete."""
        self._stop.set()
        self._thread.join()

    def _work(self) -> None:
        try:
            # The descriptor stays valid if the program removes its folder.
            with (
                self._log.open("rb") as log,
                self._path.open("w+b", buffering=0) as file,
                restored(self._path, file),
            ):
                size, stopping = 0, False
                file.write(f"{time.time():.4f} 0\n".encode())
                while True:
                    now_size, now = log.seek(0, 2), time.time()
                    if now_size != size:
                        size = now_size
                        file.write(f"{now:.4f} {size}\n".encode())
                    if stopping:
                        return
                    stopping = self._stop.wait(self._interval_s)
        except OSError:
            return
