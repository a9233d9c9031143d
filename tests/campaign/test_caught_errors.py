"""Programs that catch their error and exit with code 0: the outcome is what the end of their log shows."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from fakes import Bench
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import CaseResult

PROGRAM = """
import resource, sys

batch = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))


def steps():
    for step in range(40):
        sys.stdout.write(f"step {step} loss 1.0 step_time 0.5 s\\n")


try:
    if "late" in sys.argv:
        steps()
    work = bytearray(batch * (32 << 20))
    if "wrong" in sys.argv:
        raise ValueError("the loss is not finite")
    steps()
except MemoryError as error:
    print(f"batch {batch} does not fit, stopping: {error!r}")
    if "smaller" in sys.argv:
        steps()
except ValueError:
    import traceback

    traceback.print_exc()
"""
pytestmark = pytest.mark.process


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    """Have each program in a process of its own: it limits its memory."""
    return Bench(tmp_path, processes=True)


AXES: Mapping[str, object] = {"model": {}, "batch_per_device": {"flags": ["{value}"]}, "device": {}}


def measured(bench: Bench, batch: int | str, *words: str, **card: object) -> CaseResult:
    (bench.folder / "program").mkdir()
    (bench.folder / "program" / "train.py").write_text(PROGRAM)
    source = {"kind": "folder", "path": "program"}
    command = ["{source}/train.py"]
    axes = {**AXES, "batch_per_device": {"flags": ["{value}", *words]}}
    bench.write(
        {"batch_per_device": batch},
        card={
            "source": source,
            "command": command,
            "options": {},
            "axes": axes,
            "log_format": "auto",
            **card,
        },
        protocol={"name": "adaptive", "steps": 12, "warmup_steps": 2, "repeats": 2},
    )
    (case,) = bench.run().cases
    return case


NO_MEMORY = "the run ran out of memory: batch 64 does not fit, stopping: MemoryError()"


@pytest.mark.parametrize("words", [(), ("late",)], ids=["before a step", "after the steps"])
def test_a_program_that_catches_that_memory_ran_out_is_oom(bench: Bench, words: tuple[str, ...]) -> None:
    case = measured(bench, 64, *words)

    assert [run.outcome for run in case.runs] == [Outcome.OOM], "another run would only repeat it"
    assert case.runs[0].reason == f"{NO_MEMORY}; the program went on and exited with code 0"


def test_a_file_that_is_missing_since_memory_ran_out_is_not_the_cause(bench: Bench) -> None:
    case = measured(bench, 64, expects=["losses.csv"])

    assert (case.outcome, (case.reason or "").startswith(NO_MEMORY)) == (Outcome.OOM, True)


def test_a_program_that_goes_on_with_a_smaller_batch_is_measured(bench: Bench) -> None:
    case = measured(bench, 64, "smaller")

    assert [run.outcome for run in case.runs] == [Outcome.OK] * 2, case.runs[0].reason
    assert case.runs[0].measurement is not None


def test_another_error_that_a_program_catches_is_a_failure(bench: Bench) -> None:
    case = measured(bench, 2, "wrong")

    assert {run.outcome for run in case.runs} == {Outcome.FAILED}
    assert case.runs[0].reason == (
        "the run ended with an error: ValueError: the loss is not finite; the program went on and exited with code 0"
    )


def test_the_search_for_the_largest_batch_ends_where_a_program_catches_the_error(bench: Bench) -> None:
    case = measured(bench, "max")

    probes = {
        int(path.parent.name.removeprefix("probe-b")): json.loads(path.read_text())["outcome"]
        for path in bench.out.glob("runs/*/probe-*/outcome.json")
    }
    assert probes == {8: "ok", 16: "oom"}, "400 MiB hold 8 times 32 MiB"
    stored = json.loads((bench.out / case.runs[0].directory / "outcome.json").read_text())
    assert (case.outcome, stored["commands"][0].split()[-1]) == (Outcome.OK, "8")
