"""The same promises with PyTorch really training: small images, few steps, on the CPU."""

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from fakes import Bench, Silent, alive
from frameworks import framework_python
from trainmark.campaign import Progress
from trainmark.dataset.images import ImageFolderSpec, make_image_folder
from trainmark.execution import Heartbeat
from trainmark.schema.case import Case
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import Results

pytestmark = pytest.mark.training

PYTHON = framework_python("pytorch")
SMALL: dict[str, Any] = {
    "workload": "trainmark",
    "framework": "pytorch",
    "model": "mobilenet_v1",
    "batch_per_device": 2,
    "image_size": 32,
    "device": "cpu",
}
SHORT = {"name": "adaptive", "steps": 6, "warmup_steps": 2, "repeats": 1}


@pytest.fixture
def trained(bench: Bench) -> Bench:
    if not PYTHON:
        pytest.skip("TRAINMARK_TEST_ENVS has no environment 'pytorch'")
    return bench


def train(bench: Bench, *cases: dict[str, Any], listener: Any = None, **settings: Any) -> Results:
    bench.write(
        *(SMALL | case for case in cases),
        **{"environment": PYTHON, "protocol": SHORT, "equivalence": False, **settings},
    )
    return bench.run(listener)


def test_one_process_and_two_are_measured(trained: Bench) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two processes need two cores")
    # Where other work takes the cores a run is spoiled, and no ratio is made of it.
    results = train(trained, {}, {"devices_per_node": 2}, gates={"off": ["cpu-shared"]})
    assert [case.outcome for case in results.cases] == [Outcome.OK, Outcome.OK], [
        c.reason for c in results.cases
    ]
    assert results.holds, [[run.suspicions for run in case.runs] for case in results.cases]
    one, two = (case.runs[0].measurement for case in results.cases)
    assert one is not None
    assert two is not None
    assert (one.samples, two.samples) == (8, 16)
    assert results.cases[1].speedup is not None


def test_a_loss_that_becomes_nan_keeps_its_result_under_suspicion(trained: Bench) -> None:
    results = train(trained, {"options": {"learning_rate": 1.0e30}})
    (run,) = results.cases[0].runs
    assert run.outcome is Outcome.OK
    assert "loss-not-finite" in [doubt.code for doubt in run.suspicions]
    assert run.measurement is not None
    assert not results.holds


def test_a_batch_beyond_the_memory_limit_is_oom(trained: Bench) -> None:
    results = train(trained, {"batch_per_device": 1024, "image_size": 224}, limits={"memory": "1GiB"})
    assert results.cases[0].outcome is Outcome.OOM, results.cases[0].reason
    assert results.cases[0].estimate is None


def test_a_corrupt_jpeg_fails_its_case_and_is_named(trained: Bench) -> None:
    folder = trained.folder / "photos"
    make_image_folder(folder, ImageFolderSpec(images=8, classes=2, width=64, height=48), jobs=1)
    bad = sorted((folder / "train").rglob("*.JPEG"))[3]
    bad.write_bytes(bad.read_bytes()[:100] + b"\x00" * 200)
    results = train(trained, {"data": "photos"}, {}, datasets={"photos": {"path": "photos"}})
    real, synthetic = results.cases
    assert (real.outcome, synthetic.outcome) == (Outcome.FAILED, Outcome.OK)
    assert bad.name in (real.reason or "")


def processes_of(folder: Path) -> list[int]:
    """Return the processes that work in the folder, whoever is their parent by now."""
    running = psutil.process_iter(["pid", "cwd"])
    return [process.pid for process in running if (process.info["cwd"] or "").startswith(str(folder))]


class KillsRankOne(Silent):
    """Kills the process of rank 1 as soon as it trains."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.killed, self.found = folder, 0, list[int]()
        self.steps: int | None = None

    def pulse(self, pulse: Heartbeat) -> None:
        if pulse.step is None or self.killed:
            return
        self.steps = pulse.steps
        for process in psutil.Process().children(recursive=True):
            # One that has just ended has no environment any more.
            with contextlib.suppress(psutil.Error):
                if process.environ().get("RANK") == "1":
                    self.found = processes_of(self.folder)
                    self.killed = process.pid
                    os.kill(process.pid, signal.SIGKILL)
                    return


def test_a_rank_that_dies_is_named_and_takes_the_others_with_it(trained: Bench) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two processes need two cores")
    listener = KillsRankOne(trained.folder)
    long = {"name": "adaptive", "steps": 100_000, "warmup_steps": 2, "repeats": 1}
    results = train(
        trained, {"devices_per_node": 2}, listener=listener, protocol=long, limits={"timeout_s": 600}
    )
    assert listener.killed
    assert listener.steps == long["steps"]
    assert results.cases[0].outcome is Outcome.FAILED
    assert results.cases[0].reason == "rank 1 was killed by signal 9 (SIGKILL)"
    assert listener.killed in listener.found
    assert not processes_of(trained.folder)


class StopsAtOnce(Silent):
    """Presses Ctrl-C when the first run is about to begin."""

    def run_begins(self, case: Case, repeat: int, standing: Progress) -> None:
        raise KeyboardInterrupt


# Of programs without a framework test_interruption.py and the cluster show the same always.
@pytest.mark.rare
def test_ranks_that_outlive_a_killed_trainmark_are_ended_by_resume(trained: Bench) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two processes need two cores")
    long = {"name": "adaptive", "steps": 100_000, "warmup_steps": 2, "repeats": 1}
    trained.write(
        SMALL | {"devices_per_node": 2},
        environment=PYTHON,
        protocol=long,
        equivalence=False,
        limits={"timeout_s": 600},
    )
    process = trained.start()
    while not (logs := list(trained.out.glob("runs/*/1/train.log"))) or b"step 2" not in logs[0].read_bytes():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    family = psutil.Process(process.pid).children(recursive=True)
    ranks = [child.pid for child in family if "RANK" in child.environ()]
    assert len(ranks) == 2
    process.kill()
    process.communicate(timeout=300)
    trained.run(StopsAtOnce(), resume=True)
    assert not any(alive(pid) for pid in ranks)
    assert not [path for path in Path("/proc").glob("[0-9]*") if marked(path, str(trained.out))]


def marked(path: Path, folder: str) -> bool:
    try:
        return folder.encode() in (path / "environ").read_bytes() and alive(int(path.name))
    except OSError:
        return False
