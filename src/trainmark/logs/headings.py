"""Records under a heading: only the first one counts, where a program prints such lines for other work too."""

import re

from trainmark.logs.literals import can_match


def drop_unheaded(
    heading: re.Pattern[bytes], record: re.Pattern[bytes], text: bytes, opened: bool | None
) -> tuple[bytes, bool | None]:
    """Return ``text`` without the records that follow the first one of a heading, and the next ``opened``.

    ``opened`` is whether a heading still has no record; None before the first heading, where every record counts: a
    program may print no heading at all, or its log may be cut.
    """
    starts = [match.start() for match in heading.finditer(text)] if can_match(heading, text) else []
    if opened is None and not starts:
        return text, None
    parts, position, headings = [], 0, iter([*starts, len(text)])
    upcoming = next(headings)
    for match in record.finditer(text):
        while upcoming <= match.start():
            opened, upcoming = True, next(headings)
        if opened is False:
            parts.append(text[position : match.start()])
            position = match.end()
        elif opened:
            opened = False
    if upcoming < len(text):
        opened = True
    return b"".join((*parts, text[position:])), opened
