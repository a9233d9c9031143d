"""The share of the device's peak: operations that a run's models need, against a matrix product's that is measured.

The peak is what one large product of two square matrices gives, in the type in which the run computes, by the
framework's own product and on the run's own device, all ranks at once; no data sheet is asked. The operations of a
sample are a task's, by conventions that have names (``Task.operations``). Nothing of it is in the window.
"""

from __future__ import annotations

import time
from typing import Any, Dict, Mapping, Optional

from .settings import Settings
from .training import Training

SIZES: Mapping[str, int] = {"cuda": 8192, "cpu": 768}
"""Rows and columns: large enough that the device, and not what starts its work, is what is measured."""

AT_ONCE: Mapping[str, int] = {"cuda": 10, "cpu": 1}
"""Products that are handed over before the device is waited for."""

ROUNDS = 5
"""The fastest counts: a peak is what the device can do, and all else is in its way."""


def operations_per_s(training: Training, device: str) -> Optional[float]:
    """Return this rank's peak; None where the framework's worker has no product, or the device no room for it."""
    size, count = SIZES.get(device, SIZES["cpu"]), AT_ONCE.get(device, 1)
    try:
        product = training.products(size)
        if product is None:
            return None
        product(1)
        seconds = []
        for _ in range(ROUNDS):
            started = time.perf_counter()
            product(count)
            seconds.append(time.perf_counter() - started)
    except Exception:
        # Most likely no memory is left beside the model's. A peak that is not known costs the run nothing.
        return None
    return 2.0 * size**3 * count / min(seconds)


def share_of_peak(training: Training, settings: Settings, samples_per_s: float) -> Dict[str, Any]:
    """Return what the last event says of the peak and, by convention, of the share that was used. All ranks call it."""
    operations = training.task.operations(settings)
    if not operations:
        return {}
    device = training.facts().device
    training.barrier()
    own = operations_per_s(training, device)
    peaks = [values[0] for values in training.gather([round(own or 0)])]
    known = all(peaks)
    size = SIZES.get(device, SIZES["cpu"])
    shares = {name: count * samples_per_s / sum(peaks) for name, count in operations.items()} if known else {}
    return {
        "peak_operations_per_s": peaks if known else None,
        "peak_of": f"product of {size} x {size} matrices, {training.expected().compute_dtype}"
        if known
        else None,
        "operations_per_sample": operations,
        "mfu": shares,
    }
