"""The records that are read: those of one rank, each once, with the samples of the steps that it is of."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from trainmark.logs.batches import Batches, told_batches
from trainmark.logs.columns import Column, Floats, in_step
from trainmark.logs.counters import Counters, count, first_of_each
from trainmark.logs.fields import FIELDS
from trainmark.logs.format import Format
from trainmark.logs.gathering import Gathering
from trainmark.logs.model import Meaning, Problem, Records, Severity
from trainmark.logs.multi_run import unlike_copies
from trainmark.logs.plausibility.intervals import counts_from_zero, steps_covered


@dataclass(frozen=True, slots=True)
class Read:
    """The records, how they are numbered, and the global batches that their lines say, where they do."""

    records: Records
    counters: Counters
    batches: Batches | None
    problems: tuple[Problem, ...]


def read_records(seen: Gathering, known: Format) -> Read:
    """Return the records of a log of a known format."""
    records, problems, consumed = _one_rank(seen)
    counters = count(records)
    if counters.copies > 1:
        problems += unlike_copies(known, records, counters.copies)
        records, consumed = first_of_each(records), None
        problems.append(
            Problem(
                "ranks-untagged",
                f"{counters.copies} ranks print the same records without a tag: the first of each is read",
                Severity.NOTE,
            )
        )
    batches = None
    if known.records and "batch" in known.records[seen.pattern].groupindex and records.count:
        averaged = known.meaning is Meaning.INTERVAL
        records, batches = told_batches(records, consumed, counters.interval, averaged=averaged)
        problems += filter(None, [batches.problem()])
    if known.samples_of_step and records.samples is not None:
        records = _samples_of_records(records, counters.interval)
    return Read(records, counters, batches, tuple(problems))


def _one_rank(seen: Gathering) -> tuple[Records, list[Problem], Column | None]:
    """Choose the rank that is read: the one with most records, the lowest of equals.

    The last that is returned is what the run had consumed at each record, where its lines say so.
    """
    if not seen.counts:
        return Records(), [], None
    rank = min(seen.counts, key=lambda r: (-seen.counts[r], -1 if r is None else r))
    kept, size = seen.columns[rank], seen.counts[rank]
    if seen.format is not None and seen.format.assemble is not None:
        made = seen.format.assemble({name: column.array() for name, column in kept.items()})
        kept = {name: Column.of(values) for name, values in made.items()}
        size = len(next(iter(made.values()), ()))
    if seen.format is not None and seen.format.reworked is not None:
        kept, size = _gathered(seen.format.reworked(_blocks(kept)))
    columns = {name: kept[name] for name in FIELDS if name in kept}
    problems = []
    if len(seen.counts) > 1:
        which = "the untagged lines are" if rank is None else f"rank {rank} is"
        problems.append(
            Problem("several-ranks", f"{len(seen.counts)} ranks print records: {which} read", Severity.NOTE)
        )
    return Records(count=size, **columns), problems, kept.get("consumed")


def _blocks(columns: Mapping[str, Column]) -> Iterator[dict[str, Floats]]:
    """Yield the columns in blocks of equal places, so that no column has to be in memory."""
    for values in in_step(list(columns.values())):
        yield dict(zip(columns, values, strict=True))


def _gathered(blocks: Iterator[dict[str, Floats]]) -> tuple[dict[str, Column], int]:
    kept: dict[str, Column] = {}
    size = 0
    for block in blocks:
        for name, values in block.items():
            kept.setdefault(name, Column()).append(values)
        size += len(next(iter(block.values())))
    return kept, size


def _samples_of_records(records: Records, interval: int) -> Records:
    """Turn samples of one step into samples of the record: times the steps that it is of."""
    if records.samples is None or records.step is None:
        return records
    converted, position, from_zero = Column(), 0, counts_from_zero(records)
    for samples in records.samples.blocks():
        covered = steps_covered(
            records.step, position, position + len(samples), interval, from_zero=from_zero
        )
        converted.append(samples * covered)
        position += len(samples)
    return replace(records, samples=converted)
