"""Compilation of the patterns of a format's description, with one clear line for a pattern that cannot be used."""

import re
from collections.abc import Mapping

from trainmark.errors import InputError
from trainmark.logs.description.placeholders import FIELDS, expand

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
