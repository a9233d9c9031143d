"""The search for the largest batch that fits (``batch_per_device: max``): the next batch to try, and the end.

The batch is doubled from 8 until one does not fit; then the gap is halved, down to a multiple of 8 (below 8, down to
1). Multiples of 8 suit tensor cores, and a finer result would differ from run to run.
"""

from collections.abc import Mapping

from trainmark.schema.suite import Protocol

FIRST = 8
STEP = 8
LARGEST = 1 << 16
"""The search ends here: a larger batch is unrealistic for any device and model."""


def next_batch(tried: Mapping[int, bool]) -> int | None:
    """Return the batch per device to try next, or None when the search is over.

    ``tried`` maps each batch that was tried to whether it fitted.
    """
    fits = largest_fitting(tried)
    too_large = min((batch for batch, fitted in tried.items() if not fitted), default=None)
    if too_large is None:
        return None if fits >= LARGEST else 2 * fits or FIRST
    step = STEP if fits >= STEP else 1
    if too_large - fits <= step:
        return None
    return fits + max(step, (too_large - fits) // 2 // step * step)


def largest_fitting(tried: Mapping[int, bool]) -> int:
    """Return the largest batch that fitted, or 0 if none did."""
    return max((batch for batch, fitted in tried.items() if fitted), default=0)


def probe_protocol(protocol: Protocol) -> Protocol:
    """Return the protocol of a run that only tests whether a batch fits: memory peaks within two steps."""
    return protocol.model_copy(update={"steps": 4, "warmup_steps": 2})
