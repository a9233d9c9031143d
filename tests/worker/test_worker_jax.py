"""The JAX worker as a real process: what it trains, what it says it trained, and how it ends."""

import json
import math
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from worker_process import WORKER, Ran, make_images, read_events, start_rank, train

from frameworks import framework_python, needs_framework

pytestmark = [pytest.mark.training, needs_framework("jax")]

JAX: dict[str, Any] = {"framework": "jax", "layout": "nhwc", "compiler": "xla"}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return train(
        tmp_path_factory.mktemp("plain"), **JAX, classes=10, batch_per_device=8, steps=12, warmup_steps=3
    )


def test_a_run_writes_parameters_then_every_step_then_the_summary(plain: Ran) -> None:
    assert plain.code == 0, plain.stderr
    assert [event["step"] for event in plain.events] == ["PARAMETER", *([0, i] for i in range(12)), []]
    assert plain.parameters["parameters"] == 4_231_976 - 990 * 1025
    assert plain.last["outcome"] == "ok"
    assert plain.last["suspect"] == []
    assert abs(plain.steps[0]["loss"] - math.log(10)) < 1


def test_the_window_is_the_sum_of_its_steps_although_the_host_runs_ahead(plain: Ran) -> None:
    measured = [step["step_time_s"] for step in plain.steps if step["phase"] == "measured"]

    assert len(measured) == 9
    assert math.isclose(sum(measured), plain.last["window_s"], rel_tol=0.02)
    assert plain.last["throughput"] == plain.last["samples"] / plain.last["window_s"]


def test_compiling_is_counted_and_happens_in_the_first_step_alone(plain: Ran) -> None:
    assert 0 < plain.last["compile_s"] <= plain.last["first_step_s"]
    assert plain.last["compiled_in_window"] == [0]


def test_a_program_that_is_compiled_in_the_window_makes_the_run_suspect() -> None:
    said = in_jax("""
import json, jax, jax.numpy as jnp
from trainmark_worker.core.arguments import parse
from trainmark_worker.jax.image_classification import open_training
from trainmark_worker.core.place import place_from
from trainmark_worker.core.window import measure
flags = "--framework jax --model mobilenet_v1 --compiler xla --layout nhwc --classes 3 --steps 4 --warmup-steps 2"
settings = parse([*flags.split(), "--batch-per-device=2", "--image-size=32", "--device=cpu"], 1)
training = open_training(settings, place_from({}))
quiet = measure(training, 4, 2, lambda: None).compiled_in_window
whole = training.train
def train(index):
    whole(index)
    if index == 3:
        jax.jit(lambda values: values * 3)(jnp.zeros(5))
training.train = train
print(json.dumps([quiet, measure(training, 4, 2, lambda: None).compiled_in_window]))
""")

    quiet, compiled = json.loads(said)
    assert quiet == 0
    assert compiled > 0


def test_threads_bound_the_pool_that_computes(plain: Ran) -> None:
    assert plain.parameters["threads"] == 1


def test_what_was_seen_of_the_layout_is_of_the_program_and_of_what_xla_made_of_it(plain: Ran) -> None:
    actual = plain.parameters["actual"]
    assert (actual["activation_layout"], actual["compiled_layout"]) == ("nhwc", "nhwc")
    assert (actual["weight_layout"], actual["unseen"]) == (None, ["weight_layout"])


@pytest.mark.parametrize(
    ("precision", "compute", "weights"),
    [
        ("amp-bf16", "bfloat16", "float32"),
        ("amp-fp16", "float16", "float32"),
        ("bf16", "bfloat16", "bfloat16"),
    ],
)
def test_a_run_says_in_which_type_it_really_computed(
    tmp_path: Path, precision: str, compute: str, weights: str
) -> None:
    ran = train(tmp_path, **JAX, precision=precision, threads=2, steps=4)

    assert ran.code == 0, ran.stderr
    actual = ran.parameters["actual"]
    assert actual["compute_dtype"] == compute
    assert actual["weight_dtype"] == weights
    assert actual["compiled_dtype"] is not None
    assert ran.parameters["threads"] == 2
    assert all(step["loss"] is not None for step in ran.steps)
    assert ran.last["suspect"] == []


def test_without_a_compiler_each_operation_is_dispatched_and_the_step_is_the_same(
    tmp_path: Path, plain: Ran
) -> None:
    ran = train(
        tmp_path, **{**JAX, "compiler": "none"}, classes=10, batch_per_device=8, steps=3, warmup_steps=1
    )

    assert ran.code == 0, ran.stderr
    # Weights and batch are the seed's: rounding alone is different.
    assert [step["loss"] for step in ran.steps] == pytest.approx(
        [step["loss"] for step in plain.steps[:3]], rel=1e-3
    )
    assert ran.parameters["actual"]["compute_dtype"] == "float32"
    assert ran.parameters["actual"]["compiled_dtype"] is None


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"precision": "tf32"}, "a CPU has no TF32"),
        ({"precision": "fp16"}, "JAX has no precision 'fp16'"),
        ({"compiler": "torch.compile"}, "no compiler 'torch.compile'"),
        ({"layout": "nchw"}, "Flax has no layout 'nchw'; it has nhwc"),
        ({"data": "/nowhere", "loader": "dali"}, "no loader 'dali'"),
        ({"device": "cuda"}, "cuda"),
    ],
)
def test_what_cannot_be_done_here_is_unsupported_before_any_step(
    tmp_path: Path, flags: dict[str, str], said: str
) -> None:
    if flags.get("device") == "cuda" and Path("/dev/nvidiactl").exists():
        pytest.skip("there is an NVIDIA GPU here")

    ran = train(tmp_path, **{**JAX, "device": "cpu", **flags})

    assert (ran.code, ran.last["outcome"]) == (3, "unsupported")
    assert said in ran.last["reason"]
    assert len(ran.events) == 1


def in_jax(code: str) -> str:
    """Run a piece of Python in JAX's environment, with the worker loaded; return its last line."""
    loaded = f"import sys; sys.path.insert(0, {str(WORKER)!r}); import start\n"
    python = framework_python("jax")
    done = subprocess.run(
        [python, "-c", loaded + code], capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_gpus_are_counted_without_starting_jax() -> None:
    said = in_jax("""
import json, os
from trainmark_worker.jax.device import _gpus_shown
shown = []
for named in ("2", "0,1", ""):
    os.environ["CUDA_VISIBLE_DEVICES"] = named
    shown.append(_gpus_shown())
del os.environ["CUDA_VISIBLE_DEVICES"]
print(json.dumps([*shown, _gpus_shown()]))
""")

    driver = [path for path in Path("/dev").glob("nvidia*") if path.name[len("nvidia") :].isdigit()]
    assert json.loads(said) == [1, 2, 0, len(driver)]


def test_a_step_that_computes_in_another_type_than_asked_is_invalid() -> None:
    said = in_jax("""
import jax.numpy as jnp
from trainmark_worker.core.arguments import parse
from trainmark_worker.core.outcomes import RunError
from trainmark_worker.core.place import place_from
from trainmark_worker.jax.precision import PRECISIONS
from trainmark_worker.jax.image_classification import train
flags = "--framework jax --model mobilenet_v1 --compiler xla --layout nhwc --precision amp-bf16 --classes 3"
settings = parse([*flags.split(), "--batch-per-device=1", "--image-size=32", "--device=cpu"], 1)
real = train.build_model
train.build_model = lambda name, classes, precision: real(name, classes, PRECISIONS["fp32"])
training = train.open_training(settings, place_from({}))
training.step(0)
try:
    training.actual()
except RunError as error:
    print(error)
""")

    assert said == "invalid: compute_dtype of the first step was float32, not bfloat16 as asked for"


def test_an_overflow_leaves_weights_and_momentum_and_halves_the_scale() -> None:
    said = in_jax("""
import json, jax, jax.numpy as jnp
from flax.training.dynamic_scale import DynamicScale
from trainmark_worker.core.arguments import parse
from trainmark_worker.jax.image_classification.state import TrainState, make_step, optimizer
recipe = parse(["--framework", "jax"], 1).recipe
update, params = optimizer(recipe), {"classifier": {"kernel": jnp.ones(4)}}
def loss_of(params, batch_stats, batch):
    return (params["classifier"]["kernel"] * batch).sum(), (None, {"batch_stats": {}})
step = jax.jit(make_step(loss_of, update, [0.5, 0.5], None))
state = TrainState(jnp.zeros((), jnp.int32), params, {}, update.init(params), DynamicScale(scale=jnp.float32(8)))
over, _ = step(state, jnp.float32(jnp.inf))
good, _ = step(over, jnp.float32(1))
kernels = [float(s.params["classifier"]["kernel"][0]) for s in (over, good)]
print(json.dumps([*kernels, float(over.scale.scale), int(good.step)]))
""")

    decay = 3.0517578125e-05
    skipped, moved, scale, steps = json.loads(said)
    assert skipped == 1
    assert moved == pytest.approx(1 - 0.5 * (1 + decay), rel=1e-6)
    assert (scale, steps) == (4, 2)


def test_a_batch_that_does_not_fit_the_memory_limit_is_an_oom(tmp_path: Path) -> None:
    ran = train(tmp_path, **JAX, batch_per_device=20_000, image_size=64, memory_limit=3_000_000_000)

    assert (ran.code, ran.last["outcome"]) == (3, "oom"), ran.stderr
    assert "throughput" not in ran.last
    assert "Traceback" not in ran.stderr


def test_real_images_are_trained_on_and_the_decoder_is_named(tmp_path: Path) -> None:
    make_images(tmp_path / "data")
    data = tmp_path / "data" / "list.txt"

    # MobileNet sees real images in test_worker_jax_ranks.py, with one rank and with two.
    ran = train(tmp_path, **JAX, model="resnet50_v1.5", data=data, steps=9, classes=10)

    assert ran.code == 0, ran.stderr
    assert ran.parameters["decoder"]
    assert ran.parameters["epoch_images"] == 12
    assert [event["step"][0] for event in ran.events[1:-1]] == [i * 2 // 12 for i in range(9)]
    assert any(step["data_wait_s"] > 0 for step in ran.steps)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_corrupt_image_fails_the_run_by_its_name(tmp_path: Path, workers: int) -> None:
    make_images(tmp_path / "data")
    broken = tmp_path / "data" / "class1" / "image 3.jpg"
    broken.write_bytes(broken.read_bytes()[:500])

    ran = train(tmp_path, **JAX, data=tmp_path / "data", loader_workers=workers, steps=30)

    assert (ran.code, ran.last["outcome"]) == (3, "failed")
    assert str(broken) in ran.last["reason"]
    assert "Traceback" not in ran.stderr


def test_a_loader_process_that_is_killed_fails_the_run(tmp_path: Path) -> None:
    data = str(make_images(tmp_path / "data"))
    events = tmp_path / "events.jsonl"
    flags = {"layout": "nhwc", "compiler": "xla", "steps": "1000000", "data": data}
    process = start_rank(flags, events, {}, "jax")
    try:
        assert process.stdout is not None
        assert any(line.startswith("step ") for line in process.stdout)
        # Grain starts its processes from threads, and the system keeps children by thread.
        tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
        children = [pid for task in tasks for pid in task.read_text(encoding="ascii").split()]
        # Beside the loaders there is Python's own tracker of shared memory.
        loaders = [pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        os.kill(int(loaders[0]), signal.SIGKILL)
        process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)

    assert process.returncode == 3
    last = read_events(events)[-1]["data"]
    assert last["outcome"] == "failed"
    assert last["reason"].startswith("a loader process ended")


def test_the_compiled_program_says_what_became_of_the_forward_convolutions() -> None:
    said = in_jax("""
import json
from trainmark_worker.jax.compiling import compiled_convolutions
cpu = '%a = f32[8,16,16,64]{3,2,1,0} convolution(%p, %q), dim_labels=b01f_01io->b01f, metadata={op_name="jvp(M)/conv"}'
back = '%b = f16[3,3,3,64]{3,2,1,0} convolution(%p), dim_labels=f01b_i01o->01bf, metadata={op_name="transpose(jvp(M))"}'
gpu = '%c = (bf16[8,64,16,16]{3,2,1,0}, u8[0]{0}) custom-call(), dim_labels=bf01_oi01->bf01, metadata={op_name="M"}'
print(json.dumps([compiled_convolutions(text) for text in (cpu, cpu + chr(10) + back, cpu + chr(10) + gpu, "")]))
""")

    assert json.loads(said) == [["f32", "nhwc"], ["f32", "nhwc"], ["bf16+f32", "nchw+nhwc"], None]
