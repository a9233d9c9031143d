"""What JAX's worker alone has: what XLA made of a program, its update, its devices, and how its loaders can end."""

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worker_process import (
    LONG_S,
    WORKER,
    beside,
    end_group,
    make_images,
    rank_variables,
    read_events,
    start_rank,
    train,
    wait_for_steps,
)

from frameworks import framework_python, needs_framework
from trainmark.node.stacks import read_stack
from trainmark.placement import free_ports

pytestmark = [pytest.mark.training, needs_framework("jax"), pytest.mark.xdist_group("worker-jax")]

JAX: dict[str, Any] = {"layout": "nhwc", "compiler": "xla"}


def test_a_program_that_is_compiled_in_the_window_makes_the_run_suspect() -> None:
    said = beside(
        "jax",
        """
import json, jax, jax.numpy as jnp
from trainmark_worker.core.arguments import parse
from trainmark_worker.models.jax_image_classification import open_training
from trainmark_worker.core.place import place_from
from trainmark_worker.core.window import measure
flags = "--framework jax --model mobilenet_tiny --compiler xla --layout nhwc --classes 3 --steps 4 --warmup-steps 2"
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
""",
    )

    quiet, compiled = said
    assert quiet == 0
    assert compiled > 0


def test_gpus_are_counted_without_starting_jax() -> None:
    said = beside(
        "jax",
        """
import json, os
from trainmark_worker.backends.jax.collectives import _gpus_shown
shown = []
for named in ("2", "0,1", ""):
    os.environ["CUDA_VISIBLE_DEVICES"] = named
    shown.append(_gpus_shown())
del os.environ["CUDA_VISIBLE_DEVICES"]
print(json.dumps([*shown, _gpus_shown()]))
""",
    )

    driver = [path for path in Path("/dev").glob("nvidia*") if path.name[len("nvidia") :].isdigit()]
    assert said == [1, 2, 0, len(driver)]


def test_only_products_of_32_bits_are_told_how_exact_to_be() -> None:
    said = beside(
        "jax",
        """
import jax
from trainmark_worker.backends.jax.backend import choose_precision
said = {}
for name in ("fp32", "tf32", "amp-bf16", "amp-fp16", "bf16"):
    choose_precision(name)
    said[name] = jax.config.jax_default_matmul_precision
print(json.dumps(said))
""",
    )

    assert said == {
        "fp32": "highest",
        "tf32": "tensorfloat32",
        "amp-bf16": None,
        "amp-fp16": None,
        "bf16": None,
    }


def test_a_step_that_computes_in_another_type_than_asked_is_invalid() -> None:
    said = beside(
        "jax",
        """
import jax.numpy as jnp
from trainmark_worker.core.arguments import parse
from trainmark_worker.core.outcomes import RunError
from trainmark_worker.core.place import place_from
from trainmark_worker.core.precision import PRECISIONS
from trainmark_worker.models import jax_image_classification as train
flags = "--framework jax --model mobilenet_tiny --compiler xla --layout nhwc --precision amp-bf16 --classes 3"
settings = parse([*flags.split(), "--batch-per-device=1", "--image-size=32", "--device=cpu"], 1)
real = train.Network
train.Network = lambda name, classes, precision: real(name, classes, PRECISIONS["fp32"])
training = train.open_training(settings, place_from({}))
training.step(0)
try:
    training.actual()
except RunError as error:
    print(json.dumps(str(error)))
""",
    )

    assert said == "invalid: compute_dtype of the first step was float32, not bfloat16 as requested"


def test_an_overflow_leaves_weights_and_momentum_and_halves_the_scale() -> None:
    said = beside(
        "jax",
        """
import json, jax, jax.numpy as jnp
from flax.training.dynamic_scale import DynamicScale
from trainmark_worker.core.arguments import parse
from trainmark_worker.backends.jax.backend import TrainState, make_step, optimizer
recipe = parse(["--framework", "jax"], 1).recipe
update, params = optimizer(recipe), {"classifier": {"kernel": jnp.ones(4)}}
def loss_of(params, batch_stats, batch):
    return (params["classifier"]["kernel"] * batch).sum(), (None, {"batch_stats": {}})
step = jax.jit(make_step(loss_of, update, [0.5, 0.5], None))
state = TrainState(jnp.zeros((), jnp.int32), params, {}, update.init(params), DynamicScale(scale=jnp.float32(8)))
over, _ = step(state, jnp.float32(jnp.inf))
good, _ = step(over, jnp.float32(1))
kernels = [float(s.params["classifier"]["kernel"][0]) for s in (over, good)]
print(json.dumps([*kernels, float(over.scale.scale), int(good.step), int(good.taken)]))
""",
    )

    decay = 3.0517578125e-05
    skipped, moved, scale, steps, taken = said
    assert skipped == 1
    assert moved == pytest.approx(1 - 0.5 * (1 + decay), rel=1e-6)
    assert (scale, steps, taken) == (4, 2, 1)


def test_a_loader_process_that_is_killed_fails_the_run(tmp_path: Path) -> None:
    data = str(make_images(tmp_path / "data"))
    events = tmp_path / "events.jsonl"
    flags = {**JAX, "steps": "1000000", "data": data}
    process = start_rank(flags, events, {}, "jax")
    try:
        wait_for_steps(process)
        # Grain starts its processes from threads, and the system keeps children by thread.
        tasks = Path(f"/proc/{process.pid}/task").glob("*/children")
        children = [pid for task in tasks for pid in task.read_text(encoding="ascii").split()]
        # Beside the loaders there is Python's own tracker of shared memory.
        loaders = [pid for pid in children if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()]
        os.kill(int(loaders[0]), signal.SIGKILL)
        process.communicate(timeout=LONG_S)
    finally:
        end_group(process)

    assert process.returncode == 3
    last = read_events(events)[-1]["data"]
    assert last["outcome"] == "failed"
    assert last["reason"].startswith("a loader process ended")


def test_the_compiled_program_says_what_became_of_the_forward_convolutions() -> None:
    said = beside(
        "jax",
        """
import json
from trainmark_worker.models.jax_image_classification import compiled_convolutions
cpu = '%a = f32[8,16,16,64]{3,2,1,0} convolution(%p, %q), dim_labels=b01f_01io->b01f, metadata={op_name="jvp(M)/conv"}'
back = '%b = f16[3,3,3,64]{3,2,1,0} convolution(%p), dim_labels=f01b_i01o->01bf, metadata={op_name="transpose(jvp(M))"}'
gpu = '%c = (bf16[8,64,16,16]{3,2,1,0}, u8[0]{0}) custom-call(), dim_labels=bf01_oi01->bf01, metadata={op_name="M"}'
print(json.dumps([compiled_convolutions(text) for text in (cpu, cpu + chr(10) + back, cpu + chr(10) + gpu, "")]))
""",
    )

    assert said == [["f32", "nhwc"], ["f32", "nhwc"], ["bf16+f32", "nchw+nhwc"], [None, None]]


def test_several_ranks_without_a_compiler_are_unsupported_before_they_meet(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"

    # Alone: it must not wait for the other one.
    variables = rank_variables(0, 2, free_ports(8))
    process = start_rank({"layout": "nhwc", "compiler": "none"}, events, variables, "jax")
    with process:
        process.communicate(timeout=LONG_S)

    assert process.returncode == 3
    last = read_events(events)[-1]["data"]
    assert last["outcome"] == "unsupported"
    assert "several ranks need the compiler xla" in last["reason"]


@pytest.mark.skipif(Path("/dev/nvidiactl").exists(), reason="there is an NVIDIA GPU here")
def test_without_a_gpu_cuda_is_unsupported(tmp_path: Path) -> None:
    ran = train(tmp_path, "jax", **JAX, device="cuda")

    assert (ran.code, ran.last["outcome"]) == (3, "unsupported")
    assert "cuda" in ran.last["reason"]
    assert len(ran.events) == 1


A_RANK_THAT_ONLY_WAITS = """
import os, sys, threading, time
from trainmark_worker.core.place import place_from
from trainmark_worker.backends.jax import collectives
threading.excepthook = lambda failure: (print(failure.exc_value, flush=True), os._exit(3))
collectives.meet(place_from(), "cpu")
print("met", flush=True)
if os.environ["RANK"] == "1" and {aborts}:
    os.abort()
time.sleep(300)
"""


@pytest.mark.parametrize(
    ("aborts", "strike", "code", "says"),
    [
        pytest.param(
            False,
            lambda ranks: ranks[0].kill(),
            3,
            "failed: lost contact with another rank: JAX's service has ended\n",
            id="rank 0 is killed",
        ),
        pytest.param(True, lambda _ranks: None, -signal.SIGABRT, "", id="rank 1 aborts by itself"),
        pytest.param(
            False,
            lambda ranks: ranks[1].send_signal(signal.SIGABRT),
            -signal.SIGABRT,
            "",
            id="rank 1 is asked where it is",
        ),
    ],
)
def test_jax_own_abort_is_told_as_a_lost_rank_and_another_abort_is_not(
    aborts: bool, strike: Callable[[list["subprocess.Popen[str]"]], None], code: int, says: str
) -> None:
    # In no collective, so that gloo, which often notices a lost rank first, cannot.
    port = free_ports(1)
    source = f"import sys; sys.path.insert(0, {str(WORKER)!r}); import start\n"
    source += A_RANK_THAT_ONLY_WAITS.format(aborts=aborts)
    ranks = [
        subprocess.Popen(
            [framework_python("jax"), "-c", source],
            env={**os.environ, **rank_variables(rank, 2, port), "PYTHONFAULTHANDLER": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        assert [rank.stdout.readline() for rank in ranks if rank.stdout] == ["met\n"] * 2
        strike(ranks)
        said, shown = ranks[1].communicate(timeout=LONG_S)
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()

    assert (ranks[1].returncode, said) == (code, says)
    # Python shows where it was, and nothing of what looked at the abort.
    stack = read_stack(shown)
    assert [frame.function for frame in stack] == (["<module>"] if code < 0 else [])
