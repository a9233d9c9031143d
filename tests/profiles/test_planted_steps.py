"""Real profiles of steps with a planted cost, against a clock in the program: waits, products, an exchange."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from frameworks import framework_python, needs_framework
from trainmark.placement import free_ports
from trainmark.profiles import read_profile
from trainmark.schema.profile import StepProfile, WorkKind

pytestmark = [pytest.mark.training, needs_framework("pytorch"), pytest.mark.xdist_group("planted-steps")]

STEPS = 4

PROGRAM = """
import json, os, sys, time
import torch
from torch.profiler import ProfilerActivity, profile, record_function

folder, steps = sys.argv[1], int(sys.argv[2])
torch.set_num_threads(1)
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
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        with record_function("trainmark.steps"):
            for _ in range(steps):
                timed("step", step)
    profiler.export_chrome_trace(os.path.join(folder, "rank0.pt.trace.json"))
    print(json.dumps({name: seconds / steps for name, seconds in clocks.items()}))
"""


def profiled(folder: Path, code: str, *arguments: str) -> tuple[StepProfile, dict[str, float]]:
    """Run a step under the profiler; return its profile, and the mean seconds of a step by the program's clock."""
    folder.mkdir()
    words = [framework_python("pytorch"), "-c", PROGRAM + code, str(folder), str(STEPS), *arguments]
    ended = subprocess.run(words, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, ended.stderr
    return read_profile(folder, STEPS), json.loads(ended.stdout.splitlines()[-1])


def agrees(seconds: float) -> Any:
    """Return an approximation: 10 %, and a millisecond for the profiler's own work and a thread's start."""
    return pytest.approx(seconds, rel=0.1, abs=1e-3)


PRODUCTS = """
channels = int(sys.argv[3])
x, w = torch.randn(512, channels), torch.randn(channels, channels)
def step():
    timed("product", lambda: x @ w)
    with record_function("trainmark.data"):
        timed("wait", lambda: time.sleep(float(sys.argv[4])))
measure(step)
"""


def test_a_planted_wait_and_doubled_channels_are_found_as_a_clock_finds_them(tmp_path: Path) -> None:
    plain, of_plain = profiled(tmp_path / "a", PRODUCTS, "512", "0.0")
    waits, of_waits = profiled(tmp_path / "b", PRODUCTS, "512", "0.05")
    wider, of_wider = profiled(tmp_path / "c", PRODUCTS, "1024", "0.0")

    for profile, clock in ((plain, of_plain), (waits, of_waits), (wider, of_wider)):
        assert profile.kinds[WorkKind.MATMUL] == agrees(clock["product"])
        assert profile.kinds.get(WorkKind.DATA_WAIT, 0.0) == agrees(clock["wait"])
        assert profile.step_s == agrees(clock["step"])
        assert sum(profile.kinds.values()) == pytest.approx(profile.step_s)
    # At least as long as the sleep; nothing else grew by as much.
    assert waits.kinds[WorkKind.DATA_WAIT] >= 0.05
    assert plain.operations[0].name == "aten::mm"


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


def test_an_exchange_of_two_ranks_is_hidden_behind_work_and_exposed_after_it(tmp_path: Path) -> None:
    port = free_ports(1)
    address = f"os.environ.update(MASTER_ADDR='127.0.0.1', MASTER_PORT='{port}')\n"
    (tmp_path / "b").mkdir()
    words = [framework_python("pytorch"), "-c", PROGRAM + address + EXCHANGE, str(tmp_path / "b"), str(STEPS)]
    with subprocess.Popen([*words, "", "1"], stdout=subprocess.DEVNULL) as other:
        profile, clock = profiled(tmp_path / "a", address + EXCHANGE, "", "0")
        assert other.wait(60) == 0

    assert clock["exposed"] > 0.02
    assert profile.kinds[WorkKind.COMMUNICATION] == agrees(clock["exposed"])
    # The exchange begins when its thread gets a core.
    assert 0.3 * clock["product"] < profile.communication_hidden_s < clock["product"] + 1e-3
    assert sum(profile.kinds.values()) == pytest.approx(profile.step_s)
