"""Exports to MLflow, TensorBoard and Weights & Biases through their libraries, read back with their own readers."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import sysconfig
import time
import urllib.request
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import sample_results as sample
from test_export_files import OTHER_WORK, stored, with_every_outcome

import trainmark
from trainmark.report.export import ExportFormat, export
from trainmark.schema.case import case_of
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import Results

ROOT = Path(__file__).parents[2]
READERS = Path(__file__).with_name("export_readers.py")


def make_environment(folder: Path, *packages: str) -> Path:
    """Return the Python of a new environment with these packages, which also sees this one's and trainmark."""
    uv = pytest.importorskip("uv").find_uv_bin()
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, folder], check=True)
    python = folder / "bin" / "python"
    made = subprocess.run(
        [uv, "pip", "install", "-q", "--python", python, *packages],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        if os.environ.get("TRAINMARK_REQUIRE_ENVS"):
            pytest.fail(made.stderr)
        pytest.skip(f"{', '.join(packages)} cannot be installed: {made.stderr.strip().splitlines()[-1]}")
    site = next((folder / "lib").glob("python*/site-packages"))
    own = [
        str(ROOT / "src"),
        sysconfig.get_paths()["purelib"],
        *(p for p in sys.path if "site-packages" in p),
    ]
    (site / "trainmark.pth").write_text("\n".join(dict.fromkeys(own)) + "\n")
    return python


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the libraries that are too heavy for this one."""
    folder = tmp_path_factory.mktemp("tools") / "env"
    return make_environment(folder, "mlflow-skinny>=2.14", "wandb>=0.17", "tensorboard>=2.15", "tensorboardX")


def call(
    python: Path, *words: str | Path, check: bool = True, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(
        [python, *words],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "MLFLOW_ALLOW_FILE_STORE": "true", **(variables or {})},
    )
    assert not check or ran.returncode == 0, ran.stderr
    return ran


def exported_by(python: Path, source: str, to: str, output: str, **variables: str) -> Any:
    """Export a results.json by the verb, and return what the tool's own reader finds."""
    call(python, "-m", "trainmark", "export", source, "--to", to, "--output", output, variables=variables)
    return json.loads(call(python, READERS, to, output, variables=variables).stdout)["found"]


def check_mlflow(runs: list[dict[str, Any]], results: Results) -> None:
    """Check the runs that MLflow's client reads against the results."""
    by_kind = {
        kind: {run["tags"]["trainmark.outcome"]: run for run in runs if run["tags"]["trainmark.kind"] == kind}
        for kind in ("case", "run")
    }
    assert set(by_kind["case"]) == {outcome.value for outcome in Outcome}
    for found in by_kind.values():
        assert [outcome for outcome, run in found.items() if run["metrics"]] == ["ok"]
    ok, oom = by_kind["case"]["ok"], by_kind["run"]["oom"]
    estimate = results.cases[0].estimate
    assert estimate is not None
    assert estimate.interval is not None
    assert ok["metrics"]["throughput_median"] == estimate.median
    assert ok["metrics"]["interval_low"] == estimate.interval.low
    assert ok["tags"]["trainmark.unit.throughput_median"] == "images/s"
    assert ok["tags"]["trainmark.doubt.other-work"] == OTHER_WORK.sentence
    assert ok["params"]["framework"] == "pytorch"
    assert (oom["status"], oom["tags"]["trainmark.reason"]) == ("FAILED", "because of oom")
    assert by_kind["run"]["skipped"]["status"] == "KILLED"
    assert ok["experiment"] == "resnet50-v100"


@pytest.mark.process
@pytest.mark.rare
def test_mlflow_reads_figures_units_outcomes_and_doubts(tools: Path, tmp_path: Path) -> None:
    results = with_every_outcome()
    source, address = stored(tmp_path, results), f"file://{tmp_path}/mlruns"

    runs = exported_by(tools, source, "mlflow", address)
    again = exported_by(tools, source, "mlflow", address)

    check_mlflow(runs, results)
    # Exporting again adds nothing.
    assert len(again) == len(runs) == 7 + 9


@pytest.mark.process
def test_an_error_in_the_middle_leaves_no_run_in_mlflow(tools: Path, tmp_path: Path) -> None:
    source, address = stored(tmp_path, with_every_outcome()), f"file://{tmp_path}/mlruns"
    program = """
import sys
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient
terminated, calls = MlflowClient.set_terminated, []
def fail_later(self, *words, **named):
    calls.append(words)
    if len(calls) == 4:
        raise MlflowException("the store is full")
    return terminated(self, *words, **named)
MlflowClient.set_terminated = fail_later
from trainmark.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
    words = ("export", source, "--to", "mlflow", "--output", address)

    ran = call(tools, "-c", program, *words, check=False)

    assert ran.returncode == 1
    assert ran.stderr == f"trainmark export: {address}: the store is full; nothing is left there\n"
    assert json.loads(call(tools, READERS, "mlflow", address).stdout)["found"] == []


@pytest.mark.process
def test_a_tracking_server_that_is_missing_is_one_line_within_seconds(tools: Path, tmp_path: Path) -> None:
    source = stored(tmp_path, sample.two_sizes())
    words = ("export", source, "--to", "mlflow", "--output", "http://127.0.0.1:9")

    ran = call(tools, "-m", "trainmark", *words, check=False)

    assert ran.returncode == 2
    assert ran.stderr.count("\n") == 1
    assert ran.stderr.startswith("trainmark export: http://127.0.0.1:9: ")


@pytest.fixture
def mlflow_server(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """A tracking server of the full MLflow with a database, and the Python of its environment."""
    python = make_environment(tmp_path / "env", "mlflow>=2.14")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    words = ["--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    words += ["--backend-store-uri", f"sqlite:///{tmp_path}/mlflow.db"]
    with (tmp_path / "server.log").open("w") as log:
        server = subprocess.Popen(
            [python, "-m", "mlflow", "server", *words], stdout=log, stderr=log, cwd=tmp_path, process_group=0
        )
    try:
        until = time.monotonic() + 120
        while time.monotonic() < until:
            try:
                with urllib.request.urlopen(f"{address}/health", timeout=5):
                    break
            except OSError:
                assert server.poll() is None, (tmp_path / "server.log").read_text()
                time.sleep(0.5)
        yield python, address
    finally:
        # Its workers end only after their jobs; nothing of it is needed any more.
        os.killpg(server.pid, signal.SIGKILL)
        server.wait()


@pytest.mark.process
@pytest.mark.rare
def test_a_tracking_server_of_mlflow_takes_the_export(
    mlflow_server: tuple[Path, str], tmp_path: Path
) -> None:
    python, address = mlflow_server
    results = with_every_outcome()

    runs = exported_by(python, stored(tmp_path / "results", results), "mlflow", address)

    check_mlflow(runs, results)


@pytest.mark.process
def test_tensorboard_reads_scalars_steps_and_texts(tools: Path, tmp_path: Path) -> None:
    results = with_every_outcome()
    sample.write_runs(tmp_path, results)
    stored(tmp_path, results)

    runs = exported_by(tools, str(tmp_path), "tensorboard", str(tmp_path / "events"))

    case, estimate = results.cases[0], results.cases[0].estimate
    assert estimate is not None
    # Event files hold scalars in single precision.
    ((_, median),) = runs[case.id]["scalars"]["case/throughput_median_images_per_s"]
    assert median == pytest.approx(estimate.median, rel=1e-6)
    assert "_hparams_/session_start_info" in runs[case.id]["hparams"]
    assert "(other-work)" in runs[f"{case.id}/1"]["texts"]["run/text_summary"]
    ((repeat, throughput),) = runs[f"{case.id}/2"]["scalars"]["run/throughput_images_per_s"]
    measured = case.runs[1].measurement
    assert measured is not None
    assert (repeat, throughput) == (2, pytest.approx(measured.throughput, rel=1e-6))
    assert len(runs[f"{case.id}/1"]["scalars"]["step_time_s/measured"]) == 100
    oom = next(one for one in results.cases if one.outcome is Outcome.OOM)
    assert runs[f"{oom.id}/1"]["scalars"] == {}
    assert "outcome: oom (because of oom)" in runs[f"{oom.id}/1"]["texts"]["run/text_summary"]


@pytest.mark.process
def test_wandb_reads_figures_units_outcomes_and_doubts(tools: Path, tmp_path: Path) -> None:
    results = with_every_outcome()
    source = stored(tmp_path, results)

    # Without a home and a network: the export is offline.
    runs = exported_by(
        tools,
        source,
        "wandb",
        str(tmp_path / "offline"),
        HOME=str(tmp_path),
        https_proxy="http://127.0.0.1:9",
    )

    assert len(runs) == 7 + 9
    cases = {run["config"]["outcome"]: run for run in runs if run["job"] == "case"}
    assert set(cases) == {outcome.value for outcome in Outcome}
    estimate = results.cases[0].estimate
    assert estimate is not None
    assert cases["ok"]["summary"]["throughput_median"] == estimate.median
    assert cases["ok"]["summary"]["unit/throughput_median"] == "images/s"
    assert cases["ok"]["summary"]["doubt/other-work"] == OTHER_WORK.sentence
    assert cases["ok"]["tags"] == ["ok"]
    assert "images/s [" in cases["ok"]["notes"]
    for run in runs:
        numbers = [name for name in run["summary"] if not name.startswith("_")]
        assert bool(numbers) is (run["config"]["outcome"] == "ok")
    (failed,) = (run for run in runs if run["job"] == "run" and run["tags"] == ["oom"])
    assert (failed["exit"], failed["config"]["reason"]) == (1, "because of oom")
    assert not any(str(ROOT) in text for text in map(str, runs)), "nothing of this checkout goes into a run"


MISSING = {
    *("submission_org", "submission_status", "cache_clear"),
    *("train_samples", "eval_samples", "eval_accuracy"),
}
"""The keys of an MLPerf submission that a measurement of throughput does not have (docs/how-to/exports.md)."""


@pytest.mark.process
@pytest.mark.parametrize("window_at", [None, (sample.START + timedelta(seconds=70)).timestamp()])
def test_the_compliance_checker_of_mlperf_finds_only_what_is_documented(
    window_at: float | None, tmp_path: Path
) -> None:
    case = case_of()
    measured = sample.measurement(370.194, case, window_at=window_at)
    run = sample.run(case, 1, measurement=measured, duration_s=300.0)
    export(sample.results([(case, (run,))]), ExportFormat.MLLOG, str(tmp_path / "logs"))

    words = ["--usage", "training", "--ruleset", "4.0.0", "--log_output", str(tmp_path / "checked.log")]
    log = tmp_path / "logs" / case.id / "result_0.txt"
    ran = subprocess.run(
        [sys.executable, "-m", "mlperf_logging.compliance_checker", *words, log],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "training_4.0.0/open_resnet.yaml" in ran.stderr
    faults = [
        line for line in ran.stderr.splitlines() if not line.startswith(("INFO", "-----", "ERROR - FAILED"))
    ]
    missing = [line for line in faults if re.match(r"(WARNING -  )?Required \w+ occurrence of '", line)]
    assert faults == missing
    # The checker names alternatives in any order.
    keys = {frozenset(re.findall(r"'(\w+)'", line)) for line in missing}
    blocks = {
        frozenset((f"{kind}_{end}", f"block_{end}"))
        for kind in ("epoch", "eval")
        for end in ("start", "stop")
    }
    assert keys == {frozenset((key,)) for key in MISSING} | (blocks if window_at is None else set())


def test_mllog_is_read_back_with_the_same_number(tmp_path: Path) -> None:
    results = with_every_outcome()
    export(results, ExportFormat.MLLOG, str(tmp_path / "logs"))

    case = results.cases[0]
    measured = case.runs[0].measurement
    assert measured is not None
    reading = trainmark.parse(tmp_path / "logs" / case.id / "result_0.txt")
    assert reading.throughput == pytest.approx(measured.throughput)
    lines = [
        json.loads(line.removeprefix(":::MLLOG "))
        for path in sorted((tmp_path / "logs").rglob("result_*.txt"))
        for line in path.read_text().splitlines()
    ]
    stops = [line["metadata"] for line in lines if line["key"] == "run_stop"]
    assert [stop["outcome"] for stop in stops if stop["status"] == "success"] == ["ok"] * 3
    assert sum(line["key"] == "tracked_stats" for line in lines) == 3
    assert [line["value"] for line in lines if line["key"] == "trainmark_doubt"] == [OTHER_WORK.sentence]
