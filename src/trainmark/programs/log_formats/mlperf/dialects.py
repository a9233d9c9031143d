"""Benchmarks of MLPerf Training: what their counts mean, and which way to the number each prefers.

Seen in the result logs of mlcommons/training_results_v1.1 and v5.0. The ways are those of ``methods.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

_BY_BLOCKS = ("step-time", "blocks", "steps", "own")
_USUAL = ("blocks", "epochs", "steps", "run", "own")


@dataclass(frozen=True, slots=True)
class Dialect:
    """One benchmark: the ways to its number in the order of preference, and the samples of its data set if known.

    With a ``dataset`` a ``train_samples`` that fits it only as steps (x ``global_batch_size``) counts steps.
    """

    prefers: tuple[str, ...] = _USUAL
    dataset: int | None = None


DIALECTS: Mapping[str, Dialect] = {
    # Sequences; train_samples, printed at the end, are those of the whole run, its evaluations in the time.
    "bert": Dialect(("own", "run", "steps")),
    # An evaluation names the fraction of the epoch at which the run ended.
    "dlrm": Dialect(),
    "dlrm_dcnv2": Dialect(),
    "flux1": Dialect(_BY_BLOCKS),
    "gpt3": Dialect(_BY_BLOCKS),
    "llama2_70b_lora": Dialect(_BY_BLOCKS),
    # Evaluation has no start event, and is in the time of a block.
    "llama31_405b": Dialect(("blocks", "step-time", "steps", "own")),
    # samples_count at both ends of a block is the length of the block.
    "llama31_8b": Dialect(_BY_BLOCKS),
    # COCO's training images with objects.
    "maskrcnn": Dialect(dataset=117_266),
    # OpenImages' training images of the benchmark.
    "retinanet": Dialect(("epochs", "own"), dataset=1_170_301),
    # Evaluations at fractions of an epoch lie within the epochs, and are in their time.
    "rgat": Dialect(("own", "epochs")),
    "stable_diffusion": Dialect(_BY_BLOCKS),
}

READ_AS_USUAL = frozenset({"gnmt", "minigo", "ncf", "resnet", "rnnt", "ssd", "transformer", "unet3d"})
"""Benchmarks whose counts have the usual meaning. What those of any other mean is not known."""

BENCHMARKS = tuple(DIALECTS)
USUAL = Dialect()
