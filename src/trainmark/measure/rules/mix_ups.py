"""Ways in which a published value may have come from a log that no rule reproduces it from: a part, or a mix-up."""

from collections.abc import Iterator
from decimal import ROUND_HALF_UP, Decimal

from trainmark.logs.model import ParsedLog
from trainmark.measure.rules.catalog import find_witnesses
from trainmark.measure.rules.claims import Claim
from trainmark.measure.rules.matching import Tried, reproduces
from trainmark.measure.rules.stretches import span_of_stretches
from trainmark.printable import rate_text


def possible_source(published: Decimal, log: ParsedLog, tried: Tried, claim: Claim) -> str | None:
    """Return a sentence on what may have given ``published``, a part of the log or a mix-up; ``None`` if nothing."""
    span = span_of_stretches(log)
    value = float(published)
    if span and span.low <= value <= span.high:
        return (
            f"parts of the log of at least {span.records} records give {rate_text(span.low)} to "
            f"{rate_text(span.high)}: the value is in that range, but it is unknown which part was used"
        )
    usual = tried.all[0]
    for witness in find_witnesses(log, usual.skipped, usual.value) if usual.value else ():
        if reproduces(witness.value, published):
            return f"it is the number by the {witness.name} ({witness.how})"
    for result in tried.all:
        if result.value and (what := _rounded_then_multiplied(result.value, published, log)):
            return f"{result.rule} gives it if {what}"
    for factor, what in _mix_ups(log, claim):
        for result in tried.all:
            if result.value and reproduces(result.value * factor, published):
                return f"{result.rule} gives it if {what}"
        if span and span.low * factor <= value <= span.high * factor:
            low, high = rate_text(span.low * factor), rate_text(span.high * factor)
            return f"it fits parts of the log ({low} to {high}) if {what}"
    return None


def _rounded_then_multiplied(value: float, published: Decimal, log: ParsedLog) -> str | None:
    """Return a sentence if ``published`` is the rounded rate of a device, or node, times their number."""
    for count, what in ((log.facts.gpus, "devices"), (log.facts.nodes, "nodes")):
        if count is None or count < 2:
            continue
        for digits in range(4):
            part = Decimal(f"{value / count:.12g}").quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
            if part > 0 and part * count == published:
                return f"the rate of one of {count} {what} was rounded to {part} and then multiplied"
    return None


def _mix_ups(log: ParsedLog, claim: Claim) -> Iterator[tuple[float, str]]:
    """Yield the factor and the description of each mix-up of devices, nodes, batch or unit."""
    gpus, nodes, batch = log.facts.gpus, log.facts.nodes, log.facts.batch_per_device
    if gpus and gpus > 1:
        yield 1 / gpus, f"it is the rate of one of {gpus} devices"
        yield float(gpus), f"it was multiplied by the {gpus} devices twice"
    if nodes and nodes > 1:
        yield 1 / nodes, f"it is the rate of one of {nodes} nodes"
        yield float(nodes), f"it was multiplied by the {nodes} nodes twice"
    if claim.gpus and gpus and claim.gpus != gpus:
        yield claim.gpus / gpus, f"it is scaled to the table's {claim.gpus} devices from the log's {gpus}"
    if claim.batch and batch and claim.batch != batch:
        yield claim.batch / batch, f"it uses the table's batch of {claim.batch} instead of the log's {batch}"
    if batch and batch > 1:
        yield 1 / batch, "it counts batches and not samples"
    if log.accumulates and log.facts.accumulation and log.facts.accumulation > 1:
        yield (
            1 / log.facts.accumulation,
            f"only one of {log.facts.accumulation} micro-batches per step was counted",
        )
    yield 60.0, "it is per minute and not per second"
    yield 3600.0, "it is per hour and not per second"
    yield 1000.0, "it counts in thousandths"
    yield 1e-3, "it counts in thousands"
