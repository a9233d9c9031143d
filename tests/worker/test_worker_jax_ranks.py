"""Several ranks of the JAX worker, and what becomes of the others when one ends."""

from pathlib import Path
from typing import Any

import pytest
from three_steps import three_steps
from worker_process import (
    Ran,
    make_images,
    rank_variables,
    read_events,
    start_rank,
    train,
    train_together,
)

from frameworks import needs_framework
from trainmark.equivalence import Followed, follows
from trainmark.placement import free_ports
from trainmark.tasks.image_classification.equal_work import ImageObservation

pytestmark = [pytest.mark.training, needs_framework("jax")]

JAX: dict[str, Any] = {"framework": "jax", "layout": "nhwc", "compiler": "xla"}


@pytest.fixture(scope="module")
def scaled(tmp_path_factory: pytest.TempPathFactory) -> list[Ran]:
    """Two ranks with loss scaling: what they must agree on is the most here."""
    return train_together(tmp_path_factory.mktemp("scaled"), **JAX, precision="amp-fp16", steps=5)


def test_two_ranks_hold_the_same_parameters_after_the_window(scaled: list[Ran]) -> None:
    first, second = scaled

    assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
    assert first.parameters["world_size"] == first.parameters["actual"]["world_size"] == 2
    assert first.parameters["backend"] == "gloo"
    assert first.last["ranks_agree"] is True
    assert first.last["suspect"] == []
    assert len(first.last["peak_memory_bytes"]) == 2
    assert first.last["window_s"] == max(first.last["rank_windows_s"])


def test_ranks_leave_together_and_say_nothing_about_it(scaled: list[Ran]) -> None:
    first, second = scaled

    assert (first.stderr, second.stderr) == ("", "")
    # Gloo itself tells that it is connected.
    assert all(line.startswith("[Gloo]") for line in second.stdout.splitlines())
    assert second.events == []


def test_two_ranks_share_out_the_images_and_their_loss_is_the_mean_of_both_parts(tmp_path: Path) -> None:
    data = make_images(tmp_path / "data", count=16) / "list.txt"
    # Nothing is learned, so that one process sees in two steps what two ranks see in one.
    still: dict[str, Any] = {**JAX, "data": data, "batch_per_device": 4, "learning_rate": "0"}

    alone = train(tmp_path, **still, steps=4)
    together, _ = train_together(tmp_path, **still, steps=2, warmup_steps=1)

    assert together.code == 0, together.stderr
    parts = [step["loss"] for step in alone.steps]
    assert [step["loss"] for step in together.steps] == pytest.approx(
        [(parts[0] + parts[1]) / 2, (parts[2] + parts[3]) / 2], rel=1e-4
    )


def test_two_ranks_with_one_batch_make_the_update_of_one(tmp_path: Path) -> None:
    alone = three_steps(tmp_path, "jax", "mobilenet_v1", layout="nhwc")
    together = three_steps(tmp_path, "jax", "mobilenet_v1", 2, layout="nhwc", compiler="xla")

    variant = follows(
        ImageObservation.model_validate(alone), Followed.model_validate(together), {"layout": "nhwc"}, "xla"
    )
    assert [check for check in variant.checks if not check.holds] == []


def test_several_ranks_without_a_compiler_are_unsupported_before_they_meet(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"

    # Alone: it must not wait for the other one.
    variables = rank_variables(0, 2, free_ports(8))
    process = start_rank({"layout": "nhwc", "compiler": "none"}, events, variables, "jax")
    process.communicate(timeout=120)

    assert process.returncode == 3
    last = read_events(events)[-1]["data"]
    assert last["outcome"] == "unsupported"
    assert "several ranks need the compiler xla" in last["reason"]


@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_that_is_killed_ends_the_other_one_which_says_that_it_lost_it(
    tmp_path: Path, victim: int
) -> None:
    events = tmp_path / "events.jsonl"
    port = free_ports(8)
    endless = {"layout": "nhwc", "compiler": "xla", "steps": "100000"}
    ranks = [start_rank(endless, events, rank_variables(rank, 2, port), "jax") for rank in range(2)]
    survivor = ranks[1 - victim]
    try:
        assert ranks[0].stdout is not None
        # A heartbeat: both ranks are in the middle of training.
        assert any(line.startswith("step ") for line in ranks[0].stdout)
        ranks[victim].kill()
        _, stderr = survivor.communicate(timeout=120)
    finally:
        for process in ranks:
            process.kill()
            process.communicate()

    assert survivor.returncode == 3
    own = events if victim == 1 else events.with_name("events.jsonl.rank1")
    last = read_events(own)[-1]["data"]
    assert (last["outcome"], last["peer_lost"]) == ("failed", True)
    assert f"rank {1 - victim}: failed: lost contact with another rank" in stderr
