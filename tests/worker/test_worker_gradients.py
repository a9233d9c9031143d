"""The exchanges of gradients in the PyTorch worker: they train the same weights, on all ranks."""

from pathlib import Path
from typing import Any

import pytest
from worker_process import (
    PYTORCH,
    START,
    WORKER,
    command,
    in_pytorch,
    needs_pytorch,
    rank_variables,
    read_events,
    start_rank,
    train,
    train_together,
)

from trainmark.placement import free_ports

pytestmark = [pytest.mark.training, needs_pytorch]


@pytest.mark.parametrize("compiler", ["none", "torch.compile"])
def test_one_all_reduce_trains_as_ddp_does(tmp_path: Path, compiler: str) -> None:
    # Each rank has its own images, so that a rank which kept its own gradients would soon differ.
    runs = {
        name: train_together(tmp_path, gradients=name, compiler=compiler)[0] for name in ("ddp", "flat")
    }

    for name, ran in runs.items():
        assert ran.code == 0, ran.stderr
        assert ran.parameters["gradient_exchange"] == name
        assert ran.last["ranks_agree"] is True
    ddp, flat = ([step["loss"] for step in ran.steps] for ran in runs.values())
    assert flat == pytest.approx(ddp, rel=1e-5)


@pytest.mark.parametrize("precision", ["amp-bf16", "amp-fp16", "fp16"])
@pytest.mark.parametrize("exchange", ["flat", "flat-16"])
def test_ranks_hold_the_same_parameters_in_mixed_precision(
    tmp_path: Path, precision: str, exchange: str
) -> None:
    first, second = train_together(tmp_path, gradients=exchange, precision=precision, steps=4)

    assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
    assert first.parameters["gradient_exchange"] == exchange
    assert first.last["ranks_agree"] is True
    assert all(step["loss"] is not None for step in first.steps)
