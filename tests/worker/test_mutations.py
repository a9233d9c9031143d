"""A worker that from its third step on does something else than was asked is seen to do so, and a sound one is not."""

from pathlib import Path
from typing import Any

import pytest
from worker_process import Ran, ended, make_images, rank_variables, start_rank

from frameworks import needs_framework
from trainmark.placement import free_ports

pytestmark = [
    pytest.mark.training,
    needs_framework("pytorch"),
    pytest.mark.xdist_group("worker-pytorch"),
]

CHANGED = Path(__file__).parents[1] / "programs" / "changed_worker.py"


def run(folder: Path, change: str, ranks: int = 1, **flags: Any) -> Ran:
    """Train a few steps with the change; the events are rank 0's."""
    events = folder / "events.jsonl"
    port = free_ports(8) if ranks > 1 else 0
    given = {"steps": 8, "batch_per_device": 4, **flags}
    started = [
        start_rank(
            given,
            events,
            rank_variables(rank, ranks, port) if ranks > 1 else None,
            program=(str(CHANGED), change),
        )
        for rank in range(ranks)
    ]
    first, *_ = [ended(process, events) for process in started]
    assert first.code == 0, first.stderr
    return first


rare = pytest.mark.rare
"""One of each kind runs always; what is left sees the same equations with other numbers."""

ONE_PROCESS = {
    "steps-left-out": {"steps-not-taken", "step-without-update", "statistics-stand-still"},
    "batch-norm-evaluates": {"batch-norm-not-training", "statistics-stand-still", "steps-not-taken"},
    "forward-only": {"step-without-update"},
    "frozen-stem": {"parameters-stand-still"},
    "bf16": {"layer-type-differs"},
    "one-layer-in-bf16": {"layer-type-differs"},
    "half-size": {"image-size-differs"},
    "momentum": {"update-differs"},
    "decay": {"update-differs"},
}


ALWAYS = ("batch-norm-evaluates", "frozen-stem", "bf16", "half-size")


@pytest.mark.parametrize(
    "change", [name if name in ALWAYS else pytest.param(name, marks=rare) for name in ONE_PROCESS]
)
def test_a_change_after_the_first_steps_is_seen(change: str, tmp_path: Path) -> None:
    # In AMP the layers after it take what it gives.
    flags: dict[str, Any] = (
        {"precision": "amp-fp16", "layout": "nhwc"} if change == "one-layer-in-bf16" else {}
    )
    ran = run(tmp_path, change, **flags)

    assert ran.last["outcome"] == "ok"
    assert set(ran.doubts) & ONE_PROCESS[change]
    assert set(ran.doubts) <= ONE_PROCESS[change] | {"update-differs"}


@pytest.mark.parametrize(
    ("change", "doubt"),
    [
        pytest.param("half-size", "image-size-differs", marks=rare),
        ("no-normalisation", "input-not-normalised"),
        ("one-batch", "batch-reused"),
    ],
)
def test_other_pictures_than_were_asked_for_are_seen(change: str, doubt: str, tmp_path: Path) -> None:
    ran = run(tmp_path, change, data=make_images(tmp_path / "images", 24), loader_workers=1)

    assert doubt in ran.doubts


@pytest.mark.parametrize("change", ["gradients-summed", pytest.param("no-all-reduce", marks=rare)])
def test_ranks_that_do_not_train_on_the_mean_of_their_gradients_are_seen(change: str, tmp_path: Path) -> None:
    ran = run(tmp_path, change, ranks=2, gradients="flat")

    assert "update-differs" in ran.doubts


@pytest.mark.parametrize(
    "flags",
    [
        {"data": "images"},
        pytest.param({"precision": "amp-bf16", "layout": "nhwc"}, marks=rare),
        {"precision": "amp-fp16", "layout": "nhwc"},
        pytest.param({"precision": "bf16"}, marks=rare),
        pytest.param({"learning_rate": "0"}, marks=rare),
        pytest.param({"bn_weight_decay": "true", "weight_decay": "0.01"}, marks=rare),
    ],
    ids=lambda flags: "-".join(map(str, flags.values())),
)
def test_a_sound_run_is_in_no_doubt(flags: dict[str, Any], tmp_path: Path) -> None:
    if "data" in flags:
        flags = {"data": str(make_images(tmp_path / "images", 24))}
    ran = run(tmp_path, "none", **flags)

    assert ran.doubts == []
    looked = ran.last["after_window"]
    assert looked["seen_image_size"] == [32, 32]
    assert looked["steps_taken"] == len(ran.steps)
    assert looked["still"] in ([], None)


@pytest.mark.parametrize("gradients", ["ddp", pytest.param("flat", marks=rare)])
def test_two_sound_ranks_are_in_no_doubt(gradients: str, tmp_path: Path) -> None:
    ran = run(tmp_path, "none", ranks=2, gradients=gradients)

    assert ran.doubts == []
    looked = ran.last["after_window"]
    assert looked["learning_rate"] == pytest.approx(looked["learning_rate_asked"], rel=0.01)
    assert looked["momentum"] == pytest.approx(looked["momentum_asked"], rel=0.01)
    assert looked["ranks_agree"] is True
