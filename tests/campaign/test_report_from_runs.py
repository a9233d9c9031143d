"""``trainmark report DIR`` reads the runs themselves: a killed trainmark leaves nothing else."""

import json
import shlex
import sqlite3
from pathlib import Path
from typing import Any

import pytest
import yaml

from fakes import Bench
from trainmark.cli.main import main
from trainmark.schema.names import EVENTS, LOG

STORED = Path(__file__).parents[2] / "docs" / "results" / "frameworks" / "equivalence"


def test_a_directory_without_results_json_is_reported_from_its_runs(bench: Bench) -> None:
    bench.write({}, {"precision": "bf16"})
    measured = bench.run()
    (bench.out / "results.json").unlink()
    assert main(["report", str(bench.out)]) == 0
    written = json.loads((bench.out / "results.json").read_text())
    medians = [case["estimate"]["median"] for case in written["cases"]]
    assert medians == [case.estimate.median for case in measured.cases if case.estimate]
    assert len(medians) == 2
    assert (bench.out / "report.html").exists()


def test_a_report_touches_no_run(bench: Bench) -> None:
    bench.write({})
    bench.run()
    (log,) = bench.out.glob(f"runs/*/1/{LOG}")
    before = log.stat().st_mtime_ns
    assert main(["report", str(bench.out), "--to", "csv", "--output", str(bench.folder / "x.csv")]) == 0
    assert log.stat().st_mtime_ns == before


def test_a_database_tells_the_command_that_made_its_results(
    bench: Bench, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.write({}, {"precision": "bf16"})
    words = ["run", str(bench.suite), "--out", str(bench.out), "--only", "precision=fp32"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINMARK_HOME", str(bench.folder / "home"))
        assert main(words) == 0
    made = shlex.join(["trainmark", *words])
    assert json.loads((bench.out / "results.json").read_text())["command"] == made
    into = tmp_path_factory.mktemp("into") / "all.sqlite"
    assert main(["store", "add", str(bench.out), "--to", str(into)]) == 0
    (bench.out / "results.json").unlink()
    for source in (bench.out / "results.sqlite", into, bench.out):
        assert message(str(source), capsys)["command"] == made


def test_a_command_that_was_not_stored_is_not_made_up(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.write({})
    bench.run()
    database = bench.out / "results.sqlite"
    connection = sqlite3.connect(database)
    connection.execute("UPDATE campaigns SET command = NULL")
    connection.commit()
    connection.close()
    # An earlier trainmark's: where its directory still has the document, that has kept it.
    assert message(str(database), capsys)["command"] == f"trainmark run {bench.suite}"
    (bench.out / "results.json").unlink()
    assert message(str(database), capsys)["command"] is None
    assert main(["report", str(database), "--to", "md"]) == 0
    assert "The command that produced these results was not saved" in capsys.readouterr().out
    assert main(["report", str(bench.out), "--to", "html"]) == 0
    assert "The command that produced these results was not saved" in capsys.readouterr().out


def message(source: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    capsys.readouterr()
    assert main(["report", source, "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("how", ["report", "compare", "store", "run"])
def test_runs_that_no_case_of_an_edited_suite_fits_are_reported_and_nothing_is_written(
    bench: Bench, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    bench.write({}, {"precision": "bf16"})
    bench.run()
    suite, document = bench.out / "suite.yaml", bench.out / "results.json"
    stored = document.read_bytes()
    suite.write_text(suite.read_text().replace("batch_per_device: 4", "batch_per_device: 8"))
    into = str(bench.folder / "all.sqlite")
    words = {
        "report": ["report", str(bench.out)],
        "compare": ["compare", str(bench.out), str(bench.out)],
        "store": ["store", "add", str(bench.out), "--to", into],
        "run": ["run", str(suite), "--out", str(bench.out), "--resume"],
    }[how]
    assert main(words) == 2
    reported = capsys.readouterr().err
    assert reported.count("\n") == 1
    assert f"{suite}: no case matches 2 finished runs (" in reported
    assert "fake-bf16" in reported or "fake-good-bf16" in reported
    assert "restore it, or move their folders out of" in reported
    assert document.read_bytes() == stored


def test_runs_of_a_case_that_was_taken_out_of_the_suite_are_reported_too(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.write({}, {"precision": "bf16"})
    measured = bench.run()
    suite = bench.out / "suite.yaml"
    document = yaml.safe_load(suite.read_text())
    del document["cases"][1]
    suite.write_text(yaml.safe_dump(document))
    assert main(["report", str(bench.out)]) == 2
    gone = measured.cases[1].id
    assert f"case matches 1 finished run (runs/{gone}/1)" in capsys.readouterr().err
    (bench.out / "runs" / gone).rename(bench.folder / gone)
    assert main(["report", str(bench.out)]) == 0
    assert f"1 run of {bench.out / 'results.json'} is missing from runs/: " in capsys.readouterr().err


def test_numbers_whose_runs_are_all_gone_stay(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.write({})
    bench.run()
    document = bench.out / "results.json"
    stored = document.read_bytes()
    (folder,) = bench.out.glob("runs/*/1")
    folder.rename(bench.folder / "elsewhere")
    assert main(["report", str(bench.out)]) == 2
    assert f"{document}: records 1 run, but runs/ contains none of them" in capsys.readouterr().err
    assert document.read_bytes() == stored
    document.write_bytes(stored[:-9])
    assert main(["report", str(bench.out)]) == 2
    assert f"{document}: not a trainmark.results/1 document" in capsys.readouterr().err
    assert document.read_bytes() == stored[:-9]


def test_runs_that_give_no_number_any_more_are_not_reported_as_gone(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.write({}, {"precision": "bf16"})
    bench.run()
    document = bench.out / "results.json"
    first, second = sorted(bench.out.glob(f"runs/*/1/{EVENTS}"))
    first.write_text("")
    assert main(["report", str(bench.out)]) == 0
    run = first.parent.relative_to(bench.out)
    assert f"1 run of {document} no longer has a result: {run} (" in capsys.readouterr().err
    stored = document.read_bytes()
    second.write_text("")
    assert main(["report", str(bench.out)]) == 2
    run = second.parent.relative_to(bench.out)
    assert f"records 1 run, but runs/ has no result for any of them: {run} (" in capsys.readouterr().err
    assert document.read_bytes() == stored


def test_a_database_is_reported_like_its_directory(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.write({}, {"precision": "bf16"})
    measured = bench.run()
    assert main(["report", str(bench.out / "results.sqlite"), "--json"]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert reported["cases"] == json.loads(measured.model_dump_json())["cases"]
    assert reported["manifests"] == json.loads(measured.model_dump_json())["manifests"]


def test_a_database_alone_still_shows_the_certificates(
    bench: Bench, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.write({})
    bench.run()
    # A certificate as a suite of two frameworks leaves it; the next call stores what it finds.
    stored = next(STORED.glob("*/certificate.json"))
    folder = bench.out / "equivalence" / stored.parent.name
    folder.mkdir(parents=True)
    (folder / stored.name).write_bytes(stored.read_bytes())
    held = bench.run(resume=True)
    assert [certificate.model for certificate in held.certificates] == ["mobilenet_v1"]
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "results.sqlite"
    elsewhere.write_bytes((bench.out / "results.sqlite").read_bytes())
    assert main(["report", str(elsewhere), "--json"]) == 0
    reported = json.loads(capsys.readouterr().out)["certificates"]
    assert reported == json.loads(held.model_dump_json())["certificates"]


def test_a_campaign_that_is_not_there_is_reported_with_those_that_are(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.write({})
    bench.run()
    assert main(["report", str(bench.out / "results.sqlite"), "--json", "--campaign", "other"]) == 2
    assert (
        "0 campaigns match; choose one by its number, as STORE#NUMBER or --campaign NUMBER "
        "(the database has: 1: fakes in .)" in capsys.readouterr().err
    )
    assert main(["report", str(bench.folder / "nothing"), "--json"]) == 2
    assert "nothing: no such result directory or database" in capsys.readouterr().err
