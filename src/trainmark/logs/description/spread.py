"""Rows made of the lines' fields: several lines merged to one, epochs by the restarts, means that do not overlap."""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from trainmark.errors import InputError
from trainmark.logs.columns import Floats
from trainmark.logs.description.patterns import check_fields, compile_pattern
from trainmark.logs.fields import column_of

_FIGURES = ("rate", "step_time_s", "average_rate", "average_time_s")

Blocks = Iterator[dict[str, Floats]]


def join_lines(lines: Any, where: str) -> str:
    """Return the pattern that matches any of the ``lines`` of a record; raise ``InputError`` for a bad list."""
    if not isinstance(lines, Sequence) or isinstance(lines, str) or len(lines) < 2:
        raise InputError(f"{where}: lines: expected two patterns or more, the first of a record's first line")
    names: set[str] = set()
    for number, line in enumerate(lines):
        pattern = compile_pattern(str(line), f"{where}: lines[{number}]")
        check_fields(pattern, f"{where}: lines[{number}]")
        own = set(pattern.groupindex)
        if twice := sorted(names & own):
            raise InputError(
                f"{where}: lines[{number}]: the field '{twice[0]}' is in an earlier line already"
            )
        names |= own
    return "|".join(f"(?:{line})" for line in lines)


def merge_lines(first: re.Pattern[bytes]) -> Callable[[Blocks], Blocks]:
    """Return the function that merges the rows from one match of ``first``, a record's first line, to the next.

    Rows before the first one belong to a record whose start is missing and are left out. Where other lines have the
    figures, a first line that none of them follows is no record: a counter may be printed more often than a rate.
    A last record without its counter is left out.
    """
    own = [column_of(name) for name in first.groupindex if not name.startswith("_")]
    starting = own[0]

    def merged(blocks: Blocks) -> Blocks:
        carried: dict[str, Floats] = {}
        for block in blocks:
            if starting not in block:
                yield block
                continue
            rows = _joined(carried, block)
            starts = np.flatnonzero(np.isfinite(rows[starting]))
            if len(starts):
                # The last record may go on in the next block.
                carried = {name: values[starts[-1] :] for name, values in rows.items()}
                if len(starts) > 1:
                    whole = {name: values[: starts[-1]] for name, values in rows.items()}
                    yield _reduced(whole, starts[:-1], own)
            else:
                carried = rows
        if carried and np.isfinite(carried[starting][:1]).any():
            last = _reduced(carried, np.zeros(1, np.int64), own)
            # The log may end before the line with the counter.
            if "step" not in last or np.isfinite(last["step"]).all():
                yield last

    return merged


def _joined(carried: dict[str, Floats], block: dict[str, Floats]) -> dict[str, Floats]:
    return {name: np.concatenate((carried.get(name, np.empty(0)), values)) for name, values in block.items()}


def _reduced(rows: dict[str, Floats], starts: Any, own: Collection[str]) -> dict[str, Floats]:
    """Return one row for each of ``starts``: the value that a line of the record has; ``own`` are the first line's."""
    reduced = {name: np.fmax.reduceat(values, starts) for name, values in rows.items()}
    others = [values for name, values in reduced.items() if name not in own]
    if not others or any(name in _FIGURES for name in own):
        return reduced
    is_record = np.isfinite(np.fmax.reduce(others))
    return {name: values[is_record] for name, values in reduced.items()}


def number_epochs(blocks: Blocks) -> Blocks:
    """Add the epoch to rows without one: a counter of steps that falls back to its first value begins the next.

    Rows whose counter does not rise within an epoch are left out: a progress bar is drawn again at the same step.
    """
    epoch, first, high = 0, np.nan, -np.inf
    for block in blocks:
        if "step" not in block or not len(block["step"]):
            yield block
            continue
        step = block["step"]
        first = step[0] if np.isnan(first) else first
        before = np.concatenate(([high], step[:-1]))
        starts = np.flatnonzero((step <= first) & (before > first))
        numbers, rises = np.empty_like(step), np.empty(len(step), bool)
        for start, stop in pairwise([0, *starts.tolist(), len(step)]):
            if start in starts:
                epoch, high = epoch + 1, -np.inf
            part = step[start:stop]
            highest = np.maximum.accumulate(np.concatenate(([high], part)))
            numbers[start:stop], rises[start:stop] = epoch, part > highest[:-1]
            high = float(highest[-1])
        yield {name: values[rises] for name, values in {**block, "epoch": numbers}.items()}


def thin_means(steps: int) -> Callable[[Blocks], Blocks]:
    """Return the function that leaves out rows until the last one is ``steps`` steps back: each is a mean over these.

    Lines that are closer have the same steps several times. An epoch, at which the counter falls back, begins anew.
    """

    def thinned(blocks: Blocks) -> Blocks:
        last, before = -np.inf, np.inf
        for block in blocks:
            step = block.get("step")
            if step is None or not len(step):
                yield block
                continue
            used = np.empty(len(step), bool)
            for at, now in enumerate(step.tolist()):
                used[at] = now < before or now >= last + steps
                last, before = (now if used[at] else last), now
            yield {name: values[used] for name, values in block.items()}

    return thinned
