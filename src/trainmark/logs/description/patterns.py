"""Patterns of a format's description, the rows that are made of their fields, and the facts of a run.

Placeholders are replaced, and a pattern that cannot be used is one clear line. Several lines are merged to one row,
epochs are numbered by the restarts, and means that overlap are thinned. A description names the sources of each fact,
and may compute facts from others.
"""

import ast
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from trainmark.errors import InputError, nearest
from trainmark.expressions import evaluate, names_in, parse_expression
from trainmark.logs.format import count_items
from trainmark.logs.lines.fields import SHORT_STAMP, STAMP, column_of
from trainmark.logs.lines.literals import can_match
from trainmark.logs.model import Facts, Floats, read_hardware
from trainmark.logs.paddle import paddle_devices
from trainmark.logs.precision import is_on, mentions_mixed_precision
from trainmark.schema.precision import Precision

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
    "rate_per_min": "units per minute",
    "rate_per_h": "units per hour",
    "steps_per_s": "steps per second",
    "steps_per_min": "steps per minute",
    "steps_per_h": "steps per hour",
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
        r"[IWEF](?:\d{4})?(?P<clock_month>[01]\d)(?P<clock_d>[0-3]\d) (?P<clock_h>\d\d):(?P<clock_m>\d\d):"
        r"(?P<clock_s>\d\d(?:\.\d+)?)(?=\D)"
    ),
    "elapsed": _ELAPSED,
    "step_duration": (
        r"(?:(?P<step_time_h>\d+):)?(?P<step_time_m>\d+):(?P<step_time_s>\d\d(?:\.\d+)?)(?=[^\d.:])"
    ),
    "bar": rf"\d+%\|[^|\n]*\| *(?P<step>\d+)/\d+ ?\[{_ELAPSED}<[^\n]*?[\],]",
    "number": rf"(?:{NUMBER})",
    "text": r"[^\n]*?",
}
"""Placeholders that are no single number: a date with a time of day, ``1:02:03``, tqdm's progress bar, any number."""
_FIGURES = ("rate", "step_time_s", "average_rate", "average_time_s")

Blocks = Iterator[dict[str, Floats]]
_FACTS = tuple(each.name for each in fields(Facts))
_TEXTS = ("model", "hardware", "precision")
_LAUNCHED = ("nodes", "gpus", "gpus_per_node")
_SEARCHES = ("pattern", "setting", "switch", "mixed_precision")
_SOURCE_KEYS = (
    "pattern",
    "within",
    "setting",
    "switch",
    "mixed_precision",
    "words",
    "items",
    "product",
    "largest",
    "is",
)
_LARGEST = 10**15
_LARGE_BYTES = 1 << 16
Settings = Mapping[str, str]
Find = Callable[["Run"], str | float | None]
Expression = Callable[[bytes, Settings], Callable[[Mapping[str, float]], float | None]]
"""Returns, for a log's text and settings, the function that computes a value from further numbers."""
_NUMBER = re.compile(r"(\d[\d,]*(?:\.\d*)?(?:[eE][+-]?\d+)?)([KMGB]?)")


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
        raise InputError(f"{where}: '{text}' is not a regular expression: {error}") from None
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
    """Return a number that may have commas, such as ``1,024,000``; with ``kind`` K it may end in a unit instead.

    With ``kind`` any, apostrophes, underscores or blanks that do not break the line may be between its thousands too.
    """
    if name not in ("rate", "samples", "step", "consumed") or kind not in ("", "K", "any"):
        raise InputError(f"{where}: {{{name},{kind}}}: only rate, samples, step and consumed may have commas")
    between = "(?:[,'_]|\u202f|\u00a0)" if kind == "any" else ","
    millions = rf"(?P<{name}_millions>\d+){between}"
    if name == "consumed":
        millions = rf"(?:(?P<{name}_billions>\d+){between})?{millions}"
    commas = rf"(?:(?:{millions})?(?P<{name}_thousands>\d+){between})?"
    return commas + (_with_suffix(name, kind, where) if kind == "K" else _group(name))


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
    A last record without its counter is left out. Where no first line is printed, each row of one figure is a record.
    """
    own = [column_of(name) for name in first.groupindex if not name.startswith("_")]
    starting = own[0]

    def merged(blocks: Blocks) -> Blocks:
        carried: dict[str, Floats] = {}
        is_bare: bool | None = None
        for block in blocks:
            if starting not in block:
                yield block
                continue
            is_bare = _has_one_figure(block, own) if is_bare is None else is_bare
            if is_bare:
                yield {name: values for name, values in block.items() if name not in own}
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


def _has_one_figure(block: Mapping[str, Floats], own: Collection[str]) -> bool:
    """Return whether no row has a field of the first line, and all have the same one of another."""
    found = {name for name, values in block.items() if np.isfinite(values).any()}
    return len(found) == 1 and not found & set(own)


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


@dataclass(slots=True)
class Run:
    """The text and the printed settings of a log, and the numbers found so far by name."""

    text: bytes
    settings: Settings
    finders: Mapping[str, Find]
    launched: Mapping[str, int | None] = field(default_factory=dict)
    searching: frozenset[str] = frozenset()

    def number(self, name: str) -> float | None:
        """Return the number called ``name`` (a value or a fact); ``None`` if the log does not have it."""
        if name in self.searching or name not in self.finders:
            return None
        inner = Run(self.text, self.settings, self.finders, self.launched, self.searching | {name})
        return _as_number(self.finders[name](inner))


class Sources(NamedTuple):
    """The sources of a description's facts and values, ready to search a log.

    With a ``launcher`` its lines give the facts that no source finds, and the values ``launcher_nodes``,
    ``launcher_gpus`` and ``launcher_gpus_per_node``.
    """

    facts: tuple[str, ...]
    finders: Mapping[str, Find]
    launcher: str | None

    def read(self, text: bytes, settings: Settings) -> Facts:
        """Return the facts in a log's text and settings."""
        run = self._run(text, settings)
        found: dict[str, Any] = {}
        for name in self.facts:
            if name in _TEXTS:
                word = self.finders[name](run)
                found[name] = _precision(word) if name == "precision" else word
            else:
                found[name] = _as_count(run.number(name))
        found["hardware"] = found.get("hardware") or read_hardware(text)
        return Facts(**found)

    def number(self, source: Any, where: str) -> Callable[[bytes, Settings], float | None]:
        """Return the function that reads one more number; ``InputError`` naming ``where`` for a bad source."""
        if source is None:
            return lambda _text, _settings: None
        find = _finder(source, where, self.finders)
        return lambda text, settings: _as_number(find(self._run(text, settings)))

    def expression(self, text: str, where: str, more: frozenset[str]) -> Expression:
        """Return an expression of facts, values and numbers called as in ``more``, for the numbers of one log."""
        tree = _parsed(text, where, [*self.finders, *more])

        def of_log(log: bytes, settings: Settings) -> Callable[[Mapping[str, float]], float | None]:
            found = cache(self._run(log, settings).number)
            return lambda numbers: evaluate(
                tree, lambda name: numbers[name] if name in numbers else found(name)
            )

        return of_log

    def _run(self, text: bytes, settings: Settings) -> Run:
        return Run(text, settings, self.finders, paddle_devices(text)._asdict() if self.launcher else {})


def _refuse_cycles(known: Mapping[str, Any], where: str) -> None:
    """Raise ``InputError`` for values that can be found only by each other."""
    found: set[str] = set()
    while more := {name for name in known if name not in found and _can_be_found(known[name], found, known)}:
        found |= more
    missing = [name for name in known if name not in found]
    if missing:
        raise InputError(
            f"{where}: {', '.join(missing)}: found only by {'each other' if len(missing) > 1 else 'itself'}; "
            "give one of them a pattern, a setting or a number"
        )


def _can_be_found(source: Any, found: set[str], known: Mapping[str, Any]) -> bool:
    if isinstance(source, Sequence) and not isinstance(source, str):
        return not source or any(_can_be_found(one, found, known) for one in source)
    if not isinstance(source, str) or not source.startswith("="):
        return True
    # An unknown name or a mistake in the expression has an error of its own.
    words = re.findall(r"[A-Za-z_]\w*", source)
    return all(word in found or word not in known for word in words)


def _check_precisions(source: Any, where: str) -> None:
    """Raise ``InputError`` for a precision that a source names and that does not exist."""
    if isinstance(source, Sequence) and not isinstance(source, str):
        for one in source:
            _check_precisions(one, where)
    if not isinstance(source, Mapping):
        return
    words = source.get("words")
    for word in (source.get("is"), *(words.values() if isinstance(words, Mapping) else ())):
        if word is not None and word not in set(Precision):
            raise InputError(
                f"{where}: no precision '{word}'{nearest(str(word), list(Precision))} (known: {', '.join(Precision)})"
            )


def read_sources(
    facts: Mapping[str, Any], values: Mapping[str, Any], where: str, launcher: str | None = None
) -> Sources:
    """Return the sources of a description's facts and values; raise ``InputError`` for a bad one."""
    for name in facts:
        if name not in _FACTS:
            raise InputError(
                f"{where}: facts: no fact '{name}'{nearest(name, _FACTS)} (known: {', '.join(_FACTS)})"
            )
    described = {**values, **facts}
    finders: dict[str, Find] = {}
    if launcher:
        finders = {f"launcher_{name}": _of_launcher(name) for name in _LAUNCHED}
        described = {**dict.fromkeys(_LAUNCHED, ()), **described}
        facts = {**dict.fromkeys(_LAUNCHED), **facts}
    known = {**described, **finders}
    _refuse_cycles(known, where)
    _check_precisions(described.get("precision"), f"{where}: precision")
    for name, source in described.items():
        find = _finder(source, f"{where}: {name}", known)
        finders[name] = _first_of([find, _of_launcher(name)]) if launcher and name in _LAUNCHED else find
    return Sources(tuple(facts), finders, launcher)


def _finder(source: Any, where: str, known: Mapping[str, Any]) -> Find:
    if isinstance(source, Sequence) and not isinstance(source, str):
        return _first_of([_finder(one, where, known) for one in source])
    if isinstance(source, int | float) and not isinstance(source, bool):
        return lambda _run: float(source)
    if isinstance(source, Mapping):
        return _detailed(source, where)
    if not isinstance(source, str):
        raise InputError(f"{where}: '{source}' is not a pattern, an expression or a list of these")
    if source.startswith("="):
        tree = _parsed(source[1:], where, known)
        return lambda run: evaluate(tree, run.number)
    return _by_pattern(source, where)


def _parsed(text: str, where: str, known: Collection[str]) -> ast.expr:
    """Return an expression of ``known`` names; raise ``InputError`` naming ``where`` for another."""
    tree = parse_expression(text, where)
    for name in names_in(tree):
        if name not in known:
            raise InputError(f"{where}: no value or fact '{name}'{nearest(name, known)}")
    return tree


def _first_of(each: Sequence[Find]) -> Find:
    return lambda run: next((found for find in each if (found := find(run)) is not None), None)


def _of_launcher(name: str) -> Find:
    def found(run: Run) -> float | None:
        value = run.launched.get(name)
        return None if value is None else float(value)

    return found


def _detailed(source: Mapping[str, Any], where: str) -> Find:
    """Return the finder of a source with keys: pattern or setting, and what its word means."""
    for key in source:
        if key not in _SOURCE_KEYS:
            raise InputError(f"{where}: unknown key '{key}'{nearest(str(key), _SOURCE_KEYS)}")
    if sum(key in source for key in _SEARCHES) != 1:
        raise InputError(
            f"{where}: give one of 'pattern', 'setting' and 'switch' (or 'mixed_precision: true')"
        )
    if "words" in source and not isinstance(source["words"], Mapping):
        raise InputError(f"{where}: words is '{source['words']}'; expected printed words with their values")
    if not isinstance(source.get("is"), str | int | float | None):
        raise InputError(f"{where}: is: '{source['is']}' is neither a word nor a number")
    if source.get("largest") and set(source) != {"pattern", "largest"}:
        raise InputError(f"{where}: 'largest' needs a 'pattern' alone")
    if "within" in source and "setting" in source:
        raise InputError(f"{where}: 'within' needs a 'pattern' to search for within that section")
    if source.get("largest"):
        return _largest(str(source.get("pattern")), where)
    if "pattern" in source:
        find = _by_pattern(str(source["pattern"]), where, source.get("within"))
    elif "switch" in source:
        find = _by_switch(str(source["switch"]), where, source.get("within"))
    elif "mixed_precision" in source:
        find = _by_mixed_precision(where, source.get("within"))
    else:
        name = str(source["setting"])
        find = lambda run: run.settings.get(name)  # noqa: E731
    words, is_items, constant = source.get("words"), source.get("items"), source.get("is")

    def found(run: Run) -> str | float | None:
        word = find(run)
        if word is None:
            return None
        if constant is not None:
            return constant if isinstance(constant, str) else float(constant)
        if words is not None:
            return _translated(str(word), words)
        if source.get("product"):
            # -1 means the remaining devices, whose number is unknown here.
            sizes = re.findall(r"-?\d+", str(word))
            return float(math.prod(map(int, sizes))) if sizes and "-" not in str(word) else None
        return count_items(str(word)) if is_items else word

    return found


def _translated(word: str, words: Mapping[Any, Any]) -> str | None:
    """Return the value of ``word``; the keys ``true`` and ``false`` stand for each spelling of a switch."""
    # YAML reads a bare True or 1 as no text.
    exact = next((str(value) for key, value in words.items() if str(key) == word), None)
    switch = is_on(word)
    if exact is not None or switch is None:
        return exact
    return next((str(value) for key, value in words.items() if str(key).lower() == str(switch).lower()), None)


def _by_pattern(text: str, where: str, within: str | None = None) -> Find:
    pattern, section = compile_pattern(text, where), _section(where, within)

    def found(run: Run) -> str | None:
        part = section(run)
        word = _first_group(pattern, part) if part is not None else None
        return None if word is None else _word(word)

    return found


def _largest(text: str, where: str) -> Find:
    """Return the finder of the largest number among the matches of a pattern."""
    pattern = compile_pattern(text, where)

    def found(run: Run) -> float | None:
        numbers = [_as_number(_word(_first_of_groups(match))) for match in pattern.finditer(run.text)]
        return max((number for number in numbers if number is not None), default=None)

    return found


def _by_switch(name: str, where: str, within: str | None) -> Find:
    """Return the finder of a command's switch, or of the argument of that name: its value, ``True`` without one.

    ``--batch-size 32``, ``--batch_size=32``, ``batch_size=32`` and ``batch_size: 32`` are alike.
    """
    if not re.fullmatch(r"[A-Za-z]\w*(?:-\w+)*", name):
        raise InputError(f"{where}: switch: '{name}' is not a name such as batch-size (without its dashes)")
    words = re.sub("[-_]", "[-_]", name)
    # A backslash continues the command in the next line.
    value = r"['\"]?([^\s,;'\")\]}\\-][^\s,;'\")\]}]*)"
    pattern = compile_pattern(
        rf"--{words}(?![\w-])(?:(?:=| +){value})?|(?<![\w.-]){words} *[=:] *{value}", f"{where}: switch"
    )
    section = _section(where, within)

    def found(run: Run) -> str | None:
        part = section(run)
        match = pattern.search(part) if part is not None else None
        if match is None:
            return None
        return (match[1] or match[2] or b"True").decode("utf-8", "replace")

    return found


def _by_mixed_precision(where: str, within: str | None) -> Find:
    section = _section(where, within)

    def found(run: Run) -> str | None:
        part = section(run)
        mixed = mentions_mixed_precision(part) if part is not None else None
        return None if mixed is None else str(mixed)

    return found


def _section(where: str, within: str | None) -> Callable[[Run], bytes | None]:
    if within is None:
        return lambda run: run.text
    pattern = compile_pattern(str(within), f"{where}: within")
    return lambda run: _first_group(pattern, run.text)


def _first_group(pattern: re.Pattern[bytes], text: bytes) -> bytes | None:
    # A plain word is found many times faster than a pattern; to know the words takes longer than a small text.
    if len(text) > _LARGE_BYTES and not can_match(pattern, text):
        return None
    match = pattern.search(text)
    return None if match is None else _first_of_groups(match)


def _first_of_groups(match: re.Match[bytes]) -> bytes:
    # A pattern without a group is one that says something by being there.
    return next((bytes(group) for group in match.groups() if group), bytes(match[0]))


def _word(text: bytes) -> str:
    return text.decode("utf-8", "replace").strip().strip("'\"")


def _precision(word: str | float | None) -> Precision | None:
    return Precision(word) if word in set(Precision) else None


def _as_number(found: str | float | None) -> float | None:
    """Return a printed number (``1,024``, ``2.5K``) as a float; ``None`` for a word."""
    if found is None or isinstance(found, float):
        return found
    match = _NUMBER.fullmatch(str(found).strip())
    if match is None:
        return None
    value = float(match[1].replace(",", "")) * {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9}[match[2]]
    return value if value < _LARGEST else None


def _as_count(value: float | None) -> int | None:
    """Return a positive whole number; ``None`` for others."""
    if value is None or not 0 < value < _LARGEST or abs(value - round(value)) > 1e-6 * value:
        return None
    return round(value)
