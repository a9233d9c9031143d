"""Golden observations: they ship with trainmark, are current, and are one more partner of the comparison."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from trainmark.equivalence import (
    Reference,
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
from trainmark.worker.tasks.causal_lm.architectures import ARCHITECTURES as CAUSAL
from trainmark.worker.tasks.masked_lm.architectures import ARCHITECTURES as MASKED

MODELS = [model for task in TASKS.values() if task.equal_work for model in task.models]
QUICK = (
    "mobilenet_v1",
    "mobilenet_tiny",
    "gpt2_tiny",
    "llama_tiny",
    "bert_tiny",
    "wide_deep_tiny",
    "dlrm_tiny",
)
REDUCED_TO: dict[str, Any] = {
    "llama3.2_1b": CAUSAL,
    "llama3.2_3b": CAUSAL,
    "gpt2_124m": CAUSAL,
    "bert_base": MASKED,
}
OUTDATED = "is outdated: run scripts/golden_observations.py"


def observed(framework: str, model: str = "mobilenet_v1") -> Observation:
    """Return the golden observation as if a framework had been observed."""
    found = golden_of(model)
    assert found is not None
    return found.model_copy(update={"framework": framework})


def test_every_built_in_model_has_a_golden_observation() -> None:
    assert [model for model in MODELS if not has_golden(model)] == []
    for model in ("bert_base", "bert_tiny"):
        assert has_golden(model, {"optimizer": "lamb"})
    assert golden_path("bert_tiny", {"optimizer": "adamw"}) == golden_path("bert_tiny")


def test_they_are_small() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 1_000_000


@pytest.mark.parametrize("model", QUICK)
def test_they_are_those_of_todays_inputs_and_recipe(model: str) -> None:
    assert Golden.model_validate_json(golden_bytes(model)).inputs == digest_inputs(model), OUTDATED


@pytest.mark.rare
@pytest.mark.parametrize("model", sorted({*MODELS} - {*QUICK}))
def test_the_large_ones_are_those_of_todays_inputs_and_recipe(model: str) -> None:
    assert Golden.model_validate_json(golden_bytes(model)).inputs == digest_inputs(model), OUTDATED


@pytest.mark.parametrize("model", sorted(REDUCED_TO))
def test_a_large_model_is_observed_in_a_reduced_form_of_the_same_layers(model: str) -> None:
    golden, whole, form = golden_of(model), REDUCED_TO[model][model], REDUCED_TO[model][f"{model}-reduced"]
    assert golden is not None
    assert golden.model == f"{model}-reduced"
    assert golden.parameters == form.parameters() < whole.parameters() / 10
    # The products of one block have the same names and the same proportions of heads.
    assert set(form.products()) < set(whole.products())
    assert getattr(whole, "head", whole.width // whole.heads) == getattr(
        form, "head", form.width // form.heads
    )


def test_the_certificate_states_the_reduced_form() -> None:
    certificate = certify("llama3.2_1b", [observed("jax", "llama3.2_1b")], [], {}, datetime.now(UTC))
    assert certificate.reduced == "2 layers, 8 heads, width 512, vocabulary 2,048"
    assert certify("llama_tiny", [], [], {}, datetime.now(UTC)).reduced == ""


@pytest.mark.parametrize("model", [*QUICK, *sorted(REDUCED_TO)])
def test_at_least_two_frameworks_agreed_when_it_was_made(model: str) -> None:
    agreed = Golden.model_validate_json(golden_bytes(model)).agreed
    assert "pytorch" in agreed
    assert len(agreed) > 1


def test_one_framework_that_equals_it_is_certified() -> None:
    worked, golden = observed("pytorch"), golden_of("mobilenet_v1")
    certificate = certify(
        "mobilenet_v1", [worked], [], {}, datetime.now(UTC), reference=Reference(golden=golden)
    )
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


@pytest.mark.parametrize(
    ("step", "deviation", "holds"), [(0, 5e-6, True), (0, 5e-5, False), (2, 5e-5, True), (2, 5e-4, False)]
)
def test_a_later_loss_carries_the_rounding_of_the_updates_before_it(
    step: int, deviation: float, holds: bool
) -> None:
    worked = observed(GOLDEN)
    steps = list(worked.steps)
    steps[step] = steps[step].model_copy(update={"loss": steps[step].loss * (1 + deviation)})
    pair = compare(worked.model_copy(update={"steps": tuple(steps)}), worked)
    (loss,) = (check for check in pair.checks if check.subject is Subject.LOSS)
    assert (loss.holds, loss.where) == (holds, f"step {step}")
