"""Audit of published tables: what a table's own numbers say about each other, with the arithmetic.

Nothing here measures anything. A statement divides, multiplies or compares printed numbers, and a difference counts
only beyond what the printed digits leave open.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from statistics import median

from trainmark.measure.device_peaks import find_peak
from trainmark.measure.model_shapes import LanguageModel, find_model
from trainmark.reference.table import PublishedTable, Row, resolution

FLOPS_PER_TOKEN_DIFFER = 0.05
"""Operations per token of one model and length that differ by more were counted in two ways."""

CONVENTION_DIFFERS = 0.03
"""Operations per token that differ by more from 6N + attention, full and causal, were counted in another way."""

ROW_DIFFERS = 0.005
"""A row's operations per token may differ by this part, and by what its digits leave open, from its model's median."""

RELEASE_CHANGED = 0.10
"""A rate that changes by more between two releases of one case is named; published rates of one page move by less."""

FASTER_AT_SCALE = 0.05
"""A device is rarely faster among more devices by more than this, unless its batch is larger there."""


class Kind(StrEnum):
    """The kinds of statements."""

    CONTRADICTION = "contradiction"
    CONVENTION = "convention"
    COARSE = "coarse"
    CHANGED_COUNT = "changed-count"
    CHANGED_RATE = "changed-rate"
    SCALING = "scaling"


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence about rows of one or two tables, with its arithmetic in ``text``."""

    kind: Kind
    tables: tuple[str, ...]
    case: str
    text: str


@dataclass(frozen=True, slots=True)
class CountedModel:
    """The operations per token that a table implies for one model and sequence length, in GFLOP, over ``rows`` rows.

    ``causal`` and ``full`` are those of 6N + attention; None if the model's shape or the length is unknown.
    """

    table: str
    model: str
    sequence_length: int | None
    rows: int
    low: float
    middle: float
    high: float
    causal: float | None = None
    full: float | None = None

    @property
    def counts(self) -> str | None:
        """The attention that the publisher counts by these numbers: ``causal``, ``full`` or ``other``."""
        if self.causal is None or self.full is None:
            return None
        off = {"causal": abs(self.middle / self.causal - 1), "full": abs(self.middle / self.full - 1)}
        nearest = min(off, key=lambda name: off[name])
        return nearest if off[nearest] <= CONVENTION_DIFFERS else "other"


def describe(row: Row) -> str:
    """Return the case of a row in words: model, machine, scale, precision and the stated recipe."""
    words = [row.publisher, row.model, row.section, row.system or row.device, f"{row.devices} devices"]
    words += [None if row.precision is None else str(row.precision), row.setup]
    recipe = ", ".join(f"{axis.replace('_', ' ')} {value}" for axis, value in row.recipe.items())
    return ", ".join(word for word in (*words, recipe) if word)


def counted_models(table: PublishedTable) -> list[CountedModel]:
    """Return the implied operations per token of each model: TFLOP/s of a device over its tokens per second."""
    found: dict[tuple[str, int | None], list[float]] = {}
    for row in table.rows:
        if row.tflops_per_device is not None and table.unit == "tokens/s":
            found.setdefault((_trained(row), row.sequence_length), []).append(_gflop(table, row))
    return [
        CountedModel(
            table.name,
            model,
            length,
            len(values),
            min(values),
            median(values),
            max(values),
            *_convention(find_model(model), length),
        )
        for (model, length), values in found.items()
    ]


def _convention(model: LanguageModel | None, length: int | None) -> tuple[float | None, float | None]:
    """Return 6N + attention in GFLOP, causal and full."""
    if model is None or length is None:
        return None, None
    return model.operations(length, causal=True) / 1e9, model.operations(length, causal=False) / 1e9


def audit(tables: Sequence[PublishedTable]) -> list[Statement]:
    """Return what can be said of each table, and of each release against the last before it with the same case.

    ``tables`` are in the order of their releases.
    """
    statements = [statement for table in tables for statement in _within(table)]
    for place, newer in enumerate(tables):
        older = [table for table in tables[:place] if table.series == newer.series]
        statements += _since(older[::-1], newer)
    return statements


def _within(table: PublishedTable) -> Iterator[Statement]:
    for row in table.rows:
        for text in (*_totals(table, row), *_peaks(row)):
            yield Statement(Kind.CONTRADICTION, (table.name,), describe(row), text)
    yield from _coarse(table)
    yield from _conventions(table)
    yield from _odd_rows(table)
    yield from _scaling(table)


def _coarse(table: PublishedTable) -> Iterator[Statement]:
    """Yield that rates are printed in coarse steps, which every comparison has to allow for."""
    if table.step == 1:
        return
    whole = [int(row.rate) for row in table.rows if row.rate.isdigit()]
    coarse = [rate for rate in whole if rate % table.step == 0]
    yield Statement(
        Kind.COARSE,
        (table.name,),
        "the column of rates",
        f"{len(coarse)} of {len(whole)} rates are multiples of {table.step}: they are known to {table.step} "
        f"{table.unit} at best, {table.step / min(coarse):.1%} of the smallest",
    )


def _conventions(table: PublishedTable) -> Iterator[Statement]:
    """Yield models whose operations per token are neither 6N + full attention nor 6N + causal attention."""
    for one in counted_models(table):
        model = find_model(one.model)
        if model is None or one.sequence_length is None or one.counts != "other":
            continue
        matrices = 6 * model.active_parameters / 1e9
        causal, full = (
            model.full_attention(one.sequence_length) / 2e9,
            model.full_attention(one.sequence_length) / 1e9,
        )
        yield Statement(
            Kind.CONVENTION,
            (table.name,),
            f"{one.model}, sequence length {one.sequence_length}",
            f"TFLOP/s over tokens/s is {one.middle:.4g} GFLOP per token ({one.rows} rows); 6 x "
            f"{model.active_parameters / 1e9:.4g} G active parameters = {matrices:.4g}, with causal attention "
            f"({causal:.3g}) {matrices + causal:.4g} (ratio {one.middle / (matrices + causal):.3f}), with full "
            f"attention ({full:.3g}) {matrices + full:.4g} (ratio {one.middle / (matrices + full):.3f})",
        )


def _totals(table: PublishedTable, row: Row) -> Iterator[str]:
    """Yield printed numbers of one row that contradict each other."""
    if row.rate_per_device is not None and not table.per_device:
        yield from _unequal(
            f"{row.rate_per_device} of one device x {row.devices} devices",
            float(row.rate_per_device) * row.devices,
            f"{row.rate} of all",
            float(row.rate),
            table.resolution(row) + resolution(row.rate_per_device),
        )
    if row.samples_per_s is not None and row.sequence_length is not None:
        yield from _unequal(
            f"{row.samples_per_s} sequences/s x {row.sequence_length} tokens",
            float(row.samples_per_s) * row.sequence_length,
            f"{row.rate} tokens/s",
            float(row.rate),
            table.resolution(row) + resolution(row.samples_per_s),
        )
    if row.tokens_per_step is not None and row.step_s is not None and table.per_device:
        yield from _unequal(
            f"{row.tokens_per_step} tokens / {row.step_s} s / {row.devices} devices",
            row.tokens_per_step / float(row.step_s) / row.devices,
            f"{row.rate} tokens/s of one device",
            float(row.rate),
            table.resolution(row) + resolution(row.step_s),
        )
    if row.tokens_per_step is not None and row.global_batch is not None and row.sequence_length is not None:
        yield from _unequal(
            f"{row.global_batch} sequences x {row.sequence_length} tokens",
            row.global_batch * row.sequence_length,
            f"{row.tokens_per_step} tokens a step",
            row.tokens_per_step,
            0.0,
        )


def _unequal(left: str, here: float, right: str, there: float, tolerance: float) -> Iterator[str]:
    if abs(here / there - 1) > tolerance + 1e-3:
        yield f"{left} = {here:.6g}, but the row prints {right} (ratio {here / there:.3f})"


def _peaks(row: Row) -> Iterator[str]:
    """Yield a share of the peak that cannot be, and a printed MFU that no peak of the device gives."""
    if row.mfu is not None and float(row.mfu) > 100:
        yield f"the MFU of {row.mfu} % is above 100 %"
    peak = _peak(row)
    if row.tflops_per_device is None or peak is None:
        return
    rate = float(row.tflops_per_device)
    if rate > peak:
        yield (
            f"{row.tflops_per_device} TFLOP/s are more than the {peak:g} TFLOP/s that {row.device} does at most in "
            f"{row.precision}"
        )
    if row.mfu is not None:
        implied = rate / (float(row.mfu) / 100)
        if abs(implied / peak - 1) > 0.02 + resolution(row.mfu) + resolution(row.tflops_per_device):
            yield (
                f"{row.tflops_per_device} TFLOP/s / {row.mfu} % = a peak of {implied:.0f} TFLOP/s, but {row.device} "
                f"does {peak:g} TFLOP/s in {row.precision} (ratio {implied / peak:.2f})"
            )


def _peak(row: Row) -> float | None:
    """Return the dense peak of the row's device in the row's precision, in TFLOP/s, where it is known."""
    known = None if row.device is None else find_peak(row.device)
    return None if known is None else known.dense_tflops(row.precision)


def _trained(row: Row) -> str:
    """Return the model, with the section if that names another kind of training, whose operations per token differ."""
    another = row.section is not None and any(word in row.section for word in ("SFT", "LoRA"))
    return f"{row.model} ({row.section})" if another else row.model


def _gflop(table: PublishedTable, row: Row) -> float:
    assert row.tflops_per_device is not None
    return float(row.tflops_per_device) * 1e3 / table.rate_per_device(row)


def _odd_rows(table: PublishedTable) -> Iterator[Statement]:
    """Yield rows whose TFLOP/s and tokens/s cannot be of one measurement, as those of the model's other rows are."""
    middles = {(one.model, one.sequence_length): one for one in counted_models(table) if one.rows >= 3}
    for row in table.rows:
        usual = middles.get((_trained(row), row.sequence_length))
        if usual is None or row.tflops_per_device is None:
            continue
        own = _gflop(table, row)
        tolerance = ROW_DIFFERS + 2 * (table.resolution(row) + resolution(row.tflops_per_device))
        if abs(own / usual.middle - 1) > tolerance:
            yield Statement(
                Kind.CONTRADICTION,
                (table.name,),
                describe(row),
                f"{row.tflops_per_device} TFLOP/s / {_shown(table, row)} tokens/s of a device = {own:.4g} GFLOP per "
                f"token, but the median of the model's {usual.rows} rows is {usual.middle:.4g} "
                f"({own / usual.middle - 1:+.1%})",
            )


def _shown(table: PublishedTable, row: Row) -> str:
    return row.rate if table.per_device else f"{table.rate_per_device(row):.6g}"


def _scaling(table: PublishedTable) -> Iterator[Statement]:
    """Yield cases whose device is faster, or whose total is slower, among more devices with the same recipe."""
    groups: dict[tuple[object, ...], list[Row]] = {}
    for row in table.rows:
        recipe = tuple((axis, value) for axis, value in sorted(row.recipe.items()) if axis != "global_batch")
        # A recipe of tpu-recipes is a folder's name, with the number of chips in it.
        setup = None if table.series == "tpu-recipes" else row.setup
        machine = (row.publisher, row.device, row.device_memory_gb)
        key = (row.model, row.section, *machine, row.precision, setup, recipe)
        groups.setdefault(key, []).append(row)
    for rows in groups.values():
        for few, many in pairwise(sorted(rows, key=lambda row: row.devices)):
            yield from _scaled(table, few, many)


def _scaled(table: PublishedTable, few: Row, many: Row) -> Iterator[Statement]:
    if few.devices == many.devices:
        return
    here, there = table.rate_per_device(few), table.rate_per_device(many)
    smaller, larger = _batch_per_device(few), _batch_per_device(many)
    words, is_larger = "", False
    if smaller is not None and larger is not None:
        words = f"; a device's batch is {smaller:.4g} against {larger:.4g}"
        is_larger = larger > 1.01 * smaller
    arithmetic = (
        f"{here:.6g} {table.unit} of a device with {few.devices}, {there:.6g} with {many.devices} "
        f"({there / here - 1:+.1%}){words}"
    )
    if there * many.devices < here * few.devices:
        yield Statement(
            Kind.SCALING, (table.name,), describe(many), f"more devices train less in all: {arithmetic}"
        )
    elif there / here - 1 > FASTER_AT_SCALE and not is_larger:
        yield Statement(
            Kind.SCALING,
            (table.name,),
            describe(many),
            f"a device is faster among more devices: {arithmetic}",
        )


def _batch_per_device(row: Row) -> float | None:
    total = row.global_batch or row.tokens_per_step
    return None if total is None else total / row.devices


def _since(older: Sequence[PublishedTable], newer: PublishedTable) -> Iterator[Statement]:
    """Yield what changed since the last release with the same model, or the same case; ``older`` has the last first."""
    counted = [(table, counted_models(table)) for table in older]
    for now in counted_models(newer):
        earlier = ((table, one) for table, found in counted for one in found if _same_model(one, now))
        table, then = next(earlier, (newer, now))
        if abs(now.middle / then.middle - 1) > FLOPS_PER_TOKEN_DIFFER:
            yield Statement(
                Kind.CHANGED_COUNT,
                (table.name, newer.name),
                f"{now.model}, sequence length {now.sequence_length}",
                f"TFLOP/s over tokens/s is {then.middle:.4g} GFLOP per token in {table.release} ({then.rows} rows) and "
                f"{now.middle:.4g} in {newer.release} ({now.rows} rows), {now.middle / then.middle - 1:+.1%}: "
                "TFLOP/s of the two releases cannot be compared",
            )
    for row in newer.rows:
        same = ((table, was) for table in older for was in table.rows if was.case == row.case)
        table, was = next(same, (newer, row))
        change = newer.rate_per_device(row) / table.rate_per_device(was) - 1
        if abs(change) > RELEASE_CHANGED + newer.resolution(row) + table.resolution(was):
            yield Statement(
                Kind.CHANGED_RATE,
                (table.name, newer.name),
                describe(row),
                f"{was.rate} {table.unit}{' of a device' if table.per_device else ''} in {table.release}, "
                f"{row.rate} in {newer.release} ({change:+.1%}) by an equal recipe",
            )


def _same_model(one: CountedModel, other: CountedModel) -> bool:
    return (one.model, one.sequence_length) == (other.model, other.sequence_length)


def by_table(statements: Iterable[Statement]) -> dict[str, list[Statement]]:
    """Return the statements of each table; one about two releases is with the newer."""
    found: dict[str, list[Statement]] = {}
    for statement in statements:
        found.setdefault(statement.tables[-1], []).append(statement)
    return found
