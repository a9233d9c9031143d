"""Which changes of a worker are made in which framework, and by which doubt each must be seen.

The changes themselves are in ``tests/programs/changed_worker.py`` and ``tests/programs/changes/``;
``benchmarks/trust_sabotage.py`` prints the table of what is seen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from idioms import IDIOMS

UPDATE, STANDS = "update-differs", "statistics-stand-still"


@dataclass(frozen=True)
class Change:
    """One change; it must be seen by one of ``seen``, or end the run as ``ends`` where a framework is named there."""

    seen: frozenset[str]
    real: bool = False
    """Whether it is one of the loader's, seen on real images alone."""
    ranks: int = 1
    ends: Mapping[str, str] = field(default_factory=dict)
    """The outcome where the framework itself refuses."""
    cannot: Mapping[str, str] = field(default_factory=dict)
    """Why it cannot be made in a framework."""
    flags: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Other flags of the run, by framework."""


def change(*seen: str, **more: Any) -> Change:
    return Change(frozenset(seen), **more)


STATIC = {"tensorflow": "failed"}
"""Its network is built for one size of pictures."""

WITHOUT_A_COMPILER = {name: dict(idiom.eager or {}) for name, idiom in IDIOMS.items()}

WITHOUT_PHOTOS = dict.fromkeys(
    ("tensorflow", "mxnet", "mindspore"), "its loader of images is its own, and not that of `Photos`"
)

NOT_RUN = {**WITHOUT_PHOTOS, "jax": "it has not been run in JAX"}

NOT_WRITTEN = {name: "it is written for PyTorch alone" for name in IDIOMS if name != "pytorch"}

IN_16_BITS = {"pytorch": {"precision": "amp-fp16", "layout": "nhwc"}}
"""FP16 runs on every CPU, if slowly; the update has the noise of rounded products."""

CHANGES: Mapping[str, Change] = {
    "steps-left-out": change("step-without-update", "steps-not-taken", STANDS),
    "batch-norm-evaluates": change(STANDS, "batch-norm-not-training"),
    "forward-only": change("step-without-update"),
    "frozen-stem": change("parameters-stand-still"),
    "another-type": change(
        "layer-type-differs", cannot={"paddle": "this build computes in FP32 on a CPU, whatever AMP is told"}
    ),
    "one-layer": change("layer-type-differs", flags=IN_16_BITS),
    "one-layer-within": change(
        "layer-type-differs",
        flags={**WITHOUT_A_COMPILER, "pytorch": {"precision": "amp-fp16", "layout": "nhwc"}},
    ),
    "momentum": change(UPDATE),
    "decay": change(UPDATE),
    "half-size": change("image-size-differs", ends=STATIC),
    "half-size-real": change("image-size-differs", real=True, ends=STATIC),
    "no-normalisation": change("input-not-normalised", real=True),
    "centre-crop": change("crop-not-random", real=True),
    "one-batch": change("batch-reused", real=True),
    "two-batches": change("batches-repeat", real=True),
    "few-pictures": change("samples-repeat", real=True, cannot=WITHOUT_PHOTOS),
    "few-listed": change("samples-left-out", real=True, cannot=WITHOUT_PHOTOS),
    "labels-zero": change("labels-all-equal", real=True, cannot=WITHOUT_PHOTOS),
    "labels-shifted": change("labels-differ", real=True, cannot=WITHOUT_PHOTOS),
    "decoded-small": change(
        "known-picture-blurred", real=True, cannot={**WITHOUT_PHOTOS, "jax": "its loader pickles the decoder"}
    ),
    "channels-reversed": change("known-picture-differs", real=True, cannot=NOT_RUN),
    "same-crop": change("crop-not-random", real=True, cannot=NOT_RUN),
    "never-flipped": change("crop-not-random", real=True, cannot=NOT_RUN),
    "not-shuffled": change("samples-not-shuffled", real=True, cannot=NOT_RUN),
    "half-copied": change("batch-has-copies", real=True, cannot=NOT_WRITTEN),
    "gradient-stops": change("parameters-stand-still", cannot=NOT_WRITTEN),
    "block-left-out": change("parameters-stand-still", cannot=NOT_WRITTEN),
    "accumulated": change("steps-not-taken", cannot=NOT_WRITTEN),
    "half-the-gradient": change("loss-differs", cannot=NOT_WRITTEN),
    "ranks-share": change("ranks-share-samples", ranks=2),
    "no-smoothing": change("loss-differs", cannot=NOT_WRITTEN),
    "half-the-batch": change("loss-differs", cannot=NOT_WRITTEN),
    "logits-in-bf16": change("loss-type-differs", cannot=NOT_WRITTEN),
    "updates-left-out": change("steps-not-taken", cannot=NOT_WRITTEN),
    "constant-rate": change("rate-differs", cannot=NOT_WRITTEN),
    "rate-ignored": change(UPDATE, cannot=NOT_WRITTEN),
    "no-decay": change("decay-differs", cannot=NOT_WRITTEN),
    "norms-decay": change("decay-differs", cannot=NOT_WRITTEN),
    # The weights of 10 classes are too few to tell their decay with some processors' rounding.
    "classifier-not-decayed": change(
        "decay-differs", cannot=NOT_WRITTEN, flags={"pytorch": {"classes": 1000}}
    ),
    "nesterov": change(UPDATE, cannot=NOT_WRITTEN),
    "half-the-rate": change(UPDATE, cannot=NOT_WRITTEN),
    "rate-a-fifth-higher": change(UPDATE, cannot=NOT_WRITTEN, flags=IN_16_BITS),
    "momentum-of-another-recipe": change(UPDATE, cannot=NOT_WRITTEN, flags=IN_16_BITS),
    "gradients-clipped": change(UPDATE, cannot=NOT_WRITTEN),
    "gradients-summed": change(UPDATE, ranks=2, flags={"pytorch": {"gradients": "flat"}}),
    "no-all-reduce": change(UPDATE, ranks=2, flags={"pytorch": {"gradients": "flat"}}),
}
"""Besides these: ReLU6 for ReLU, which the certificate of equal work sees (``test_equal_work.py``)."""


def flags_of(framework: str, name: str, change: Change | None = None) -> dict[str, Any]:
    """Return the flags of a run with the change, with dashes and less its data."""
    change, idiom = change or CHANGES[name], IDIOMS[framework]
    flags = {
        **idiom.flags,
        **(idiom.images if change.real else {}),
        "classes": 10,
        **change.flags.get(framework, {}),
    }
    return {flag.replace("_", "-"): value for flag, value in flags.items()}


def word_of(name: str) -> str:
    """Return what ``changed_worker.py`` calls the change."""
    return "none" if name.startswith("none") else name.removesuffix("-real")
