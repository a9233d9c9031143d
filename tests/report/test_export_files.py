"""Exports to files and to a Pushgateway, read back by the readers of the tools that they are for."""

import json
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import sample_results as sample
from junitparser import JUnitXml
from prometheus_client import parser as prometheus
from prometheus_client.openmetrics import parser as openmetrics
from pyarrow import parquet

import trainmark
from trainmark.cli.main import main
from trainmark.files import write_atomically
from trainmark.report.csvfile import case_rows, run_rows
from trainmark.report.export import EXPORTERS, ExportFormat, export
from trainmark.report.export.records import NOT_MEASURED, UNIT_OF_COLUMN, exported
from trainmark.schema.case import case_of
from trainmark.schema.measurement import About, Suspicion
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import Results

OTHER_WORK = Suspicion(code="other-work", sentence="the model | is <another> one", about=About.WORK)


def stored(folder: Path, results: Results) -> str:
    """Return the path of a results.json with these results."""
    folder.mkdir(exist_ok=True)
    write_atomically(folder / "results.json", results.to_json())
    return str(folder / "results.json")


def with_every_outcome() -> Results:
    """One case for each outcome; the one that is ok has a doubt about its work."""
    cases = []
    for nodes, outcome in enumerate(Outcome, 1):
        case = case_of(nodes=nodes, devices_per_node=1)
        if outcome is Outcome.OK:
            first, *rest = sample.ok_runs(case, 370.194, 3)
            runs = (first.model_copy(update={"suspicions": (OTHER_WORK,)}), *rest)
        else:
            runs = (sample.failed_run(case, outcome, f"because of {outcome.value}"),)
        cases.append((case, runs))
    return sample.results(cases)


def slowed(factor: float) -> Results:
    return sample.results([(case_of(), sample.ok_runs(case_of(), 370.0 * factor, 5))])


def samples_of(text: str, read: Any = prometheus.text_string_to_metric_families) -> dict[str, list[Any]]:
    return {family.name: list(family.samples) for family in read(text)}


def test_every_measured_number_of_the_tables_has_a_unit() -> None:
    results = sample.ngc_v100()
    for _, rows in (case_rows(results), run_rows(results)):
        for row in rows:
            numbers = {
                name
                for name, value in row.items()
                if isinstance(value, int | float) and not isinstance(value, bool)
            }
            axes = set(results.cases[0].case.axes)
            assert numbers - axes - set(NOT_MEASURED) <= set(UNIT_OF_COLUMN)


def test_an_outcome_without_a_number_has_no_figure_in_any_record() -> None:
    for case in exported(with_every_outcome()).cases:
        assert bool(case.figures) is (case.outcome is Outcome.OK)
        for run in case.runs:
            assert bool(run.figures) is (run.outcome is Outcome.OK)


def test_parquet_has_both_tables_with_types_units_and_doubts(tmp_path: Path) -> None:
    results = with_every_outcome()

    export(results, ExportFormat.PARQUET, str(tmp_path / "new" / "tables"))

    cases = parquet.read_table(tmp_path / "new" / "tables" / "cases.parquet")
    runs = parquet.read_table(tmp_path / "new" / "tables" / "runs.parquet")
    columns, rows = case_rows(results)
    assert cases.column("case").to_pylist() == [row["case"] for row in rows]
    assert set(columns) <= set(cases.column_names)
    assert cases.schema.field("throughput_median").metadata == {b"unit": b"images/s"}
    assert runs.schema.field("window_s").metadata == {b"unit": b"s"}
    assert cases.schema.metadata[b"trainmark.suite"] == b"resnet50-v100"
    by_outcome = {row["outcome"]: row for row in cases.to_pylist()}
    assert [name for name, row in by_outcome.items() if row["throughput_median"] is not None] == ["ok"]
    assert by_outcome["ok"]["throughput_median"] == results.cases[0].estimate.median  # type: ignore[union-attr]
    assert by_outcome["oom"]["reason"] == "because of oom"
    assert by_outcome["ok"]["doubts"][0]["sentence"] == OTHER_WORK.sentence
    assert [row["throughput"] is None for row in runs.to_pylist()] == [
        run.measurement is None for case in results.cases for run in case.runs
    ]


@pytest.mark.parametrize("name", ["metrics.prom", "metrics.txt"])
def test_metrics_have_units_in_their_names_and_no_sample_without_a_number(name: str, tmp_path: Path) -> None:
    results = with_every_outcome()

    export(results, ExportFormat.OPENMETRICS, str(tmp_path / name))

    text = (tmp_path / name).read_text()
    read = (
        prometheus.text_string_to_metric_families
        if name.endswith(".prom")
        else openmetrics.text_string_to_metric_families
    )
    assert text.endswith("# EOF\n") is (name == "metrics.txt")
    found = samples_of(text, read)
    (number,) = found["trainmark_throughput_images_per_second"]
    (low,) = found["trainmark_throughput_interval_low_images_per_second"]
    estimate = results.cases[0].estimate
    assert estimate is not None
    assert estimate.interval is not None
    assert (number.value, number.labels["case"]) == (estimate.median, results.cases[0].id)
    assert low.value == estimate.interval.low
    states = [one for one in found["trainmark_case_outcome"] if one.value == 1]
    assert [one.labels["trainmark_case_outcome"] for one in states] == [one.value for one in Outcome]
    (doubt,) = found["trainmark_doubts"]
    assert (doubt.labels["code"], doubt.value) == ("other-work", 1)


@contextmanager
def gateway(status: int = 200) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Serve Pushgateway's interface for pushes: yield its address and the requests that arrive."""
    arrived: list[tuple[str, str, str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            arrived.append((self.command, self.path, body))
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", arrived
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_metrics_are_pushed_to_the_group_of_the_suite() -> None:
    with gateway() as (address, arrived):
        export(sample.two_sizes(), ExportFormat.OPENMETRICS, address)

    ((method, path, body),) = arrived
    assert (method, path) == ("PUT", "/metrics/job/trainmark/suite/resnet50-v100")
    assert len(samples_of(body)["trainmark_throughput_images_per_second"]) == 2


def test_a_gateway_that_refuses_or_is_missing_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = stored(tmp_path, sample.two_sizes())
    with gateway(400) as (address, _):
        assert main(["export", source, "--to", "openmetrics", "--output", address]) == 2
    refused = capsys.readouterr().err
    assert main(["export", source, "--to", "openmetrics", "--output", address]) == 2
    missing = capsys.readouterr().err

    assert (refused.count("\n"), missing.count("\n")) == (1, 1)
    assert "HTTP Error 400" in refused
    assert f"{address}: the Pushgateway refuses or is not reached: " in missing


PUSHGATEWAY = shutil.which("prometheus-pushgateway")


@contextmanager
def real_gateway(folder: Path) -> Iterator[str]:
    """Run Prometheus' Pushgateway on a free port and yield its address once it answers."""
    assert PUSHGATEWAY is not None
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with (folder / "gateway.log").open("w") as log:
        process = subprocess.Popen([PUSHGATEWAY, f"--web.listen-address={address}"], stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                urlopen(f"http://{address}/-/ready", timeout=5).close()
                break
            except OSError:
                assert process.poll() is None, (folder / "gateway.log").read_text()
                assert time.monotonic() < deadline
                time.sleep(0.05)
        yield f"http://{address}"
    finally:
        process.terminate()
        process.wait()


@pytest.mark.process
@pytest.mark.skipif(PUSHGATEWAY is None, reason="prometheus-pushgateway is not installed")
def test_the_real_pushgateway_takes_every_outcome_and_a_second_push_replaces_the_first(
    tmp_path: Path,
) -> None:
    results = with_every_outcome()
    with real_gateway(tmp_path) as address:
        export(sample.two_sizes(), ExportFormat.OPENMETRICS, address)
        export(results, ExportFormat.OPENMETRICS, address)
        export(results, ExportFormat.OPENMETRICS, address)
        text = urlopen(f"{address}/metrics", timeout=30).read().decode()

    pushed = samples_of(text)
    export(results, ExportFormat.OPENMETRICS, str(tmp_path / "metrics.prom"))
    written = samples_of((tmp_path / "metrics.prom").read_text())
    for name, samples in written.items():
        ours = [one for one in pushed[name] if one.labels["suite"] == results.suite]
        assert {(one.labels.get("case"), one.value) for one in ours} == {
            (one.labels.get("case"), one.value) for one in samples
        }
        assert {one.labels["job"] for one in ours} == {"trainmark"}
    (failed,) = {
        one.value for one in pushed["push_failure_time_seconds"] if one.labels["suite"] == results.suite
    }
    assert failed == 0


def test_junit_fails_what_a_ci_must_not_accept(tmp_path: Path) -> None:
    export(with_every_outcome(), ExportFormat.JUNIT, str(tmp_path / "results.xml"))

    (suite,) = JUnitXml.fromfile(str(tmp_path / "results.xml"))
    kinds = {}
    for outcome, test in zip(Outcome, suite, strict=True):
        (result,) = test.result
        kinds[outcome.value] = (type(result).__name__, result.type)
    assert kinds == {
        "ok": ("Failure", "other-work"),
        "oom": ("Error", "oom"),
        "timeout": ("Error", "timeout"),
        "failed": ("Error", "failed"),
        "invalid": ("Failure", "invalid"),
        "unsupported": ("Skipped", "unsupported"),
        "skipped": ("Skipped", "skipped"),
    }
    assert (suite.tests, suite.failures, suite.errors, suite.skipped) == (7, 2, 3, 2)
    first = next(iter(suite))
    assert "images/s [" in first.system_out
    assert "the model | is <another> one (other-work)" in first.system_out


def test_a_sound_case_passes_and_a_slower_one_fails(tmp_path: Path) -> None:
    before = stored(tmp_path / "before", slowed(1.0))
    results = {}
    for name, factor in (("same", 1.0), ("slower", 0.8)):
        source = stored(tmp_path / name, slowed(factor))
        file = tmp_path / f"{name}.xml"
        assert main(["export", source, "--to", "junit", "--against", before, "--output", str(file)]) == 0
        ((test,),) = JUnitXml.fromfile(str(file))
        results[name] = test.result

    assert results["same"] == []
    (failure,) = results["slower"]
    assert (type(failure).__name__, failure.type) == ("Failure", "slower")
    assert failure.message.startswith("slower: 0.800 [")


def test_a_summary_is_added_to_the_file_of_the_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    step = tmp_path / "summary.md"
    step.write_text("# Before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(step))
    before = stored(tmp_path / "before", slowed(1.0))
    after = stored(tmp_path / "after", slowed(0.8))

    assert main(["export", after, "--to", "github-summary", "--against", before, "--json"]) == 0

    text = step.read_text()
    assert json.loads(capsys.readouterr().out)["written"] == [str(step)]
    assert text.startswith("# Before\n\n### trainmark: resnet50-v100\n")
    assert "1 of 1 case measured; 1 slower than the baseline." in text
    assert "| case | throughput | bound by | against the baseline |" in text
    assert "slower: 0.800" in text


def test_a_summary_escapes_names_and_shows_outcomes_as_words(tmp_path: Path) -> None:
    export(with_every_outcome(), ExportFormat.GITHUB_SUMMARY, str(tmp_path / "summary.md"))

    text = (tmp_path / "summary.md").read_text()
    assert "oom: because of oom" in text
    assert "the model \\| is &lt;another> one" in text
    assert "1 of 7 cases measured" in text


def test_a_summary_of_many_cases_fits_and_counts_the_rest(tmp_path: Path) -> None:
    case = case_of()
    many = [(case.model_copy(update={"options": {"n": str(n)}}), ()) for n in range(12_000)]
    export(sample.results(many), ExportFormat.GITHUB_SUMMARY, str(tmp_path / "summary.md"))

    text = (tmp_path / "summary.md").read_text()
    assert len(text.encode()) < 1_000_000
    assert "more cases: see the report |" in text


def test_the_library_and_the_verb_write_the_same(tmp_path: Path) -> None:
    source = stored(tmp_path, sample.two_sizes())
    assert main(["export", source, "--to", "junit", "--output", str(tmp_path / "verb.xml")]) == 0

    written = trainmark.load(source).export("junit", tmp_path / "library.xml")

    assert written == (str(tmp_path / "library.xml"),)
    assert (tmp_path / "library.xml").read_bytes() == (tmp_path / "verb.xml").read_bytes()


def test_a_selection_exports_only_its_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = stored(tmp_path, sample.ngc_v100())
    words = ["export", source, "--to", "parquet", "--output", str(tmp_path / "new"), "--json"]

    assert main([*words, "--only", "precision=fp32"]) == 0

    assert json.loads(capsys.readouterr().out)["cases"] == 6


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--to", "parqet", "--output", "x"], "no export format 'parqet'; did you mean 'parquet'?"),
        (["--to", "parquet"], "--to parquet needs --output: a new FOLDER"),
        (["--to", "parquet", "--output", "taken"], "taken: already exists; give a new folder"),
        (["--to", "junit", "--output", "none/x.xml"], "cannot be written: No such file or directory"),
        (
            ["--to", "parquet", "--output", "x", "--against", "results.json"],
            "--to parquet carries no comparison",
        ),
    ],
)
def test_what_cannot_be_written_is_one_line_and_leaves_nothing(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    monkeypatch.chdir(tmp_path)
    stored(tmp_path, sample.two_sizes())
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine").touch()

    assert main(["export", "results.json", *words]) == 2

    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert message in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results.json", "taken"]


def test_a_failure_in_the_middle_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = parquet.write_table

    def fail_at_the_second(table: Any, path: Path) -> None:
        if path.name == "runs.parquet":
            raise OSError(28, "No space left on device", str(path))
        written(table, path)

    monkeypatch.setattr(parquet, "write_table", fail_at_the_second)
    with pytest.raises(trainmark.errors.InputError, match="No space left on device"):
        export(sample.two_sizes(), ExportFormat.PARQUET, str(tmp_path / "new"))

    assert list(tmp_path.iterdir()) == []


def test_every_format_is_in_the_help_and_on_the_page(capsys: pytest.CaptureFixture[str]) -> None:
    main(["export", "--help"])
    text = "".join(capsys.readouterr().out.split())
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "exports.md").read_text()

    assert [target for target in EXPORTERS if target.value not in text] == []
    assert [target for target in EXPORTERS if f"| `{target.value}` |" not in page] == []


def test_the_time_of_the_results_is_that_of_the_last_run(tmp_path: Path) -> None:
    results = sample.two_sizes()
    export(results, ExportFormat.OPENMETRICS, str(tmp_path / "m.prom"))

    (last,) = samples_of((tmp_path / "m.prom").read_text())["trainmark_measured_timestamp_seconds"]
    assert datetime.fromtimestamp(last.value, UTC) == results.measured[1]
