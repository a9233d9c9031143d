"""``trainmark report``: what it prints, what it writes, and what it says about a folder that is none of ours."""

import json
from pathlib import Path

import pytest
import sample_results as sample

from trainmark.cli.main import main
from trainmark.files import write_atomically
from trainmark.report import render_csv, render_table
from trainmark.report.language import Language
from trainmark.store import read_results


@pytest.fixture
def out(tmp_path: Path) -> Path:
    results = sample.two_sizes()
    sample.write_runs(tmp_path / "out", results)
    write_atomically(tmp_path / "out" / "results.json", results.to_json())
    return tmp_path / "out"


def test_without_a_format_all_report_files_are_written(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(out)]) == 0
    names = [
        "results.csv",
        "runs.csv",
        "plots/throughput.svg",
        "plots/scaling.svg",
        "plots/steps.svg",
        "report.md",
        "report.html",
    ]
    assert all((out / name).stat().st_size > 100 for name in names)
    reported = capsys.readouterr()
    assert reported.out == ""
    assert reported.err.splitlines() == [f"wrote {out / name}" for name in names]


def test_writing_twice_gives_the_same_files(out: Path) -> None:
    main(["report", str(out)])
    first = {name: (out / name).read_bytes() for name in ("report.md", "report.html", "plots/steps.svg")}
    main(["report", str(out)])
    assert first == {name: (out / name).read_bytes() for name in first}


def test_markdown_goes_to_standard_output(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(out), "--to", "md", "--lang", "zh"]) == 0
    assert capsys.readouterr().out.startswith("# resnet50-v100：训练吞吐率\n")


def test_markdown_in_another_folder_links_to_the_runs_and_has_its_plots_next_to_it(
    out: Path, tmp_path: Path
) -> None:
    (tmp_path / "docs").mkdir()
    file = tmp_path / "docs" / "v100.md"
    assert main(["report", str(out), "--to", "md", "--output", str(file)]) == 0
    text = file.read_text()
    assert "](v100-plots/throughput.svg)" in text
    assert (tmp_path / "docs" / "v100-plots" / "throughput.svg").is_file()
    assert "](../out/runs/" in text


def test_html_csv_and_json_are_what_the_library_gives(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = read_results(out / "results.json")
    assert main(["report", str(out), "--to", "csv"]) == 0
    assert capsys.readouterr().out == render_csv(results)
    assert main(["report", str(out), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((out / "results.json").read_text())
    assert main(["report", str(out), "--to", "html"]) == 0
    assert capsys.readouterr().out.startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        (None, "no such file"),
        ("{", "not a trainmark.results/1 document"),
        ('{"schema_name": "trainmark.results/2"}', "a trainmark.results/2 document of a newer trainmark"),
    ],
)
def test_a_folder_without_our_results_is_one_line_and_exit_2(
    document: str | None, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if document is not None:
        (tmp_path / "results.json").write_text(document)
    assert main(["report", str(tmp_path), "--to", "md"]) == 2
    reported = capsys.readouterr()
    assert reported.out == ""
    assert reported.err.count("\n") == 1
    assert complaint in reported.err
    assert "results.json" in reported.err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["nowhere"], "nowhere: no such result directory or database"),
        (["{out}", "--json", "--to", "md"], "contradict"),
        (["{out}", "--output", "x.md"], "--output needs --to"),
        (["{out}", "--to", "csv", "--output", "{out}/missing/x.csv"], "/missing does not exist"),
        (
            ["{out}", "--to", "md", "--output", "{out}/missing/x.md"],
            "/missing/x.md: the folder {out}/missing",
        ),
        (["{out}", "--to", "csv", "--output", "{out}"], "cannot be written"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_exit_2(
    words: list[str], complaint: str, out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", *(word.format(out=out) for word in words)]) == 2
    reported = capsys.readouterr()
    assert reported.err.count("\n") == 1
    assert complaint.format(out=out) in reported.err


def test_the_terminal_table_is_plain_aligned_text() -> None:
    lines = render_table(sample.ngc_v100()).splitlines()
    table = lines[lines.index(next(line for line in lines if line.startswith("nodes"))) :][:5]
    assert table[1].replace("-", "").replace(" ", "") == ""
    assert [line.split()[1] for line in table[2:]] == ["1", "8", "32"]
    assert "amp-fp16 b128 4n8g: OOM: CUDA out of memory: tried to allocate 2.00 GiB on rank 3" in lines


def test_the_terminal_says_how_many_runs_were_waited_for_and_why_no_more() -> None:
    lines = render_table(sample.waited_for()).splitlines()
    title = lines.index("Number of runs")
    assert "maximum number of runs" in " ".join(lines[title:])
    assert "Number of runs" not in render_table(sample.one_case(3)).splitlines()


def test_runs_that_were_all_spoiled_are_not_counted_twice() -> None:
    found = sample.waited_for()
    (case,) = found.cases
    assert case.repeats is not None
    spoiled = sample.THROTTLED.model_copy(update={"code": "gpu-throttled"})
    changed = case.model_copy(
        update={
            "runs": tuple(run.model_copy(update={"suspicions": (spoiled,)}) for run in case.runs),
            "repeats": case.repeats.model_copy(update={"spoiled": 2}),
        }
    )

    assert "2, 1 more disturbed" in render_table(found)
    table = render_table(found.model_copy(update={"cases": (changed,)}))
    assert "2, all disturbed" in table
    assert "more disturbed" not in table


def test_the_terminal_table_carries_no_commands_to_the_terminal() -> None:
    for language in Language:
        assert "\x1b" not in render_table(sample.hostile(), language)
