"""The pattern of a description that reads the fields of a family's lines."""

import re

from trainmark.logs.guess.families import BAR, LAPSE, SIGN, STAMPED, Family, Meant, Place
from trainmark.logs.guess.line_fields import Fields, is_of_a_total

_BARE_BAR = "||"
_LETTERS = r"(?:(?P<TIME_h>\d+) ?h,? ?)?(?P<TIME_m>\d+) ?m,? ?(?P<TIME_s>\d+) ?s(?=\W)"
_LONGER = ("clock_m", "clock_h", "step_time_m", "step_time_h")
_ANY_LAPSE = r"\d+ ?(?:ms|[dhms])(?:,? ?\d+ ?(?:ms|[dhms]))*"
_ANY_DAYS = rf"(?:(?:\d+ days?, )?\d+:\d\d:\d\d|{_ANY_LAPSE})"
"""A duration in letters, also one of a single unit, in the place of one of several."""
_BEFORE = 24
"""Characters of a line's text that a proposed pattern keeps before a number."""


def _begins_line(family: Family, fields: Fields) -> bool:
    """Return whether a pattern may begin with the line: its text before the first number is short, and that is read.

    Else it would match the lines of another family too: ``micro step 1/4`` by the words of ``step 1``.
    """
    before = family.places[0].before
    return _is_read(0, fields) and STAMPED not in before and len(before.lstrip()) <= _BEFORE


def line_pattern(family: Family, fields: Fields, *, whole: bool = False) -> str:
    """Return the pattern that reads the fields from a line of the family; ``whole``: with all words between them."""
    if any(place.heading for place in family.places):
        return _row_pattern(family, fields)
    return ("^ *" if _begins_line(family, fields) else "") + _words_pattern(family, fields, whole)


def _words_pattern(family: Family, fields: Fields, whole: bool) -> str:
    is_stamped = family.clock_s is None or fields.ignores_clock
    parts: list[str] = []
    last, unit = None, ""
    read = [at for at in range(len(family.places)) if _is_read(at, fields)]
    between = range(read[0], read[-1]) if whole else range(0)
    for at, place in enumerate(family.places):
        if not is_stamped and STAMPED in place.before:
            parts += [".*?" if parts else "", family.stamp_pattern]
            is_stamped, last = True, None
        if not (_is_read(at, fields) or _is_like_the_next(family, at, fields) or at in between):
            continue
        adjacent = last is not None and last == at - 1
        gap = ".*?" if parts and not adjacent else ""
        before = _escaped(
            _without_suffix(place.before, parts[-1]) if adjacent else place.before, whole=adjacent
        )
        field = _field(_name(at, fields), place) if _is_read(at, fields) else _unread(place)
        # Without a text before it, any number between would do: the unit behind tells which one it is.
        is_bare = not (before or adjacent or _is_read(at + 1, fields))
        parts += [gap, before, field]
        unit = _unit_behind(_without_suffix(place.after, field), place.unit) if is_bare else ""
        parts += [unit] if unit else []
        last = at
    if unit:
        return "".join(parts) + ("" if is_stamped else f".*?{family.stamp_pattern}")
    after = _without_suffix(family.places[-1 if last is None else last].after, parts[-1])
    after = after.partition(STAMPED)[0]  # what wrapped the line may have the stamp
    if not is_stamped:
        return "".join(parts) + f"[^0-9.].*?{family.stamp_pattern}"
    if last == fields.counter and not family.places[last].name and is_of_a_total(family, last):
        # Other lines count something up to a total too.
        return "".join([*parts, "/ *{number}", _escape(family.places[last + 1].after[:_BEFORE].rstrip())])
    return "".join(parts) + (_escape(after[:1]) if after.strip() else r"\s")


def _is_like_the_next(family: Family, at: int, fields: Fields) -> bool:
    """Return whether an unread number has the same text before it as the next that is read, which follows it."""
    following = next((place for n, place in enumerate(family.places) if n > at and _is_read(n, fields)), None)
    text = following.before.rpartition(STAMPED)[2][-_BEFORE:].lstrip() if following else ""
    return bool(text) and family.places[at].before.endswith(text)


def _without_suffix(text: str, field: str) -> str:
    """Return the text behind a number without the unit that its ``field`` reads: K, M, …."""
    return text.lstrip(" ")[1:] if field.endswith(":K}") else text


def _row_pattern(family: Family, fields: Fields) -> str:
    """Return the pattern of a table's row, in which only the order tells what a number is."""
    parts = ["^" if family.places[0].before.strip() else "^ *"]
    for at, place in enumerate(family.places):
        before = _without_suffix(place.before, parts[-1])
        parts += [_spaced(before)] if at or before.strip() else []
        parts.append(_field(_name(at, fields), place) if _is_read(at, fields) else _unread(place))
    after = _without_suffix(family.places[-1].after, parts[-1]).strip()
    return "".join(parts) + (" *" + _escape(after[:1]) if after else r"\s")


def _spaced(text: str) -> str:
    """Return the pattern of the text between two numbers of a row, whose columns are filled up with blanks."""
    if not text.strip():
        return r"[ \t]+" if text else ""
    return " *" + " *".join(map(_escape, text.split())) + " *"


def _is_read(at: int, fields: Fields) -> bool:
    return at in (fields.counter, fields.epoch) or at in fields.meant


def _name(at: int, fields: Fields) -> str:
    name = {fields.counter: "step", fields.epoch: "epoch"}.get(at)
    return name or _field_name(fields.meant[at])


def _field_name(found: Meant) -> str:
    if found.per != "s":
        return f"{found.field.removesuffix('_per_s')}_per_{found.per}"
    if not found.since_start:
        return found.field
    return f"average_{found.field.removeprefix('step_')}"


def _field(name: str, place: Place) -> str:
    if place.is_duration:
        kind = "step_time" if name == "step_time_s" else "clock"
        if place.is_in_letters:
            return _LETTERS.replace("TIME", kind)
        return "{step_duration}" if kind == "step_time" else "{elapsed}"
    if name in _LONGER:
        return rf"(?P<{name}>[\d.]+)"
    if place.is_in_thousands and name == "rate":
        return r"(?P<rate_thousands>[\d.]+)"
    if place.is_in_millions and name == "rate":
        return r"(?P<rate_millions>[\d.]+)"
    if place.suffix and name in ("rate", "rate_per_min", "rate_per_h", "average_rate", "consumed", "step"):
        return f"{{{name}:K}}"
    return f"{{{name}{place.grouping if name in ('rate', 'step', 'consumed') else ''}}}"


def _unread(place: Place) -> str:
    """Return the pattern of a number that is passed over."""
    if place.is_in_letters:
        return _ANY_LAPSE
    return r"[\d:.]+" if place.is_duration else "-?{number}"


def _escaped(before: str, *, whole: bool) -> str:
    text = before.rpartition(STAMPED)[2]
    # A number in brackets may be filled up with blanks.
    return _escape(text if whole else text[-_BEFORE:].lstrip()) + (" *" if text.endswith(("[", "(")) else "")


def _unit_behind(after: str, unit: str) -> str:
    """Return the pattern of the text from a number to the end of its unit; empty if it has none there."""
    at = after.lower().find(unit) if unit else -1
    return _escape(after[: at + len(unit)]) if at >= 0 else ""


def _escape(text: str) -> str:
    if _BARE_BAR in text:
        return r"\|[^|\n]*\|".join(map(_escape, text.split(_BARE_BAR)))
    return (
        re.sub(r"(?:\\ )+", " +", re.escape(text))
        .replace("\\/", "/")
        .replace("\\=", "=")
        .replace("\\:", ":")
        .replace(SIGN, r"[^\x00-\x7f]+")
        .replace(BAR, r"[^\d\n]+")
        .replace(LAPSE, _ANY_DAYS)
    )
