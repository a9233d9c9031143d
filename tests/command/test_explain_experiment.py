"""``explain A --against B --test`` with another project's program, started for real."""

import json
import sys
from pathlib import Path

import pytest

from fakes import PROGRAMS
from trainmark.cli.main import main
from trainmark.schema.names import DECOMPOSITION

pytestmark = pytest.mark.process

PROGRAM = PROGRAMS / "command" / "bound.py"
SLOW, FAST = "out#bound-load0.012-work0.002", "out#bound-load0.004-work0.001"


@pytest.fixture(autouse=True)
def back(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


def measure(load: str = "0.012,0.004", work: str = "0.002,0.001") -> None:
    command = [sys.executable, str(PROGRAM), "--load", "{load}", "--work", "{work}"]
    options = ["--repeats", "1", "--vary", f"load={load}", "--vary", f"work={work}"]
    main(["run", "--out", "out", *options, "--", *command])


def test_each_option_is_tested_alone_and_the_product_is_the_gap(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measure()
    capsys.readouterr()
    words = ["explain", SLOW, "--against", FAST, "--test", "--out", "test", "--budget", "5min"]

    main(words)

    printed = capsys.readouterr()
    assert "2 factors in 4 cases: load (0.012 -> 0.004), work (0.002 -> 0.001)" in printed.err
    assert "added to A" in printed.out
    found = json.loads((tmp_path / "test" / DECOMPOSITION).read_text())
    # A had one run, of which no interval can be had.
    assert len(list((tmp_path / "test" / "runs").glob("*/[123]"))) == 12
    load, work = found["factors"]
    assert load["added"]["interval"] is not None
    assert load["added"]["value"] > work["added"]["value"] > 0.8
    product = load["added"]["value"] * work["added"]["value"] * found["interaction"]["value"]
    assert product == pytest.approx(found["measured"]["value"])
    page = (tmp_path / "test" / "report.md").read_text()
    assert "From A to B, factor by factor" in page

    assert main(words) == 2
    assert "add --resume to continue" in capsys.readouterr().err
    main([*words, "--resume"])
    again = json.loads((tmp_path / "test" / DECOMPOSITION).read_text())
    assert again["factors"] == found["factors"]


def test_what_cannot_be_run_again_is_refused_before_anything_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    measure(load="0.004", work="0.001")
    log = next((tmp_path / "out" / "runs").glob("*/1/train.log"))
    capsys.readouterr()

    assert main(["explain", FAST, "--against", str(log), "--test"]) == 2
    assert "is not a case of a result directory" in capsys.readouterr().err
    assert main(["explain", FAST, "--against", FAST, "--test"]) == 2
    assert "A and B are the same case" in capsys.readouterr().err
    assert main(["explain", FAST, "--test"]) == 2
    assert "--test needs --against B" in capsys.readouterr().err
    assert main(["explain", FAST, "--against", FAST, "--budget", "3min"]) == 2
    assert "--out, --resume and --budget are for --test" in capsys.readouterr().err
    assert not (tmp_path / "results").exists()
