"""A framework whose steps change nothing is told apart from the described step, and its certificate can be read."""

from datetime import UTC, datetime

from trainmark.equivalence import certify, follows, party
from trainmark.schema.certificate import Certificate, Subject
from trainmark.schema.observation import Followed, Observation
from trainmark.tasks.image_classification.equal_work import ImageObservation
from trainmark.worker.core.equivalence import STEPS
from trainmark.worker.tasks.image_classification.architectures import ARCHITECTURES, is_trainable

MODEL = "mobilenet_v1"
SHAPES = ARCHITECTURES[MODEL].shapes(1000)


def observation(framework: str, update: float) -> Observation:
    """Return steps whose gradients are 1 everywhere and whose updates all have the norm ``update``."""
    names = [name for name in SHAPES if is_trainable(name)]
    sketch = {"norm": 1.0, "signed_sum": 0.5}
    moments = {"gg": 1.0, "gu": update, "gw": 0.0, "uu": update**2, "uw": 0.0, "ww": 1.0}
    after_the_first = moments | {"gp": update, "pp": update**2, "pu": update**2, "pw": 0.0}
    steps = [
        {
            "loss": 7.0,
            "logits": sketch,
            "gradients": dict.fromkeys(names, sketch),
            "updates": {name: {"norm": update, "signed_sum": update} for name in names},
            "statistics": {name: sketch for name in SHAPES if name not in names},
            "moments": dict.fromkeys(names, after_the_first if index else moments),
        }
        for index in range(STEPS)
    ]
    return ImageObservation.model_validate(
        {
            "framework": framework,
            "model": MODEL,
            "classes": 1000,
            "parameters": ARCHITECTURES[MODEL].parameters(1000),
            "convolutions": [],
            "steps": steps,
            "step_losses": [7.0] * STEPS,
            "repeated_loss": 7.0,
        }
    )


def test_steps_that_update_nothing_fail_by_rate_momentum_and_decay() -> None:
    still = party(observation("still", 0.0), {"layout": "nchw"}, "1", "cpu")
    failing = {check.subject for check in still.checks if not check.holds}
    assert {Subject.LEARNING_RATE, Subject.MOMENTUM, Subject.DECAY} <= failing


def test_their_certificate_fails_and_can_be_read_back() -> None:
    both = [observation("still", 0.0), observation("other", 0.01)]
    parties = [party(one, {"layout": "nchw"}, "1", "cpu") for one in both]
    written = certify(MODEL, both, parties, {}, datetime.now(UTC), "sha256:0")
    read = Certificate.model_validate_json(written.model_dump_json())
    assert read == written
    assert not read.holds


def test_a_variant_that_updates_nothing_differs_from_the_inspected_step() -> None:
    variant = follows(
        observation("one", 0.01),
        Followed.model_validate(observation("one", 0.0).model_dump()),
        {"layout": "nhwc"},
        "graph",
    )
    assert {check.subject for check in variant.checks if not check.holds} == {
        Subject.UPDATE_NORM,
        Subject.UPDATES,
    }
    assert not variant.holds
