"""The exchanges of gradients in the PyTorch worker: they train the same weights, on all ranks."""

from pathlib import Path
from typing import Any

import pytest
from worker_process import (
    LONG_S,
    end_group,
    read_events,
    start_ranks,
    train,
    train_together,
    wait_for_steps,
)

from frameworks import needs_framework
from trainmark.equivalence import worker_flags, write_inputs

pytestmark = [pytest.mark.training, needs_framework("pytorch"), pytest.mark.xdist_group("worker-pytorch")]


def test_one_all_reduce_trains_as_ddp_does(tmp_path: Path) -> None:
    # Each rank has images of its own, so that a rank which kept its own gradients would soon have other losses.
    ddp, flat = (train_together(tmp_path, gradients=name, layout="nhwc")[0] for name in ("ddp", "flat"))

    for name, ran in (("ddp", ddp), ("flat", flat)):
        assert ran.code == 0, ran.stderr
        assert ran.parameters["gradient_exchange"] == name
        assert ran.last["ranks_agree"] is True
    assert [step["loss"] for step in flat.steps] == pytest.approx(
        [step["loss"] for step in ddp.steps], rel=1e-5
    )


@pytest.mark.rare
def test_one_all_reduce_updates_the_weights_as_ddp_does(tmp_path: Path) -> None:
    inputs = tmp_path / "inputs.npz"
    write_inputs("mobilenet_v1", inputs)
    words: dict[str, Any] = dict(word[2:].split("=", 1) for word in worker_flags("mobilenet_v1", inputs))
    ddp, flat = (
        train_together(tmp_path, **{**words, "device": "cpu", "gradients": name})[0].last["equivalence"][
            "steps"
        ]
        for name in ("ddp", "flat")
    )

    for expected, found in zip(ddp, flat, strict=True):
        for kind in ("gradients", "updates"):
            for name, sketch in expected[kind].items():
                assert found[kind][name] == pytest.approx(sketch, rel=1e-4, abs=1e-6), (kind, name)


@pytest.mark.rare
@pytest.mark.parametrize("precision", ["amp-bf16", "fp16"])
def test_gradients_that_travel_in_16_bits_leave_the_ranks_with_the_same_parameters(
    tmp_path: Path, precision: str
) -> None:
    ddp, narrow = (
        train_together(
            tmp_path, gradients=name, precision=precision, loss_scale="128", steps=4, batch_per_device=8
        )[0]
        for name in ("ddp", "flat-16")
    )

    assert narrow.code == 0, narrow.stderr
    assert narrow.parameters["gradient_exchange"] == "flat-16"
    assert narrow.last["ranks_agree"] is True
    assert [step["loss"] for step in narrow.steps] == pytest.approx(
        [step["loss"] for step in ddp.steps], rel=2e-2
    )


@pytest.mark.rare
def test_a_step_whose_gradients_overflow_is_skipped_by_all_ranks(tmp_path: Path) -> None:
    # So large that the scaled gradients are infinite in FP16: by the mean of the ranks, so is each one's.
    ran = train_together(tmp_path, gradients="flat-16", precision="fp16", loss_scale="1e30", steps=3)[0]

    assert ran.code == 0, ran.stderr
    assert ran.last["ranks_agree"] is True
    first, *later = (step["loss"] for step in ran.steps)
    assert later == [first, first]


def test_16_bits_want_a_precision_that_has_them(tmp_path: Path) -> None:
    ran = train(tmp_path, gradients="flat-16", precision="fp32")

    assert ran.code == 3
    assert ran.last["outcome"] == "unsupported"
    assert "computes in 16 bits" in ran.last["reason"]


def test_a_rank_on_its_own_exchanges_nothing(tmp_path: Path) -> None:
    ran = train(tmp_path, gradients="flat", steps=3)

    assert ran.code == 0, ran.stderr
    assert ran.parameters["gradient_exchange"] is None


@pytest.mark.rare
def test_a_rank_that_is_killed_is_missed_by_the_all_reduce(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    first, second = start_ranks({"steps": 100_000, "gradients": "flat"}, events)
    try:
        wait_for_steps(first, 2)
        second.kill()
        _, stderr = first.communicate(timeout=LONG_S)
    finally:
        for rank in (first, second):
            end_group(rank)

    assert first.returncode == 3, stderr
    assert read_events(events)[-1]["data"]["peer_lost"] is True
