"""What the fused step does beyond its kernels, stage by stage: each can be left out, so that its effect is seen.

``TRAINMARK_FUSED_WITHOUT`` names what is left out, by commas; a run tells which stages it had.
"""

import os
from collections.abc import Mapping

from ..core.outcomes import INVALID, RunError

WITHOUT = "TRAINMARK_FUSED_WITHOUT"

FOLDED, QUARTER, UPDATE = "folded", "quarter", "update"
STAGES: Mapping[str, str] = {
    FOLDED: "a small norm's moments follow from its convolution's sums in the pass that applies them",
    QUARTER: "the gradient of a shortcut of stride 2 has the positions that the shortcut read, and no others",
    UPDATE: "one kernel checks the 16-bit gradients, one moves the weights and writes their copies in 16 bits",
}


def chosen(environ: Mapping[str, str] = os.environ) -> frozenset[str]:
    """Return the stages of this run; raise ``RunError`` (invalid) for a name that is none of them."""
    without = {word.strip() for word in environ.get(WITHOUT, "").split(",")} - {""}
    unknown = sorted(without - set(STAGES))
    if unknown:
        raise RunError(
            INVALID, f"{WITHOUT}: there is no stage {', '.join(unknown)}; there are {', '.join(STAGES)}"
        )
    return frozenset(STAGES) - without
