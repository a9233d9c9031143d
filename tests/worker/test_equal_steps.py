"""Equal work on text and clicks: every pair of frameworks trains by one step, and a step that differs is found out."""

from collections.abc import Callable
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from preloaded_worker import COMPILERS, OBSERVATIONS, Observer, failing, own_losses

from frameworks import in_frameworks, in_pytorch, needs_framework
from trainmark.equivalence import compare
from trainmark.schema.certificate import Subject

pytestmark = pytest.mark.training

SOME = {"llama_tiny": ("pytorch", "jax"), "dlrm_tiny": ("pytorch", "jax")}
"""The models that not every one of these frameworks trains."""

Observers = Callable[..., Observer]


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Observers:
    """Return a function from a model, and from rules of its task, to its observer, which does each step once."""
    return cache(lambda model, **rules: Observer(model, tmp_path_factory, **rules))


def case(model: str, *frameworks: str, more: tuple[Any, ...] = ()) -> Any:
    """Return the parameters of a test of a model in these frameworks; a rare one in JAX.

    Each operation of a step that is looked into is a program that XLA compiles: of text, a minute of them.
    """
    marks = in_frameworks(*frameworks, rarely="jax" in frameworks)
    name = "-".join([model, "=".join(frameworks), *map(str, more)])
    return pytest.param(model, *frameworks, *more, marks=marks, id=name)


def trained(*models: str) -> list[tuple[str, str]]:
    """Return the models, each with every framework that trains it."""
    return [(model, framework) for model in models for framework in SOME.get(model, COMPILERS)]


@pytest.mark.parametrize(("model", "framework"), [case(*pair) for pair in trained(*OBSERVATIONS)])
def test_a_framework_trains_the_described_step(model: str, framework: str, observed: Observers) -> None:
    assert observed(model).alone(framework) == {}


@pytest.mark.parametrize(
    ("model", "first", "second"),
    [case(model, *pair) for model in OBSERVATIONS for pair in combinations(SOME.get(model, COMPILERS), 2)],
)
def test_two_frameworks_do_equal_work(model: str, first: str, second: str, observed: Observers) -> None:
    assert observed(model).between(first, second) == {}


@needs_framework("pytorch")
@pytest.mark.parametrize(
    ("model", "framework", "ranks"),
    [
        case(model, framework, more=(ranks,))
        for model, framework in trained(*OBSERVATIONS)
        for ranks in ((2,) if model == "llama_tiny" else (1, 2))
    ],
)
def test_by_its_compiler_and_on_two_ranks_with_one_batch_each_does_the_step_that_was_looked_into(
    model: str, framework: str, ranks: int, observed: Observers
) -> None:
    assert observed(model).following(framework, compiler=COMPILERS[framework], ranks=ranks) == {}


@pytest.mark.parametrize(
    ("model", "framework"),
    [case(*pair) for pair in trained("wide_deep_tiny", "bert_tiny")],
)
def test_ranks_drop_different_places_of_the_same_batch(model: str, framework: str, tmp_path: Path) -> None:
    first, second = own_losses(model, framework, tmp_path)
    assert first != second


@pytest.mark.parametrize(
    ("model", "framework"), [case(*pair) for pair in trained("bert_tiny") if "jax" not in pair]
)
def test_without_padding_a_framework_trains_the_described_step_without_a_mask(
    model: str, framework: str, observed: Observers
) -> None:
    assert not observed(model).told(framework, padding=0)["padded"]
    assert observed(model).alone(framework, padding=0) == {}


@in_pytorch
def test_sparse_gradients_of_the_tables_are_the_same_step(observed: Observers) -> None:
    dlrm = observed("dlrm_tiny")
    dense, sparse = dlrm.seen("pytorch"), dlrm.seen("pytorch", table_gradients="sparse")
    assert dlrm.alone("pytorch", table_gradients="sparse") == {}
    assert failing(compare(dense, sparse).checks) == {}


@pytest.mark.parametrize(("model", "framework"), [case(*pair) for pair in trained("bert_tiny")])
def test_by_lamb_a_framework_trains_the_described_step(
    model: str, framework: str, observed: Observers
) -> None:
    assert observed(model, optimizer="lamb").alone(framework) == {}


@pytest.mark.parametrize(
    ("model", "first", "second"),
    [case("bert_tiny", *pair) for pair in combinations(COMPILERS, 2)],
)
def test_by_lamb_two_frameworks_do_equal_work(
    model: str, first: str, second: str, observed: Observers
) -> None:
    assert observed(model, optimizer="lamb").between(first, second) == {}


@in_pytorch
@pytest.mark.parametrize("wrong", [{"mistake": "no-trust-ratio"}, {"optimizer": "adamw"}])
def test_adamw_in_lambs_place_is_found_and_named(wrong: dict[str, str], observed: Observers) -> None:
    found = observed("bert_tiny", optimizer="lamb").alone("pytorch", **wrong)
    assert "the update is AdamW's, and not LAMB's" in found[Subject.UPDATE_RULE]


@needs_framework("pytorch")
@pytest.mark.parametrize(("model", "framework"), [case(*pair) for pair in trained("bert_tiny")])
def test_by_lamb_its_compiler_does_the_step_that_was_looked_into(
    model: str, framework: str, observed: Observers
) -> None:
    assert observed(model, optimizer="lamb").following(framework, compiler=COMPILERS[framework]) == {}


@pytest.mark.parametrize(
    ("model", "framework"),
    [case(model, framework) for model in ("gpt2_tiny", "llama_tiny") for framework in ("pytorch", "jax")],
)
def test_of_packed_documents_a_framework_trains_the_described_step(
    model: str, framework: str, observed: Observers
) -> None:
    assert observed(model, packing="documents").alone(framework) == {}


@in_pytorch
@pytest.mark.parametrize(
    ("model", "mistake", "subject", "said"),
    [
        ("gpt2_tiny", "packed-crossing", Subject.ACTIVATIONS, "attention crosses the borders of documents"),
        ("llama_tiny", "packed-crossing", Subject.ACTIVATIONS, "attention crosses the borders of documents"),
        # Rotated positions are relative: of Llama the restart changes nothing within a document.
        ("gpt2_tiny", "packed-positions", Subject.ACTIVATIONS, "positions run on across documents"),
        ("gpt2_tiny", "packed-counted", Subject.LOSS, "the loss counts padding, and the first token of each"),
    ],
)
def test_a_mistake_with_packed_documents_is_found_and_named(
    model: str, mistake: str, subject: Subject, said: str, observed: Observers
) -> None:
    assert said in observed(model, packing="documents").alone("pytorch", mistake)[subject]


UNTIED = "than the description has: as many as a separate classifier of {} (not tied to the embedding)"

# Three of BERT's mistakes, "eighty", "all-words" and "padding-counted", make the first step invalid: no steps are told
# (test_certificate_of_invalid_steps.py). "no-trust-ratio" is LAMB's (above).
MISTAKES: dict[str, list[tuple[str, Subject, str]]] = {
    "gpt2_tiny": [
        ("tanh", Subject.LOGITS, "GELU is approximated by tanh instead of exact (erf)"),
        ("no-mask", Subject.ACTIVATIONS, "each position attends to all positions, including later ones"),
        ("dropout", Subject.TIMED_STEP, "the step has a random part, such as dropout"),
        ("untied", Subject.PARAMETERS, f"32,768 more {UNTIED.format('512 x 64')}"),
        ("norms-decay", Subject.DECAY, "norm.weight: 0.1 instead of 0"),
        ("decay-in-the-gradient", Subject.UPDATE_RULE, "step"),
        ("second-moment", Subject.UPDATE_RULE, "step"),
        ("parts-summed", Subject.UPDATE_RULE, "step"),
        ("part-left-out", Subject.TIMED_STEP, "the timed step differs from the inspected one"),
    ],
    "llama_tiny": [
        (
            "llama-neighbours",
            Subject.LOGITS,
            "neighbouring columns are rotated as pairs, instead of columns of a head's two halves",
        ),
        ("llama-unscaled", Subject.LOGITS, "the frequencies of the rotation are not scaled"),
        (
            "llama-heads-in-turn",
            Subject.LOGITS,
            "query heads share keys and values in turn, instead of in groups of neighbours",
        ),
        ("llama-gelu", Subject.LOGITS, "the gate goes through GELU instead of SiLU"),
        ("llama-layer-norm", Subject.LOGITS, "the norms subtract the mean, like layer norms"),
    ],
    "bert_tiny": [
        ("unclipped", Subject.UPDATE_RULE, "the gradients are not clipped"),
        ("tanh", Subject.LOGITS, "GELU is approximated by tanh instead of exact (erf)"),
        ("causal", Subject.ACTIVATIONS, "each position attends only to earlier positions"),
        ("words-alone", Subject.LOSS, "the loss covers only the words, without the next sentence"),
        ("biases-decay", Subject.DECAY, "instead of 0"),
        ("untied", Subject.PARAMETERS, f"32,768 more {UNTIED.format('512 x 64')}"),
        ("no-mask", Subject.ACTIVATIONS, "padding is attended to"),
        ("unweighted", Subject.LOSS, "the loss counts places without a word"),
        ("mean-of-means", Subject.TIMED_STEP, "the timed step differs from the inspected one"),
    ],
    "wide_deep_tiny": [
        ("gelu", Subject.ACTIVATIONS, "the activation is GELU instead of ReLU"),
        ("relu6", Subject.ACTIVATIONS, "the activation is bounded (ReLU6)"),
        ("without-wide", Subject.LOGITS, "the wide side is left out"),
        ("swapped", Subject.ACTIVATIONS, "C5 and C6 are swapped"),
        ("left-out", Subject.ACTIVATIONS, "C26 is left out"),
        ("dropout", Subject.TIMED_STEP, "the step has a random part, such as dropout"),
        ("batch-norm", Subject.PARAMETERS, "more than the description has"),
        ("unbiased", Subject.ACTIVATIONS, "fc2"),
        ("decay", Subject.UPDATE_RULE, "step"),
        ("decoupled-decay", Subject.DECAY, "0.1 instead of 0"),
        ("second-moment", Subject.UPDATE_RULE, "step"),
        ("table-stands-still", Subject.UPDATE_RULE, "wide.table"),
        ("lazy", Subject.UPDATE_RULE, "table, step"),
        ("summed", Subject.LOSS, "step 0"),
    ],
    "dlrm_tiny": [
        ("pairs-first", Subject.ACTIVATIONS, "the pairs come before the bottom's vector"),
        ("transposed", Subject.ACTIVATIONS, "the pairs are in the order 0-1, 0-2"),
        ("straight", Subject.ACTIVATIONS, "the bottom's last layer has no ReLU after it"),
        ("bottom-last", Subject.ACTIVATIONS, "the bottom's vector is the last of the interaction"),
        ("swapped-tables", Subject.ACTIVATIONS, "C5 and C6 are swapped"),
    ],
}


@in_pytorch
@pytest.mark.parametrize(
    ("model", "mistake", "subject", "said"),
    [pytest.param(model, *row, id=f"{model}-{row[0]}") for model, rows in MISTAKES.items() for row in rows],
)
def test_a_mistake_is_found_and_named(
    model: str, mistake: str, subject: Subject, said: str, observed: Observers
) -> None:
    assert said in observed(model).alone("pytorch", mistake)[subject]


@in_pytorch
@pytest.mark.parametrize(
    ("model", "flags", "subject", "said"),
    [
        ("bert_tiny", {"optimizer": "lamb"}, Subject.UPDATE_RULE, "the update is LAMB's, and not AdamW's"),
        ("bert_tiny", {"dropout": 0.1}, Subject.TIMED_STEP, "the step has a random part, such as dropout"),
        (
            "bert_tiny",
            {"accumulation": 4},
            Subject.LAYERS,
            "None the batch was passed in 4 parts instead of 2",
        ),
        (
            "gpt2_tiny",
            {"accumulation": 4},
            Subject.LAYERS,
            "None the batch was passed in 4 parts instead of 2",
        ),
    ],
)
def test_another_recipe_is_found_and_named(
    model: str, flags: dict[str, Any], subject: Subject, said: str, observed: Observers
) -> None:
    assert said in observed(model).alone("pytorch", **flags)[subject]


@in_pytorch
@pytest.mark.parametrize("model", ["gpt2_tiny", "llama_tiny", "wide_deep_tiny", "dlrm_tiny"])
def test_gradients_that_are_summed_over_the_ranks_are_found_where_epsilon_is_not_small(
    model: str, observed: Observers
) -> None:
    """BERT's are clipped in each step of the check, to the same gradients as their mean: see ``test_masked.py``."""
    wrong = observed(model).following("pytorch", "ranks-summed", ranks=2, gradients="flat")
    assert Subject.UPDATE_NORM in wrong
