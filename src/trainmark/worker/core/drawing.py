"""Elements drawn of each parameter, and their mean over the ranks: 25 million gradients need not be exchanged."""

import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

from .training import Training

ELEMENTS = 32
"""Elements that are drawn of each parameter."""


def drawn(arrays: Mapping[str, Any], name: str, elements: int = ELEMENTS) -> Any:
    """Return elements of a parameter, the same of every array of its name, in float64."""
    import numpy as np

    values = np.asarray(arrays[name]).reshape(-1)
    random = np.random.RandomState(zlib.crc32(name.encode()))
    return values[random.randint(0, values.size, elements)].astype(np.float64)


def averaged(training: Training, gradients: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Return the drawn elements of the gradients' mean over the ranks. All ranks call it."""
    import numpy as np

    own = np.concatenate([drawn(gradients, name) for name in names])
    bits = list(struct.unpack(f"<{own.size}q", own.tobytes()))
    ranks = [np.frombuffer(struct.pack(f"<{own.size}q", *part)) for part in training.gather(bits)]
    mean = sum(ranks) / len(ranks)
    return dict(zip(names, np.split(mean, len(names))))
