"""``trainmark.measure`` in a training script: its number, its events, and what it refuses."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import trainmark
from trainmark.cli.main import main
from trainmark.logs.events import read_events
from trainmark.measure import measure_events
from trainmark.training_loop import CudaClock, HostClock, LoopMeasurement

SCRIPT = """\
import json, time
import trainmark as tm

ends = []
with tm.measure(unit="tokens", warmup=5) as m:
    for step in range(45):
        time.sleep(0.01 + 0.05 * (step == 0))
        m.step(512)
        ends.append(time.perf_counter())
    time.sleep(0.1)
print("outside", 40 * 512 / (ends[-1] - ends[4]))
"""


def loop(steps: int, *, work: int = 8, seconds: float = 0.0, **options: Any) -> LoopMeasurement:
    with trainmark.measure(quiet=True, **options) as m:
        for _ in range(steps):
            time.sleep(seconds)
            m.step(work)
    return m


def script(folder: Path, text: str = SCRIPT) -> Path:
    path = folder / "train.py"
    path.write_text(text, encoding="utf-8")
    return path


def test_each_step_is_a_line_where_blocks_are_cut_from_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loop(12)
    assert capsys.readouterr().out == ""
    monkeypatch.setenv("TRAINMARK_STEP_LINES", "1")
    loop(12)
    assert capsys.readouterr().out == "".join(f"trainmark: step {step}\n" for step in range(1, 13))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    loop(12, all_ranks=True)
    assert capsys.readouterr().out == ""


@pytest.mark.process
def test_a_script_alone_prints_the_number_of_the_clock_outside(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, script(tmp_path)], cwd=tmp_path, capture_output=True, text=True, check=True
    )

    ours, outside = ran.stdout.splitlines()
    assert ours.startswith("trainmark: ")
    assert "tokens/s (40 steps in" in ours
    assert float(ours.split()[1]) == pytest.approx(float(outside.split()[1]), rel=0.01)
    assert list(tmp_path.iterdir()) == [tmp_path / "train.py"]


@pytest.mark.process
def test_a_run_of_the_script_has_the_number_of_its_events(tmp_path: Path) -> None:
    out = tmp_path / "out"

    code = main(["run", "--out", str(out), "--repeats", "1", "--", sys.executable, str(script(tmp_path))])

    (case,) = json.loads((out / "results.json").read_text())["cases"]
    (run,) = case["runs"]
    outside = float((out / run["directory"] / "train.log").read_text().split()[-1])
    assert (code, run["outcome"], run["measurement"]["rule"]) == (0, "ok", "window")
    assert run["measurement"]["unit"] == "tokens/s"
    assert (run["measurement"]["measured_steps"], run["measurement"]["warmup_steps"]) == (40, 5)
    assert run["measurement"]["throughput"] == pytest.approx(outside, rel=0.01)
    assert [doubt["code"] for doubt in run["suspicions"] if doubt["about"] == "work"] == []


@pytest.mark.process
def test_a_script_that_fails_is_an_outcome_with_its_error(tmp_path: Path) -> None:
    failing = SCRIPT.replace("m.step(512)", "m.step(512)\n        if step == 9: raise MemoryError('no more')")

    code = main(
        [
            "run",
            "--out",
            str(tmp_path / "out"),
            "--repeats",
            "1",
            "--",
            sys.executable,
            str(script(tmp_path, failing)),
        ]
    )

    (case,) = json.loads((tmp_path / "out" / "results.json").read_text())["cases"]
    assert (code, case["outcome"], case["reason"]) == (1, "oom", "MemoryError: no more")


@pytest.mark.process
def test_importing_it_imports_the_standard_library_only(tmp_path: Path) -> None:
    program = (
        "import sys; before = set(sys.modules); import trainmark as tm; m = tm.measure()\n"
        "names = {name.partition('.')[0] for name in set(sys.modules) - before} - sys.stdlib_module_names\n"
        "print(sorted(names), 'trainmark.measure' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == "['trainmark'] False"


def test_the_events_are_those_of_the_contract(tmp_path: Path) -> None:
    loop(30, work=4, seconds=0.001, events=tmp_path / "events.jsonl", unit="samples")

    measured = measure_events(read_events(tmp_path / "events.jsonl"))
    assert (measured.samples, measured.measured_steps, measured.warmup_steps) == (80, 20, 10)
    assert measured.unit == "samples/s"
    assert measured.step_times is not None
    assert measured.step_times.minimum >= 0.001


def test_steps_of_different_work_are_added(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with trainmark.measure(unit="tokens", warmup=1, events=path, quiet=True) as m:
        for work in (100, 7, 8, 9):
            time.sleep(0.002)
            m.step(work)

    measured = measure_events(read_events(path))
    assert (measured.work, measured.measured_steps) == ({"tokens": 24}, 3)
    assert measured.throughput == pytest.approx(m.result.throughput)


def test_a_loop_that_ends_in_its_warmup_has_no_number_and_a_reason(tmp_path: Path) -> None:
    m = loop(7, events=tmp_path / "events.jsonl")

    assert m.result.throughput is None
    assert "7 steps, and the first 10 are warm-up" in str(m.result)
    summary = read_events(tmp_path / "events.jsonl").summary
    assert summary["outcome"] == "invalid"


def test_an_interrupt_ends_the_window_at_the_last_step() -> None:
    measured = trainmark.measure(warmup=1, quiet=True)

    def train() -> None:
        with measured as m:
            for _ in range(5):
                m.step(1)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train()

    assert measured.result.steps == 4
    assert measured.result.throughput is not None


@pytest.mark.parametrize("work", [0, -1, 1.5])
def test_work_that_is_no_whole_number_is_refused(work: Any) -> None:
    with pytest.raises(ValueError, match="whole number of tokens"), trainmark.measure(unit="tokens") as m:
        m.step(work)


def test_a_step_outside_the_block_and_a_result_before_its_end_are_refused() -> None:
    m = trainmark.measure(quiet=True)
    with pytest.raises(RuntimeError, match="belongs inside"):
        m.step(1)
    with pytest.raises(RuntimeError, match="not finished"):
        _ = m.result
    with pytest.raises(ValueError, match="first step"):
        trainmark.measure(warmup=0)
    with pytest.raises(ValueError, match="unit"):
        trainmark.measure(unit="/s")


def test_the_device_is_waited_for_at_both_ends_only() -> None:
    waits: list[float] = []
    loop(20, warmup=5, synchronize=lambda: waits.append(time.perf_counter()))

    assert len(waits) == 2


def test_a_block_that_goes_on_after_its_last_step_is_in_doubt_where_a_device_is_waited_for() -> None:
    with trainmark.measure(warmup=1, synchronize=lambda: None, quiet=True) as m:
        for _ in range(5):
            time.sleep(0.002)
            m.step(1)
        time.sleep(0.05)

    assert m.result.doubt is not None
    assert "leave it after the last step" in m.result.doubt


def test_without_a_device_the_window_ends_with_the_last_step() -> None:
    clock = HostClock(None)
    clock.mark()
    clock.mark()
    time.sleep(0.02)

    assert sum(clock.seconds()) < 0.01


def test_a_cuda_device_is_timed_by_its_events() -> None:
    class Event:
        made = 0

        def __init__(self, *, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            Event.made += 1
            self.at = Event.made * 20.0

        def elapsed_time(self, other: "Event") -> float:
            return other.at - self.at

    waits: list[int] = []
    clock = CudaClock(SimpleNamespace(Event=Event, synchronize=lambda: waits.append(Event.made)))
    for _ in range(4):
        clock.mark()

    assert clock.seconds() == [0.02, 0.02, 0.02]
    assert waits == [0, 4]


def test_ranks_without_a_process_group_have_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "4")

    m = loop(20, warmup=2)
    assert "there are 4 ranks and no process group" in str(m.result)
    assert loop(20, warmup=2, all_ranks=True).result.throughput is not None


def test_a_second_loop_of_a_run_does_not_replace_its_events(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINMARK_EVENTS", str(tmp_path / "events.jsonl"))

    loop(20, work=3)
    loop(20, work=5)

    events = read_events(tmp_path / "events.jsonl")
    assert events.parameters.global_batch == 3
    (doubt,) = measure_events(events).suspicions
    assert doubt.code == "several-loops"
    assert "measured 2 loops, and the number is that of the first" in doubt.sentence


def test_a_loop_of_another_process_of_the_run_puts_the_number_in_doubt(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    script = (
        "import sys, trainmark\n"
        "with trainmark.measure() as m:\n    for _ in range(20):\n        m.step(int(sys.argv[1]))\n"
        "        if sys.argv[1] == '9': raise SystemExit\n"
    )
    # One that fails and is started again has the number of the second attempt.
    for work in ("9", "3", "5"):
        subprocess.run(
            [sys.executable, "-c", script, work],
            env={**os.environ, "TRAINMARK_EVENTS": str(events)},
            check=True,
        )

    found = read_events(events)
    assert found.parameters.global_batch == 3
    (doubt,) = measure_events(found).suspicions
    assert doubt.code == "several-loops"
    assert "several processes of the run measured a loop each" in doubt.sentence
    assert [path.name for path in tmp_path.iterdir()] == ["events.jsonl"]


def test_events_that_cannot_be_written_do_not_end_the_training(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    m = loop(20, events=tmp_path / "missing" / "events.jsonl")

    assert m.result.throughput is not None
    assert "events cannot be written: No such file" in capsys.readouterr().err


def test_a_host_that_is_ahead_of_its_device_knows_no_step_times(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    m = loop(40, warmup=5, synchronize=lambda: time.sleep(0.05), events=events)

    measured = measure_events(read_events(events))
    assert m.result.window_s is not None
    assert m.result.window_s > 0.05
    assert (measured.measured_steps, measured.step_times) == (35, None)
    assert measured.throughput == pytest.approx(m.result.throughput)


def test_a_host_that_waits_for_each_step_knows_the_step_times(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    loop(20, warmup=5, seconds=0.002, synchronize=lambda: None, events=events)

    times = measure_events(read_events(events)).step_times
    assert times is not None
    assert times.p50 >= 0.002


ENDLESS = """\
import time
import trainmark as tm

with tm.measure(unit="tokens", warmup=5) as m:
    while True:
        time.sleep(0.01)
        m.step(512)
"""


@pytest.mark.process
def test_a_loop_that_prints_nothing_is_ended_after_its_steps(tmp_path: Path) -> None:
    out = tmp_path / "out"
    words = [sys.executable, str(script(tmp_path, ENDLESS))]

    main(["run", "--out", str(out), "--repeats", "1", "--steps", "60", "--timeout", "60", "--", *words])

    (run,) = json.loads((out / "results.json").read_text())["cases"][0]["runs"]
    assert run["reason"] == "ended on purpose after 60 steps"
    assert 55 <= run["measurement"]["measured_steps"] < 2000
    assert not list(out.rglob("*.progress"))


@pytest.mark.process
@pytest.mark.parametrize(("error", "outcome"), [("KeyboardInterrupt", "ok"), ("ValueError('boom')", None)])
def test_a_callback_that_no_interrupt_reaches_is_measured_to_its_last_step(
    error: str, outcome: str | None, tmp_path: Path
) -> None:
    callback = f"""\
import time
import trainmark as tm

m = tm.measure(unit="tokens", warmup=5, events="events.jsonl")
m.__enter__()
for step in range(30):
    time.sleep(0.002)
    m.step(8)
raise {error}
"""
    subprocess.run(
        [sys.executable, script(tmp_path, callback)], cwd=tmp_path, capture_output=True, check=False
    )

    summary = read_events(tmp_path / "events.jsonl").summary
    assert summary.get("outcome") == outcome
    assert summary.get("work", {"tokens": 200}) == {"tokens": 200}
