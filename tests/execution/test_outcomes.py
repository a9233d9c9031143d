"""What becomes of programs that misbehave: real processes, and the outcome with its reason."""

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from fakes import Bench, alive, behaving
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import CaseResult


def only(bench: Bench, *cases: dict[str, Any], **settings: Any) -> CaseResult:
    bench.write(*cases, **settings)
    return bench.run().cases[0]


def record(bench: Bench) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(next(bench.out.glob("runs/*/1/outcome.json")).read_text())
    return found


def test_a_run_that_ends_well_is_measured_by_its_window(bench: Bench) -> None:
    case = only(bench)
    (run,) = case.runs
    assert (case.outcome, run.outcome, run.reason, run.suspicions) == (Outcome.OK, Outcome.OK, None, ())
    assert run.measurement is not None
    assert run.measurement.samples is not None
    assert run.measurement.window_s is not None
    assert run.measurement.throughput == run.measurement.samples / run.measurement.window_s
    assert (run.measurement.measured_steps, run.measurement.warmup_steps) == (10, 2)


ENDINGS = [
    (
        "crashes",
        Outcome.FAILED,
        "the program ended with exit code 1: ValueError: the labels of step 7 are wrong",
    ),
    ("killed", Outcome.FAILED, "the program was killed by signal 9 (SIGKILL)"),
    ("torch-memory", Outcome.OOM, "out of memory: RuntimeError: [enforce fail at alloc_cpu.cpp:117]"),
    ("needs-3", Outcome.OOM, "4 images do not fit"),
    ("writes-no-events", Outcome.INVALID, "the run wrote no parameters"),
    ("measures-nothing", Outcome.INVALID, "the run wrote no measured window"),
    ("endless-window", Outcome.INVALID, "40 samples cannot have taken 5e-324 s"),
    (
        "backward-clock",
        Outcome.INVALID,
        "the run's summary cannot be used: window_s: input should be greater than 0",
    ),
    ("garbage-summary", Outcome.INVALID, "the run's summary cannot be used: first_step_s"),
    (
        "fails-after-its-events",
        Outcome.FAILED,
        "the program ended with exit code 1: the last words of a program that measured and then failed",
    ),
]


@pytest.mark.parametrize(("behaviour", "outcome", "reason"), ENDINGS, ids=[ending[0] for ending in ENDINGS])
def test_a_program_that_ends_badly_has_an_outcome_a_reason_and_no_number(
    bench: Bench, behaviour: str, outcome: Outcome, reason: str
) -> None:
    case = only(bench, behaving(behaviour))
    assert case.outcome is outcome
    assert (case.reason or "").startswith(reason)
    assert case.estimate is None
    assert case.runs[0].measurement is None
    # What is on disk says the same as the results.
    assert (record(bench)["outcome"], record(bench)["reason"]) == (outcome.value, case.reason)


def test_the_step_of_a_crash_is_recorded(bench: Bench) -> None:
    only(bench, behaving("crashes"))
    assert record(bench)["last_step"] == 7


STORED = [
    ("nan-loss", "loss-not-finite"),
    ("stops-early", "steps-differ"),
    ("other-batch", "batch-per-device-differs"),
    ("garbage-events", "events-damaged"),
    ("nan-window", "events-damaged"),
]


@pytest.mark.parametrize(("behaviour", "code"), STORED)
def test_a_doubtful_run_keeps_its_result_and_does_not_hold(bench: Bench, behaviour: str, code: str) -> None:
    bench.write(behaving(behaviour))
    results = bench.run()
    assert results.cases[0].estimate is not None
    assert [doubt.code for doubt in results.cases[0].runs[0].suspicions] == [code]
    assert results.holds is False


def test_binary_output_without_a_newline_is_stored_untouched_and_measured(bench: Bench) -> None:
    case = only(bench, behaving("garbage-output"))
    assert case.outcome is Outcome.OK
    log = next(bench.out.glob("runs/*/1/train.log")).read_bytes()
    assert log.startswith(b"\x00\xff\xfe\x1b[31m")


# Each limit leaves a program the seconds that it takes to start on a machine that does other work.


@pytest.mark.process
def test_a_hanging_program_is_ended_for_its_silence(bench: Bench) -> None:
    case = only(bench, behaving("hangs"), limits={"stall_timeout_s": 4})
    assert (case.outcome, case.reason) == (
        Outcome.TIMEOUT,
        "it printed nothing for 4 s at step 2 (limits.stall_timeout_s)",
    )
    assert not any(alive(pid) for pid in bench.pids())


@pytest.mark.process
def test_a_program_that_talks_for_ever_is_ended_after_the_whole_time(bench: Bench) -> None:
    case = only(bench, behaving("chatters"), limits={"timeout_s": 5, "stall_timeout_s": 4})
    assert (case.outcome, case.reason) == (
        Outcome.TIMEOUT,
        "it took longer than 5 s at step 2 (limits.timeout_s)",
    )
    assert not any(alive(pid) for pid in bench.pids())


@pytest.mark.process
def test_growing_events_are_a_sign_of_life_too(bench: Bench) -> None:
    assert only(bench, behaving("silent"), limits={"stall_timeout_s": 4}).outcome is Outcome.OK


@pytest.mark.process
def test_a_program_that_ignores_sigterm_is_ended_all_the_same(bench: Bench) -> None:
    case = only(bench, behaving("hangs-deaf"), limits={"stall_timeout_s": 4})
    assert case.outcome is Outcome.TIMEOUT
    assert record(bench)["exit_code"] == -signal.SIGKILL
    assert not any(alive(pid) for pid in bench.pids())


def test_a_program_beyond_the_memory_limit_is_out_of_memory(bench: Bench) -> None:
    case = only(bench, behaving("takes-memory"), limits={"memory": "100MiB"})
    assert (case.outcome, case.reason) == (Outcome.OOM, "out of memory: MemoryError")


def test_processes_that_exceed_the_memory_limit_in_total_are_out_of_memory(bench: Bench) -> None:
    case = only(bench, behaving("takes-memory-in-parts"), limits={"memory": "100MiB"})
    assert case.outcome is Outcome.OOM
    assert "more than 104857600 (limits.memory)" in (case.reason or "")
    assert not any(alive(pid) for pid in bench.pids())


@pytest.mark.parametrize("behaviour", ["daemon", "clean-child"])
def test_what_a_program_leaves_behind_is_ended_and_counted(bench: Bench, behaviour: str) -> None:
    """A daemon has a session of its own, the other child an environment without our mark."""
    assert only(bench, behaving(behaviour)).outcome is Outcome.OK
    assert record(bench)["strays"] == 1
    assert len(bench.pids()) == 2
    assert not any(alive(pid) for pid in bench.pids())


def test_the_cases_after_a_bad_one_are_measured(bench: Bench) -> None:
    bench.write(*(behaving(ending[0]) for ending in ENDINGS[:5]), {"batch_per_device": 8})
    assert bench.run().cases[-1].outcome is Outcome.OK


@pytest.mark.process
def test_words_that_no_process_can_be_given_are_an_outcome(bench: Bench) -> None:
    bench.write({"options": {"word": "a\0b"}}, {"options": {"word": "x" * 200_000}}, {})
    first, second, third = bench.run().cases
    assert (first.outcome, first.reason) == (
        Outcome.FAILED,
        "the command cannot be started: embedded null byte",
    )
    assert (second.outcome, second.reason) == (
        Outcome.FAILED,
        "the command cannot be started: Argument list too long",
    )
    assert third.outcome is Outcome.OK


def test_an_interpreter_that_is_none_is_named_in_the_reason(bench: Bench) -> None:
    script = bench.folder / "no python"
    script.write_text("not a program")
    script.chmod(0o755)
    case = only(bench, environment=str(script))
    assert case.outcome is Outcome.FAILED
    assert case.reason == f"the program ended with exit code 127: cannot start {script}: Exec format error"


def test_an_interpreter_whose_path_has_blanks_is_used(bench: Bench) -> None:
    link = bench.folder / "my python"
    link.symlink_to(Path(sys.executable))
    assert only(bench, environment=str(link)).outcome is Outcome.OK
