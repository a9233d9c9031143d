"""The MFU of another program's language model, and where it is not known."""

from pathlib import Path

import pytest

from trainmark.campaign.model_flops import printed_parameters


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
    (tmp_path / "train.log").write_text("trainable parameters: 10M\ntotal parameters: 1.2B\n")

    assert printed_parameters(tmp_path / "train.log") == 1_200_000_000
