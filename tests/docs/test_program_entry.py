"""A stored entry of a measured program follows from its result directory and a separate clock."""

import json
import threading
import time
from pathlib import Path

import pytest

import program_entry
from foreign_cards import written
from trainmark.cli.main import main

STORED = Path(__file__).parents[2] / "docs" / "results"
HERE = "this machine"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A result directory of the tests' small program, whose log a separate clock stamped."""
    folder = tmp_path_factory.mktemp("entry")
    clock = threading.Thread(target=program_entry.clock, args=(folder / "out", time.time() + 60), daemon=True)
    clock.start()
    suite = written(folder, command=["{source}/train_mlp.py", "--style=nanogpt", "--steps=3000"])
    assert main(["run", str(suite), "--out", str(folder / "out")]) in (0, 1)
    return folder / "out"


@pytest.mark.process
def test_an_entry_has_the_number_and_its_two_witnesses(result: Path) -> None:
    (entry,) = program_entry.entries(result, "tests train_mlp.py", HERE)

    (case,) = json.loads((result / "results.json").read_text())["cases"]
    (run,) = entry["runs"]
    measured = case["runs"][0]["measurement"]
    assert (entry["card"], entry["framework"], entry["machine"]) == ("mlp", "python", HERE)
    assert entry["command"].startswith("python ")
    assert str(Path.home()) not in entry["command"]
    assert (run["throughput"], run["measured_records"]) == (
        measured["throughput"],
        measured["measured_steps"],
    )
    assert run["printed_by_the_program"] == pytest.approx(run["throughput"], rel=0.05)
    # A busy machine may let the clock look late at either end of a window of about a second.
    assert run["by_separate_clock"] == pytest.approx(run["throughput"], rel=0.25)


@pytest.mark.process
def test_a_result_without_a_separate_clock_has_none_invented(result: Path) -> None:
    stamps = program_entry.clock_folder(result)
    stamps.rename(stamps.with_name("elsewhere"))
    try:
        (entry,) = program_entry.entries(result, "tests train_mlp.py", HERE)
    finally:
        stamps.with_name("elsewhere").rename(stamps)

    assert "by_separate_clock" not in entry["runs"][0]


@pytest.mark.process
def test_a_clock_that_ended_before_its_program_is_no_witness(result: Path) -> None:
    (stamps,) = program_entry.clock_folder(result).glob("runs/*/*")
    whole = stamps.read_text()
    stamps.write_text("".join(whole.splitlines(keepends=True)[:-2]))
    try:
        (entry,) = program_entry.entries(result, "tests train_mlp.py", HERE)
    finally:
        stamps.write_text(whole)

    assert "by_separate_clock" not in entry["runs"][0]


@pytest.mark.process
def test_an_entry_replaces_that_of_the_same_program_command_and_machine(result: Path) -> None:
    (entry,) = program_entry.entries(result, "tests train_mlp.py", HERE)
    old, other = entry | {"date": "2020-01-01"}, entry | {"machine": "another"}

    assert program_entry.replaced([old, other], [entry]) == [other, entry]


def test_a_trainers_run_is_timed_from_its_first_bar_to_its_summary() -> None:
    arrived = [
        (10.0, b"map: 100%|x| 0/200 [00:00<?]\n  Total optimization steps = 200\n"),
        (12.5, b"\r  0%|          | 0/200 [00:00<?, ?it/s]"),
        (60.0, b"\r 50%|#####     | 100/200 [00:47<00:47,  2.1it/s]"),
        (112.5, b"\n{'train_runtime': '100', 'train_samples_per_second': '8'}\n"),
        (120.0, b"saved\n"),
    ]

    assert program_entry.whole_run(arrived) == (200, 100.0)
    assert program_entry.whole_run(arrived[:3]) is None
    assert program_entry.whole_run([(1.0, b"step 1\n")]) is None


def test_twelve_programs_were_measured_by_their_cards() -> None:
    stored = [
        entry
        for path in sorted(STORED.glob("programs-*.json"))
        for entry in json.loads(path.read_text(encoding="utf-8"))
        if "card" in entry
    ]
    assert len({entry["program"] for entry in stored}) >= 12
    assert len({entry["framework"] for entry in stored}) >= 5
