"""Patterns of a format's description: their placeholders, and one clear line for a pattern that cannot be used."""

import re
from collections.abc import Mapping

from trainmark.errors import InputError, nearest
from trainmark.logs.fields import SHORT_STAMP, STAMP

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
