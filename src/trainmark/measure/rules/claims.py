"""Published values as a table has them: its rows, and the numbers that a printed figure may be."""

import csv
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

from trainmark.errors import InputError, nearest

_COLUMNS = ("log", "published", "gpus", "batch", "unit")
_REQUIRED = ("log", "published")
_GROUP = 3
"""Digits between two thousands separators."""
_MARKS = {",": ".", ".": ","}


@dataclass(frozen=True, slots=True)
class Claim:
    """One row of a table: ``published`` as printed, to keep its digits."""

    log: str
    published: str
    gpus: int | None = None
    batch: int | None = None
    unit: str | None = None


def read_claims(table: Path) -> list[Claim]:
    """Read a CSV with the columns ``log,published[,gpus,batch,unit]``; other columns are ignored.

    Raises ``InputError`` naming file and line.
    """
    try:
        with table.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            names = [name.strip() for name in reader.fieldnames or []]
            reader.fieldnames = names
            for name in _REQUIRED:
                if name not in names:
                    hint = nearest(name, names)
                    raise InputError(f"{table}:1: no column '{name}'{hint} (columns: {','.join(_COLUMNS)})")
            return [
                _claim(row, table, reader.line_num)
                for row in reader
                if any(_cell(row, name) for name in names)
            ]
    except OSError as error:
        raise InputError(f"{table}: {error.strerror or error}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{table}: is not a CSV file in UTF-8: {error}") from None


def _claim(row: dict[str, str], table: Path, line: int) -> Claim:
    log = _cell(row, "log")
    if not log:
        raise InputError(f"{table}:{line}: the column 'log' is empty")
    return Claim(
        log=log,
        published=_cell(row, "published"),
        gpus=_count(row, "gpus", table, line),
        batch=_count(row, "batch", table, line),
        unit=_cell(row, "unit") or None,
    )


def _cell(row: dict[str, str], name: str) -> str:
    value = row.get(name)
    return value.strip() if isinstance(value, str) else ""


def _count(row: dict[str, str], name: str, table: Path, line: int) -> int | None:
    word = _cell(row, name)
    if not word:
        return None
    if not word.isdecimal() or int(word) < 1:
        raise InputError(f"{table}:{line}: {name} is '{word}'; expected a whole number above 0")
    return int(word)


def readings_of(text: str) -> tuple[Decimal, ...]:
    """Return the possible values of a printed figure with its digits: ``21,259.81``, ``21.259,81``, ``222,75``.

    Words and blanks have none; a single comma before three digits is read as thousands first, then as decimals.
    """
    compact = re.sub(r"\s", "", text)
    last = max(compact.rfind(","), compact.rfind("."))
    mark = compact[last] if last >= 0 else ","
    whole, decimals = compact[:last], compact[last + 1 :]
    thousands = compact.replace(mark, "")
    lone = mark == "," and compact.count(",") == 1
    if _MARKS[mark] in whole or (lone and (len(decimals) != _GROUP or not whole.strip("0"))):
        words = [f"{whole.replace(_MARKS[mark], '')}.{decimals}"]
    elif lone:
        words = [thousands, f"{whole}.{decimals}"]
    elif compact.count(mark) > 1:
        words = [thousands]
    else:
        words = [compact]
    values = (_figure(word) for word in words)
    return tuple(value for value in values if value is not None)


def parse_published(text: str) -> Decimal | None:
    """Return the first reading of a printed figure with its digits; ``None`` for words and blanks."""
    return next(iter(readings_of(text)), None)


def _figure(word: str) -> Decimal | None:
    try:
        value = Decimal(word)
    except InvalidOperation:
        return None
    return value if value.is_finite() and value > 0 else None
