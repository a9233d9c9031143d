"""A published table: one file for each release of a page, with the facts of the page and one line for each row.

The rows are comma-separated text below the facts, with the column names of :class:`Row`. Numbers keep the digits that
the publisher printed, because the digits state how far a number is rounded.
"""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, cached_property
from importlib.resources import files
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveFloat,
    PositiveInt,
    StringConstraints,
    ValidationError,
)

from trainmark.documents import parse_yaml
from trainmark.errors import InputError, nearest, plain_message
from trainmark.reference.model import Hardware, Publication, Reference, Software, Statistic
from trainmark.schema.precision import NarrowPrecision, Precision
from trainmark.schema.recipe import RecipeAxis

Printed = Annotated[str, StringConstraints(pattern=r"^\d+(\.\d+)?$")]
"""A number with the digits that were printed."""

_RECIPE = (
    RecipeAxis.SEQUENCE_LENGTH,
    RecipeAxis.GLOBAL_BATCH,
    RecipeAxis.MICRO_BATCH,
    RecipeAxis.ACCUMULATION_STEPS,
    RecipeAxis.DISTRIBUTION,
    RecipeAxis.COMPILER,
    RecipeAxis.FSDP_SHARDS,
    RecipeAxis.TENSOR_PARALLEL,
    RecipeAxis.PIPELINE_PARALLEL,
    RecipeAxis.VIRTUAL_PIPELINE,
    RecipeAxis.CONTEXT_PARALLEL,
    RecipeAxis.EXPERT_PARALLEL,
    RecipeAxis.ACTIVATION_CHECKPOINTING,
)
_DIVIDED = (RecipeAxis.TENSOR_PARALLEL, RecipeAxis.PIPELINE_PARALLEL, RecipeAxis.CONTEXT_PARALLEL)
"""Axes on which one copy of the model has several devices, so that a micro-batch is not the batch of a device."""


def resolution(printed: str) -> float:
    """Return one unit of the number's last digit, as a part of the number: it may have been rounded or cut."""
    digits = len(printed.partition(".")[2])
    number = float(printed)
    return float(10**-digits / number) if number else math.inf


class Row(BaseModel):
    """One row. An empty cell is a fact that the publisher does not state.

    ``rate`` is the number in the table's unit. ``tflops_per_device`` counts the model's operations, ``mfu`` and ``hfu``
    are percentages, ``step_s`` the seconds of a step, ``tokens_per_step`` those of all devices. ``setup`` is the
    publisher's own name of the row, ``computed`` the way by which a number was computed from a log without it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    model: str
    devices: PositiveInt
    rate: Printed
    section: str | None = None
    publisher: str | None = None
    framework: str | None = None
    container: str | None = None
    system: str | None = None
    device: str | None = None
    device_memory_gb: PositiveInt | None = None
    precision: Precision | NarrowPrecision | None = None
    setup: str | None = None
    computed: str | None = None
    rate_per_device: Printed | None = None
    samples_per_s: Printed | None = None
    tflops_per_device: Printed | None = None
    mfu: Printed | None = None
    hfu: Printed | None = None
    step_s: Printed | None = None
    tokens_per_step: PositiveInt | None = None
    parameters: PositiveFloat | None = None
    sequence_length: PositiveInt | None = None
    global_batch: PositiveInt | None = None
    micro_batch: PositiveInt | None = None
    accumulation_steps: PositiveInt | None = None
    distribution: str | None = None
    compiler: str | None = None
    fsdp_shards: int | None = None
    tensor_parallel: PositiveInt | None = None
    pipeline_parallel: PositiveInt | None = None
    virtual_pipeline: PositiveInt | None = None
    context_parallel: PositiveInt | None = None
    expert_parallel: PositiveInt | None = None
    activation_checkpointing: Literal["none", "selective", "full"] | None = None

    @property
    def recipe(self) -> dict[str, int | str]:
        """The stated axes of the recipe."""
        values = ((axis.value, getattr(self, axis.value)) for axis in _RECIPE)
        return {axis: value for axis, value in values if value is not None}

    @cached_property
    def case(self) -> tuple[object, ...]:
        """The machine, the scale and the recipe: rows of two releases with the same case measured the same."""
        machine = (self.section, self.publisher, self.system, self.device, self.device_memory_gb)
        return (self.model, *machine, self.devices, self.precision, self.setup, *sorted(self.recipe.items()))


_STEPS, _ENOUGH_RATES = (1000, 500, 100, 64, 50, 32, 16, 10, 8), 10
"""Steps in which rates are printed, the coarsest first; of fewer rates, many are multiples by chance."""


def _rows(text: str) -> tuple[Row, ...]:
    reader = csv.DictReader(io.StringIO(text))
    unknown = sorted(set(reader.fieldnames or ()) - set(Row.model_fields))
    if unknown:
        raise ValueError(f"unknown column '{unknown[0]}'")
    found = []
    for number, cells in enumerate(reader, start=1):
        if None in cells or None in cells.values():
            raise ValueError(f"row {number}: {len(reader.fieldnames or ())} columns are expected")
        try:
            found.append(Row.model_validate({key: cell for key, cell in cells.items() if cell != ""}))
        except ValidationError as error:
            first = error.errors()[0]
            column = first["loc"][0] if first["loc"] else "row"
            raise ValueError(f"row {number}: {column}: {plain_message(first['msg'])}") from None
    return tuple(found)


class PublishedTable(BaseModel):
    """A page with figures. Tables of one ``series`` are releases of the same page, in the order of ``release``.

    With ``per_device`` the column ``rate`` is of one device.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_: Annotated[Literal[1], Field(alias="schema")]
    name: str
    series: str
    release: str
    source: Publication
    framework: str
    unit: str
    per_device: bool = False
    devices_per_node: PositiveInt | None = None
    statistic: Statistic = Statistic.NOT_STATED
    software: Software = Software()
    notes: tuple[str, ...] = ()
    rows: Annotated[tuple[Row, ...], BeforeValidator(_rows)]

    @property
    def order(self) -> tuple[tuple[int, str], ...]:
        """The place of the release in its series: its numbers are compared as numbers."""
        return tuple((int(part) if part.isdigit() else 0, part) for part in self.release.split("."))

    @cached_property
    def step(self) -> int:
        """The number of which nearly all rates are multiples, if they are printed so coarsely; else 1."""
        whole = [int(row.rate) for row in self.rows if row.rate.isdigit()]
        coarse = (step for step in _STEPS if sum(rate % step == 0 for rate in whole) >= 0.95 * len(whole))
        return next(coarse, 1) if len(whole) >= _ENOUGH_RATES else 1

    def resolution(self, row: Row) -> float:
        """Return how exactly the row's rate is known, as a part of it."""
        return max(resolution(row.rate), self.step / float(row.rate) if self.step > 1 else 0.0)

    def rate_per_device(self, row: Row) -> float:
        """Return the row's rate of one device, in the table's unit."""
        return float(row.rate) / (1 if self.per_device else row.devices)

    def references(self) -> Iterator[Reference]:
        """Yield the rows as figures, each with a name of its own."""
        for row, name in zip(self.rows, _names(self.name, self.rows), strict=True):
            yield self._reference(row, name)

    def _reference(self, row: Row, name: str) -> Reference:
        divided = any(getattr(row, axis.value) not in (None, 1) for axis in _DIVIDED)
        nodes = None if self.devices_per_node is None else -(-row.devices // self.devices_per_node)
        return Reference(
            id=name,
            printed=row.rate,
            unit=self.unit,
            per_device=self.per_device,
            framework=row.framework or self.framework,
            model=row.model,
            precision=row.precision,
            batch_per_device=None if divided else row.micro_batch,
            tokens_per_step=row.tokens_per_step,
            devices=row.devices,
            nodes=nodes,
            statistic=self.statistic,
            # A share above 1 is no fact: the audit names it.
            mfu=float(row.mfu) / 100 if row.mfu is not None and 0 < float(row.mfu) < 100 else None,
            hardware=Hardware(
                system=row.system,
                device=row.device,
                device_memory_gb=row.device_memory_gb,
                devices_per_node=self.devices_per_node,
            ),
            software=self.software.model_copy(update={"container": row.container or self.software.container}),
            recipe={key: value for key, value in row.recipe.items() if value != ""},
            source=self.source.model_copy(
                update={
                    "section": row.section or self.source.section,
                    "publisher": row.publisher or self.source.publisher,
                }
            ),
            notes=(*self.notes, *(f"{text}." for text in (row.setup, row.computed) if text)),
        )


def _names(table: str, rows: tuple[Row, ...]) -> list[str]:
    """Return a name for each row; rows that share model, device, precision and scale differ in further words."""
    names = [_name(table, row) for row in rows]
    for word in _FURTHER:
        values: dict[str, set[object]] = {}
        for name, row in zip(names, rows, strict=True):
            values.setdefault(name, set()).add(getattr(row, word))
        names = [
            name if len(values[name]) == 1 else _with_word(name, word, getattr(row, word))
            for name, row in zip(names, rows, strict=True)
        ]
    return names


_FURTHER = (
    *("section", "distribution", "compiler", "activation_checkpointing", "setup", "system"),
    *("tensor_parallel", "pipeline_parallel", "virtual_pipeline", "expert_parallel", "fsdp_shards"),
    *("micro_batch", "global_batch"),
)
_SHORT = {
    "tensor_parallel": "tp",
    "pipeline_parallel": "pp",
    "virtual_pipeline": "vp",
    "expert_parallel": "ep",
    "fsdp_shards": "fsdp",
    "micro_batch": "mbs",
    "global_batch": "gbs",
}


def _name(table: str, row: Row) -> str:
    device = row.device or row.system or "device"
    memory = f"-{row.device_memory_gb}gb" if row.device_memory_gb else ""
    length = f"-seq{row.sequence_length}" if row.sequence_length else ""
    precision = f"-{row.precision}" if row.precision else ""
    owner = f"-{row.publisher}" if row.publisher else ""
    kind = "chip" if device.startswith("TPU") else "gpu"
    return _slug(f"{table}{owner}-{row.model}-{device}{memory}{precision}{length}-{row.devices}{kind}")


def _with_word(name: str, word: str, value: object) -> str:
    if value in (None, "none"):
        return name
    stem, _, scale = name.rpartition("-")
    text = str(value) if isinstance(value, str) else f"{_SHORT.get(word, word)}{value}"
    return f"{_slug(f'{stem}-{text}')}-{scale}"


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")


def read_table(document: Mapping[str, Any], where: str) -> PublishedTable:
    """Return a table; ``InputError`` names the document and the row or key that is wrong."""
    try:
        table = PublishedTable.model_validate(document)
        names = [reference.id for reference in table.references()]
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{where}: {key}: {plain_message(first['msg'])}") from None
    except ValueError as error:
        raise InputError(f"{where}: {error}") from None
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InputError(f"{where}: two rows are the same case: '{repeated[0]}'")
    return table


@cache
def load_tables() -> tuple[PublishedTable, ...]:
    """Return all published tables, by series and release."""
    folder = files("trainmark.reference") / "tables"
    documents = [entry for entry in folder.iterdir() if entry.name.endswith(".yaml")]
    tables = [read_table(parse_yaml(file.read_text(encoding="utf-8")), file.name) for file in documents]
    return tuple(sorted(tables, key=lambda table: (table.series, table.order)))


def find_tables(names: Iterable[str]) -> tuple[PublishedTable, ...]:
    """Return the tables with these names, and all of these series; raise ``InputError`` for an unknown name."""
    tables = load_tables()
    known = sorted({name for table in tables for name in (table.name, table.series)})
    wanted = set(names)
    for name in wanted.difference(known):
        raise InputError(f"no published table '{name}'{nearest(name, known)} (known: {', '.join(known)})")
    return tuple(table for table in tables if {table.name, table.series} & wanted)
