"""Which of the run's outcomes an exception is that only TensorFlow's convolutions raise."""

from __future__ import annotations

import re
from typing import Optional

from ...core.failures import Known, first_known
from ...core.outcomes import UNSUPPORTED, RunError
from ..failures import OWN, RULES

LAYOUT = re.compile(r"only supports? (?:the )?NHWC|NHWC tensor format", re.IGNORECASE)


def stopped_by(error: BaseException) -> Optional[RunError]:
    """Return the outcome of a failure that is known by its type or its text, or None."""
    return first_known(error, (Known(OWN, LAYOUT, _no_layout), *RULES))


def _no_layout(_error: BaseException, _found: "re.Match[str]") -> RunError:
    return RunError(
        UNSUPPORTED,
        "without XLA, TensorFlow computes nchw on a CPU through oneDNN, which is off here "
        "(TF_ENABLE_ONEDNN_OPTS=0, or a CPU without the instructions that it wants)",
    )
