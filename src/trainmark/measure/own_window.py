"""The measured window that a run of a built-in worker reports, for campaigns, ``parse`` and ``explain`` alike."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveFloat, PositiveInt, ValidationError

from trainmark.errors import plain_message
from trainmark.logs.events import DEFAULT_UNIT
from trainmark.logs.model import OwnRun

MAX_OVERRUN, MAX_OVERRUN_S, MAX_OVERRUN_SHARE = 1.05, 0.1, 0.1
"""The factor by which the sum of the steps' times may exceed the window, plus the seconds, at most a share of it.

Step times and the window's ends may come from different clocks, and the machine may pause between the two. Without the
share, a window of a few milliseconds could claim any throughput.
"""


class OwnDoubt(BaseModel):
    """A doubt that a run reported about itself."""

    model_config = ConfigDict(frozen=True, strict=True)

    code: str
    sentence: str


class AfterWindow(BaseModel):
    """The fields that are read from the steps after the window."""

    model_config = ConfigDict(frozen=True, strict=True)

    steps_skipped: NonNegativeInt | None = None
    not_checked: Annotated[tuple[str, ...] | None, Field(strict=False)] = None


class Summary(BaseModel):
    """The fields that are read from the event about the whole run; its other keys are for people."""

    model_config = ConfigDict(frozen=True, strict=True, allow_inf_nan=False)

    window_s: PositiveFloat
    samples: PositiveInt
    work: Annotated[Mapping[str, PositiveInt], Field(strict=False)] = Field(default_factory=dict)
    first_step_s: float | None = None
    compile_s: float | None = None
    peak_memory_bytes: Annotated[tuple[int, ...], Field(strict=False)] = ()
    peak_operations_per_s: Annotated[tuple[PositiveInt, ...] | None, Field(strict=False)] = None
    mfu: Mapping[str, PositiveFloat] = Field(default_factory=dict)
    peak_bytes_per_s: Annotated[tuple[PositiveInt, ...] | None, Field(strict=False)] = None
    roofline: Annotated[float, Field(gt=0, le=1)] | None = None
    after_window: AfterWindow | None = None
    suspect: Annotated[tuple[OwnDoubt, ...], Field(strict=False)] = ()


@dataclass(frozen=True, slots=True)
class OwnWindow:
    """The measured window of a run: ``throughput`` (in ``unit``) is its work divided by its seconds.

    The unit names the counter of the work.
    """

    throughput: float
    unit: str
    summary: Summary


class NotMeasurable(Exception):  # noqa: N818 - it is an outcome with a reason, not a program's error
    """The run has no valid measurement; the message is the reason of the outcome ``invalid``."""


class NoWindow(NotMeasurable):
    """The run ended before its window did: its events are consistent, but there is no number."""


def own_window(words: OwnRun, times: NDArray[np.float64]) -> OwnWindow:
    """Return the window that a run reports; ``times`` are the seconds of its measured steps.

    Raises ``NotMeasurable`` when there is no whole window: no summary, no measured steps, or numbers that contradict
    each other.
    """
    if not words.parameters.reported():
        raise NoWindow("the run wrote no parameters, so its settings are unknown")
    if not {"window_s", "samples"} <= words.summary.keys():
        raise NoWindow("the run wrote no measured window")
    summary, global_batch, unit = _summary(words)
    if times.size == 0:
        raise NoWindow("the run wrote no measured step: it ended during its warm-up")
    if (times <= 0).any():
        raise NotMeasurable(f"a step cannot have taken {times.min()} s")
    if summary.samples != global_batch * times.size:
        raise NotMeasurable(
            f"the window counts {summary.samples} samples, but {times.size} steps with a global batch of "
            f"{global_batch} make {global_batch * times.size}"
        )
    counter = unit.removesuffix("/s")
    if summary.work and counter not in summary.work:
        raise NotMeasurable(f"the window counts {', '.join(summary.work)}, but its unit is {unit}")
    throughput = summary.work.get(counter, summary.samples) / summary.window_s
    if not math.isfinite(throughput):
        raise NotMeasurable(f"{summary.samples} samples cannot have taken {summary.window_s} s")
    took = float(np.nansum(times))
    slack_s = min(MAX_OVERRUN_S, MAX_OVERRUN_SHARE * summary.window_s)
    if took > MAX_OVERRUN * summary.window_s + slack_s:
        raise NotMeasurable(
            f"a window of {summary.window_s:.6g} s cannot contain {times.size} steps that took {took:.6g} s"
        )
    return OwnWindow(throughput, unit, summary)


def _summary(words: OwnRun) -> tuple[Summary, int, str]:
    """Return the summary, the global batch and the unit of the throughput."""
    batch, unit = words.parameters.global_batch, words.parameters.unit or DEFAULT_UNIT
    if batch is None or "unit" in words.parameters.free:
        raise NotMeasurable("the run's parameters do not include a global batch")
    try:
        return Summary.model_validate(words.summary), batch, unit
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        text = plain_message(first["msg"])
        reason = f"{text[0].lower()}{text[1:]}"
        raise NotMeasurable(f"the run's summary cannot be used: {place}: {reason}") from None
