"""The PaddlePaddle worker as real processes: what it trains, and what it says it trained."""

import contextlib
import json
import math
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from worker_process import (
    WORKER,
    Ran,
    make_images,
    rank_variables,
    read_events,
    start_rank,
    train,
    train_together,
)

from frameworks import framework_python, needs_framework
from trainmark.equivalence import Followed, Observation, compare, follows, party, worker_flags, write_inputs
from trainmark.placement import free_ports
from trainmark.tasks.image_classification.equal_work import ImageObservation
from trainmark.workload import read_card

PADDLE = "paddle"
CARD = WORKER.parent / "workload" / "catalog" / "trainmark-paddle.yaml"

pytestmark = [pytest.mark.training, needs_framework(PADDLE)]

OPENED = f"""
import json, os, sys
sys.path.insert(0, {str(WORKER)!r})
import start
from trainmark_worker.core.arguments import parse
from trainmark_worker.core.outcomes import RunError
from trainmark_worker.paddle import stopped_by, train
from trainmark_worker.core.place import place_from

def opened(*flags):
    small = ["--model=mobilenet_v1", "--batch-per-device=2", "--image-size=32", "--threads=1", "--device=cpu"]
    return train.open_training(parse(["--framework=paddle", *small, *flags], 1), place_from({{}}))

def refused(work):
    try:
        work()
    except RunError as error:
        return [error.outcome, error.reason]
"""
"""Opens trainings beside the test's own code; a later flag overrides one of ``small``."""


def in_paddle(code: str) -> Any:
    """Run a piece of Python beside PaddlePaddle, with the worker loaded; return the JSON that it prints last."""
    done = subprocess.run(
        [framework_python(PADDLE), "-c", OPENED + code],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def dynamic(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """A run that is not compiled."""
    return train(tmp_path_factory.mktemp("dynamic"), PADDLE, steps=8)


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The same run, compiled."""
    return train(tmp_path_factory.mktemp("compiled"), PADDLE, steps=8, compiler="to_static")


def test_a_run_writes_parameters_then_every_step_then_the_summary(dynamic: Ran) -> None:
    assert dynamic.code == 0, dynamic.stderr
    assert [event["step"] for event in dynamic.events] == ["PARAMETER", *([0, i] for i in range(8)), []]
    assert dynamic.parameters["parameters"] == 4_231_976
    assert dynamic.last["outcome"] == "ok"
    assert dynamic.last["suspect"] == []
    assert dynamic.last["compile_s"] is None
    measured = [step["step_time_s"] for step in dynamic.steps if step["phase"] == "measured"]
    assert math.isclose(sum(measured), dynamic.last["window_s"], rel_tol=0.02)


def test_a_run_says_what_it_really_computed_with(dynamic: Ran, compiled: Ran) -> None:
    for ran in (dynamic, compiled):
        actual = ran.parameters["actual"]
        assert actual["compute_dtype"] == actual["weight_dtype"] == "float32"
        assert actual["tf32_matmul"] is actual["tf32_convolution"] is False
        assert actual["activation_layout"] == "nchw"
        # Paddle's weights lie in one order, whatever the layout.
        assert actual["unseen"] == ["weight_layout"]
        assert actual["batch_per_device"] == 2
        assert ran.parameters["threads"] == 1


def test_to_static_trains_the_same_in_one_program_made_in_the_first_step(dynamic: Ran, compiled: Ran) -> None:
    assert compiled.code == 0, compiled.stderr
    assert [step["loss"] for step in compiled.steps] == pytest.approx(
        [step["loss"] for step in dynamic.steps], rel=1e-4
    )
    assert compiled.parameters["actual"]["compiled_programs"] == 1
    assert dynamic.parameters["actual"]["compiled_programs"] == 0
    assert compiled.last["compiled_in_window"] == dynamic.last["compiled_in_window"] == [0]
    assert 0 < compiled.last["compile_s"] < compiled.last["first_step_s"]
    assert compiled.last["suspect"] == []


def test_a_program_that_is_made_after_the_first_step_is_counted() -> None:
    counts = in_paddle("""
import numpy as np
training = opened("--compiler=to_static")
training.step(0)
counts = [training.compilations()]
training.step(1)
counts.append(training.compilations())
# Another type of images than the program was made for.
training.batch = (training.batch[0].astype("float64"), training.batch[1])
training.learner.to(dtype="float64")
try:
    training.learner(*training.batch)
except Exception:
    pass
counts.append(training.compilations())
print(json.dumps(counts))
""")

    assert counts[:2] == [1, 1]
    assert counts[2] == 2


def test_on_a_gpu_cudnns_algorithms_are_searched_for_and_a_rank_has_its_own() -> None:
    told, searched = in_paddle("""
import paddle
from trainmark_worker.paddle.device import algorithm_search, choose_device
from trainmark_worker.core.place import Place
# What PaddlePaddle for CPUs lacks: its flag, and devices.
flags, chosen = {"FLAGS_cudnn_exhaustive_search": False}, []
paddle.set_flags, paddle.get_flags = flags.update, lambda names: flags
paddle.device.is_compiled_with_cuda = lambda: True
paddle.device.set_device = chosen.append
told = []
for seen in (1, 2):
    paddle.device.cuda.device_count = lambda: seen
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    told.append(refused(lambda: choose_device("cuda", Place(1, 2, 1, 2, "127.0.0.1", 1))) or chosen[-1])
print(json.dumps([told, [algorithm_search(device) for device in ("cpu", "cuda")]]))
""")

    assert told[0][0] == "unsupported"
    assert "local rank 1 has no GPU" in told[0][1]
    assert told[1] == "gpu:1"
    assert searched == [None, "cudnn, exhaustive"]


def test_what_is_unsupported_is_said_by_the_card_in_the_same_words() -> None:
    asked: dict[str, dict[str, str]] = {
        "tf32": {"precision": "tf32"},
        "amp-fp16": {"precision": "amp-fp16"},
        "amp-bf16": {"precision": "amp-bf16"},
        "nhwc": {"layout": "nhwc"},
        "cinn": {"compiler": "to_static-cinn"},
    }
    card = read_card(CARD).card
    gaps = {frozenset(gap.when.items()): gap.reason for gap in card.gaps}

    said = in_paddle(f"""
asked = {asked!r}
flags = lambda axes: [f"--{{axis}}={{value}}" for axis, value in axes.items()]
print(json.dumps({{name: refused(lambda: opened(*flags(axes))) for name, axes in asked.items()}}))
""")

    for name, axes in asked.items():
        assert said[name] == ["unsupported", gaps[frozenset({**axes, "device": "cpu"}.items())]]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (
            {"compiler": "xla", "precision": "fp32"},
            "no compiler 'xla'; it has none, to_static, to_static-cinn",
        ),
        ({"precision": "fp16"}, "no precision 'fp16'; it has fp32, tf32, amp-fp16, amp-bf16"),
        ({"device": "cuda"}, "built for CPUs only"),
    ],
)
def test_what_cannot_be_done_here_is_unsupported_before_any_step(
    tmp_path: Path, flags: dict[str, str], said: str
) -> None:
    ran = train(tmp_path, PADDLE, **flags)

    assert ran.code == 3
    assert (ran.last["outcome"], len(ran.events)) == ("unsupported", 1)
    assert said in ran.last["reason"]
    assert ran.last["reason"] in ran.stderr


def test_amp_on_a_cpu_computes_in_fp32_and_does_not_pass_as_amp() -> None:
    fp32, *forced = in_paddle("""
import warnings
from trainmark_worker.paddle.precision import PRECISIONS
warnings.simplefilter("ignore")
train.choose_precision = lambda name, device: PRECISIONS[name]
told = []
for flags in ([], ["--precision=amp-bf16"], ["--precision=amp-fp16"],
              ["--precision=amp-bf16", "--compiler=to_static"]):
    training = opened(*flags)
    for index in range(3):
        training.step(index)
    told.append([training.losses(), refused(training.actual)])
print(json.dumps(told))
""")

    assert fp32[1] is None
    assert [losses for losses, _ in forced] == [fp32[0]] * 3, "PaddlePaddle has learned AMP on a CPU"
    reason = "compute_dtype of the first step was float32, not {} as asked for"
    assert [said for _, said in forced] == [
        ["invalid", reason.format(dtype)] for dtype in ("bfloat16", "float16", "bfloat16")
    ]


def test_a_network_computes_the_same_in_both_layouts() -> None:
    apart = in_paddle("""
import paddle
from trainmark_worker.paddle import observing
from trainmark_worker.paddle.image_classification.networks import Options, build_network
images, apart = paddle.randn([2, 3, 96, 96]), []
for model in ("resnet50_v1.5", "mobilenet_v1"):
    nchw, nhwc = (build_network(model, 10, Options(layout, False)) for layout in ("nchw", "nhwc"))
    weights = observing.read(observing.named_tensors(nchw, model))
    observing.load(observing.named_tensors(nhwc, model), weights)
    nchw.eval(), nhwc.eval()
    one, other = nchw(images), nhwc(paddle.transpose(images, [0, 2, 3, 1]))
    apart.append(float((one - other).norm() / one.norm()))
print(json.dumps(apart))
""")

    assert max(apart) < 1e-5


@pytest.mark.parametrize("compiler", ["none", "to_static"])
def test_the_threads_asked_for_are_those_that_compute(compiler: str) -> None:
    """By the processor time of each thread: a compiled program would else run on a pool of its own."""
    counted, shares = in_paddle(f"""
def ticks():
    fields = {{name: open(f"/proc/self/task/{{name}}/stat").read().rpartition(")")[2].split()
              for name in os.listdir("/proc/self/task")}}
    return {{name: int(values[11]) + int(values[12]) for name, values in fields.items()}}

counted, shares = [], []
for threads in (1, 2):
    training = opened("--image-size=96", "--batch-per-device=8", "--steps=30",
                      f"--threads={{threads}}", "--compiler={compiler}")
    training.step(0)
    before = ticks()
    for index in range(1, 6):
        training.step(index)
    spent = sorted((now - before.get(name, 0) for name, now in ticks().items()), reverse=True)
    counted.append(training.describe()["threads"])
    shares.append([ticked / sum(spent) for ticked in spent])
print(json.dumps([counted, shares]))
""")

    assert counted == [1, 2]
    one, two = shares
    assert one[0] > 0.9
    assert two[1] > 0.1
    assert sum(two[:2]) > 0.9


def test_more_memory_than_allowed_is_an_oom(tmp_path: Path) -> None:
    ran = train(tmp_path, PADDLE, memory_limit=400_000_000, batch_per_device=64, image_size=64)

    assert ran.code == 3
    assert ran.last["outcome"] == "oom"
    assert ran.last["reason"].startswith("the host is out of memory: it could not allocate ")


# Several ranks.


def test_two_ranks_hold_the_same_parameters_after_the_window(tmp_path: Path) -> None:
    first, second = train_together(tmp_path, PADDLE, compiler="to_static")

    assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
    assert first.parameters["backend"] == "gloo"
    assert first.parameters["actual"]["world_size"] == 2
    # Their images differ, so that equal parameters are proof of an exchange.
    assert first.last["ranks_agree"] is True
    assert first.last["rank_samples"] == [8, 8]
    assert second.stdout == ""


@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_that_is_killed_ends_the_other_one_which_says_that_it_lost_it(
    tmp_path: Path, victim: int
) -> None:
    events, port = tmp_path / "events.jsonl", free_ports(8)
    ranks = [
        start_rank({"steps": "100000"}, events, rank_variables(rank, 2, port), PADDLE) for rank in (0, 1)
    ]
    try:
        assert ranks[0].stdout is not None
        # After the second of these both ranks are in the middle of training.
        heard = (line for line in ranks[0].stdout if line.startswith("step "))
        assert next(heard)
        assert next(heard)
        ranks[victim].kill()
        _, stderr = ranks[1 - victim].communicate(timeout=120)
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()

    assert ranks[1 - victim].returncode == 3, stderr
    last = read_events(events if victim else tmp_path / "events.jsonl.rank1")[-1]["data"]
    assert last["outcome"] == "failed"
    assert last["peer_lost"] is True
    assert f"rank {1 - victim}: failed: lost contact with another rank" in stderr


# Real images.


def test_the_number_of_loader_processes_changes_nothing_in_the_images(tmp_path: Path) -> None:
    data = make_images(tmp_path / "data")

    several = train(tmp_path, PADDLE, data=data, loader_workers=2, classes=10)
    none = train(tmp_path, PADDLE, data=data, loader_workers=0, classes=10)

    assert several.code == 0, several.stderr
    assert several.parameters["decoder"] == "simplejpeg+opencv"
    assert several.parameters["epoch_images"] == 12
    assert [step["loss"] for step in several.steps] == [step["loss"] for step in none.steps]
    assert all(step["data_wait_s"] > 0 for step in several.steps)


@pytest.mark.parametrize("model", ["mobilenet_v1", "resnet50_v1.5"])
def test_two_ranks_share_out_the_images_and_their_loss_is_the_mean_of_both_parts(
    tmp_path: Path, model: str
) -> None:
    data = make_images(tmp_path / "data", count=16) / "list.txt"
    # Nothing is learned, so that one process sees in two steps what two ranks see in one.
    still: dict[str, Any] = {"model": model, "data": data, "batch_per_device": 4, "learning_rate": "0"}

    alone = train(tmp_path, PADDLE, **still, steps=4)
    together, _ = train_together(tmp_path, PADDLE, **still, steps=2, warmup_steps=1)

    assert together.code == 0, together.stderr
    parts = [step["loss"] for step in alone.steps]
    assert [step["loss"] for step in together.steps] == pytest.approx(
        [(parts[0] + parts[1]) / 2, (parts[2] + parts[3]) / 2], rel=1e-4
    )


def test_a_png_called_jpeg_and_cmyk_pixels_train_as_imagenet_has_them(tmp_path: Path) -> None:
    folder = make_images(tmp_path / "data", count=2) / "class0"
    with Image.open(folder / "image 0.jpg") as picture:
        picture.save(folder / "png.JPEG", "PNG")
        picture.convert("CMYK").save(folder / "cmyk.JPEG", "JPEG")

    ran = train(tmp_path, PADDLE, data=tmp_path / "data", batch_per_device=4)

    assert ran.code == 0, ran.stderr
    assert ran.parameters["epoch_images"] == 4


@pytest.mark.parametrize("loader_workers", [0, 2])
def test_a_file_that_is_no_whole_jpeg_ends_the_run_and_is_named(tmp_path: Path, loader_workers: int) -> None:
    data = make_images(tmp_path / "data")
    broken = data / "class0" / "image 4.jpg"
    broken.write_bytes(broken.read_bytes()[:200])

    ran = train(tmp_path, PADDLE, data=data, loader_workers=loader_workers, steps=12)

    assert ran.code == 3
    assert ran.last["outcome"] == "failed"
    assert ran.last["reason"].startswith(f"{broken} cannot be decoded")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_no_loader_process_outlives_a_rank_that_is_told_to_stop_or_killed(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    data = make_images(tmp_path / "data")
    rank = start_rank({"steps": "100000", "data": str(data)}, tmp_path / "events.jsonl", {}, PADDLE)
    try:
        assert rank.stdout is not None
        assert any(line.startswith("step ") for line in rank.stdout)
        rank.send_signal(number)
        # The loader's processes hold its ends of the pipes: they are gone when both are at their end.
        _, stderr = rank.communicate(timeout=60)
    finally:
        # Of the whole group: what is left after a failure would hold the test's pipes.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(rank.pid, signal.SIGKILL)

    assert rank.returncode == code
    assert ("stopped by SIGTERM" in stderr) == (number == signal.SIGTERM)


# The same work as the other frameworks do.


def observe(tmp_path: Path, framework: str, model: str, compiler: str = "none", world_size: int = 1) -> Ran:
    """Run the three steps of the equivalence check in a framework, on each rank with the same batch."""
    inputs = tmp_path / "inputs.npz"
    write_inputs(model, inputs)
    flags: dict[str, Any] = dict(word[2:].split("=", 1) for word in worker_flags(model, inputs, compiler))
    if world_size == 1:
        return train(tmp_path, framework, device="cpu", **flags)
    flags["epoch-images"] = int(flags["epoch-images"]) * world_size
    return train_together(tmp_path, framework, device="cpu", **flags)[0]


def seen_in(ran: Ran) -> Observation:
    assert ran.code == 0, ran.stderr
    return ImageObservation.model_validate(ran.last["equivalence"])


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Observation:
    """The steps of MobileNetV1 on one rank, not compiled."""
    return seen_in(observe(tmp_path_factory.mktemp("observed"), PADDLE, "mobilenet_v1"))


def test_two_ranks_average_their_gradients(tmp_path: Path, observed: Observation) -> None:
    together = seen_in(observe(tmp_path, PADDLE, "mobilenet_v1", world_size=2))

    for one, other in zip(observed.steps, together.steps, strict=True):
        for name, update in one.updates.items():
            assert other.updates[name].norm == pytest.approx(update.norm, rel=1e-3), name


def test_a_compiled_step_is_the_one_that_is_not(tmp_path: Path, observed: Observation) -> None:
    ran = observe(tmp_path, PADDLE, "mobilenet_v1", "to_static")

    assert ran.code == 0, ran.stderr
    variant = follows(
        observed, Followed.model_validate(ran.last["equivalence"]), {"layout": "nchw"}, "to_static"
    )
    assert [check for check in variant.checks if not check.holds] == []


@needs_framework("pytorch")
@pytest.mark.parametrize("model", ["mobilenet_v1", "resnet50_v1.5"])
def test_a_step_is_that_of_pytorch(tmp_path: Path, observed: Observation, model: str) -> None:
    mine = observed if model == observed.model else seen_in(observe(tmp_path, PADDLE, model))
    theirs = seen_in(observe(tmp_path, "pytorch", model))

    checks = [*party(mine, {"layout": "nchw"}, None, None).checks, *compare(mine, theirs).checks]
    assert [check for check in checks if not check.holds] == []
    # Closer than the certificate asks of any pair: what these two were seen to reach, with a margin.
    first, other = mine.steps[0], theirs.steps[0]
    assert first.loss == pytest.approx(other.loss, rel=1e-5)
    for name, gradient in first.gradients.items():
        assert gradient.norm == pytest.approx(other.gradients[name].norm, rel=1e-4, abs=1e-5), name
