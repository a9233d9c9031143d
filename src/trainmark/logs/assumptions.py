"""Assumptions about a batch that the reader gives for a log that does not print it, each with a doubt."""

from dataclasses import replace

from trainmark.logs.format import Format
from trainmark.logs.model import Facts, Problem, Records

_SHORTEST_TOKENS = 512
"""Fewer tokens than a device trains on in a step; a smaller batch is one of sequences."""


def with_accumulation(
    facts: Facts, known: Format, records: Records, given: Facts
) -> tuple[Facts, tuple[Problem, ...]]:
    """Return the facts with one micro-batch a step if the reader gives the batch and the log states no accumulation.

    Only records without a rate need it.
    """
    needed = known.accumulates and records.rate is None and records.count
    if not needed or facts.accumulation or facts.global_batch or given.batch_per_device is None:
        return facts, ()
    sentence = (
        "the log does not state the micro-batches of a step (gradient accumulation): 1 is assumed, and with n the rate "
        "is n times as high (add --batch with the samples of all micro-batches)"
    )
    return replace(facts, accumulation=1), (Problem("accumulation-assumed", sentence),)


def batch_of_sequences(facts: Facts, unit: str, records: Records, given: Facts) -> tuple[Problem, ...]:
    """Return a doubt if a rate in tokens comes from a given batch that is too small to be one of tokens."""
    batch = given.batch_per_device
    if unit != "tokens/s" or batch is None or not is_of_sequences(facts):
        return ()
    if records.rate is not None or not records.count:
        return ()
    sentence = (
        f"the number is in tokens/s, but --batch {batch} is probably of sequences, so that it is sequences/s: give "
        "batch x sequence length"
    )
    return (Problem("batch-of-sequences", sentence),)


def is_of_sequences(facts: Facts) -> bool:
    """Return whether the batch of a device is too small to be one of tokens, and the log has no other."""
    batch = facts.batch_per_device
    return facts.global_batch is None and batch is not None and batch < _SHORTEST_TOKENS
