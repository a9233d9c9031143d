"""What PaddlePaddle's worker alone has: what it lacks on a CPU, its layouts, its threads, its compiled programs."""

import os
import signal
import subprocess
from typing import Any

import pytest
from worker_process import LONG_S, WORKER, beside

from frameworks import framework_python, needs_framework
from trainmark.node.stacks import read_stack
from trainmark.schema.case import case_of
from trainmark.workload import load_workloads

PADDLE = "paddle"

pytestmark = [pytest.mark.training, needs_framework(PADDLE), pytest.mark.xdist_group("worker-paddle")]

OPENED = """
from trainmark_worker.models import paddle_image_classification as train
def opened(*flags):
    return train.open_training(settings("--device=cpu", *flags), ALONE)
"""
"""Opens trainings beside the test's own code."""


def in_paddle(code: str) -> Any:
    return beside(PADDLE, OPENED + code)


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
from trainmark_worker.backends.paddle.collectives import algorithm_search, choose_device
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
    card = load_workloads().find(case_of(framework=PADDLE)).card
    gaps = {frozenset(gap.when.items()): gap.reason for gap in card.gaps}

    said = in_paddle(f"""
asked = {asked!r}
flags = lambda axes: [f"--{{axis}}={{value}}" for axis, value in axes.items()]
print(json.dumps({{name: refused(lambda: opened(*flags(axes))) for name, axes in asked.items()}}))
""")

    for name, axes in asked.items():
        assert said[name] == ["unsupported", gaps[frozenset({**axes, "device": "cpu"}.items())]]


def test_amp_on_a_cpu_computes_in_fp32_and_does_not_pass_as_amp() -> None:
    fp32, *forced = in_paddle("""
import warnings
warnings.simplefilter("ignore")
from trainmark_worker.backends.paddle import backend as machine
machine.refuse_gaps = lambda settings, place, device: None
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
    reason = "compute_dtype of the first step was float32, not {} as requested"
    assert [said for _, said in forced] == [
        ["invalid", reason.format(dtype)] for dtype in ("bfloat16", "float16", "bfloat16")
    ]


def test_a_network_computes_the_same_in_both_layouts() -> None:
    apart = in_paddle("""
import paddle
from paddle import nn
from trainmark_worker.models.paddle_image_classification import VECTORS, build_network, layers_of, observing
images, apart = paddle.randn([2, 3, 96, 96]), []
def named(network):
    convolutions, norms = layers_of(network, nn.Conv2D), layers_of(network, nn.BatchNorm2D)
    return observing.by_shared_names(model, convolutions, norms, network[-1], VECTORS)
for model in ("resnet50_v1.5", "mobilenet_v1"):
    nchw, nhwc = (build_network(model, 10, layout, False) for layout in ("nchw", "nhwc"))
    given = named(nchw)
    for name, tensor in named(nhwc).items():
        tensor.set_value(given[name])
    nchw.eval(), nhwc.eval()
    one, other = nchw(images), nhwc(paddle.transpose(images, [0, 2, 3, 1]))
    apart.append(float((one - other).norm() / one.norm()))
print(json.dumps(apart))
""")

    assert max(apart) < 1e-5


def test_only_on_a_cpu_are_compiled_programs_run_one_operator_at_a_time() -> None:
    told = beside(
        "paddle",
        """
import paddle
from trainmark_worker.backends.paddle.collectives import limit_threads
told = []
for device in ("cuda", "cpu"):
    limit_threads(1, device)
    told.append(list(paddle.get_flags("FLAGS_enable_pir_in_executor_trace_run").values()))
print(json.dumps(told))
""",
    )

    assert told == [[False], [True]]


@pytest.mark.parametrize("compiler", [pytest.param("none", marks=pytest.mark.rare), "to_static"])
def test_the_threads_asked_for_are_those_that_compute(compiler: str) -> None:
    """By the processor time of each thread: a compiled program would else run on a pool of its own.

    The small model's steps take less than the ticks of 10 ms by which that time is counted.
    """
    counted, shares = in_paddle(f"""
def ticks():
    fields = {{name: open(f"/proc/self/task/{{name}}/stat").read().rpartition(")")[2].split()
              for name in os.listdir("/proc/self/task")}}
    return {{name: int(values[11]) + int(values[12]) for name, values in fields.items()}}

counted, shares = [], []
for threads in (1, 2):
    training = opened("--model=mobilenet_v1", "--image-size=64", "--batch-per-device=8", "--steps=30",
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


def test_a_count_of_steps_that_fp32_cannot_tell_is_none() -> None:
    """The powers of betas are all that Paddle keeps: after some thousand steps they are rounding, or nothing."""
    told = beside(
        PADDLE,
        """
import json
from trainmark_worker.core.arguments import parse
from trainmark_worker.backends.paddle.backend import steps_of
from dataclasses import replace
recipe = parse(["--framework", "paddle", "--model", "bert_tiny"], 1).recipe
recipe = replace(recipe, momentum=0.9, second_momentum=0.999)
powers = [[0.9 ** (n + 1), 0.999 ** (n + 1)] for n in (1, 120, 2000, 20000)]
print(json.dumps([steps_of(both, recipe) for both in [*powers, [0.0, 0.0]]]))
""",
    )
    assert told == [1, 120, 2000, None, None]


def test_a_rank_that_is_asked_where_it_is_says_it() -> None:
    code = f"import os, sys; sys.path.insert(0, {str(WORKER)!r}); import start\n"
    code += "import trainmark_worker.backends.paddle\nos.kill(os.getpid(), 6)\n"
    # A process of its own: Python reads the variable when it starts.
    done = subprocess.run(
        [framework_python(PADDLE), "-c", code],
        env={**os.environ, "PYTHONFAULTHANDLER": "1"},
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert done.returncode == -signal.SIGABRT
    assert [frame.function for frame in read_stack(done.stderr)] == ["<module>"]
