"""Golden observations: they ship with trainmark, are current, and are one more partner of the comparison."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from trainmark.equivalence import (
    certify,
    compare,
    digest_inputs,
    golden_bytes,
    golden_of,
    golden_path,
    has_golden,
    party,
)
from trainmark.equivalence.golden import FOLDER, Golden
from trainmark.schema.certificate import GOLDEN, Subject
from trainmark.schema.observation import Observation, Sketch
from trainmark.tasks import TASKS

MODELS = [model for task in TASKS.values() if task.equal_work for model in task.models]
NOT_STORED = {"llama3.2_1b", "bert_base"}
"""The observation of Llama needs some 50 GB of memory; that of BERT-base is to follow."""

QUICK = ("mobilenet_v1", "gpt2_tiny", "llama_tiny", "bert_tiny", "wide_deep_tiny", "dlrm_tiny")
OUTDATED = "is outdated: run scripts/golden_observations.py"


def observed(framework: str, model: str = "mobilenet_v1") -> Observation:
    """Return the golden observation as if a framework had been observed."""
    found = golden_of(model)
    assert found is not None
    return found.model_copy(update={"framework": framework})


def test_every_built_in_model_has_a_golden_observation() -> None:
    assert {model for model in MODELS if not has_golden(model)} == NOT_STORED
    assert has_golden("bert_tiny", {"optimizer": "lamb"})
    assert golden_path("bert_tiny", {"optimizer": "adamw"}) == golden_path("bert_tiny")


def test_they_are_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 1_000_000


@pytest.mark.parametrize("model", QUICK)
def test_they_are_those_of_todays_inputs_and_recipe(model: str) -> None:
    assert Golden.model_validate_json(golden_bytes(model)).inputs == digest_inputs(model), OUTDATED


@pytest.mark.rare
@pytest.mark.parametrize("model", sorted({*MODELS} - NOT_STORED - {*QUICK}))
def test_the_large_ones_are_those_of_todays_inputs_and_recipe(model: str) -> None:
    assert Golden.model_validate_json(golden_bytes(model)).inputs == digest_inputs(model), OUTDATED


@pytest.mark.parametrize("model", QUICK)
def test_at_least_two_frameworks_agreed_when_it_was_made(model: str) -> None:
    agreed = Golden.model_validate_json(golden_bytes(model)).agreed
    assert "pytorch" in agreed
    assert len(agreed) > 1


def test_one_framework_that_equals_it_is_certified() -> None:
    worked, golden = observed("pytorch"), golden_of("mobilenet_v1")
    certificate = certify("mobilenet_v1", [worked], [], {}, datetime.now(UTC), golden=golden)
    assert [pair.frameworks for pair in certificate.pairs] == [("pytorch", GOLDEN)]
    assert certificate.holds


def test_one_framework_that_differs_from_it_is_not_certified() -> None:
    worked = observed("pytorch")
    first = worked.steps[0]
    gradients = {**first.gradients, "stem.conv.weight": Sketch(norm=0.0, signed_sum=0.0)}
    steps = (first.model_copy(update={"gradients": gradients}), *worked.steps[1:])
    pair = compare(worked.model_copy(update={"steps": steps}), observed(GOLDEN))
    assert {check.subject for check in pair.checks if not check.holds} >= {Subject.GRADIENTS}
    assert not pair.holds


def test_a_damaged_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    document = json.loads(golden_bytes("gpt2_tiny"))
    del document["observation"]["steps"]
    (tmp_path / "gpt2_tiny.json").write_text(json.dumps(document), encoding="utf-8")
    monkeypatch.setattr("trainmark.equivalence.golden.FOLDER", tmp_path)
    with pytest.raises(ValueError, match=r"gpt2_tiny\.json is damaged"):
        golden_of("gpt2_tiny")


def test_it_has_no_moments_and_so_is_no_party() -> None:
    golden = golden_of("gpt2_tiny")
    assert golden is not None
    with pytest.raises((ValueError, KeyError)):
        party(golden, {}, None, None)
