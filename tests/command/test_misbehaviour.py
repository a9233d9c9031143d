"""Whatever a program does to its folder, its files or its output is the outcome of its run; the campaign goes on."""

import ctypes
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from trainmark.cli.main import main

PROGRAM = Path(__file__).with_name("misbehave.py")

pytestmark = pytest.mark.process


class Campaign:
    """A campaign of a program that does a deed and of one that does none, by a command line or by a card."""

    def __init__(self, folder: Path, start: str) -> None:
        self.folder, self.start, self.repeats = folder, start, 1
        self.suite = folder / ("command.yaml" if start == "card" else "out/command.yaml")

    def words(self, deed: str, *more: str) -> list[str]:
        """Return the arguments of ``trainmark`` that measure the deed and then the well-behaved program."""
        (self.folder / "train.py").write_bytes(PROGRAM.read_bytes())
        command = [sys.executable, str(self.folder / "train.py"), "{deed}"]
        options = [
            "--out",
            "out",
            "--name",
            "mlp",
            "--repeats",
            str(self.repeats),
            "--vary",
            f"deed={deed},nothing",
        ]
        if self.start == "card":
            from trainmark.cli.run_options import CommandOptions
            from trainmark.cli.suite_input import command_suite

            given = CommandOptions(name="mlp", repeats=self.repeats, vary=[f"deed={deed},nothing"])
            found = command_suite(command, given, self.folder)
            (self.folder / "command.yaml").write_text(yaml.safe_dump(found.suite))
            card = {**found.card, "working_directory": "run"}
            (self.folder / "card.yaml").write_text(yaml.safe_dump(card))
            return ["run", "command.yaml", "--out", "out", *more]
        return ["run", *options, *more, "--", *command]

    def results(self) -> list[list[dict[str, Any]]]:
        """Return the runs of the deed, and those of the well-behaved program."""
        document = json.loads((self.folder / "out" / "results.json").read_text())
        return [case["runs"] for case in document["cases"]]

    def measure(self, deed: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Run the campaign and resume it; return the runs of the deed and the others."""
        assert main(self.words(deed)) in (0, 1)
        bad, good = self.results()
        assert main(self.words(deed, "--resume")) in (0, 1)
        again, _ = self.results()
        assert [(run["outcome"], run["reason"]) for run in again] == [
            (run["outcome"], run["reason"]) for run in bad
        ]
        assert [run["outcome"] for run in good] == ["ok"], good[0]["reason"]
        return bad, good


# By a card the program works in the run's own folder; what that changes is tried always, the other deeds rarely.
@pytest.fixture(params=["command", pytest.param("card", marks=pytest.mark.rare)])
def campaign(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Campaign:
    monkeypatch.chdir(tmp_path)
    return Campaign(tmp_path, request.param)


def records(run: dict[str, Any]) -> int:
    return int(run["measurement"]["warmup_steps"] + run["measurement"]["measured_steps"])


DEEDS = ("remove-folder", "replace-folder", "replace-log", "replace-files", "fill-folder")
BY_BOTH = pytest.mark.parametrize("campaign", ["command", "card"], indirect=True)


@pytest.mark.parametrize(
    ("campaign", "deed"),
    [
        *(("command", deed) for deed in DEEDS),
        ("card", "remove-folder"),
        *(pytest.param("card", deed, marks=pytest.mark.rare) for deed in DEEDS[1:]),
    ],
    indirect=["campaign"],
)
def test_the_log_is_measured_whatever_happens_to_the_folder(deed: str, campaign: Campaign) -> None:
    bad, _ = campaign.measure(deed)

    assert [(run["outcome"], run["reason"]) for run in bad] == [("ok", None)]
    assert [records(run) for run in bad] == [60]
    for run in bad:
        folder = campaign.folder / "out" / run["directory"]
        assert (folder / "train.log").read_text().count("step") == 60
        assert (folder / "telemetry.jsonl").read_text().count("wall_s") > 1


def _without_override() -> None:
    """Give up root's right to write into a folder that is read-only."""
    libc = ctypes.CDLL(None)
    for capability in (1, 2):
        libc.prctl(24, capability, 0, 0, 0)


def test_a_folder_made_read_only_is_made_writable_again(campaign: Campaign) -> None:
    preexec: Callable[[], None] | None = _without_override if os.getuid() == 0 else None
    words = campaign.words("lock-folder")
    done = subprocess.run(
        [sys.executable, "-m", "trainmark.cli.main", *words],
        preexec_fn=preexec,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode in (0, 1), done.stderr
    bad, good = campaign.results()
    assert [run["outcome"] for run in (*bad, *good)] == 2 * ["ok"]


def test_a_daemon_that_outlives_its_program_is_ended(campaign: Campaign) -> None:
    bad, _ = campaign.measure("start-daemon")

    assert [run["outcome"] for run in bad] == ["ok"]
    number = int((campaign.folder / "out" / bad[0]["directory"] / "daemon.pid").read_text())
    assert not psutil.pid_exists(number)


def test_a_daemon_with_a_session_of_its_own_and_a_cleared_environment_is_ended_and_named(
    campaign: Campaign,
) -> None:
    bad, good = campaign.measure("hide-daemon")

    number = int((campaign.folder / "out" / bad[0]["directory"] / "daemon.pid").read_text())
    assert not psutil.pid_exists(number)
    (doubt,) = (doubt for doubt in bad[0]["suspicions"] if doubt["code"] == "daemon-left")
    assert f"-c import time; time.sleep(300)' (process {number})" in doubt["sentence"]
    assert [run["outcome"] for run in bad] == ["ok"]
    outcome = json.loads((campaign.folder / "out" / bad[0]["directory"] / "outcome.json").read_text())
    assert outcome["strays"] == 1
    assert "daemon-left" not in {doubt["code"] for doubt in good[0]["suspicions"]}


def test_closed_output_ends_the_log_and_not_the_campaign(campaign: Campaign) -> None:
    bad, _ = campaign.measure("close-output")

    assert [(run["outcome"], records(run)) for run in bad] == [("ok", 41)]


@BY_BOTH
def test_a_program_that_kills_its_group_has_failed(campaign: Campaign) -> None:
    bad, _ = campaign.measure("kill-group")

    assert {run["outcome"] for run in bad} == {"failed"}
    assert "SIGKILL" in bad[0]["reason"]


def test_escape_sequences_do_not_reach_the_terminal_or_the_report(
    campaign: Campaign, capsys: pytest.CaptureFixture[str]
) -> None:
    bad, _ = campaign.measure("print-escapes")

    assert {run["outcome"] for run in bad} == {"failed"}
    assert "failed" in bad[0]["reason"]
    printed = capsys.readouterr()
    controls = {chr(code) for code in (*range(32), *range(127, 160))} - {"\n"}
    texts = [printed.out, *(run["reason"] for run in bad)]
    texts += [(campaign.folder / "out" / name).read_text() for name in ("report.html", "results.json")]
    assert not [control for text in texts for control in controls & set(text)]


def test_a_hundred_megabytes_of_output_are_read(campaign: Campaign) -> None:
    bad, _ = campaign.measure("flood-output")

    assert [(run["outcome"], records(run)) for run in bad] == [("ok", 60)]


@BY_BOTH
def test_a_program_that_changes_its_source_costs_its_own_case_alone(campaign: Campaign) -> None:
    campaign.repeats = 2
    assert main(campaign.words("change-source")) in (0, 1)

    bad, good = campaign.results()
    assert bad[0]["outcome"] == good[0]["outcome"] == "ok"
    assert "source-changed" in {doubt["code"] for run in (*bad, *good) for doubt in run["suspicions"]}
    assert bad[1]["outcome"] == "failed"
    assert "train.py has changed" in bad[1]["reason"]
    # No words(): they would write the program as it was.
    again = ["run", str(campaign.suite), "--out", "out", "--resume"]
    assert main(again) in (0, 1)
    assert campaign.results()[0][1]["outcome"] == "failed"
