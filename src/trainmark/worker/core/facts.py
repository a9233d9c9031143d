"""What a framework's worker says of a run: what it is made of, what the first step computed with, what was asked."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

from .outcomes import INVALID, RunError


class Facts(NamedTuple):
    """What a run is made of, in the framework's own words; the same in every step of it.

    ``device`` is cpu or cuda; ``parameters`` are the trainable ones, counted in the network; ``threads`` is None
    where the framework cannot say; ``implementation`` is that of the optimizer; ``peak_memory_of`` says what
    ``Training.peak_memory_bytes`` counts; ``others`` are of this framework alone (versions, levels, switches).
    """

    framework_version: str
    device: str
    device_name: str
    parameters: int
    threads: Optional[int]
    implementation: str
    optimizer: str = "SGD"
    loss_scaled: bool = False
    compiler_mode: Optional[str] = None
    peak_memory_of: str = "process, resident"
    others: Mapping[str, Any] = {}


@dataclass(frozen=True)
class Seen:
    """What the first step really computed with: read from the framework's objects, never from the request.

    Types are like ``bfloat16``; ``compute_dtype`` is that of the inside of the network, behind its first layer. TF32
    may be left out on a CPU, which has none. What this framework offers no way to see is None *and* named in
    ``unseen``: None alone means that nothing was seen, and is invalid. A task adds fields for its own axes in a
    subclass; ``either`` in one of them fits whatever was asked for.
    """

    compute_dtype: Optional[str]
    weight_dtype: Optional[str]
    batch_per_device: Optional[int]
    tf32_matmul: Optional[bool] = None
    tf32_convolution: Optional[bool] = None
    unseen: Tuple[str, ...] = ()
    others: Mapping[str, Any] = field(default_factory=dict)


class Expected(NamedTuple):
    """What the precision that was asked for means; the rest stands in the settings."""

    compute_dtype: str
    weight_dtype: str = "float32"
    tf32: bool = False


def as_asked(seen: Seen, asked: Mapping[str, Any], device: str) -> Dict[str, Any]:
    """Return what was seen, the same keys for every framework, and under ``unseen`` what could not be.

    Raises ``RunError`` (invalid) for what differs from ``asked``, and for what should have been seen and was not.
    """
    if device == "cpu":
        seen = replace(seen, tf32_matmul=False, tf32_convolution=False)
    found = {name: value for name, value in vars(seen).items() if name not in ("unseen", "others")}
    for name, value in found.items():
        if value is None and name not in seen.unseen:
            raise RunError(
                INVALID, f"{name} of the first step was not seen, so it is not known to be {asked[name]}"
            )
        if value not in (None, "either", asked[name]):
            raise RunError(INVALID, f"{name} of the first step was {value}, not {asked[name]} as asked for")
    unseen = sorted(name for name, value in found.items() if value is None)
    return {**found, **({"unseen": unseen} if unseen else {}), **seen.others}
