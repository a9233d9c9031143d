"""``import trainmark as tm``: its names, what each function returns, and what bad input gets."""

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import trainmark as tm
from trainmark.errors import InputError, TrainmarkError

ROOT = Path(__file__).parents[2]
STORED = ROOT / "docs" / "results"
LOG = "".join(f"iter {step}: loss 2.{step:04}, time 100.00ms, mfu 10.0%\n" for step in range(60))

SIGNATURES = {
    "Results": "(document, directory=None)",
    "Suite": "(document)",
    "audit": "(table, logs)",
    "compare": "(a, b, *, within=None, only=None, ignoring=())",
    "explain": "(a, b=None, *, rule=None, device=None, gpus=None, batch=None)",
    "load": "(dir_or_store)",
    "measure": "(*, unit='samples', warmup=10, synchronize=None, all_ranks=False, events=None, quiet=False)",
    "parse": "(path_or_text, *, rule=None, skip=None, format=None, gpus=None, nodes=None, batch=None, "
    "precision=None, model=None)",
    "run": "(suite_or_command, *, out=None, only=None, resume=False, repeats=None, vary=None, timeout=None)",
}

METHODS = {
    "Results": {"name", "holds", "cases", "runs", "to_pandas", "to_polars", "to_arrow", "export"},
    "Suite": {"document", "read", "of", "name", "cases", "to_yaml"},
}


CASE_FIELDS = (
    *("workload", "framework", "model", "task", "precision", "batch_per_device", "nodes", "devices_per_node"),
    *("data", "loader", "task_axes", "compiler", "device", "options", "where"),
)


def signature(name: str) -> str:
    """Return a public name's parameters without their types."""
    found = []
    for one in inspect.signature(getattr(tm, name)).parameters.values():
        if one.kind is one.KEYWORD_ONLY and "*" not in found:
            found.append("*")
        found.append(one.name if one.default is one.empty else f"{one.name}={one.default!r}")
    return f"({', '.join(found)})"


def test_the_public_names_and_their_signatures_are_frozen() -> None:
    assert sorted(tm.__all__) == sorted([*SIGNATURES, "Case"])
    assert {name: signature(name) for name in SIGNATURES} == SIGNATURES
    assert tuple(tm.Case.model_fields) == CASE_FIELDS
    assert {name for name in dir(tm) if not name.startswith("__")} == {*tm.__all__} - {"__version__"}
    for name, methods in METHODS.items():
        public = {method for method in dir(getattr(tm, name)) if not method.startswith("_")}
        assert public | {"document"} == methods | {"document"}, name


def test_a_public_docstring_has_an_example_and_the_errors() -> None:
    for name in set(tm.__all__) - {"Case"}:
        text = inspect.getdoc(getattr(tm, name)) or ""
        assert "Example" in text, name
        if not inspect.isclass(getattr(tm, name)):
            assert "Raises" in text, name


@pytest.mark.process
def test_importing_the_library_is_cheap_and_measure_stays_a_function_when_its_room_is_imported() -> None:
    program = (
        "import sys, trainmark as tm; light = 'pydantic' not in sys.modules and 'numpy' not in sys.modules\n"
        "first = tm.measure(unit='tokens')\n"
        "import trainmark.measure.statistics\n"
        "print(light, type(first) is type(tm.measure(unit='tokens')), 'warm-up' in tm.measure.__call__.__doc__)"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert ran.stdout.split()[:2] == ["True", "True"]


def test_a_log_is_read_from_its_path_and_from_its_text(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(LOG)

    by_path = tm.parse(tmp_path / "train.log", batch=480, gpus=1)
    by_text = tm.parse(LOG, batch=480, gpus=1)

    assert by_path.throughput == by_text.throughput
    assert (by_path.format, by_path.records, by_path.status) == ("nanogpt", by_text.records, by_text.status)
    assert by_path.row["throughput"] == by_path.throughput
    assert str(by_path).startswith(f"{tmp_path / 'train.log'}: ")
    assert "<table>" in by_path._repr_html_()


def test_a_log_without_a_number_has_a_status_and_a_reason() -> None:
    reading = tm.parse("nothing\nto read\n")

    assert (reading.throughput, reading.status, reading.is_doubtful) == (None, "unknown", True)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (tm.parse, "a folder: parse() reads one log"),
        (lambda folder: tm.parse(folder / "no.log"), "no such file"),
        (lambda _: tm.parse(LOG, precision="fp17"), "unknown precision 'fp17'; did you mean"),
        (lambda _: tm.parse(LOG, format="nanogtp"), "did you mean 'nanogpt'?"),
        (lambda folder: tm.load(folder / "none"), "no such result directory, results.json or database"),
        (tm.load, "no such file; is it the --out directory"),
        (lambda _: tm.compare([], STORED / "h200"), "compare() needs a baseline"),
        (
            lambda _: tm.compare(STORED / "h200", STORED / "h200", ignoring=["colour"]),
            "no case has this axis or option",
        ),
        (lambda folder: tm.audit(folder / "t.csv", folder), "t.csv"),
        (lambda folder: tm.explain(folder / "none.log"), "none.log"),
        (lambda _: tm.run([]), "no command"),
        (lambda folder: tm.run(folder / "none.yaml"), "cannot be read: No such file"),
        (lambda _: tm.run("suites/demo.yaml", repeats=2), "are for a command"),
        (lambda _: tm.Suite.of({"name": "x", "axes": {"precison": ["fp32"]}}), "did you mean 'precision'?"),
    ],
)
def test_bad_input_is_one_line(call: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(TrainmarkError) as caught:
        call(tmp_path)

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_result_of_a_newer_schema_is_one_line(tmp_path: Path) -> None:
    document = json.loads((STORED / "h200" / "results.json").read_text())
    (tmp_path / "results.json").write_text(json.dumps(document | {"schema_name": "trainmark.results/2"}))

    with pytest.raises(
        InputError, match=r"a trainmark.results/2 document of a newer trainmark; this one reads .*: update"
    ):
        tm.load(tmp_path)


def test_stored_results_are_tables_of_cases_and_runs() -> None:
    results = tm.load(STORED / "h200")

    assert results.name == results.document.suite
    assert len(results.cases) == len(results.document.cases)
    assert len(results.runs) == sum(len(case.runs) for case in results.document.cases)
    first = results.document.cases[0]
    assert first.estimate is not None
    assert results.cases[0]["throughput_median"] == first.estimate.median
    assert str(results).splitlines()[0].startswith("case")
    assert "<svg" in results._repr_html_()


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_results_are_frames_of_other_libraries(kind: str) -> None:
    pytest.importorskip({"arrow": "pyarrow"}.get(kind, kind))
    results = tm.load(STORED / "h200")

    for table in (results.cases, results.runs):
        frame = getattr(table, f"to_{kind}")()
        assert frame.shape == (len(table), len(table.columns))
    frame = getattr(results, f"to_{kind}")()
    medians = (
        frame["throughput_median"].to_pylist() if kind == "arrow" else frame["throughput_median"].to_list()
    )
    assert medians[0] == results.cases[0]["throughput_median"]


def test_a_library_that_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    results = tm.load(STORED / "h200")
    monkeypatch.setitem(sys.modules, "pandas", None)

    with pytest.raises(InputError) as caught:
        results.to_pandas()

    assert (
        str(caught.value)
        == "a pandas frame needs pandas, which is not installed: pip install 'trainmark[frames]'"
    )


def test_two_results_are_compared() -> None:
    results = tm.load(STORED / "h200")

    comparison = tm.compare(STORED / "h200", results)

    assert comparison.holds
    measured = [row for row in comparison.cases if row["ratio"] is not None]
    assert {row["ratio"] for row in measured} == {1.0}
    assert str(comparison)
    assert "<table>" in comparison._repr_html_()
    assert repr(comparison) == f"<trainmark.Comparison of {len(comparison.cases)} cases: holds>"


def test_two_logs_are_explained(tmp_path: Path) -> None:
    (tmp_path / "slow.log").write_text(LOG)
    (tmp_path / "fast.log").write_text(LOG.replace("100.00ms", "50.00ms"))

    explanation = tm.explain(tmp_path / "slow.log", tmp_path / "fast.log")

    assert explanation.document
    assert "slow.log" in str(explanation)


def test_a_table_is_audited(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(LOG)
    value = tm.parse(LOG, gpus=1, batch=480).throughput
    assert value is not None
    (tmp_path / "table.csv").write_text(
        f"log,published,gpus,batch\ntrain.log,{value},1,480\nnone.log,5,1,480\n"
    )

    audit = tm.audit(tmp_path / "table.csv", tmp_path)

    assert [row["log"] for row in audit.table] == ["train.log", "none.log"]
    assert not audit.holds
    assert audit.table[1]["verdict"] == "unreadable"


def test_a_suite_is_made_of_a_mapping_and_written_as_yaml(tmp_path: Path) -> None:
    suite = tm.Suite.of({"name": "mine", "environment": "system", "axes": {"batch_per_device": [32, 64]}})

    assert [case.batch_per_device for case in suite.cases] == [32, 64]
    assert isinstance(suite.cases[0], tm.Case)
    (tmp_path / "suite.yaml").write_text(suite.to_yaml())
    assert tm.Suite.read(tmp_path / "suite.yaml") == suite


@pytest.mark.process
def test_a_command_is_run_and_its_results_returned(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(
        "import sys, time\nimport trainmark as tm\n"
        "with tm.measure(unit='tokens', warmup=2) as m:\n"
        "    for _ in range(20):\n        time.sleep(float(sys.argv[1]))\n        m.step(10)\n"
    )

    results = tm.run(
        [sys.executable, str(program), "{seconds}"],
        vary={"seconds": [0.01, 0.02]},
        repeats=1,
        out=tmp_path / "out",
    )

    printed = [
        (tmp_path / "out" / row["directory"] / "train.log").read_text().split()[1] for row in results.runs
    ]
    assert [f"{row['throughput']:.6g}" for row in results.runs] == printed
    assert len(set(printed)) == len(results.cases) == 2
    assert results.holds
    assert (tmp_path / "out" / "report.md").exists()
    assert tm.load(tmp_path / "out").cases == results.cases
