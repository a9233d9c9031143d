"""What every framework's worker promises, asked of all of them: one run is asked many questions.

What is a framework's own stands in ``idioms.py``, and what only one of them has in its ``test_worker_*.py``.
"""

import math
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from idioms import IDIOMS, Idiom
from PIL import Image
from worker_process import (
    LONG_S,
    Process,
    Ran,
    end_group,
    make_images,
    read_events,
    start_rank,
    start_ranks,
    train,
    train_together,
    wait_for_steps,
)

from frameworks import in_frameworks, of_each, require_bf16
from trainmark.worker.core.queues import AHEAD, DRAIN_STEPS

pytestmark = pytest.mark.training


every_framework = of_each(IDIOMS, scope="module")
COMPILES_LONG = ("jax",)
"""What is baked into a program, such as the rates of its steps, makes it another one, which takes XLA 10 s and more."""
STARTS_LONG = ("jax", "mindspore")
by_two_ranks = of_each(IDIOMS, scope="module", rarely=STARTS_LONG)
Run = Callable[..., Ran]

STEPS, WARMUP, BATCH, IMAGES = 12, 3, 8, 16
SAME: dict[str, Any] = {
    "classes": 10,
    "batch_per_device": BATCH,
    # Steps of which each changes the loss.
    "learning_rate": "0.1",
    "schedule": "constant",
    "warmup_epochs": 0,
}
# Alike in all runs on images, because what is alike is compiled once.
STILL: dict[str, Any] = {"batch_per_device": 4, "learning_rate": "0", "steps": 9}


@pytest.fixture(scope="module")
def idiom(framework: str) -> Idiom:
    return IDIOMS[framework]


@pytest.fixture(scope="module")
def folder(framework: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp(framework)


@pytest.fixture(scope="module")
def whole(framework: str, idiom: Idiom, folder: Path) -> Ran:
    """One run as a user starts it."""
    # OpenMP's variable is the worker's own, and not that of whoever starts it.
    five = {"OMP_NUM_THREADS": "5"}
    return train(folder, framework, five, anew=True, **idiom.flags, **SAME, steps=STEPS, warmup_steps=WARMUP)


@pytest.fixture(scope="module")
def images(idiom: Idiom, folder: Path) -> Path:
    """Return a list of images, of which one is a PNG by the name of a JPEG and one has CMYK pixels, as in ImageNet."""
    root = make_images(folder / "images", IMAGES)
    if not idiom.drawn_crops:
        # Of one colour, which no crop changes.
        for number, path in enumerate(sorted(root.glob("*/*.jpg"))):
            Image.new("RGB", (120, 90), (15 * number, 255 - 15 * number, 128)).save(path)
    for number, kind, mode in ((0, "PNG", "RGB"), (2, "JPEG", "CMYK")):
        path = root / "class0" / f"image {number}.jpg"
        Image.open(path).convert(mode).save(path, format=kind)
    return root / "list.txt"


@pytest.fixture(scope="module")
def real(framework: str, idiom: Idiom, folder: Path, images: Path) -> Ran:
    """A run on real images, from which nothing is learned: each step's loss is that of its images."""
    return train(folder, framework, **idiom.flags, **idiom.images, **STILL, data=images, loader_workers=0)


@pytest.fixture(scope="module")
def ranks(framework: str, idiom: Idiom, folder: Path, images: Path) -> list[Ran]:
    """Two ranks on the same images; those of two frameworks as a launcher starts them."""
    given = {**idiom.flags, **idiom.images, "data": images, "batch_per_device": 4}
    # MXNet's library reads the number of threads when it is loaded.
    anew = framework in ("pytorch", "mxnet")
    return train_together(folder, framework, anew=anew, **given, steps=5, warmup_steps=2, threads=2)


def sound(*all_of: Ran) -> None:
    for ran in all_of:
        assert ran.code == 0, ran.stderr


# A whole run.


@every_framework
def test_a_run_writes_parameters_then_every_step_then_the_summary(whole: Ran, idiom: Idiom) -> None:
    sound(whole)
    assert [event["step"] for event in whole.events] == ["PARAMETER", *([0, i] for i in range(STEPS)), []]
    phases = ["first_step", *["warmup"] * (WARMUP - 1), *["measured"] * (STEPS - WARMUP)]
    assert [step["phase"] for step in whole.steps] == phases
    assert whole.parameters["schema"] == "trainmark.events/1"
    assert (whole.parameters["global_batch"], whole.parameters["threads"]) == (BATCH, 1)
    assert (whole.parameters["task"], whole.parameters["unit"]) == ("image-classification", "images/s")
    assert whole.parameters["work"] == {"images": BATCH}
    assert whole.parameters["framework_version"].startswith(idiom.version)
    assert whole.parameters["backend"] is None
    assert {name: whole.parameters[name] for name in idiom.said} == idiom.said
    assert whole.stdout.splitlines().count("first step") == 1
    assert (whole.last["outcome"], whole.last["suspect"]) == ("ok", [])


@every_framework
def test_a_run_says_what_it_really_computed_with(whole: Ran, idiom: Idiom) -> None:
    actual = whole.parameters["actual"]
    said = {
        "compute_dtype": "float32",
        "weight_dtype": "float32",
        "tf32_matmul": False,
        "tf32_convolution": False,
        "activation_layout": idiom.flags["layout"],
        "weight_layout": idiom.flags["layout"],
        **dict.fromkeys(idiom.unseen),
        **idiom.actual,
        "batch_per_device": BATCH,
        "world_size": 1,
        # mobilenet_tiny's, with a classifier of ten.
        "parameters": 4_320 + 65 * 10,
    }
    # Of a CPU it is known that it has no TF32.
    said.update({name: False for name in idiom.unseen if name.startswith("tf32")})
    assert {name: actual[name] for name in said} == said
    assert actual.get("unseen", []) == [name for name in idiom.unseen if not name.startswith("tf32")]
    assert whole.parameters["parameters"] == actual["parameters"]


@every_framework
def test_the_window_is_made_of_the_measured_steps_alone(whole: Ran) -> None:
    measured, before = (
        [step["step_time_s"] for step in whole.steps if (step["phase"] == "measured") is wanted]
        for wanted in (True, False)
    )
    assert len(measured) == STEPS - WARMUP
    # A busy machine may come late to the window's end; a window that held more steps would be longer by those.
    late = whole.last["window_s"] - sum(measured)
    assert -0.01 * sum(measured) <= late < sum(before)
    assert whole.last["samples"] == BATCH * (STEPS - WARMUP)
    assert whole.last["work"] == {"images": whole.last["samples"]}
    assert whole.last["throughput"] == whole.last["samples"] / whole.last["window_s"]


@every_framework
def test_compiling_is_in_the_first_step_and_not_in_the_window(whole: Ran, idiom: Idiom) -> None:
    assert whole.last["compiled_in_window"] == [0]
    if idiom.flags["compiler"] != "none" and whole.last["compile_s"] is not None:
        assert 0 < whole.last["compile_s"] <= whole.last["first_step_s"]


@every_framework
def test_the_first_loss_is_near_that_of_guessing_and_each_step_has_its_own(whole: Ran) -> None:
    losses = [step["loss"] for step in whole.steps]
    assert abs(losses[0] - math.log(10)) < 1
    assert len(set(losses)) == STEPS


@of_each(IDIOMS, scope="module", rarely=COMPILES_LONG)
def test_without_the_compiler_the_same_is_trained(
    framework: str, idiom: Idiom, whole: Ran, tmp_path: Path
) -> None:
    if idiom.eager is None:
        pytest.skip(
            "the idiom has no compiler; another compiler's steps are held against it in test_equal_work.py"
        )
    ran = train(tmp_path, framework, **idiom.eager, **SAME, steps=4, warmup_steps=1)

    sound(ran)
    # Weights and batch are the seed's: rounding alone is different.
    expected = [step["loss"] for step in whole.steps[:3]]
    assert [step["loss"] for step in ran.steps[:3]] == pytest.approx(expected, rel=1e-3)
    actual = ran.parameters["actual"]
    assert actual["compute_dtype"] == "float32"
    assert {name: actual[name] for name in idiom.eager_actual} == idiom.eager_actual
    if not idiom.compiles_operations:
        assert ran.last["compiled_in_window"] == [0]
        assert ran.last["compile_s"] is None


# Other ways to compute, and what cannot be had.


def cases(rows: Callable[[Idiom], tuple[tuple[Any, ...], ...]], often: int = 100) -> list[Any]:
    """Return the rows of all frameworks, those after the first ones rare; each begins with flags, its test's name."""
    return [
        pytest.param(
            name,
            *row,
            marks=in_frameworks(name, rarely=number >= often),
            id="-".join([name, *map(str, row[0].values())]),
        )
        for name, idiom in IDIOMS.items()
        for number, row in enumerate(rows(idiom))
    ]


@pytest.mark.parametrize(
    ("framework", "given", "compute", "weights"), cases(lambda idiom: idiom.precisions, often=1)
)
def test_a_run_in_another_precision_computes_in_it(
    framework: str, given: dict[str, Any], compute: str, weights: str, tmp_path: Path
) -> None:
    require_bf16(framework, given.get("layout") if "bf16" in str(given.get("precision")) else None)
    idiom = IDIOMS[framework]
    wanted = {**idiom.flags, **given}
    # With rates that are not warmed up, a step that was skipped for an overflow shows as a loss that stands still.
    visible: dict[str, Any] = {"schedule": "constant", "warmup_epochs": 0, "learning_rate": "0.01"}
    ran = train(tmp_path, framework, **wanted, **visible, batch_per_device=4, steps=5)

    sound(ran)
    actual = ran.parameters["actual"]
    assert (actual["compute_dtype"], actual["weight_dtype"]) == (compute, weights)
    assert actual["activation_layout"] == wanted["layout"]
    assert actual["weight_layout"] == (None if "weight_layout" in idiom.unseen else wanted["layout"])
    assert all(step["loss"] is not None for step in ran.steps)
    assert ran.last["compiled_in_window"] == [0]
    assert ran.last["suspect"] == []


@pytest.mark.parametrize(("framework", "given", "said"), cases(lambda idiom: idiom.refused))
def test_what_cannot_be_done_here_is_unsupported_before_any_step(
    framework: str, given: dict[str, Any], said: str, tmp_path: Path
) -> None:
    ran = train(tmp_path, framework, **{**(IDIOMS[framework].eager or IDIOMS[framework].flags), **given})

    assert (ran.code, ran.last["outcome"]) == (3, "unsupported")
    assert said in ran.last["reason"]
    assert ran.last["reason"] in ran.stderr
    assert len(ran.events) == 1
    assert "Traceback" not in ran.stderr


@of_each(IDIOMS, scope="module", rarely=COMPILES_LONG)
def test_a_loss_that_becomes_nan_is_said_and_the_run_is_kept(
    framework: str, idiom: Idiom, tmp_path: Path
) -> None:
    if not idiom.shows_nan:
        pytest.skip("its ReLU makes 0 of NaN")
    given: dict[str, Any] = {"learning_rate": "1e30", "schedule": "constant", "warmup_epochs": 0}
    ran = train(tmp_path, framework, **idiom.flags, **given)

    sound(ran)
    assert ran.last["outcome"] == "ok"
    assert [entry["code"] for entry in ran.last["suspect"]] == ["loss-not-finite"]
    assert any(step["loss"] is None and step["loss_finite"] is False for step in ran.steps)


@of_each(IDIOMS, scope="module", rarely=STARTS_LONG)
def test_a_run_that_gets_less_memory_than_it_needs_is_oom(
    framework: str, idiom: Idiom, tmp_path: Path
) -> None:
    ran = train(tmp_path, framework, model="mobilenet_v1", **idiom.flags, **idiom.little_memory)

    assert (ran.code, ran.last["outcome"]) == (3, "oom"), ran.stderr
    assert "throughput" not in ran.last
    # It is known but where the model itself could not be made.
    peak = ran.last.get("peak_memory_bytes")
    assert ("GiB was the most in use before (" in ran.last["reason"]) == (peak is not None)
    assert framework != "pytorch" or ran.last["peak_memory_bytes"] > 2**20
    assert "Traceback" not in ran.stderr


# Real images.


@every_framework
def test_real_images_are_trained_on_and_their_decoder_is_named(real: Ran, idiom: Idiom) -> None:
    sound(real)
    assert real.parameters["decoder"].startswith(idiom.decoder)
    assert real.parameters["decoder"]
    assert real.parameters["epoch_images"] == IMAGES
    assert real.parameters["loader_workers"] == idiom.workers[0]
    assert [event["step"][0] for event in real.events[1:-1]] == [
        i * 4 // IMAGES for i in range(9 + DRAIN_STEPS)
    ]
    assert all(step["loss"] is not None for step in real.steps)
    assert any(step["data_wait_s"] > 0 for step in real.steps)


@every_framework
def test_the_number_of_loader_workers_changes_nothing_in_what_is_trained(
    framework: str, idiom: Idiom, real: Ran, images: Path, tmp_path: Path
) -> None:
    ran = train(tmp_path, framework, **idiom.flags, **idiom.images, **STILL, data=images, loader_workers=2)

    sound(ran)
    assert ran.parameters["loader_workers"] == idiom.workers[1]
    # Counted where they are made, and never many batches ahead.
    loading = ran.last["loading"]
    assert loading["consumed"] == [4 * 7]
    assert loading["produced"][0] > 0
    most = max(loading["in_flight_after_first_step"] + loading["in_flight_at_begin"])
    assert most <= loading["ahead_batches"][0] <= AHEAD + 1
    assert [step["loss"] for step in ran.steps] == pytest.approx([step["loss"] for step in real.steps])


@every_framework
@pytest.mark.parametrize(
    ("workers", "content"), [(0, b"no JPEG at all \xff\xd9"), (2, None)], ids=["no-jpeg", "cut-off"]
)
def test_a_file_that_is_no_whole_jpeg_ends_the_run_and_is_named(
    framework: str, idiom: Idiom, workers: int, content: bytes | None, tmp_path: Path
) -> None:
    broken = make_images(tmp_path / "images") / "class1" / "image 3.jpg"
    broken.write_bytes(content or broken.read_bytes()[:500])
    given = {**idiom.flags, **idiom.images, **STILL, "data": tmp_path / "images", "loader_workers": workers}
    ran = train(tmp_path, framework, **given)

    assert (ran.code, ran.last["outcome"]) == (3, "failed")
    assert str(broken) in ran.last["reason"]
    assert "Traceback" not in ran.stderr


# The peaks.


@every_framework
def test_the_least_time_of_a_step_is_told_by_what_the_device_gave(whole: Ran) -> None:
    last = whole.last
    if last["peak_operations_per_s"] is None:
        # Its worker has no product to measure.
        assert "roofline" not in last
        return
    (operations,), (moved,), floor = last["peak_operations_per_s"], last["peak_bytes_per_s"], last["floor"]
    assert moved > 1e8
    assert (last["peak_bytes_type"], last["peak_bytes_of"][-7:]) == ("float32", "float32")
    assert floor["step_s"] >= max(floor["operations_s"], floor["bytes_s"])
    counted = last["operations_per_sample"]["counted"] * BATCH / operations
    # Images have no gradient: a little less.
    assert 0.8 * counted < floor["operations_s"] < counted
    share = floor["step_s"] / (last["window_s"] / (STEPS - WARMUP))
    assert last["roofline"] == (pytest.approx(share) if share <= 1 else None)


# Two ranks.


@by_two_ranks
def test_two_ranks_hold_the_same_parameters_after_the_window(ranks: list[Ran], idiom: Idiom) -> None:
    first, second = ranks
    sound(first, second)
    assert first.parameters["world_size"] == first.parameters["actual"]["world_size"] == 2
    assert first.parameters["backend"] == idiom.backend
    assert first.parameters["threads"] == 2
    # Their images differ, so that equal parameters are proof of an exchange.
    assert first.last["ranks_agree"] is True
    assert first.doubts == []
    assert first.last["rank_samples"] == [12, 12]
    assert first.last["samples"] == 24
    assert len(first.last["peak_memory_bytes"]) == 2


@by_two_ranks
def test_the_window_of_two_ranks_is_that_of_the_slowest(ranks: list[Ran]) -> None:
    first, _ = ranks
    assert first.last["window_s"] == max(first.last["rank_windows_s"])
    assert first.last["throughput"] == first.last["samples"] / first.last["window_s"]
    assert min(first.last["rank_windows_s"]) > 0


@by_two_ranks
def test_each_rank_passes_its_batch_alone_and_the_exchange_is_timed_by_itself(
    framework: str, ranks: list[Ran]
) -> None:
    apart = ranks[0].last["apart"]
    if framework != "pytorch":
        pytest.skip(f"the worker of {framework} shows neither")
    assert len(apart["pass_s"]) == len(apart["all_reduce_s"]) == 2
    assert min(*apart["pass_s"], *apart["all_reduce_s"]) > 0
    assert apart["all_reduce_bytes"] == 4 * ranks[0].parameters["parameters"]


@by_two_ranks
def test_ranks_leave_together_and_the_second_says_nothing(ranks: list[Ran]) -> None:
    _, second = ranks
    # Gloo itself tells that it is connected.
    assert all(line.startswith("[Gloo]") for line in second.stdout.splitlines())
    assert second.events == []
    assert "Traceback" not in second.stderr


@by_two_ranks
def test_the_loss_of_two_ranks_is_the_mean_of_their_parts_of_the_images(
    ranks: list[Ran], real: Ran, idiom: Idiom
) -> None:
    if not idiom.deals_batches:
        pytest.skip(
            "no batch of one process is a batch of two ranks here; who gets what has a test of its own"
        )
    first, _ = ranks
    parts = [step["loss"] for step in real.steps[:2]]
    # Both began with the same weights, and one process saw in two steps what two ranks see in one.
    assert first.steps[0]["loss"] == pytest.approx(sum(parts) / 2, rel=1e-4)


@by_two_ranks
@pytest.mark.parametrize("victim", [pytest.param(0, marks=pytest.mark.rare), 1])
def test_a_rank_that_is_killed_ends_the_other_one_which_says_that_it_lost_it(
    framework: str, idiom: Idiom, victim: int, tmp_path: Path
) -> None:
    events = tmp_path / "events.jsonl"
    ranks = start_ranks({**idiom.flags, "steps": 100_000}, events, framework)
    try:
        # After the second beat both are in the middle of training.
        wait_for_steps(ranks[0], 2)
        ranks[victim].kill()
        _, stderr = ranks[1 - victim].communicate(timeout=LONG_S)
    finally:
        for rank in ranks:
            end_group(rank)

    assert ranks[1 - victim].returncode == 3, stderr
    own = events if victim == 1 else events.with_name("events.jsonl.rank1")
    last = read_events(own)[-1]["data"]
    assert (last["outcome"], last["peer_lost"]) == ("failed", True)
    assert f"rank {1 - victim}: failed: lost contact with another rank" in stderr


# How a run can end otherwise.


@pytest.fixture
def endless(framework: str, idiom: Idiom, tmp_path: Path) -> Iterator[Process]:
    """A run on real images that is in the middle of training."""
    data = make_images(tmp_path / "images")
    given = {**idiom.flags, **idiom.images, "data": data, "steps": 1_000_000, "loader_workers": 2}
    process = start_rank(given, tmp_path / "events.jsonl", {}, framework)
    try:
        wait_for_steps(process)
        yield process
    finally:
        end_group(process)


@of_each(IDIOMS, scope="module", rarely=COMPILES_LONG)
def test_sigterm_ends_it_with_a_line_and_takes_its_loaders_along(endless: Process, tmp_path: Path) -> None:
    endless.send_signal(signal.SIGTERM)
    # The pipes close only when the loader processes, which inherited them, are gone too.
    _, stderr = endless.communicate(timeout=LONG_S)

    assert endless.returncode == 128 + signal.SIGTERM
    # Not always the last line: Python's tracker of shared memory, a process of its own, may complain after it.
    assert "\ntrainmark-worker: rank 0: stopped by SIGTERM, while it was in " in f"\n{stderr}"
    # What was asked and what it really was stands there already; no step and no result does.
    assert [event["step"] for event in read_events(tmp_path / "events.jsonl")] == ["PARAMETER"]


@pytest.mark.rare
@every_framework
def test_no_loader_outlives_a_run_that_is_killed(endless: Process) -> None:
    endless.kill()
    # To the end of its pipes, which its loaders hold too.
    endless.communicate(timeout=LONG_S)

    assert endless.returncode == -signal.SIGKILL
