"""What the descriptions of language models say, and where they go in the database of others."""

import pytest

from trainmark.report.exchange import mission_for
from trainmark.tasks import TASKS, published_name
from trainmark.worker.tasks.causal_lm.architectures import ARCHITECTURES as CAUSAL
from trainmark.worker.tasks.masked_lm.architectures import ARCHITECTURES as MASKED


def test_models_have_the_parameters_of_those_that_they_are_called_after() -> None:
    assert CAUSAL["gpt2_124m"].parameters() == 124_373_760
    assert MASKED["bert_base"].parameters() == 110_106_428


def test_operations_are_counted_by_two_conventions_that_differ_by_the_norms_alone() -> None:
    model = CAUSAL["gpt2_124m"]
    told = model.operations_per_token(1024)
    assert told == {"counted": 854_654_976, "6N+12LHQT": 854_770_176}
    norms = (2 * model.layers + 1) * model.width
    assert told["6N+12LHQT"] - told["counted"] == 6 * norms


@pytest.mark.parametrize(("model", "mission"), [("gpt2_124m", "语言模型"), ("bert_base", "语义表示")])
def test_language_models_go_to_the_missions_of_nlp(model: str, mission: str) -> None:
    found = mission_for(published_name(model))
    assert (found.name, found.direction) == (mission, 1)


def test_the_models_of_worker_and_house_are_the_same() -> None:
    for task, described in (("causal-lm", CAUSAL), ("masked-lm", MASKED)):
        assert list(TASKS[task].models) == list(described)
