"""The MFU of another program's language model, and where it is not known."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from trainmark.campaign.model_flops import model_flops, model_shape, printed_parameters
from trainmark.schema.case import Case
from trainmark.schema.measurement import ModelFlops
from trainmark.workload import Card


@pytest.mark.parametrize(
    ("line", "parameters"),
    [
        ("number of parameters: 123.59M", 123_590_000),
        ("Total parameters: 1,235,814,400", 1_235_814_400),
        ("num_params: 8.03B", 8_030_000_000),
        ("INFO trainable params = 124439808", 124_439_808),
        ("num decayed parameter tensors: 50, with 124,354,560 parameters", None),
        ("number of parameters: 12", None),
        ("the parameters are fine", None),
    ],
)
def test_printed_parameters_are_read_with_their_suffix(
    line: str, parameters: int | None, tmp_path: Path
) -> None:
    (tmp_path / "train.log").write_text(f"start\n{line}\nstep 1\n")

    assert printed_parameters(tmp_path / "train.log") == parameters


def test_of_several_the_largest_is_the_whole_model(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text("model parameters: 10M\ntrainable parameters: 1.2B\n")

    assert printed_parameters(tmp_path / "train.log") == 1_200_000_000


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("trainable params: 4,194,304 || all params: 6,742,609,920 || trainable%: 0.0622", "train.py"),
        ("trainable parameters: 10M\ntotal parameters: 1.2B", "train.py"),
        ("  Number of trainable parameters = 4,194,304", "train.py --use_peft --lora_r 8"),
        ("Fine-tuning method: LoRA\n  Number of trainable parameters = 4,194,304", "train.py"),
    ],
)
def test_of_a_model_that_is_trained_in_part_no_number_of_parameters_gives_the_operations(
    tmp_path: Path, text: str, command: str
) -> None:
    (tmp_path / "train.log").write_text(f"start\n{text}\nstep 1\n")

    assert printed_parameters(tmp_path / "train.log", [command]) is None


@pytest.mark.parametrize(
    ("log", "command", "stated", "expected"),
    [
        ("n_layer: 12\nn_embd: 768\nblock_size: 1024\n", "", {}, (12, 768, 1024, "from the log")),
        (
            '"num_hidden_layers": 16, "hidden_size": 2048\n',
            "train.py --seq-length 4096",
            {},
            (16, 2048, 4096, "both"),
        ),
        ("", "train.py --n_layer=2 --n_embd=64 --block_size=32", {}, (2, 64, 32, "from the command")),
        ("", "train.py", {"layers": 2, "hidden_size": 64, "sequence_length": 32}, (2, 64, 32, "stated")),
        ("n_layer: 12\nn_embd: 768\n", "", {}, None),
        ("n_layer: 12\nn_layer: 6\nn_embd: 768\nblock_size: 1024\n", "", {}, None),
        ("my_n_layer: 12\nn_embd: 768\nblock_size: 1024\n", "", {}, None),
    ],
)
def test_the_shape_is_stated_or_of_the_command_or_of_the_log(
    log: str, command: str, stated: dict[str, int], expected: tuple[int, int, int, str] | None, tmp_path: Path
) -> None:
    (tmp_path / "train.log").write_text(log)
    card = SimpleNamespace(layers=None, hidden_size=None, sequence_length=None, parameters=124_000_000)
    card.__dict__.update(stated)

    found = model_shape(cast("Card", card), tmp_path / "train.log", [command])

    if expected is None:
        assert found is None
        return
    assert found is not None
    assert (found.layers, found.hidden_size, found.sequence_length) == expected[:3]
    assert expected[3] in (found.by, "both")


def gpt2(tmp_path: Path, **stated: int) -> ModelFlops:
    """Return the MFU of 460 000 tokens/s of GPT-2 in BF16 on one H100."""
    case = Case.model_validate({"precision": "amp-bf16"})
    card = SimpleNamespace(
        parameters=124_000_000, **{"layers": None, "hidden_size": None, "sequence_length": None, **stated}
    )
    gpu = SimpleNamespace(name="NVIDIA H100 80GB HBM3", utilisation_mean=0.97)
    measured = SimpleNamespace(unit="tokens/s", witnessed={}, throughput=460_000.0)
    found = model_flops(
        case, cast("Any", card), tmp_path / "train.log", cast("Any", measured),
        cast("Any", [SimpleNamespace(gpus=(gpu,))]),
    )  # fmt: skip
    assert found is not None
    return found


def test_attention_is_counted_by_the_convention_of_palm_and_the_causal_half_is_separate(
    tmp_path: Path,
) -> None:
    found = gpt2(tmp_path, layers=12, hidden_size=768, sequence_length=1024)

    attention = 12 * 12 * 768 * 1024
    assert found.convention == "6N+12LHQT"
    assert found.operations_per_token == 6 * 124e6 + attention
    assert found.mfu == pytest.approx(460_000 * (6 * 124e6 + attention) / found.peak_operations_per_s)
    assert found.mfu_causal == pytest.approx(
        460_000 * (6 * 124e6 + attention / 2) / found.peak_operations_per_s
    )


def test_without_the_shape_the_convention_is_6n(tmp_path: Path) -> None:
    found = gpt2(tmp_path, layers=12)

    assert (found.convention, found.operations_per_token, found.mfu_causal) == ("6N", 6 * 124e6, None)
