"""The MindSpore worker as a real process: what it trains, and what it says it trained."""

from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from worker_process import (
    Ran,
    make_images,
    rank_variables,
    read_events,
    start_rank,
    train,
    train_together,
)

from frameworks import needs_framework
from trainmark.equivalence import Followed, Observation, compare, follows, worker_flags, write_inputs
from trainmark.placement import free_ports
from trainmark.tasks.image_classification.equal_work import ImageObservation

pytestmark = [pytest.mark.training, needs_framework("mindspore")]

MINDSPORE = "mindspore"


def observation_flags(folder: Path) -> dict[str, Any]:
    write_inputs("mobilenet_v1", folder / "inputs.npz")
    words = (word[2:].split("=", 1) for word in worker_flags("mobilenet_v1", folder / "inputs.npz"))
    return {name.replace("-", "_"): value for name, value in words}


def seen_in(ran: Ran) -> Observation:
    assert ran.code == 0, ran.stderr
    return ImageObservation.model_validate(ran.last["equivalence"])


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Observation:
    """The three steps of the equivalence check, operator by operator, on one rank."""
    folder = tmp_path_factory.mktemp("observed")
    return seen_in(train(folder, framework=MINDSPORE, **observation_flags(folder)))


@pytest.mark.parametrize(
    ("precision", "compiler", "compute"),
    [("fp32", "none", "float32"), ("amp-fp16", "none", "float16"), ("amp-fp16", "graph", "float16")],
)
def test_a_run_says_in_which_type_and_mode_it_really_computed(
    tmp_path: Path, precision: str, compiler: str, compute: str
) -> None:
    visible: dict[str, str | int] = {"schedule": "constant", "warmup_epochs": 0, "learning_rate": "0.01"}
    ran = train(
        tmp_path,
        framework=MINDSPORE,
        precision=precision,
        compiler=compiler,
        loss_scale=128,
        steps=5,
        batch_per_device=4,
        **visible,
    )

    assert ran.code == 0, ran.stderr
    actual = ran.parameters["actual"]
    assert (actual["compute_dtype"], actual["weight_dtype"]) == (compute, "float32")
    assert (actual["batch_per_device"], actual["parameters"]) == (4, 4_231_976)
    assert (actual["activation_layout"], actual["weight_layout"]) == ("nchw", "nchw")
    assert ran.last["compiled_in_window"] == [0]
    assert [step["phase"] for step in ran.steps] == ["first_step", "warmup", *["measured"] * 3]
    assert ran.last["suspect"] == []
    assert ran.parameters["threads"] == 1
    # No step was skipped for an overflow.
    assert len({step["loss"] for step in ran.steps}) == 5
    if compiler == "graph":
        assert 0 < ran.last["compile_s"] < ran.last["first_step_s"]
    else:
        assert ran.last["compile_s"] is None


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"precision": "amp-bf16"}, "no bfloat16 convolution"),
        ({"layout": "nhwc"}, "no layout 'nhwc'; it has nchw"),
        ({"collective": "horovod"}, "no collective 'horovod'; it has native"),
        ({"compiler": "xla"}, "no compiler 'xla'"),
        ({"device": "cuda"}, "on CPUs only"),
        ({"data": "/nowhere", "loader": "dali"}, "no loader 'dali'"),
    ],
)
def test_what_mindspore_cannot_do_is_unsupported_before_any_step(
    tmp_path: Path, flags: dict[str, str], said: str
) -> None:
    ran = train(tmp_path, framework=MINDSPORE, **flags)

    assert ran.code == 3
    assert ran.last["outcome"] == "unsupported"
    assert said in ran.last["reason"]


def test_a_compiled_step_is_the_same_step(tmp_path: Path, observed: Observation) -> None:
    ran = train(tmp_path, framework=MINDSPORE, **{**observation_flags(tmp_path), "compiler": "graph"})

    assert ran.code == 0, ran.stderr
    variant = follows(observed, Followed.model_validate(ran.last["equivalence"]), {"layout": "nchw"}, "graph")
    assert [check for check in variant.checks if not check.holds] == []


def test_two_ranks_with_the_same_batch_do_the_step_of_one(tmp_path: Path, observed: Observation) -> None:
    flags = observation_flags(tmp_path)
    # The same rates a step, although the global batch is twice as large.
    flags["epoch_images"] = 2 * int(flags["epoch_images"])

    first, second = train_together(tmp_path, framework=MINDSPORE, **flags)

    assert second.code == 0, second.stderr
    assert [check for check in compare(seen_in(first), observed).checks if not check.holds] == []


def test_real_images_are_read_by_mindspores_own_pipeline(tmp_path: Path) -> None:
    data = make_images(tmp_path / "data")

    ran = train(
        tmp_path, framework=MINDSPORE, data=data / "list.txt", model="resnet50_v1.5", batch_per_device=4
    )

    assert ran.code == 0, ran.stderr
    assert ran.parameters["decoder"] == "mindspore.dataset"
    assert ran.parameters["loader_workers"] == 2
    assert ran.parameters["epoch_images"] == 12
    assert all(step["loss"] is not None for step in ran.steps)
    assert any(step["data_wait_s"] > 0 for step in ran.steps)


@pytest.mark.parametrize("content", [b"\xff\xd8 cut off", b"no JPEG at all \xff\xd9"])
def test_a_file_that_is_no_whole_jpeg_fails_the_run_and_is_named(tmp_path: Path, content: bytes) -> None:
    data = make_images(tmp_path / "data", count=4)
    (data / "class0" / "image 0.jpg").write_bytes(content)

    ran = train(tmp_path, framework=MINDSPORE, data=data)

    assert ran.code == 3
    assert ran.last["outcome"] == "failed"
    assert "image 0.jpg cannot be decoded" in ran.last["reason"]


def test_a_png_and_a_cmyk_jpeg_by_the_name_of_a_jpeg_are_images_as_imagenet_has_them(tmp_path: Path) -> None:
    data = make_images(tmp_path / "data", count=4)
    for name, kind, mode in (("image 0.jpg", "PNG", "RGB"), ("image 2.jpg", "JPEG", "CMYK")):
        path = data / "class0" / name
        Image.open(path).convert(mode).save(path, format=kind)

    ran = train(tmp_path, framework=MINDSPORE, data=data, loader_workers=0, steps=4)

    assert ran.code == 0, ran.stderr
    # One thread of its engine reads, whatever was asked for.
    assert ran.parameters["loader_workers"] == 1


def test_memory_that_cannot_be_had_is_an_oom(tmp_path: Path) -> None:
    ran = train(tmp_path, framework=MINDSPORE, memory_limit=700_000_000, batch_per_device=64, image_size=224)

    assert ran.code == 3
    assert ran.last["outcome"] == "oom"


def test_two_ranks_share_out_the_images_and_hold_the_same_parameters(tmp_path: Path) -> None:
    data = make_images(tmp_path / "data", count=16)

    first, second = train_together(tmp_path, framework=MINDSPORE, data=data, compiler="graph")

    assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
    assert first.parameters["backend"] == "mccl"
    assert first.parameters["actual"]["world_size"] == 2
    assert first.last["ranks_agree"] is True
    assert first.last["rank_samples"] == [8, 8]
    assert min(first.last["rank_windows_s"]) > 0


def test_a_rank_that_is_killed_ends_the_other_one_at_once_and_in_its_own_words(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    port = free_ports(8)
    endless = {"steps": "100000"}
    first, second = (start_rank(endless, events, rank_variables(rank, 2, port), MINDSPORE) for rank in (0, 1))
    try:
        assert first.stdout is not None
        assert any(line.startswith("step ") for line in first.stdout)
        second.kill()
        # MindSpore itself would notice it after half a minute, and may then send a SIGTERM.
        _, stderr = first.communicate(timeout=20)
    finally:
        for process in (first, second):
            process.kill()
            process.communicate()

    assert first.returncode == 3
    last = read_events(events)[-1]["data"]
    assert (last["outcome"], last["peer_lost"]) == ("failed", True)
    assert "rank 0: failed: lost contact with another rank: rank 1 has gone" in stderr
