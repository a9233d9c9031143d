"""A worker that from its third step on does something else than was asked is seen to do so, and a sound one is not."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from idioms import IDIOMS
from worker_changes import CHANGES, flags_of, word_of
from worker_process import Ran, ended, make_images, rank_variables, start_rank

from frameworks import in_frameworks, in_pytorch, of_each, require_bf16
from preloading import compiled_before
from trainmark.placement import free_ports

pytestmark = pytest.mark.training

CHANGED = Path(__file__).parents[1] / "programs" / "changed_worker.py"

ALWAYS = {
    *(("pytorch", name) for name in ("batch-norm-evaluates", "frozen-stem", "another-type", "half-size")),
    *(("pytorch", name) for name in ("no-normalisation", "centre-crop", "one-batch", "gradients-summed")),
    *(
        ("pytorch", name)
        for name in ("two-batches", "few-pictures", "ranks-share", "half-copied", "labels-shifted")
    ),
    *(("pytorch", name) for name in ("half-the-batch", "rate-ignored", "norms-decay")),
    *((framework, "one-layer") for framework in ("tensorflow", "mxnet", "paddle")),
    *((framework, "one-layer-within") for framework in ("tensorflow", "paddle", "mindspore")),
}
"""One of each kind, made in the small model.

What is left sees the same equations with other numbers, in MobileNetV1 or in another framework.
"""


def run(framework: str, folder: Path, change: str, ranks: int = 1, **flags: Any) -> Ran:
    """Train a few steps with the change; the events are rank 0's."""
    events = folder / "events.jsonl"
    port = free_ports(8) if ranks > 1 else 0
    given = {"steps": 8, "batch_per_device": 4, **flags}
    # Threads that spin while they wait take the cores from the ranks that they wait for.
    shared = {**compiled_before(), "OMP_WAIT_POLICY": "passive"}
    started = [
        start_rank(
            given,
            events,
            {**shared, **rank_variables(rank, ranks, port)} if ranks > 1 else None,
            framework,
            program=(str(CHANGED), word_of(change)),
        )
        for rank in range(ranks)
    ]
    first, *_ = [ended(process, events) for process in started]
    return first


def cases() -> list[object]:
    found: list[object] = []
    for framework in IDIOMS:
        for name, change in CHANGES.items():
            if framework in change.cannot:
                continue
            marks = in_frameworks(framework, rarely=(framework, name) not in ALWAYS)
            found.append(pytest.param(framework, name, marks=marks, id=f"{framework}-{name}"))
    return found


@pytest.mark.parametrize(("framework", "name"), cases())
def test_a_change_is_seen(framework: str, name: str, tmp_path: Path) -> None:
    change = CHANGES[name]
    flags = flags_of(framework, name)
    if name.startswith("one-layer") or name == "another-type":
        require_bf16(framework)
    if (framework, name) not in ALWAYS:
        flags["model"] = "mobilenet_v1"
    if change.real:
        flags |= {"data": make_images(tmp_path / "images", 24), "loader_workers": 1}
    ran = run(framework, tmp_path, name, change.ranks, **flags)

    if framework in change.ends:
        assert (ran.code, ran.last["outcome"]) == (3, change.ends[framework])
        return
    assert ran.code == 0, ran.stderr
    assert ran.last["outcome"] == "ok"
    assert set(ran.doubts) & change.seen, ran.last["suspect"]


@of_each(IDIOMS, rarely={*IDIOMS} - {"pytorch"})
@pytest.mark.parametrize("kind", ["eager", "compiled", "real", "ranks"])
def test_a_sound_run_is_in_no_doubt(framework: str, kind: str, tmp_path: Path) -> None:
    idiom = IDIOMS[framework]
    flags = {**(idiom.flags if kind != "eager" else idiom.eager or idiom.flags), "classes": 10}
    if kind == "real":
        flags |= {**idiom.images, "data": make_images(tmp_path / "images", 24), "loader_workers": 1}
    ran = run(framework, tmp_path, "none", 2 if kind == "ranks" else 1, **flags)

    assert ran.code == 0, ran.stderr
    assert ran.doubts == []
    looked = ran.last["after_window"]
    assert looked["still"] == []
    assert looked["statistics_move"] is True
    assert looked["seen_image_size"] == [32, 32]
    assert list(looked["layer_types"]) == ["float32"]
    assert looked["learning_rate"] == pytest.approx(looked["learning_rate_asked"], rel=0.05)
    assert looked["momentum"] == pytest.approx(looked["momentum_asked"], rel=0.05)
    if kind == "ranks":
        assert looked["ranks_agree"] is True
    if kind == "real":
        path = looked["loader_path"]
        assert path["image_sizes"] == [[32, 32]]
        assert path["off_levels"] < 3
        assert path["different_crops"] > 0.9 * path["pictures"]
        assert path["labels"] > 0.7 * path["pictures"]
        assert path["wrong_labels"] == 0


@in_pytorch
@pytest.mark.parametrize(("change", "doubts"), [("none", []), ("frozen-scale", ["parameters-stand-still"])])
def test_a_scale_whose_step_its_digits_swallow_stands_still_and_is_in_doubt_only_when_it_is_frozen(
    change: str, doubts: list[str], tmp_path: Path
) -> None:
    """Behind it are a depthwise convolution and a batch norm: the loss does not depend on it."""
    flags: dict[str, Any] = {
        "model": "mobilenet_v1",
        "image-size": 96,
        "batch-per-device": 8,
        "layout": "nhwc",
    }
    ran = run("pytorch", tmp_path, change, **flags, steps=30)
    assert ran.code == 0, ran.stderr
    assert ran.doubts == doubts


@in_pytorch
def test_a_step_after_the_window_that_overflows_is_repeated_with_a_smaller_scale(tmp_path: Path) -> None:
    ran = run("pytorch", tmp_path, "scale-too-large", precision="amp-fp16", layout="nhwc")
    assert ran.code == 0, ran.stderr
    assert ran.doubts == []
    assert ran.last["after_window"]["learning_rate"] is not None


def otherwise(framework: str, flags: Mapping[str, Any], rarely: bool = True) -> Any:
    name = "-".join([framework, *map(str, flags.values())])
    return pytest.param(framework, dict(flags), marks=in_frameworks(framework, rarely=rarely), id=name)


@pytest.mark.parametrize(
    ("framework", "flags"),
    [
        *(otherwise(name, flags) for name, idiom in IDIOMS.items() for flags, _, _ in idiom.precisions),
        otherwise("pytorch", {"precision": "amp-fp16", "layout": "nhwc"}, rarely=False),
        otherwise("pytorch", {"learning_rate": "0"}),
        otherwise("pytorch", {"bn_weight_decay": "true", "weight_decay": "0.01"}),
        otherwise("pytorch", {"gradients": "flat"}),
    ],
)
def test_a_sound_run_of_another_kind_is_in_no_doubt(
    framework: str, flags: dict[str, Any], tmp_path: Path
) -> None:
    require_bf16(framework, flags.get("layout"))
    ran = run(
        framework, tmp_path, "none", 2 if "gradients" in flags else 1, **{**IDIOMS[framework].flags, **flags}
    )

    assert ran.code == 0, ran.stderr
    assert ran.doubts == []
    assert ran.last["after_window"]["still"] in ([], None)
