"""``trainmark audit`` as it is called: rows, summary, exit codes."""

import json
from pathlib import Path

import pytest

from preloading import call_trainmark
from trainmark.logs.synthetic import SampleRun
from trainmark.programs import synthetic_log


def _trainmark(*words: str | Path) -> tuple[int, str, str]:
    done = call_trainmark(*words)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    times = [0.5 + 0.01 * ((7 * i) % 11) for i in range(150)]
    text = synthetic_log("ngc-pytorch-convnets", SampleRun(times, gpus=8, batch_per_device=64))
    (tmp_path / "pytorch_gpu8_fp32_bs64.txt").write_text(text)
    return tmp_path


def test_each_row_gets_its_verdict_and_the_exit_code_shows_whether_all_are_reproduced(folder: Path) -> None:
    name = "pytorch_gpu8_fp32_bs64.txt"
    parsed = _trainmark("parse", folder / name, "--rule", "mean-skip-9", "--json")
    value = json.loads(parsed[1])["throughput"]
    table = folder / "table.csv"
    table.write_text(
        f"log,published,gpus,batch,unit\n{name},{value:.3f},8,64,images/s\n{name},{value * 0.97:.3f},8,64,\nx,1,,,\n"
    )

    code, stdout, stderr = _trainmark("audit", table, "--logs", folder, "--json")

    rows = [json.loads(line) for line in stdout.splitlines()]
    assert code == 1
    assert [row["verdict"] for row in rows] == ["reproduced", "contradicted", "unreadable"]
    assert [list(row) for row in rows] == [
        ["log", "published", "verdict", "rule", "value", "deviation", "chance", "note"]
    ] * 3
    assert (rows[0]["rule"], rows[0]["value"]) == ("mean-skip-9", value)
    assert rows[1]["rule"] is None
    assert rows[1]["deviation"] == pytest.approx(-0.03, abs=1e-5)
    assert "1 reproduced, 0 unexplained, 0 incomparable, 1 contradicted, 1 unreadable" in stderr


def test_a_reproduced_table_gives_exit_code_0_and_a_summary(folder: Path) -> None:
    name = "pytorch_gpu8_fp32_bs64.txt"
    value = json.loads(_trainmark("parse", folder / name, "--rule", "summary", "--json")[1])["throughput"]
    table = folder / "table.csv"
    table.write_text(f"log,published\n{name},{value:.2f}\n")

    code, stdout, _ = _trainmark("audit", table, "--logs", folder)

    assert code == 0
    assert "1 value: 1 reproduced, 0 unexplained, 0 incomparable, 0 contradicted, 0 unreadable" in stdout
    assert "1 by summary" in stdout


@pytest.mark.parametrize(
    ("table", "logs", "expected"),
    [
        ("log,published\n", ".", "has no row"),
        ("log,value\na,1\n", ".", "no column 'published'"),
        ("log,published\na,1\n", "nowhere", "no such folder"),
    ],
)
def test_a_usage_error_is_one_line_and_exit_code_2(
    tmp_path: Path, table: str, logs: str, expected: str
) -> None:
    (tmp_path / "t.csv").write_text(table)

    code, stdout, stderr = _trainmark("audit", tmp_path / "t.csv", "--logs", tmp_path / logs)

    assert (code, stdout) == (2, "")
    assert expected in stderr
    assert stderr.count("\n") == 1


def test_a_log_of_an_unknown_format_names_the_verb_that_has_the_option(folder: Path) -> None:
    (folder / "own.log").write_text("nothing to see\n")
    table = folder / "table.csv"
    table.write_text("log,published\nown.log,1000\n")

    code, stdout, _ = _trainmark("audit", table, "--logs", folder)

    assert code == 1
    assert "trainmark parse --format FILE.yaml reads it by a description" in stdout
