"""Protocols: how often a case is run, how many steps a run has, and when there are enough runs."""

from enum import StrEnum
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveFloat, model_validator

from trainmark.suite.case import Count


class ProtocolName(StrEnum):
    """The protocols that exist; a suite may change the numbers of each."""

    ADAPTIVE = "adaptive"
    DLPERF = "dlperf"


class Protocol(BaseModel):
    """How a case is measured.

    A run has ``steps`` steps, of which the first ``warmup_steps`` are not measured. A case is run at least
    ``min_repeats`` times and at most ``max_repeats`` times. With ``target_half_width`` set, runs are added
    until half the width of the 95 % interval is at most that fraction of the median, or the case has taken
    ``max_case_s`` seconds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: ProtocolName
    steps: Count
    warmup_steps: Annotated[int, Field(strict=True, ge=0)]
    min_repeats: Count
    max_repeats: Count
    target_half_width: Annotated[float, Field(gt=0, lt=1)] | None
    max_case_s: PositiveFloat | None

    @property
    def measured_steps(self) -> int:
        """The number of steps in the measured window."""
        return self.steps - self.warmup_steps

    @model_validator(mode="before")
    @classmethod
    def _fill_from_preset(cls, value: Any) -> Any:
        """Let a protocol be a bare name, and let ``repeats`` stand for both limits."""
        if isinstance(value, str):
            value = {"name": value}
        if not isinstance(value, dict):
            return value
        preset = _PRESETS.get(str(value.get("name", ProtocolName.ADAPTIVE)), {})
        given = dict(value)
        if "repeats" in given:
            repeats = given.pop("repeats")
            given = {"min_repeats": repeats, "max_repeats": repeats} | given
        return {"name": ProtocolName.ADAPTIVE} | preset | given

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        if self.warmup_steps < 1:
            raise ValueError("warmup_steps must be at least 1: the first step is never part of the window")
        if self.steps <= self.warmup_steps:
            raise ValueError(
                f"steps ({self.steps}) must be more than warmup_steps ({self.warmup_steps}): "
                "nothing would be left to measure"
            )
        if self.max_repeats < self.min_repeats:
            raise ValueError(
                f"max_repeats ({self.max_repeats}) is less than min_repeats ({self.min_repeats})"
            )
        return self


_PRESETS: dict[str, dict[str, Any]] = {
    # DLPerf's rule: 5 runs of 120 steps, the first 20 dropped.
    "dlperf": {
        "steps": 120,
        "warmup_steps": 20,
        "min_repeats": 5,
        "max_repeats": 5,
        "target_half_width": None,
        "max_case_s": None,
    },
    "adaptive": {
        "steps": 120,
        "warmup_steps": 20,
        "min_repeats": 3,
        "max_repeats": 10,
        "target_half_width": 0.02,
        "max_case_s": 3600.0,
    },
}
