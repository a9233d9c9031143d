"""Several runs in one file, one after the other or in turn: their counters and what the text says twice show them."""

import io
import re
from dataclasses import replace
from datetime import timedelta
from itertools import zip_longest
from typing import Any

import pytest
from conftest_logs import INTERVALS, Reader, sample

from trainmark.logs import Facts, ParsedLog, Severity, Status
from trainmark.logs.synthetic import SampleRun, end_of
from trainmark.measure.rules import measure_log
from trainmark.measure.rules.row import reading_problems
from trainmark.programs import read_stream, samples, synthetic_log

_FACTS = Facts(gpus=8, batch_per_device=64)
_SECOND: dict[str, dict[str, Any]] = {
    "the same": {},
    "slower by 5 %": {"pace": 1.05},
    "of another batch": {"pace": 2.0, "batch_per_device": 128},
    "of other settings": {"gpus": 16, "amp": True},
}
_UNTOLD = {"nvidia-ssd"}
"""Formats of which two jobs' lines in turn have nothing that shows whose they are."""


def _run(name: str, pace: float = 1.0, **settings: Any) -> SampleRun:
    times = [pace * (4 + 0.01 * (step * 7 % 10)) for step in range(90)]
    return SampleRun(times, interval=INTERVALS.get(name, 1), **settings)


def _signs(text: str) -> set[str]:
    """Return the codes of doubts, the code that tells of several runs, and the status of a log without a number."""
    log = read_stream(io.BytesIO(text.encode()))
    if measure_log(log).needs:
        log = read_stream(io.BytesIO(text.encode()), given=_FACTS)
    result = measure_log(log)
    if log.status is not Status.OK or result.value is None:
        return {log.status}
    problems = reading_problems(log, result)
    return {p.code for p in problems if p.severity is Severity.DOUBT or p.code == "several-runs"}


@pytest.mark.parametrize("name", sorted(samples()))
def test_a_second_run_in_the_file_is_reported(name: str) -> None:
    first = _run(name)
    one = synthetic_log(name, first)
    assert not _signs(one) & set(Status)
    for how, settings in _SECOND.items():
        second = replace(_run(name, **settings), start=end_of(first) + timedelta(minutes=3))

        assert _signs(one + synthetic_log(name, second)) - _signs(one), how


@pytest.mark.parametrize("name", sorted(set(samples()) - _UNTOLD))
@pytest.mark.parametrize(("at_once", "ahead"), [(1, 0), (5, 0), (1, 30)])
def test_two_jobs_lines_in_turn_are_in_doubt(name: str, at_once: int, ahead: int) -> None:
    one, other = (synthetic_log(name, _run(name, pace)).splitlines() for pace in (1.0, 1.3))
    parts = (
        [lines[at : at + at_once] for at in range(0, len(lines), at_once)] for lines in (one[ahead:], other)
    )

    lines = [line for pair in zip_longest(*parts, fillvalue=[]) for part in pair for line in part]

    assert _signs("\n".join([*one[:ahead], *lines]) + "\n") - _signs("\n".join(one) + "\n")


def test_ranks_of_keras_that_print_in_turn_are_noted(read: Reader) -> None:
    lines = synthetic_log("keras", _run("keras", 1 / 8)).splitlines()

    log = read("".join(f"{line}\n{line}\n" for line in lines), given=_FACTS)

    assert "several-runs" in {problem.code for problem in log.problems}
    assert "several-runs" not in _doubts(log)


def _doubts(log: ParsedLog) -> dict[str, str]:
    return {p.code: p.message for p in log.problems if p.severity is Severity.DOUBT}


def _mesh(devices: int) -> str:
    return (
        "[titan] 2025-06-16 22:20:05,100 - root - INFO - Building 1-D device mesh with "
        f"['dp_shard'], [{devices}]\n"
    )


def _torchtitan(steps: int) -> list[str]:
    return [line for line in sample("torchtitan", steps).splitlines(keepends=True) if "step:" in line]


def test_a_run_that_continues_with_other_devices_is_another_run(read: Reader) -> None:
    lines = _torchtitan(400)
    lines[200:200] = [_mesh(64)]

    doubts = _doubts(read("".join([_mesh(8), *lines])))

    assert "reports 8 devices, and after its first records 64 devices" in doubts["several-runs"]


def test_the_same_header_again_is_no_other_run(read: Reader) -> None:
    lines = _torchtitan(400)
    lines[200:200] = [_mesh(8)]

    assert "several-runs" not in _doubts(read("".join([_mesh(8), *lines])))


def test_a_second_start_is_found_far_down_in_a_long_log(read: Reader) -> None:
    header = "using world size: {0}, data-parallel size: {0}\n  global_batch_size ...... 128\n"
    records = [
        f" iteration {i:8d}/ 12000 | consumed samples: {128 * i} | elapsed time per iteration (ms): 1000.0 | "
        "learning rate: 9.150E-06 | global batch size:   128 | lm loss: 2.5E+00 |\n"
        for i in range(1, 12_001)
    ]
    records[6000:6000] = [header.format(64)]

    doubts = _doubts(read("".join([header.format(8), *records])))

    assert "8 devices" in doubts["several-runs"]


def test_lines_of_one_step_with_different_global_rates_are_not_ranks(read: Reader) -> None:
    text = sample("ngc-pytorch-convnets")
    doubled = re.sub(
        r"(DLL [^\n]*train\.total_ips : )([\d.]+)([^\n]*\n)",
        lambda m: m[0] + f"{m[1]}{3 * float(m[2]):.2f}{m[3]}",
        text,
    )
    copied = re.sub(r"(DLL [^\n]*train\.total_ips : [^\n]*\n)", r"\1\1", text)

    assert "67%" in _doubts(read(doubled))["several-runs"] or "200%" in _doubts(read(doubled))["several-runs"]
    assert "several-runs" not in _doubts(read(copied))


def test_two_results_of_a_program_that_prints_one_are_two_runs(read: Reader) -> None:
    text = sample("nvidia-ssd")
    slower = re.sub(r"(Average images/sec: )([\d.]+)", lambda m: f"{m[1]}{float(m[2]) / 10:.3f}", text)

    assert "contains 2 results of the program" in _doubts(read(text + slower))["several-runs"]
    # Each rank may print the result of all.
    assert "several-runs" not in _doubts(read(text + text.splitlines()[-1] + "\n"))


@pytest.mark.parametrize(("pace", "doubted"), [(1.0, False), (1.05, True)])
def test_trainings_of_keras_are_noted_and_in_doubt_if_their_paces_differ(
    read: Reader, pace: float, *, doubted: bool
) -> None:
    trainings = (synthetic_log("keras", _run("keras", each / 8)) for each in (1.0, pace))

    log = read("".join(trainings), given=_FACTS)

    assert "several-runs" in {problem.code for problem in log.problems}
    assert ("several-runs" in _doubts(log)) is doubted


def test_an_attempt_with_another_batch_before_the_run_is_a_doubt(read: Reader) -> None:
    """The batch of the attempt was taken for that of the run, which is four times smaller."""
    text = sample("torchvision-references")
    start = next(line for line in text.splitlines(keepends=True) if "Namespace(" in line)
    attempt = (
        start.replace("batch_size=64", "batch_size=256") + "torch.OutOfMemoryError: CUDA out of memory.\n"
    )

    assert "at its next start a batch of 64" in _doubts(read(attempt + text)).get("several-runs", "")
    assert "several-runs" not in _doubts(read(start + text))
