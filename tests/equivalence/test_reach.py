"""What the check of equal work puts into the models' activations goes to both sides of where they bend."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from trainmark.schema.certificate import Subject
from trainmark.tasks.causal_lm import llama_reference
from trainmark.tasks.causal_lm import reference as gpt_reference
from trainmark.tasks.causal_lm.equal_work import LanguageEqualWork
from trainmark.tasks.equal_work import (
    RECTIFIER,
    TOLERANCES,
    Forward,
    common_range,
    reached,
    relative_distance,
)
from trainmark.tasks.masked_lm import reference as bert_reference
from trainmark.tasks.masked_lm.equal_work import MaskedEqualWork
from trainmark.tasks.recommendation import reference as click_reference
from trainmark.tasks.recommendation.equal_work import EMBEDDING_WIDTH, VOCABULARY, ClickEqualWork
from trainmark.worker.tasks.causal_lm.architectures import ARCHITECTURES as LANGUAGE
from trainmark.worker.tasks.masked_lm.architectures import ARCHITECTURES as MASKED
from trainmark.worker.tasks.recommendation.architectures import ARCHITECTURES as RECOMMENDERS

Arrays = Mapping[str, Any]

RECOMMENDED = ("wide_deep", "wide_deep_tiny", "dlrm", "dlrm_tiny")


def recommend(model: str, arrays: Arrays, activation: str = "relu") -> Forward:
    described = RECOMMENDERS[model].with_tables(VOCABULARY, EMBEDDING_WIDTH)
    form = replace(click_reference.DESCRIBED, activation=activation)
    return click_reference.forward(described, arrays, form)


PASSES: Mapping[str, Callable[[], Forward]] = {
    "gpt2_tiny": lambda: gpt_reference.forward(
        LANGUAGE["gpt2_tiny"],  # type: ignore[arg-type]
        LanguageEqualWork().inputs("gpt2_tiny"),
    ),
    "llama_tiny": lambda: llama_reference.forward(
        LANGUAGE["llama_tiny"],  # type: ignore[arg-type]
        LanguageEqualWork().inputs("llama_tiny"),
    ),
    "bert_tiny": lambda: bert_reference.forward(MASKED["bert_tiny"], MaskedEqualWork().inputs("bert_tiny")),
    **{
        name: (lambda name=name: recommend(name, ClickEqualWork().of(name, {}).inputs(name)))  # type: ignore[misc]
        for name in RECOMMENDED
    },
}
ACTIVATIONS = {"gpt2_tiny": 2, "llama_tiny": 2, "bert_tiny": 4, "wide_deep": 7, "dlrm": 7}


@pytest.mark.parametrize("model", PASSES)
def test_every_activation_of_the_described_pass_gets_values_on_both_sides(model: str) -> None:
    activated = PASSES[model]().activated
    assert len(activated) == ACTIVATIONS.get(model, len(activated)) > 0
    # BERT's pooler is tanh, which is flat long before 6.
    rest = {name: pair for name, pair in activated.items() if name != "pooler"}
    reach = common_range(rest)
    assert reach is not None
    assert (reach[0] < -3, reach[1] > 6) == (True, True), rest
    assert "pooler" not in activated or (activated["pooler"][0] < -2 and activated["pooler"][1] > 2)


@pytest.mark.parametrize("model", RECOMMENDED)
def test_a_bounded_activation_changes_the_output_of_every_later_layer(model: str) -> None:
    arrays = ClickEqualWork().of(model, {}).inputs(model)
    right, bounded = recommend(model, arrays), recommend(model, arrays, "relu6")
    off = [relative_distance(bounded.products[name], right.products[name]) for name in right.products]
    assert max(off) > 100 * TOLERANCES[Subject.ACTIVATIONS]


def test_without_the_far_bias_a_bounded_activation_would_pass() -> None:
    """That is how it was: nothing in the small model's inputs reached 6."""
    arrays = dict(ClickEqualWork().inputs("wide_deep_tiny"))
    for name in [name for name in arrays if name.startswith("fc") and name.endswith(".bias")]:
        arrays[name] = np.where(arrays[name] == 8, np.float32(0), arrays[name])
    right, bounded = recommend("wide_deep_tiny", arrays), recommend("wide_deep_tiny", arrays, "relu6")
    assert right.products == bounded.products
    short = reached(right.activated, lambda _name: RECTIFIER)
    assert not short.holds
    assert short.remark is not None
    assert "its behaviour elsewhere was not compared" in short.remark
