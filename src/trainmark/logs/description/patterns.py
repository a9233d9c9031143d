"""Patterns of a format's description, and the rows that are made of their fields.

Placeholders are replaced, and a pattern that cannot be used is one clear line. Several lines are merged to one row,
epochs are numbered by the restarts, and means that overlap are thinned.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from trainmark.errors import InputError, nearest
from trainmark.logs.fields import SHORT_STAMP, STAMP, column_of
from trainmark.logs.model import Floats

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_REPEATED_GROUP = re.compile(r"\)[*+{]")
"""Only a group that repeats can match the same text in several ways."""
_SUFFIXES = ("_billions", "_millions", "_thousands", "_suffix")
_MORE_GROUPS = ("stamp", "s", "h", "m", "d")


_NEEDED_FIELDS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "seconds": (
        ("steps", "samples", "rate"),
        "{seconds} are those of a whole record: its line needs {steps}, {samples} or {rate} too; the time of one step, "
        "or of an epoch whose samples are its global_batch, is {step_time_s}",
    ),
    "extra_time_s": (
        ("step_time_s", "step_time_ms", "step_time_us"),
        "{extra_time_s} is added to {step_time_s}, which must be in the same line",
    ),
}
"""Fields that mean something only beside one of others, and the sentence for a line without them."""
NUMBER = r"\d[\d.]*(?:[eE][-+]?\d+)?"
"""A number as programs print it; what follows it must be another character, or a cut line would give a wrong one."""
_END = r"(?=[^\d.])"
_PLACEHOLDER = re.compile(r"\{([a-z_]+)([,:]?)([A-Za-z:]*)\}")
_TIMES = ("step_time_s", "average_time_s", "data_time_s", "clock_s", "seconds")
FIELDS = {
    "epoch": "the epoch's number",
    "step": "the step's number (with counts_samples: of samples)",
    "rate": "units per second",
    "steps_per_s": "steps per second",
    "step_time_s": "seconds of one step",
    "step_time_ms": "milliseconds of one step",
    "step_time_us": "microseconds of one step",
    "step_time_m": "minutes to add to step_time_s",
    "step_time_h": "hours to add to step_time_s",
    "extra_time_s": "seconds of one step that step_time_s leaves out, such as its loading; they are added",
    "samples": "units of the whole record (with samples_of_step: of one step)",
    "seconds": "seconds of the whole record",
    "steps": "steps of the whole record; with seconds they make the time of one",
    "batch": "samples of one step over all devices",
    "consumed": "units of all devices since the start of the run",
    "clock_s": "seconds since a fixed time",
    "clock_ms": "milliseconds since a fixed time",
    "clock_m": "minutes to add to clock_s",
    "clock_h": "hours to add to clock_s",
    "clock_d": "days to add to clock_s",
    "clock_month": "the month of the year (1 to 12), whose day is clock_d",
    "average_rate": "units per second since the start of the epoch",
    "average_steps_per_s": "steps per second since the start of the epoch",
    "average_time_s": "seconds of one step since the start of the epoch",
    "average_time_ms": "milliseconds of one step since the start of the epoch",
    "data_time_s": "seconds of one step in which it waited for its batch",
    "data_time_ms": "the same in milliseconds",
}
"""The fields of a record, and what each holds."""
_COUNTERS = (
    "epoch",
    "step",
    "steps",
    "batch",
    "consumed",
    "clock_month",
    "clock_d",
    "clock_h",
    "clock_m",
    "step_time_h",
    "step_time_m",
)
_ELAPSED = (
    r"(?:(?:(?P<clock_d>\d+) days?, )?(?P<clock_h>\d+):)?(?P<clock_m>\d+):(?P<clock_s>\d\d(?:\.\d+)?)(?=\D)"
)
_SPECIAL = {
    "stamp": rf"(?P<stamp>{STAMP.decode()})",
    "short_stamp": rf"(?P<stamp>{SHORT_STAMP.decode()})",
    "glog_stamp": (
        r"[IWEF](?P<clock_month>[01]\d)(?P<clock_d>[0-3]\d) (?P<clock_h>\d\d):(?P<clock_m>\d\d):"
        r"(?P<clock_s>\d\d\.\d+)(?=\D)"
    ),
    "elapsed": _ELAPSED,
    "step_duration": (
        r"(?:(?P<step_time_h>\d+):)?(?P<step_time_m>\d+):(?P<step_time_s>\d\d(?:\.\d+)?)(?=[^\d.:])"
    ),
    "bar": rf"\d+%\|[^|\n]*\| *(?P<step>\d+)/\d+ \[{_ELAPSED}<[^\n]*?[\],]",
    "number": rf"(?:{NUMBER})",
    "text": r"[^\n]*?",
}
"""Placeholders that are no single number: a date with a time of day, ``1:02:03``, tqdm's progress bar, any number."""
_FIGURES = ("rate", "step_time_s", "average_rate", "average_time_s")

Blocks = Iterator[dict[str, Floats]]


def check_fields(pattern: re.Pattern[bytes], where: str) -> None:
    """Raise ``InputError`` naming ``where`` for a line that has no field, or one that needs another beside it."""
    names = [name for name in pattern.groupindex if not name.startswith("_")]
    if not names:
        raise InputError(f"{where}: the pattern has no field, such as {{step}} or {{rate}}")
    if len({"stamp", "clock_s", "clock_ms"} & set(names)) > 1:
        raise InputError(
            f"{where}: {{stamp}}, {{elapsed}} and {{clock_s}} are each the time of the line: use one of them; how long "
            "a step or an epoch took, as 1:02:03, is {step_duration}"
        )
    for name, (others, sentence) in _NEEDED_FIELDS.items():
        if name in names and not set(others) & set(names):
            raise InputError(f"{where}: {sentence}")


def _can_explode(expanded: str) -> bool:
    from re import _parser as parser  # type: ignore[attr-defined]

    from trainmark.logs.description.ambiguity import can_explode

    return can_explode(parser.parse(expanded.encode()))


def compile_pattern(text: str, where: str) -> re.Pattern[bytes]:
    """Return a description's pattern compiled; raise ``InputError`` naming ``where`` if it cannot be used."""
    # Patterns are searched for in bytes, of which other characters than ASCII have several.
    expanded = _NOT_ASCII.sub(lambda match: f"(?:{match[0]})", expand(text, where))
    try:
        # `^` and `$` are the ends of a line, as in grep.
        pattern = re.compile(expanded.encode(), re.MULTILINE)
    except re.error as error:
        raise InputError(f"{where}: '{text}' is no regular expression: {error}") from None
    if _REPEATED_GROUP.search(expanded) and _can_explode(expanded):
        raise InputError(
            f"{where}: '{text}' repeats a part that can match the same text in several ways, such as (a+)+ or (a|a)+: "
            "reading a line could take forever; make the part match in one way only"
        )
    for name in pattern.groupindex:
        if not name.startswith("_") and name not in (*FIELDS, *_MORE_GROUPS):
            base = next((name.removesuffix(end) for end in _SUFFIXES if name.endswith(end)), "")
            if base not in FIELDS:
                raise InputError(f"{where}: no field '{name}' (known: {', '.join(FIELDS)}, stamp)")
    return pattern


def expand(pattern: str, where: str) -> str:
    """Return ``pattern`` with its placeholders replaced; raise ``InputError`` naming ``where`` for an unknown one."""

    def replaced(match: re.Match[str]) -> str:
        name, mark, kind = match.groups()
        if not mark and name in _SPECIAL:
            return _SPECIAL[name]
        if name not in FIELDS:
            raise InputError(f"{where}: no field '{name}'{nearest(name, (*FIELDS, *_SPECIAL))} in {match[0]}")
        if mark == ",":
            return _with_commas(name, kind, where)
        if mark == ":":
            return _with_suffix(name, kind, where)
        return _group(name)

    return _PLACEHOLDER.sub(replaced, pattern)


def _group(name: str) -> str:
    # A counter may be followed by a point: "step 12. loss".
    return rf"(?P<{name}>\d+)(?=\D)" if name in _COUNTERS else rf"(?P<{name}>{NUMBER}){_END}"


def _with_commas(name: str, kind: str, where: str) -> str:
    """Return a number that may have commas, such as ``1,024,000``; with ``kind`` K it may end in a unit instead."""
    if name not in ("rate", "samples", "step", "consumed") or kind not in ("", "K"):
        raise InputError(f"{where}: {{{name},{kind}}}: only rate, samples, step and consumed may have commas")
    millions = rf"(?P<{name}_millions>\d+),"
    if name == "consumed":
        millions = rf"(?:(?P<{name}_billions>\d+),)?{millions}"
    commas = rf"(?:(?:{millions})?(?P<{name}_thousands>\d+),)?"
    return commas + (_with_suffix(name, kind, where) if kind else _group(name))


def _with_suffix(name: str, kind: str, where: str) -> str:
    """Return a number with its unit: ``{rate:K}`` may end in K, M or G, ``{step_time_s:unit}`` in ms, s, min …."""
    if kind == "K":
        return rf"(?P<{name}>\d[\d.]*) ?(?P<{name}_suffix>[KMGBTkmg]?)(?=[^\d.])"
    if kind == "unit" and name in _TIMES:
        return rf"(?P<{name}>\d[\d.]*) ?(?P<{name}_suffix>[mun]?s|m|min|h)(?=[^\w.])"
    raise InputError(
        f"{where}: {{{name}:{kind}}}: use {{{name}:K}} for 1.2K, or {{step_time_s:unit}} for 12 ms"
    )


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
