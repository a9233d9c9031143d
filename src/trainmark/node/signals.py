"""Holding Ctrl-C and its like back while something is done that must not be left half done."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def held() -> Iterator[None]:
    """Let the signals that stop us wait until the context is left; the last of them then takes effect.

    A blocked signal mask would not do: the kernel hands the signal to any other thread, and Python's handler
    then runs in the main thread all the same. Outside the main thread, where no handler ever runs, this does
    nothing. A signal that is ignored stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []

    def remember(number: int, _frame: FrameType | None) -> None:
        waiting.append(number)

    handlers = {number: signal.getsignal(number) for number in STOPPING}
    before = {
        number: handler for number, handler in handlers.items() if handler not in (None, signal.SIG_IGN)
    }
    for number in before:
        signal.signal(number, remember)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if waiting:
            signal.raise_signal(waiting[-1])
