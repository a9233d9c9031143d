"""Programs from a git repository that OpenMPI, a ``multiproc.py``, Paddle's launcher or they themselves start twice.

The two ranks train together, and print what those programs print for which the launchers are there.
"""

import os
import re
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fakes import PROGRAMS, Bench, alive
from frameworks import framework_python, needs_framework
from repositories import Repository, card
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import Results, RunResult

STEPS, WARMUP, BATCH, RANKS = 40, 20, 32, 2


@dataclass(frozen=True)
class Way:
    """One launcher: the environment, what the card says of it, and how long its ranks may take to begin, in seconds."""

    environment: str
    log_format: str
    program: str
    limit_s: float = 30.0
    card: Mapping[str, Any] = field(default_factory=dict)


PLACE = ["--ranks", "{world_size}", "--meet", "{master}:{port}"]
VARIANTS: Mapping[str, Way] = {
    "mpirun": Way("pytorch", "ngc-tensorflow-convnets", "by_mpirun.py"),
    "multiproc": Way(
        "pytorch", "ngc-pytorch-convnets", "by_multiproc.py", card={"starter": "{source}/multiproc.py"}
    ),
    # Both import the framework before they start a rank.
    "spawn": Way("pytorch", "pytorch-imagenet", "spawning.py", 45.0),
    "paddle": Way("paddle", "paddleclas", "by_paddle.py", 45.0, {"rule": "mean-skip-10"}),
}

STARTS_LONG = ("multiproc", "spawn", "paddle")
"""Those that import a framework before a rank begins, and are asked rarely; what they are given is in golden plans."""

openmpi = pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun (apt install openmpi-bin)")
marks = {
    name: [
        needs_framework(way.environment),
        pytest.mark.xdist_group(f"launcher-{name}"),
        *([openmpi] if name == "mpirun" else []),
        *([pytest.mark.rare] if name in STARTS_LONG else []),
    ]
    for name, way in VARIANTS.items()
}
every_launcher = pytest.mark.parametrize(
    "launcher", [pytest.param(name, marks=marks[name]) for name in VARIANTS], scope="module"
)


def launched(
    bench: Bench, launcher: str, *behaviours: str, way: Way | None = None, **settings: Any
) -> Results:
    """Run the launcher's program once for each behaviour."""
    way = way or VARIANTS[launcher]
    (bench.folder / "home" / "envs").mkdir(parents=True)
    if python := framework_python(way.environment):
        (bench.folder / "home" / "envs" / way.environment).symlink_to(Path(python).parents[1])
    repository = Repository(bench.folder / "repository")
    files = (PROGRAMS / "launched").glob("*.py")
    commit = repository.commit({f"code/{path.name}": path.read_text(encoding="utf-8") for path in files})
    document = card(
        repository,
        commit,
        launcher=launcher,
        framework=way.environment,
        environment=way.environment,
        log_format=way.log_format,
        command=[f"{{source}}/{way.program}", "--steps", "{steps}", *PLACE],
        axes={
            "model": {"values": {"good": []}},
            "batch_per_device": {"flags": ["--batch", "{value}"]},
            "devices_per_node": {},
            "device": {},
        },
        options={"behaviour": ["--behaviour", "{value}"]},
        expects=[],
        **way.card,
    )
    two = {"workload": "linear", "framework": way.environment, "devices_per_node": RANKS}
    cases = [
        {**two, "batch_per_device": BATCH, "options": {"behaviour": behaviour}} for behaviour in behaviours
    ]
    protocol = {"name": "adaptive", "steps": STEPS, "warmup_steps": WARMUP, "repeats": 1}
    settings = {"environment": "auto", "protocol": protocol, "equivalence": False, **settings}
    bench.write(*cases, card=document, **settings)
    return bench.run()


@pytest.fixture(scope="module")
def ended(launcher: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Bench, dict[str, RunResult]]:
    """Run the launcher's program once for each behaviour that ends by itself; the runs by behaviour."""
    bench = Bench(tmp_path_factory.mktemp(launcher))
    behaviours = ("well", "raises", "is-killed", "lacks-memory")
    cases = launched(bench, launcher, *behaviours).cases
    return bench, {behaviour: case.runs[0] for behaviour, case in zip(behaviours, cases, strict=True)}


Ended = tuple[Bench, dict[str, RunResult]]


def log_of(bench: Bench, run: RunResult) -> str:
    return (bench.out / run.directory / "train.log").read_text(errors="replace")


@every_launcher
class TestEveryLauncher:
    pytestmark = pytest.mark.training

    def test_two_ranks_train_and_their_log_becomes_a_throughput(self, ended: Ended, launcher: str) -> None:
        bench, runs = ended
        run = runs["well"]
        assert run.outcome is Outcome.OK, log_of(bench, run)
        assert run.measurement is not None
        assert run.measurement.throughput > 0
        assert run.measurement.unit == "images/s"
        low, high = SPEEDS[launcher](log_of(bench, run))
        assert 0.98 * low <= run.measurement.throughput <= 1.02 * high
        weights = [(bench.out / run.directory / f"weights.rank{rank}").read_text() for rank in range(RANKS)]
        assert weights[0] == weights[1], "they began with other weights, and averaged their gradients"

    def test_no_rank_is_bound_to_some_of_the_cores(self, ended: Ended, launcher: str) -> None:
        bench, runs = ended
        cores = (bench.out / runs["well"].directory / "cores").read_text().splitlines()
        assert cores == RANKS * [str(sorted(os.sched_getaffinity(0)))]

    def test_a_rank_that_raises_is_named_with_its_own_words(self, ended: Ended, launcher: str) -> None:
        run = ended[1]["raises"]
        assert run.outcome is Outcome.FAILED
        assert re.fullmatch(
            r"rank 1 (failed|ended with exit code 1|was killed by signal 6 \(SIGABRT\)): ValueError: this is why",
            run.reason or "",
        )

    def test_a_killed_rank_is_reported_as_far_as_the_launcher_does(self, ended: Ended, launcher: str) -> None:
        run = ended[1]["is-killed"]
        assert run.outcome is Outcome.FAILED
        assert re.match(KILLED[launcher], run.reason or ""), run.reason
        assert "\n" not in (run.reason or "")

    def test_a_rank_without_memory_is_oom_although_another_one_fails(
        self, ended: Ended, launcher: str
    ) -> None:
        run = ended[1]["lacks-memory"]
        assert run.outcome is Outcome.OOM, run.reason
        assert "CUDA out of memory. Tried to allocate 20.00 MiB" in (run.reason or "")

    def test_nothing_is_left_of_any_run(self, ended: Ended, launcher: str) -> None:
        bench, runs = ended
        assert len(bench.pids()) == RANKS * len(runs)
        assert [pid for pid in bench.pids() if alive(pid)] == []


# What is deaf takes its whole time.
@pytest.mark.rare
@every_launcher
class TestTimeouts:
    pytestmark = pytest.mark.training

    def test_nothing_is_left_of_ranks_that_take_too_long_and_are_deaf_to_signals(
        self, bench: Bench, launcher: str
    ) -> None:
        limit = VARIANTS[launcher].limit_s
        (run,) = launched(bench, launcher, "hangs", limits={"timeout_s": limit}).cases[0].runs
        assert run.outcome is Outcome.TIMEOUT
        assert (run.reason or "").startswith(f"it took longer than {limit:g} s")
        assert len(bench.pids()) == RANKS
        assert [pid for pid in bench.pids() if alive(pid)] == []


LOST = r"rank 0 lost contact with another rank: "
BY_SIGNAL = r"rank 1 was killed by signal 9 \(SIGKILL\)$"
KILLED = {
    "mpirun": BY_SIGNAL,
    "spawn": BY_SIGNAL,
    # Neither tells of rank 1 where rank 0 has lost it and ended before they look.
    "paddle": f"{LOST}|{BY_SIGNAL}",
    "multiproc": f"{LOST}|the program ended with exit code 1",
}


def from_rates(log: str) -> tuple[float, float]:
    rates = [
        float(rate) for rate in re.findall(r"total_ips : ([\d.]+) ?(?:\n|images/s train.lr)", untagged(log))
    ]
    assert len(rates) == STEPS
    return min(rates[WARMUP:]), max(rates[WARMUP:])


def from_times(log: str) -> tuple[float, float]:
    times = [float(time) for time in re.findall(r"Time +([\d.]+) \(", log)]
    assert len(times) == RANKS * STEPS, "both ranks print"
    return RANKS * BATCH / max(times), RANKS * BATCH / min(times)


def mean_of_running_averages(log: str) -> tuple[float, float]:
    rates = [float(rate) for rate in re.findall(r"Iter[^\n]* ips: ([\d.]+) ", log)]
    assert len(rates) == STEPS
    mean = RANKS * sum(rates[10:]) / len(rates[10:])
    return mean, mean


def untagged(log: str) -> str:
    return re.sub(r"\[\d+,\d+\]<std\w+>:", "", log)


SPEEDS = {
    "mpirun": from_rates,
    "multiproc": from_rates,
    "paddle": mean_of_running_averages,
    "spawn": from_times,
}


@pytest.mark.parametrize("found", ["nothing", "another one"])
def test_without_openmpi_the_case_is_unsupported_before_anything_is_fetched(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    folder = bench.folder / "bin"
    folder.mkdir()
    (folder / "git").symlink_to(shutil.which("git") or "")
    why, way_out = "mpirun was not found on this machine", "install OpenMPI (Debian: apt install openmpi-bin)"
    if found == "another one":
        why, way_out = f"{folder}/mpirun is not OpenMPI's", f"{way_out} and put it first on PATH"
        (folder / "mpirun").write_text(f"#!{sys.executable}\nprint('HYDRA build details:')\n")
        (folder / "mpirun").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    way = Way("system", "ngc-tensorflow-convnets", "by_mpirun.py")
    case = launched(bench, "mpirun", "well", way=way).cases[0]
    assert (case.outcome, case.reason) == (Outcome.UNSUPPORTED, f"{why}; {way_out}")
    assert not (bench.folder / "home" / "sources").exists()
