"""``trainmark history``: databases and directories of results, exit codes and errors."""

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest
import sample_results as sample

from trainmark.cli.main import main
from trainmark.files import write_atomically
from trainmark.schema.case import case_of
from trainmark.schema.history import HistoryReport
from trainmark.schema.names import RESULTS
from trainmark.schema.results import Results
from trainmark.store import Store, database_url

CASE = case_of(model="resnet50_v1.5", framework="pytorch", batch_per_device=128, precision="fp32")


def campaigns(shift: float, count: int = 24) -> list[Results]:
    """Return campaigns of one case on successive days, which change by ``shift`` at the 15th with the framework."""
    made = []
    for day in range(count):
        late = day >= 14
        rate = 360 * float(np.exp(np.random.default_rng(day).normal(0, 0.004) + (shift if late else 0)))
        runs = [
            one.model_copy(update={"started_at": one.started_at + timedelta(days=day)})  # type: ignore[operator]
            for one in sample.ok_runs(CASE, rate, 3)
        ]
        version = "1.7.0" if late else "1.6.0"
        manifest = sample.manifest({"framework": {**sample.NODE["framework"], "version": version}})
        fingerprint = f"sha256:{version}"
        runs = [one.model_copy(update={"manifest": fingerprint}) for one in runs]
        made.append(sample.results([(CASE, tuple(runs))], manifests={fingerprint: manifest}))
    return made


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "runs.db"
    store = Store(database_url(str(path)))
    for number, results in enumerate(campaigns(-0.04)):
        store.put(results, "suite: x\n", f"campaign-{number}")
    store.close()
    return path


def test_a_regression_in_a_database_is_exit_code_1_and_named(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["history", str(database), "--json"])

    report = HistoryReport.model_validate_json(capsys.readouterr().out)
    assert code == 1
    ((case, change),) = report.alarms
    assert case.case == CASE.id
    assert case.points[change.index].source == f"{database}#15"
    assert [(one.fact, one.before, one.after) for one in change.differences] == [
        ("framework.version", "1.6.0", "1.7.0")
    ]


def test_pictures_are_written_for_each_case(database: Path, tmp_path: Path) -> None:
    main(["history", str(database), "--plots", str(tmp_path / "plots")])

    (picture,) = (tmp_path / "plots").iterdir()
    assert picture.read_text().startswith("<svg")


def test_an_unchanged_program_is_exit_code_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number, results in enumerate(campaigns(0.0)):
        (tmp_path / f"{number:02}").mkdir()
        write_atomically(tmp_path / f"{number:02}" / RESULTS, results.to_json())

    code = main(["history", str(tmp_path)])

    out = capsys.readouterr().out
    assert code == 0
    assert "24 results, images/s" in out
    assert "no change of level" in out


def test_a_copy_of_a_result_directory_is_no_further_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second, *_ = campaigns(0.0)
    for name, results in (("first", first), ("second", second), ("backup", first)):
        (tmp_path / name).mkdir()
        write_atomically(tmp_path / name / RESULTS, results.to_json())

    assert main(["history", str(tmp_path)]) == 0
    assert ": 2 results, images/s" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nowhere.db"], "nowhere.db: no such result directory or database"),
        (["{empty}/../document.json"], "document.json: neither a result directory nor a database of runs"),
        (["{database}", "{database}"], "give one database, or result directories"),
        (["{database}", "--case", "mxnet-*"], "no case matches"),
        (["{database}", "--since", "yesterday"], "expected a day"),
        (["{empty}"], "neither a result directory of a trainmark run"),
    ],
)
def test_a_wrong_argument_is_one_line_and_exit_code_2(
    words: list[str], message: str, database: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "document.json").write_text("{}")
    given = [word.format(database=database, empty=tmp_path / "empty") for word in words]

    assert main(["history", *given]) == 2

    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
