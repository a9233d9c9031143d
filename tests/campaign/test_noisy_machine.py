"""A noisy machine: the ways to a number that the messages name, and the flags that they name."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes import Bench, Silent, disturb, forget_telemetry, set_rate
from preloading import call_trainmark
from trainmark.campaign import collect_results
from trainmark.campaign.quiet import QuietWait
from trainmark.cli.run_output import print_command_results
from trainmark.cli.suite_input import CommandSuite
from trainmark.execution import ResultDirectory
from trainmark.node import LocalHost
from trainmark.node.machine import parse_cpus
from trainmark.report import render_table
from trainmark.schema.results import Results
from trainmark.workload.recognition import Recognised

ALL: dict[str, object] = {"off": []}
THREE: dict[str, object] = {"name": "adaptive", "steps": 12, "warmup_steps": 2, "repeats": 3}


class Hearing(Silent):
    """A listener that remembers the messages."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def readying(self, what: str) -> None:
        self.heard.append(what)


class Machine(LocalHost):
    """A host of one CPU whose busy share between two readings is the next one of ``shares``."""

    def __init__(self, *shares: float) -> None:
        super().__init__()
        self._shares = iter(shares)
        self._busy, self._total, self._readings = 0, 0, 0
        self._cpus = sorted(os.sched_getaffinity(0))

    def read(self, path: Path) -> bytes | None:
        if self._readings % 2:
            share = next(self._shares)
            self._busy, self._total = self._busy + int(100 * share), self._total + 100
        self._readings += 1
        ticks = f"{self._busy} 0 0 {self._total - self._busy} 0 0 0 0"
        return "".join(f"{name} {ticks}\n" for name in ("cpu", *(f"cpu{cpu}" for cpu in self._cpus))).encode()


def quiet(minutes: float) -> QuietWait:
    """Return a wait whose clock advances by 2 s with each look."""
    clock = [0.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    return QuietWait(minutes, sleep=sleep, now=lambda: clock[0])


def test_a_quiet_machine_is_not_waited_for() -> None:
    listener = Hearing()
    quiet(5).wait([Machine(0.03)], listener)
    assert listener.heard == []


def test_a_busy_machine_is_waited_for_until_it_is_quiet() -> None:
    listener = Hearing()
    quiet(5).wait([Machine(0.55, 0.4, 0.02)], listener)
    assert listener.heard == [
        "other processes take 55% of the CPUs of this machine: waiting until they take less than 10%, at most "
        "5 minutes (--wait-quiet)",
        "the machine is quiet: the run starts",
    ]


def test_after_the_minutes_the_run_starts_all_the_same() -> None:
    listener = Hearing()
    quiet(0.1).wait([Machine(*[0.6] * 9)], listener)
    assert listener.heard[-1] == (
        "other processes still take 60% of the CPUs of this machine after 0.1 minutes: the run starts anyway"
    )


@pytest.fixture
def hog() -> Iterator[int]:
    """Yield a CPU that a real process keeps busy."""
    cpu = min(os.sched_getaffinity(0))
    process = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE
    )
    try:
        os.sched_setaffinity(process.pid, {cpu})
        assert process.stdout is not None
        process.stdout.readline()
        yield cpu
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.mark.process
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs to choose from")
def test_runs_on_other_cpus_are_not_pooled(bench: Bench) -> None:
    bench.write(protocol={**THREE, "repeats": 2})
    allowed = sorted(os.sched_getaffinity(0))
    try:
        bench.call("--cpus", str(allowed[0]))
        (second,) = bench.out.glob("runs/*/2")
        shutil.rmtree(second)
        os.sched_setaffinity(0, allowed)
        called = bench.call("--cpus", str(allowed[1]), "--resume")
    finally:
        os.sched_setaffinity(0, allowed)
    assert called.returncode == 2, called.stderr
    assert f"pinned was {allowed[0]} and is {allowed[1]}" in called.stderr


@pytest.mark.process
def test_a_run_next_to_a_hog_waits_and_its_message_says_what_to_do(bench: Bench, hog: int) -> None:
    """Run on the hog's CPU for real: ``--wait-quiet`` reports it, the gate finds it, and the advice follows."""
    bench.write({"options": {"behaviour": "window-of-1"}}, protocol={**THREE, "repeats": 1}, gates=ALL)
    allowed = os.sched_getaffinity(0)
    try:
        called = bench.call("--wait-quiet", "0", "--cpus", str(hog))
    finally:
        os.sched_setaffinity(0, allowed)
    assert "of the CPUs of this machine after 0 minutes: the run starts anyway" in called.stderr, (
        called.stderr
    )
    assert "suspect: other processes took" in called.stderr
    assert (
        "the machine disturbed 1 of 1 runs (cpu-shared): the number is the median of all of them"
        in called.stdout
    )
    for step in (
        "--wait-quiet MINUTES",
        "--cpus LIST",
        "CPU time per sample",
        "gates: {off: [cpu-shared]}",
        "repeats",
    ):
        assert step in called.stdout, step
    assert "--wait-quiet 0" in (bench.out / "results.json").read_text()


def test_runs_that_differ_by_too_much_are_advised_to_be_more(bench: Bench) -> None:
    results = disagreeing(bench)
    assert results.findings is not None
    (advice,) = results.findings.advice
    assert advice.reason.startswith("the fastest of 3 runs is 3 times as fast as the slowest")
    assert (
        advice.steps[0] == "raise `repeats` in the suite's protocol (`--repeats` of a command) to 6 or more"
    )
    assert "raise `repeats` in the suite's protocol (`--repeats` of a command) to 6 or more" in render_table(
        results
    )


def test_the_output_of_a_command_has_the_advice_and_what_was_inspected(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    found = CommandSuite(name="x", suite={}, card={}, recognised=Recognised(None, None, None, None, None))
    print_command_results(disagreeing(bench), bench.out, found)
    printed = capsys.readouterr().out
    assert "watched     21 samples over 0.4 s, in 3 of 3 runs" in printed
    assert (
        f"what to do  raise `repeats` under `protocol` in {bench.out / 'command.yaml'} (`--repeats` of a command) to "
        "6 or more" in printed
    )


def disagreeing(bench: Bench) -> Results:
    """Return the results of three runs of which the last is three times as fast as the first."""
    suite = bench.write({}, protocol=THREE, gates=ALL)
    bench.run()
    for number, folder in enumerate(sorted(bench.out.glob("runs/*/[1-3]")), start=1):
        set_rate(folder, 100.0 * number)
        disturb([folder], 0.0)
    return collect_results(suite, ResultDirectory(bench.out), None)


def test_runs_of_different_records_have_the_range_of_their_numbers(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    results = disagreeing(bench)
    (case,) = results.cases
    runs = [
        run.model_copy(
            update={
                "measurement": run.measurement.model_copy(
                    update={"measured_steps": 2 + at, "warmup_steps": 1}
                )
            }
        )
        for at, run in enumerate(case.runs)
        if run.measurement is not None
    ]
    differing = results.model_copy(update={"cases": (case.model_copy(update={"runs": tuple(runs)}),)})
    found = CommandSuite(name="x", suite={}, card={}, recognised=Recognised(None, None, None, None, None))
    print_command_results(differing, bench.out, found)
    assert "3 runs, 2 to 4 records after 1, " in capsys.readouterr().out


def test_disturbed_runs_and_runs_that_nobody_inspected_are_counted_separately(bench: Bench) -> None:
    suite = bench.write({}, protocol=THREE, gates=ALL)
    bench.run()
    disturb(sorted(bench.out.glob("runs/*/[12]")), 0.5)
    forget_telemetry(sorted(bench.out.glob("runs/*/3")))
    results = collect_results(suite, ResultDirectory(bench.out), None)
    assert results.findings is not None
    (advice,) = results.findings.advice
    assert advice.reason == (
        "the machine disturbed 2 of 3 runs (cpu-shared), and 1 was not watched: the number is the median of all of "
        "them, without an interval"
    )
    (case,) = results.cases
    assert [doubt.code for doubt in case.suspicions] == ["not-looked"]
    assert case.suspicions[0].sentence == (
        "the number is the median of all 3 runs: the machine disturbed 2 of them, and 1 was not watched"
    )


def test_a_list_of_cpus_has_numbers_and_ranges() -> None:
    assert parse_cpus("0-2,5") == {0, 1, 2, 5}
    for text in ("", "a", "1-", "-1", "3-1", "1,,2"):
        with pytest.raises(ValueError, match=r"is neither a number nor|ends before it begins"):
            parse_cpus(text)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--cpus", "0,x"), "--cpus 0,x: 'x' is neither a number nor a range such as 0-3"),
        (("--cpus", "4095"), "--cpus 4095: CPU 4095 is not one that this program may use"),
        (("--wait-quiet", "-1"), "--wait-quiet -1: minutes must not be negative"),
        (("--cpus", "0", "--hosts", "slurm"), "--cpus 0: is for this machine"),
    ],
)
def test_a_flag_that_cannot_be_followed_is_refused_in_one_line(
    bench: Bench, words: tuple[str, ...], message: str
) -> None:
    bench.write({})
    called = call_trainmark(*bench.words(*words), variables=bench.environment())
    assert called.returncode == 2
    assert message in called.stderr
    assert not bench.out.exists()
