"""Do compared logs state one recipe? BERT's three programs as they print theirs."""

from pathlib import Path

import pytest

from trainmark.insight import recipe_differences
from trainmark.logs import Facts

_PADDLE = (
    "Namespace(adam_epsilon=1e-06, batch_size=96, gradient_merge_steps=88, max_predictions_per_seq=80, "
    "max_steps=500, weight_decay=0.01)\n"
)
_PYTORCH = (
    'DLL 2023-07-28 15:23:04.992899 - PARAMETER Config : ["Namespace(gradient_accumulation_steps=88, '
    'max_predictions_per_seq=20, max_seq_length=128, train_batch_size=8448)"]\n'
)
_TENSORFLOW = (
    "+ python3 /workspace/bert/run_pretraining.py --max_seq_length=128 --max_predictions_per_seq=20 "
    "--num_accumulation_steps=88 --optimizer_type=lamb --use_xla --amp\n"
)


@pytest.fixture
def logs(tmp_path: Path) -> dict[str, Path]:
    found = {}
    for name, text in (("paddle", _PADDLE), ("pytorch", _PYTORCH), ("tensorflow", _TENSORFLOW)):
        found[name] = tmp_path / f"{name}.log"
        found[name].write_text(text)
    return found


def test_the_compared_bert_columns_differ_in_masked_positions_and_optimizer(logs: dict[str, Path]) -> None:
    facts = [
        Facts(model="bert-base-uncased", gpus=8),
        Facts(model="bert", gpus=8),
        Facts(model="bert", gpus=8),
    ]

    lines = recipe_differences(zip(logs.values(), facts, strict=True))

    assert any(
        "max_predictions_per_seq: 80 (paddlenlp-bert), 20 (ngc-pytorch-bert)" in line for line in lines
    )
    assert any("optimizer: adam (paddlenlp-bert), lamb (ngc-pytorch-bert)" in line for line in lines)
    assert not any("accumulation_steps" in line for line in lines)


def test_accumulation_is_compared_at_the_same_number_of_devices(logs: dict[str, Path]) -> None:
    logs["pytorch"].write_text(
        _PYTORCH.replace("gradient_accumulation_steps=88", "gradient_accumulation_steps=704")
    )
    one = [(logs["paddle"], Facts(model="bert", gpus=1)), (logs["pytorch"], Facts(model="bert", gpus=1))]
    other = [(logs["paddle"], Facts(model="bert", gpus=8)), (logs["pytorch"], Facts(model="bert", gpus=1))]

    assert any("accumulation_steps: 88 (paddlenlp-bert), 704" in line for line in recipe_differences(one))
    assert recipe_differences(other) == []


def test_logs_of_different_models_are_not_compared(logs: dict[str, Path]) -> None:
    logs_of_two_models = [(logs["paddle"], Facts(model="bert")), (logs["pytorch"], Facts(model="resnet50"))]

    assert recipe_differences(logs_of_two_models) == []
