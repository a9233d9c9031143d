"""Records of one rank, each once, with the samples of the steps that it covers."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from trainmark.logs.batches import Batches, apply_batches, find_batches
from trainmark.logs.columns import Column, Floats, in_step
from trainmark.logs.counters import Counters, count, first_of_each
from trainmark.logs.fields import FIELDS
from trainmark.logs.format import Format
from trainmark.logs.gathering import LogCollector
from trainmark.logs.model import Meaning, Problem, RankRecords, Records, Severity, Witness
from trainmark.logs.multi_run import conflicting_copies
from trainmark.logs.plausibility.intervals import counts_from_zero, steps_covered
from trainmark.logs.transport import Rank


class Read(NamedTuple):
    """One rank's records, their numbering, and the global batches that their lines print (None if they do not)."""

    records: Records
    counters: Counters
    batches: Batches | None
    problems: tuple[Problem, ...]
    witnesses: tuple[Witness, ...] = ()
    tagged_ranks: Callable[[], tuple[RankRecords, ...]] = tuple


class _OfRank(NamedTuple):
    """The records of one rank, and the ways to its throughput that only the format's own reader knows."""

    records: Records
    witnesses: tuple[Witness, ...] = ()


def read_records(collected: LogCollector, known: Format) -> Read:
    """Return the records of a log of a known format."""
    (records, witnesses), problems = _one_rank(collected, known)
    counters = count(records)
    if counters.copies > 1:
        problems += conflicting_copies(known, records, counters.copies)
        records = first_of_each(records)
        problems.append(
            Problem(
                "ranks-untagged",
                f"{counters.copies} ranks without tags print the same records, or each progress bar is drawn "
                f"{counters.copies} times: the first copy of each is used",
                Severity.NOTE,
            )
        )
    batches = None
    if known.records and "batch" in known.records[collected.pattern].groupindex and records.count:
        if records.rate is not None and records.step is not None:
            averaged = known.meaning is Meaning.INTERVAL
            records, batches = apply_batches(records, counters.interval, averaged=averaged)
            problems += filter(None, [batches.problem()])
        else:
            records, batches = find_batches(records)
    if known.samples_of_step and records.samples is not None:
        records = _samples_of_records(records, counters.interval)
    return Read(
        records,
        counters,
        batches,
        tuple(problems),
        witnesses,
        _tagged_ranks(collected, known),
    )


def _main_rank(collected: LogCollector) -> Rank:
    """Return the rank with most records, the lowest of equals."""
    return min(collected.counts, key=lambda r: (-collected.counts[r], -1 if r is None else r))


def _one_rank(collected: LogCollector, known: Format) -> tuple[_OfRank, list[Problem]]:
    """Return the records of the rank with most records (the lowest of equals), and problems."""
    if not collected.counts:
        return _OfRank(Records()), []
    rank = _main_rank(collected)
    found = _records_of(known, collected.columns[rank], collected.counts[rank])
    problems = []
    if len(collected.counts) > 1:
        which = "the untagged lines are" if rank is None else f"rank {rank} is"
        problems.append(
            Problem(
                "several-ranks", f"{len(collected.counts)} ranks print records: {which} used", Severity.NOTE
            )
        )
    return found, problems


def _tagged_ranks(collected: LogCollector, known: Format) -> Callable[[], tuple[RankRecords, ...]]:
    """Return the assembly of the records of each rank that has a tag; of none if fewer than two do."""
    tagged = [rank for rank in collected.counts if rank is not None]
    if len(tagged) < 2:
        return tuple
    return partial(
        _assemble, known, {rank: (collected.columns[rank], collected.counts[rank]) for rank in tagged}
    )


def _assemble(
    known: Format, ranks: Mapping[int, tuple[Mapping[str, Column], int]]
) -> tuple[RankRecords, ...]:
    with np.errstate(all="ignore"):
        return tuple(
            RankRecords(rank, _records_of(known, *columns).records) for rank, columns in sorted(ranks.items())
        )


def _records_of(known: Format, found: Mapping[str, Column], size: int) -> _OfRank:
    """Return a rank's records."""
    witnesses: tuple[Witness, ...] = ()
    if known.assemble is not None:
        made, witnesses = known.assemble({name: column.array() for name, column in found.items()})
        found = {name: Column.of(values) for name, values in made.items()}
        size = len(next(iter(made.values()), ()))
    if known.transform is not None:
        found, size = _join_blocks(known.transform(_blocks(found)))
    columns = {name: found[name] for name in FIELDS if name in found}
    return _OfRank(Records(count=size, **columns), witnesses)


def _blocks(columns: Mapping[str, Column]) -> Iterator[dict[str, Floats]]:
    """Yield the columns in aligned blocks, so that no column has to be in memory."""
    for values in in_step(list(columns.values())):
        yield dict(zip(columns, values, strict=True))


def _join_blocks(blocks: Iterator[dict[str, Floats]]) -> tuple[dict[str, Column], int]:
    columns: dict[str, Column] = {}
    size = 0
    for block in blocks:
        for name, values in block.items():
            columns.setdefault(name, Column()).append(values)
        size += len(next(iter(block.values())))
    return columns, size


def _samples_of_records(records: Records, interval: int) -> Records:
    """Return ``records`` with the samples of one step multiplied by the steps that each record covers."""
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
