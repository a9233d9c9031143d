"""A profiled run of a case: one run more, which changes no number, and whose failure harms nothing."""

import json
import shutil
from typing import Any
from unittest.mock import patch

import pytest

from fakes import Bench, Silent
from frameworks import framework_python, needs_framework
from trainmark.campaign import profiling
from trainmark.report import render_markdown
from trainmark.schema.outcome import Outcome
from trainmark.schema.profile import WorkKind
from trainmark.schema.results import CaseResult, Results

SMALL: dict[str, Any] = {
    "workload": "trainmark",
    "framework": "pytorch",
    "model": "mobilenet_v1",
    "batch_per_device": 2,
    "image_size": 32,
    "device": "cpu",
}
SHORT = {"name": "adaptive", "steps": profiling.PLAIN_STEPS + 4, "warmup_steps": 2, "repeats": 1}
"""A few more steps than a profiled run makes, as every real protocol has."""


class Readings(Silent):
    """A listener that remembers the lines on what is made ready."""

    def __init__(self) -> None:
        """Start without lines."""
        self.lines: list[str] = []

    def readying(self, what: str) -> None:
        """Add the line."""
        self.lines.append(what)


def write(bench: Bench, **changes: Any) -> None:
    bench.write(
        SMALL,
        **{"environment": framework_python("pytorch"), "protocol": SHORT, "equivalence": False, **changes},
    )


def without_profiles(results: Results) -> list[CaseResult]:
    return [case.model_copy(update={"profile": None}) for case in results.cases]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Bench, Results]:
    """Measure without a profile; return the bench and its results."""
    bench = Bench(tmp_path_factory.mktemp("measured"))
    write(bench)
    return bench, bench.run()


@pytest.fixture
def measured(plain: tuple[Bench, Results], request: pytest.FixtureRequest) -> tuple[Bench, Results]:
    """Return a bench with a copy of what was measured without a profile, and its results."""
    bench, results = plain
    place = f"of-{request.node.name}"
    shutil.copytree(bench.out, bench.folder / place)
    return Bench(bench.folder, place), results


@pytest.mark.training
@needs_framework("pytorch")
def test_a_profile_is_one_run_more_and_no_measurement(measured: tuple[Bench, Results]) -> None:
    bench, before = measured
    write(bench, profile=True)

    results = bench.run(resume=True)

    (case,) = results.cases
    assert without_profiles(results) == list(before.cases)
    assert case.profile is not None
    assert case.profile.profile is not None, case.profile.reason
    found = case.profile.profile
    assert sum(found.kinds.values()) == pytest.approx(found.step_s)
    assert found.step_s == pytest.approx(case.profile.clock_step_s, rel=0.02)
    assert {WorkKind.CONVOLUTION, WorkKind.NORMALISATION, WorkKind.OPTIMIZER} <= found.kinds.keys()
    assert case.profile.traces == ()
    folder = bench.out / case.profile.directory
    assert json.loads((folder / "profile.json").read_text())["outcome"] == "ok"
    assert "Where a step goes" in render_markdown(results, bench.out)

    # Another call repeats nothing, and one for the trace files repeats the profile alone.
    assert bench.run(resume=True).cases == results.cases
    write(bench, profile="trace")
    traced = bench.run(resume=True)
    assert without_profiles(traced) == list(before.cases)
    assert traced.cases[0].profile is not None
    (trace,) = traced.cases[0].profile.traces
    assert (bench.out / traced.cases[0].profile.directory / trace).stat().st_size > 10_000


def test_a_program_without_a_profile_has_its_reason_and_its_number(bench: Bench) -> None:
    bench.write(profile=True)
    listener = Readings()

    results = bench.run(listener)

    (case,) = results.cases
    assert case.profile is not None
    (line,) = (line for line in listener.lines if "profil" in line)
    assert line == f"{case.id}: no profile: unsupported: {case.profile.reason}"
    assert (case.profile.outcome, case.profile.profile) == (Outcome.UNSUPPORTED, None)
    assert "under a profiler of its own, such as torch.profiler or nsys" in str(case.profile.reason)
    assert case.estimate is not None
    assert results.holds
    assert results.complete
    assert "no profile: unsupported: only the built-in" in render_markdown(results, bench.out)


@pytest.mark.training
@needs_framework("pytorch")
def test_a_profile_that_fails_is_its_own_outcome_and_is_repeated_on_request(
    measured: tuple[Bench, Results],
) -> None:
    bench, before = measured
    write(bench, profile=True)
    # What an interrupted call left behind.
    (folder := bench.out / "runs" / before.cases[0].id / "profile").mkdir()
    with patch.object(profiling, "PROFILED_STEPS", -1):
        results = bench.run(resume=True)

    assert without_profiles(results) == list(before.cases)
    profile = results.cases[0].profile
    assert profile is not None
    assert (profile.outcome, profile.profile) == (Outcome.FAILED, None)
    assert "must not be negative" in str(profile.reason)
    assert results.holds
    assert folder.with_name("profile.interrupted-1").is_dir()

    assert bench.run(resume=True).cases == results.cases
    (again,) = bench.run(resume=True, retry_failed=True).cases
    assert again.profile is not None
    assert again.profile.outcome is Outcome.OK


@pytest.mark.training
@pytest.mark.parametrize(
    ("framework", "compiler"),
    [
        pytest.param("jax", "xla", marks=[needs_framework("jax"), pytest.mark.rare]),
        pytest.param("tensorflow", "none", marks=[needs_framework("tensorflow"), pytest.mark.rare]),
    ],
)
def test_the_workers_of_jax_and_tensorflow_are_profiled(bench: Bench, framework: str, compiler: str) -> None:
    case = {**SMALL, "framework": framework, "layout": "nhwc", "compiler": compiler}
    bench.write(
        case,
        environment=framework_python(framework),
        protocol=SHORT,
        equivalence=False,
        profile=True,
    )

    (found,) = bench.run().cases

    assert found.profile is not None
    assert found.profile.profile is not None, found.profile.reason
    profile = found.profile.profile
    assert sum(profile.kinds.values()) == pytest.approx(profile.step_s)
    assert profile.step_s == pytest.approx(found.profile.clock_step_s, rel=0.02)
    assert profile.kinds[WorkKind.CONVOLUTION] == max(
        profile.kinds[kind] for kind in COMPUTED & profile.kinds.keys()
    )
    assert profile.kinds.get(WorkKind.OTHER, 0.0) < 0.1 * profile.step_s


COMPUTED = {WorkKind.CONVOLUTION, WorkKind.MATMUL, WorkKind.OTHER}
