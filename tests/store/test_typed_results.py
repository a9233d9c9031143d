"""What is typed in results stays typed, and in JSON what earlier versions wrote and read stays as it was."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from trainmark.schema.manifest import Manifest
from trainmark.schema.measurement import Parameters
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import Results, RunResult
from trainmark.schema.telemetry import TelemetrySummary

OLD = Path(__file__).with_name("old") / "results-0.1.json"
STORED = sorted((Path(__file__).parents[2] / "docs" / "results").glob("*/results.json"))
WORDS = st.dictionaries(
    st.sampled_from(["framework", "global_batch", "work", "epoch_images", "free", "unit", "actual"]),
    st.none() | st.booleans() | st.integers() | st.text() | st.dictionaries(st.text(), st.integers()),
)


def run(**fields: Any) -> RunResult:
    known = dict.fromkeys(RunResult.model_fields) | {"repeat": 1, "outcome": Outcome.OK}
    known |= {
        "directory": "runs/x/1",
        "commands": (),
        "suspicions": (),
        "parameters": {},
        "telemetry": (),
        "hosts": (),
        "data_files": {},
        "stand_ins": {},
    }
    return RunResult(**{**known, **fields})


@pytest.mark.parametrize("nodes", [(), (0,), (0, 1, 2), (1, 2)])
def test_telemetry_is_a_list_by_node_with_an_unchanged_json_form(nodes: tuple[int, ...]) -> None:
    made = run(telemetry=tuple(TelemetrySummary(node=node, samples=9) for node in nodes))
    written = json.loads(made.model_dump_json())
    assert (written["telemetry"] or {}).get("node") == (0 if 0 in nodes else None)
    assert [node["node"] for node in written["other_nodes"]] == [node for node in nodes if node]
    assert RunResult.model_validate(written) == made
    written.pop("other_nodes")
    assert [node.node for node in RunResult.model_validate(written).telemetry] == [0] * (0 in nodes)


@given(WORDS)
def test_a_parameter_of_another_type_is_read_as_the_run_wrote_it(written: dict[str, Any]) -> None:
    parameters = Parameters.of(written)
    assert parameters.reported() == written
    assert Parameters.model_validate_json(parameters.model_dump_json()) == parameters
    assert parameters.global_batch is None or type(parameters.global_batch) is int


def test_unknown_parameters_are_stored_with_the_known_ones() -> None:
    parameters = Parameters.of({"global_batch": 8, "unit": 7, "momentum": 0.9})
    assert (parameters.global_batch, parameters.unit) == (8, None)
    assert parameters.free == {"unit": 7, "momentum": 0.9}


@pytest.mark.parametrize("path", [OLD, *STORED], ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_stored_results_are_read_as_typed_parameters_without_loss(path: Path) -> None:
    written = json.loads(path.read_text(encoding="utf-8"))
    results = Results.model_validate(written)
    assert all(isinstance(manifest, Manifest) for manifest in results.manifests.values())
    for case, before in zip(results.cases, written["cases"], strict=True):
        for one, its in zip(case.runs, before["runs"], strict=True):
            assert json.loads(one.parameters.model_dump_json()) == its["parameters"]
            if one.measurement is not None and case.case.workload == "trainmark":
                assert None not in (one.parameters.device, one.parameters.batch_per_device)


@pytest.mark.parametrize("others", [1.5, "x", {"a": 1}])
def test_other_nodes_that_are_no_list_are_named_and_no_traceback(others: object) -> None:
    document = {**json.loads(run().model_dump_json()), "other_nodes": others}
    with pytest.raises(ValidationError, match="telemetry"):
        RunResult.model_validate(document)


def test_a_window_of_no_time_and_an_environment_of_no_node_are_no_results() -> None:
    document = json.loads(STORED[0].read_text(encoding="utf-8"))
    key = next(iter(document["manifests"]))
    document["manifests"][key]["nodes"] = []
    assert not isinstance(Results.model_validate(document).manifests[key], Manifest)
    measured = next(run for case in document["cases"] for run in case["runs"] if run["measurement"])
    measured["measurement"]["window_s"] = 0.0
    with pytest.raises(ValidationError, match="window_s"):
        Results.model_validate(document)
