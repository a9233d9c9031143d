"""Real profiles of steps with a planted cost, against a clock in the program: waits, products, an exchange."""

import json
from pathlib import Path
from typing import Any

import pytest

from frameworks import in_framework, in_frameworks
from preloading import Copy, preloaded
from trainmark.placement import free_ports
from trainmark.profiles import read_profile
from trainmark.schema.profile import StepProfile, WorkKind

pytestmark = pytest.mark.training

STEPS = 4

START = """
import json, os, sys, time
folder, steps = sys.argv[1], int(sys.argv[2])
clocks = dict.fromkeys(("wait", "product", "exposed", "step"), 0.0)

def timed(name, work):
    start = time.perf_counter()
    found = work()
    clocks[name] += time.perf_counter() - start
    return found

def measure(step):
    step()
    for name in clocks:
        clocks[name] = 0.0
    with profiling():
        with span("trainmark.steps"):
            for _ in range(steps):
                timed("step", step)
    print(json.dumps({name: seconds / steps for name, seconds in clocks.items()}))
"""

PYTORCH = (
    START
    + """
import torch
from contextlib import contextmanager
from torch.profiler import ProfilerActivity, profile, record_function as span
torch.set_num_threads(1)

@contextmanager
def profiling():
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        yield
    profiler.export_chrome_trace(os.path.join(folder, "steps.pt.trace.json"))

def values(*shape):
    return torch.randn(*shape)

def product(x, w):
    return x @ w
"""
)

JAX = (
    START
    + """
import jax, jax.numpy as jnp
from jax.profiler import TraceAnnotation as span

def profiling():
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    return jax.profiler.trace(folder, profiler_options=options)

def values(*shape):
    return jnp.ones(shape)

@jax.jit
def compiled(x, w):
    return x @ w

def product(x, w):
    return compiled(x, w).block_until_ready()
"""
)

TENSORFLOW = (
    START
    + """
import tensorflow as tf
span = tf.profiler.experimental.Trace

def profiling():
    options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
    return tf.profiler.experimental.Profile(folder, options)

def values(*shape):
    return tf.random.normal(shape)

product = tf.function(lambda x, w: x @ w)
"""
)


def profiled(
    folder: Path, code: str, *arguments: str, framework: str = "pytorch"
) -> tuple[StepProfile, dict[str, float]]:
    """Run a step under the profiler; return its profile, and the mean seconds of a step by the program's clock."""
    folder.mkdir()
    process = started(folder, code, *arguments, framework=framework)
    out, errors = process.communicate(300)
    assert process.returncode == 0, errors
    return read_profile(folder, STEPS, framework), json.loads(out.splitlines()[-1])


def started(folder: Path, code: str, *arguments: str, framework: str = "pytorch") -> Copy:
    """Start a program in a process that has imported the framework."""
    return preloaded(framework).start(["-c", str(folder), str(STEPS), *arguments], {}, folder, code)


def agrees(seconds: float) -> Any:
    """Return an approximation: 10 %, and a millisecond for the profiler's own work and a thread's start."""
    return pytest.approx(seconds, rel=0.1, abs=1e-3)


PRODUCTS = """
channels = int(sys.argv[3])
x, w = values(1024, channels), values(channels, channels)
def step():
    timed("product", lambda: product(x, w))
    with span("trainmark.data"):
        timed("wait", lambda: time.sleep(float(sys.argv[4])))
measure(step)
"""


@in_framework("pytorch")
def test_a_planted_wait_and_doubled_channels_are_found_as_a_clock_finds_them(tmp_path: Path) -> None:
    plain, of_plain = profiled(tmp_path / "a", PYTORCH + PRODUCTS, "512", "0.0")
    waits, of_waits = profiled(tmp_path / "b", PYTORCH + PRODUCTS, "512", "0.05")
    wider, of_wider = profiled(tmp_path / "c", PYTORCH + PRODUCTS, "1024", "0.0")

    for profile, clock in ((plain, of_plain), (waits, of_waits), (wider, of_wider)):
        assert profile.kinds[WorkKind.MATMUL] == agrees(clock["product"])
        assert profile.kinds.get(WorkKind.DATA_WAIT, 0.0) == agrees(clock["wait"])
        assert profile.step_s == agrees(clock["step"])
        assert sum(profile.kinds.values()) == pytest.approx(profile.step_s)
    # At least as long as the sleep; nothing else grew by as much.
    assert waits.kinds[WorkKind.DATA_WAIT] >= 0.05
    assert plain.operations[0].name == "aten::mm"


@pytest.mark.parametrize(
    "framework",
    [
        pytest.param("jax", marks=in_frameworks("jax")),
        pytest.param("tensorflow", marks=in_frameworks("tensorflow")),
    ],
)
def test_products_and_waits_of_other_frameworks_are_found_as_a_clock_finds_them(
    tmp_path: Path, framework: str
) -> None:
    program = {"jax": JAX, "tensorflow": TENSORFLOW}[framework]
    profile, clock = profiled(tmp_path / "a", program + PRODUCTS, "1024", "0.05", framework=framework)

    # The clock has the call and the wait for its end too.
    assert 0.5 * clock["product"] < profile.kinds[WorkKind.MATMUL] < 1.01 * clock["product"]
    assert profile.kinds[WorkKind.DATA_WAIT] == agrees(clock["wait"])
    assert profile.step_s == agrees(clock["step"])
    assert sum(profile.kinds.values()) == pytest.approx(profile.step_s)


EXCHANGE = """
import torch.distributed as dist
rank = int(sys.argv[4])
dist.init_process_group("gloo", rank=rank, world_size=2)
x, w, gradient = torch.randn(1024, 1024), torch.randn(1024, 1024), torch.ones(100_000)
def step():
    if rank == 1:
        time.sleep(0.5)
        dist.all_reduce(gradient)
        return
    work = dist.all_reduce(gradient, async_op=True)
    timed("product", lambda: x @ w)
    timed("exposed", work.wait)
measure(step)
"""


@in_framework("pytorch")
def test_an_exchange_of_two_ranks_is_hidden_behind_work_and_exposed_after_it(tmp_path: Path) -> None:
    port = free_ports(1)
    address = f"os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='{port}')\n"
    (tmp_path / "b").mkdir()
    other = started(tmp_path / "b", PYTORCH + address + EXCHANGE, "", "1")
    profile, clock = profiled(tmp_path / "a", PYTORCH + address + EXCHANGE, "", "0")
    other.communicate(60)
    assert other.returncode == 0

    assert clock["exposed"] > 0.02
    assert profile.kinds[WorkKind.COMMUNICATION] == agrees(clock["exposed"])
    # The exchange begins when its thread gets a core.
    assert 0.3 * clock["product"] < profile.communication_hidden_s < clock["product"] + 1e-3
    assert sum(profile.kinds.values()) == pytest.approx(profile.step_s)
