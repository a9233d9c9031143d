"""A card's data: files with a digest, and declared stand-ins for what a program would download."""

import hashlib
import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from foreign_cards import planned, written
from trainmark.cli.main import main
from trainmark.workload.generate import write_images, write_text, write_tokens

READS = """
import pathlib, sys, time
data = pathlib.Path(sys.argv[1])
size = data.stat().st_size if data.is_file() else len(list(data.rglob("*.png")))
print(f"data of {size}", flush=True)
if len(sys.argv) > 2:
    data.write_text(sys.argv[2])
for step in range(1, 61):
    time.sleep(0.005)
    print(f"iter {step}: loss 1.0000, time 5.00ms, mfu 1.00%", flush=True)
"""


def card_that_reads(folder: Path, *words: str, suite: dict[str, Any] | None = None, **card: Any) -> Path:
    card = {
        "command": ["{source}/reads.py", *words],
        "work_per_step": 8,
        "unit": "tokens/s",
        "axes": {},
    } | card
    path = written(folder, {"cases": [{"workload": "mlp"}], **(suite or {})}, **card)
    (folder / "program" / "reads.py").write_text(READS)
    text = path.read_text()
    path.write_text(text[: text.index("defaults:")] + text[text.index("cases:") :])
    return path


def runs_of(folder: Path) -> list[dict[str, Any]]:
    (case,) = json.loads((folder / "out" / "results.json").read_text())["cases"]
    runs: list[dict[str, Any]] = case["runs"]
    return runs


def reason_of(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    (plan,) = planned(path, capsys)
    return str(plan["cannot_run"])


def test_plan_refuses_a_data_file_that_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = card_that_reads(tmp_path, "x", data_files=[{"path": "corpus.txt"}])

    assert f"the data file corpus.txt is missing: {tmp_path}/corpus.txt" in reason_of(path, capsys)


def test_plan_names_both_digests_of_a_data_file_that_is_another_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "corpus.txt").write_text("now")
    stated, now = (hashlib.sha256(text).hexdigest() for text in (b"before", b"now"))
    path = card_that_reads(tmp_path, "x", data_files=[{"path": "corpus.txt", "sha256": stated}])

    reason = reason_of(path, capsys)

    assert f"has the sha256 {now}, but the card states {stated}" in reason


def test_plan_names_both_sizes_of_a_data_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "corpus.txt").write_text("now")
    path = card_that_reads(tmp_path, "x", data_files=[{"path": "corpus.txt", "size": 5}])

    assert "the data file corpus.txt has 3 bytes, but the card states 5" in reason_of(path, capsys)


@pytest.mark.process
def test_a_data_file_is_part_of_a_runs_identity_and_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "corpus.txt"
    data.write_text("before")
    digest = hashlib.sha256(b"before").hexdigest()
    path = card_that_reads(
        tmp_path,
        str(data),
        suite={"protocol": {"name": "adaptive", "repeats": 2}},
        data_files=[{"path": "corpus.txt"}],
    )
    out = ["--out", str(tmp_path / "out")]
    assert main(["run", str(path), *out]) in (0, 1)
    run, other = runs_of(tmp_path)
    assert run["outcome"] == "ok", run["reason"]
    assert run["data_files"] == {"corpus.txt": digest}
    assert "files" in {part["name"] for part in run["identity"]["parts"]}

    # Without a stated digest, the earlier run states it.
    shutil.rmtree(tmp_path / "out" / other["directory"])
    data.write_text("after")
    capsys.readouterr()
    assert main(["run", str(path), *out, "--resume"]) == 2

    now = hashlib.sha256(b"after").hexdigest()
    assert f"corpus.txt was {digest[:12]}… and is now {now[:12]}…" in capsys.readouterr().err


@pytest.mark.process
def test_a_data_file_that_changes_during_a_run_puts_it_in_doubt(tmp_path: Path) -> None:
    data = tmp_path / "corpus.txt"
    data.write_text("before")
    path = card_that_reads(tmp_path, str(data), "after", data_files=[{"path": "corpus.txt"}])

    assert main(["run", str(path), "--out", str(tmp_path / "out")]) == 1

    (run,) = runs_of(tmp_path)
    (doubt,) = (one for one in run["suspicions"] if one["code"] == "data-changed")
    before, after = (hashlib.sha256(text).hexdigest()[:12] for text in (b"before", b"after"))
    assert f"corpus.txt was {before}… and is now {after}…" in doubt["sentence"]


@pytest.mark.process
def test_a_stand_in_is_made_for_the_run_and_declared_in_results_and_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINMARK_HOME", str(tmp_path / "home"))
    stand_in = {"path": "data/shakespeare/train.bin", "generator": "tokens", "count": 5000, "vocabulary": 65}
    path = card_that_reads(
        tmp_path, "data/shakespeare/train.bin", working_directory="source", stand_ins=[stand_in]
    )
    (plan,) = planned(path, capsys)
    descriptions = [step["description"] for step in plan["before"]]
    assert "stand-in for data/shakespeare/train.bin: random tokens" in descriptions

    assert main(["run", str(path), "--out", str(tmp_path / "out")]) in (0, 1)

    (run,) = runs_of(tmp_path)
    assert run["outcome"] == "ok", run["reason"]
    assert "data of 10000" in (tmp_path / "out" / run["directory"] / "train.log").read_text()
    assert run["stand_ins"] == {"data/shakespeare/train.bin": "random tokens"}
    assert "source-changed" not in {doubt["code"] for doubt in run["suspicions"]}
    report = (tmp_path / "out" / "report.md").read_text()
    assert "Data: stand-in, random tokens (data/shakespeare/train.bin), in 1 of 1 measured runs" in report
    assert not (tmp_path / "program" / "data" / "shakespeare" / "train.bin").is_symlink()


@pytest.mark.process
def test_a_stand_in_does_not_take_the_place_of_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINMARK_HOME", str(tmp_path / "home"))
    path = card_that_reads(
        tmp_path,
        "train.bin",
        working_directory="source",
        stand_ins=[{"path": "train.bin", "generator": "tokens", "count": 10}],
    )
    (tmp_path / "program" / "train.bin").write_text("real")

    assert main(["run", str(path), "--out", str(tmp_path / "out")]) == 1

    (run,) = runs_of(tmp_path)
    assert run["outcome"] == "failed"
    assert "train.bin: exists, but the card declares a stand-in for it" in run["reason"]
    assert (tmp_path / "program" / "train.bin").read_text() == "real"


@pytest.mark.process
def test_a_stand_in_by_a_command_has_its_description(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINMARK_HOME", str(tmp_path / "home"))
    make = "import sys; open(sys.argv[1], 'w').write('x' * 7)"
    stand_in = {
        "path": "corpus.txt",
        "command": [sys.executable, "-c", make, "{prepared}/corpus.txt"],
        "description": "seven letters",
    }
    path = card_that_reads(tmp_path, "corpus.txt", stand_ins=[stand_in])

    assert main(["run", str(path), "--out", str(tmp_path / "out")]) in (0, 1)

    (run,) = runs_of(tmp_path)
    assert run["outcome"] == "ok", run["reason"]
    assert "data of 7" in (tmp_path / "out" / run["directory"] / "train.log").read_text()
    assert run["stand_ins"] == {"corpus.txt": "seven letters"}


def test_generated_data_are_the_same_each_time(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_tokens(tmp_path / f"{name}.bin", 1000, 65)
        write_text(tmp_path / f"{name}.txt", 30, 20)
        write_images(tmp_path / name, 12, 4)

    for suffix in (".bin", ".txt", "/class3/000003.png"):
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()
    tokens = memoryview((tmp_path / "a.bin").read_bytes()).cast("H")
    assert (len(tokens), max(tokens) < 65) == (1000, True)
    assert len((tmp_path / "a.txt").read_text().split()) == 30
    from PIL import Image

    with Image.open(tmp_path / "a" / "class3" / "000003.png") as picture:
        assert (picture.size, picture.mode) == ((4, 4), "RGB")
    lines = (tmp_path / "a" / "list.txt").read_text().splitlines()
    assert len(lines) == 12
    assert lines[3] == "class3/000003.png 3"
