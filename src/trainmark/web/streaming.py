"""Server-sent events: one look at the suites a second for all readers, and nothing while nobody reads."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from anyio import Event

from trainmark.errors import TrainmarkError

LOOK_S = 1.0
"""The seconds between two looks: a change is at a reader within two."""

MOST_READERS = 200
KEEP_S = 15.0
END_S = 1.0
"""The longest time in which the streams of readers end with the server."""


@dataclass(frozen=True, slots=True)
class Look:
    """A look at the source: the revision of its results, and the state's HTML by language."""

    revision: str
    states: dict[str, str]


class Stream:
    """Shares looks among readers. ``look`` is called in a thread, never twice at once."""

    def __init__(self, look: Callable[[], Look], interval_s: float = LOOK_S) -> None:
        self._look, self._interval_s = look, interval_s
        self._latest: Look | None = None
        self._number = 0
        self._readers = 0
        self._task: asyncio.Task[None] | None = None
        self._changed = asyncio.Condition()

    @property
    def full(self) -> bool:
        """True if no further reader is served."""
        return self._readers >= MOST_READERS

    async def events(self, language: str, end: Event) -> AsyncIterator[dict[str, str]]:
        """Yield an event for the state, and one for the revision, whenever either changes, until the server ends."""
        self._readers += 1
        ending = asyncio.create_task(self._wake_readers(end))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._watch())
        number, state, revision = -1, None, None
        try:
            while True:
                async with self._changed:
                    await self._changed.wait_for(
                        lambda: end.is_set() or (self._latest is not None and self._number != number)  # noqa: B023
                    )
                    number, latest = self._number, self._latest
                if end.is_set():
                    return
                assert latest is not None
                if latest.revision != revision:
                    revision = latest.revision
                    yield {"event": "revision", "data": revision}
                if latest.states[language] != state:
                    state = latest.states[language]
                    yield {"event": "state", "data": state}
        finally:
            self._readers -= 1
            ending.cancel()

    async def _wake_readers(self, end: Event) -> None:
        await end.wait()
        async with self._changed:
            self._changed.notify_all()

    async def _watch(self) -> None:
        while self._readers > 0:
            began = time.monotonic()
            latest: Look | None
            try:
                latest = await asyncio.to_thread(self._look)
            except (TrainmarkError, OSError):
                # A directory or database that is gone for a moment: readers stay, and get the next look.
                latest = self._latest
            if latest != self._latest:
                async with self._changed:
                    self._latest, self._number = latest, self._number + 1
                    self._changed.notify_all()
            await asyncio.sleep(max(0.1, self._interval_s - (time.monotonic() - began)))
        self._latest = None
