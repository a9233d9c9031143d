"""Tables of results: rows as mappings, as frames of other libraries, as text, and as HTML in a notebook."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, overload

from trainmark.imports import import_extra
from trainmark.printable import printable

_MOST_ROWS = 200
"""The number of rows that a notebook shows; a frame has all of them."""


@dataclass(frozen=True, slots=True)
class Table(Sequence[Mapping[str, Any]]):
    """Rows with the same columns; an unknown value is None. It is a sequence of mappings, one a row.

    ``shown`` are the columns that text and notebooks show; all others are in frames and rows.

    Example::

        table = trainmark.load("results/demo").cases
        table[0]["throughput_median"], len(table), table.to_pandas()
    """

    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    shown: tuple[str, ...] = ()

    @overload
    def __getitem__(self, index: int) -> Mapping[str, Any]: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Mapping[str, Any]]: ...

    def __getitem__(self, index: int | slice) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
        """Return a row, or the rows of a slice."""
        return self.rows[index]

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.rows)

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        """Iterate over the rows."""
        return iter(self.rows)

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame``, one row each; raise ``InputError`` if pandas or narwhals is missing."""
        return self._native("pandas", "pandas")

    def to_polars(self) -> Any:
        """Return a ``polars.DataFrame``, one row each; raise ``InputError`` if polars or narwhals is missing."""
        return self._native("polars", "polars")

    def to_arrow(self) -> Any:
        """Return a ``pyarrow.Table``, one row each; raise ``InputError`` if pyarrow or narwhals is missing."""
        return self._native("pyarrow", "Arrow")

    def _native(self, backend: str, name: str) -> Any:
        purpose = f"{'an' if name == 'Arrow' else 'a'} {name} frame"
        import_extra(backend, purpose)
        narwhals = import_extra("narwhals", purpose)
        values = {column: _column([row.get(column) for row in self.rows]) for column in self.columns}
        return narwhals.from_dict(values, backend=backend).to_native()

    def __str__(self) -> str:
        """Return the table as text."""
        from trainmark.report.terminal import aligned

        columns = self.shown or self.columns
        cells = [[shown_value(row.get(column)) for column in columns] for row in self.rows]
        right = [all(_is_number(row.get(column)) for row in self.rows) for column in columns]
        lines, _ = aligned([columns, *cells], right)
        return printable("\n".join(lines))

    def _repr_html_(self) -> str:
        columns = self.shown or self.columns
        head = "".join(f"<th>{escape(column)}</th>" for column in columns)
        body = "".join(
            "<tr>" + "".join(_html_cell(row.get(column)) for column in columns) + "</tr>"
            for row in self.rows[:_MOST_ROWS]
        )
        left_out = len(self.rows) - _MOST_ROWS
        more = f"<p>and {left_out} more rows (to_pandas() has all of them)</p>" if left_out > 0 else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def shown_value(value: Any) -> str:
    """Return a value as a short text: numbers with 5 digits, an unknown value as a dash."""
    if value is None or value == "":
        return "-"
    if isinstance(value, float):
        return f"{value:.5g}" if abs(value) < 1e5 else f"{value:.0f}"
    return str(value)


def _html_cell(value: Any) -> str:
    align = ' style="text-align:right"' if _is_number(value) else ' style="text-align:left"'
    return f"<td{align}>{escape(printable(shown_value(value)))}</td>"


def _is_number(value: Any) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _column(values: Sequence[Any]) -> list[Any]:
    """Return the values of a column with one type: numbers stay numbers, and any other mixture becomes text."""
    kinds = {str if isinstance(value, str) else type(value) for value in values if value is not None}
    kind = kinds.pop() if len(kinds) == 1 else float if kinds == {int, float} else str
    return [None if value is None else kind(value) for value in values]
