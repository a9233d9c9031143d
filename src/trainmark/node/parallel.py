"""Parallel calls to many hosts, each in a thread."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

MAX_WORKERS = 64

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def map_hosts(items: Iterable[_Item], call: Callable[[_Item], _Result]) -> list[_Result]:
    """Return the results of ``call`` for each item, in order; the first error is raised after all calls ended."""
    several = list(items)
    if len(several) < 2:
        return [call(one) for one in several]
    with ThreadPoolExecutor(min(len(several), MAX_WORKERS)) as pool:
        return list(pool.map(call, several))
