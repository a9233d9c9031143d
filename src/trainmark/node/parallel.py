"""Asking many hosts at once: each answers in its own time."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

MAX_WORKERS = 64

_Asked = TypeVar("_Asked")
_Answer = TypeVar("_Answer")


def map_hosts(asked: Iterable[_Asked], ask: Callable[[_Asked], _Answer]) -> list[_Answer]:
    """Return the answers in the order of what is asked; the first error is raised when all have answered."""
    several = list(asked)
    if len(several) < 2:
        return [ask(one) for one in several]
    with ThreadPoolExecutor(min(len(several), MAX_WORKERS)) as pool:
        return list(pool.map(ask, several))
