"""``trainmark report DIR`` reads the runs themselves: a killed trainmark leaves nothing else."""

import json
from pathlib import Path

import pytest

from fakes import Bench
from trainmark.cli.main import main
from trainmark.words.names import LOG

KEPT = Path(__file__).parents[2] / "docs" / "results" / "frameworks" / "equivalence"


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


def test_a_database_is_reported_like_its_directory(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.write({}, {"precision": "bf16"})
    measured = bench.run()
    assert main(["report", str(bench.out / "results.sqlite"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["cases"] == json.loads(measured.model_dump_json())["cases"]
    assert told["manifests"] == json.loads(measured.model_dump_json())["manifests"]


def test_a_database_alone_still_shows_the_certificates(
    bench: Bench, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.write({})
    bench.run()
    # A certificate as a suite of two frameworks leaves it; the next call stores what it finds.
    kept = next(KEPT.glob("*/certificate.json"))
    folder = bench.out / "equivalence" / kept.parent.name
    folder.mkdir(parents=True)
    (folder / kept.name).write_bytes(kept.read_bytes())
    held = bench.run(resume=True)
    assert [certificate.model for certificate in held.certificates] == ["mobilenet_v1"]
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "results.sqlite"
    elsewhere.write_bytes((bench.out / "results.sqlite").read_bytes())
    assert main(["report", str(elsewhere), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["certificates"]
    assert told == json.loads(held.model_dump_json())["certificates"]


def test_a_campaign_that_is_not_there_is_told_with_those_that_are(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.write({})
    bench.run()
    assert main(["report", str(bench.out / "results.sqlite"), "--json", "--campaign", "other"]) == 2
    assert (
        "0 campaigns are meant; choose one by --campaign (there is: 1: fakes in .)" in capsys.readouterr().err
    )
    assert main(["report", str(bench.folder / "nothing"), "--json"]) == 2
    assert "neither a result directory nor a database" in capsys.readouterr().err
