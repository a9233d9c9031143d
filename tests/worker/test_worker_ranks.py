"""Several ranks of the PyTorch worker, and what becomes of the others when one ends."""

import subprocess
from pathlib import Path

import pytest
from worker_process import (
    PYTORCH,
    command,
    make_images,
    needs_pytorch,
    rank_variables,
    read_events,
    start_rank,
    train,
    train_together,
)

from trainmark.placement import free_ports

pytestmark = [pytest.mark.training, needs_pytorch]


def test_two_ranks_hold_the_same_parameters_after_the_window(tmp_path: Path) -> None:
    first, second = train_together(tmp_path, steps=8)

    assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
    assert first.parameters["world_size"] == first.parameters["actual"]["world_size"] == 2
    assert first.parameters["backend"] == "gloo"
    assert first.last["ranks_agree"] is True
    assert first.last["rank_samples"] == [12, 12]
    assert first.last["window_s"] == max(first.last["rank_windows_s"])
    assert len(first.last["peak_memory_bytes"]) == 2
    assert second.stdout == ""
    assert second.events == []


def test_two_ranks_share_out_the_images_and_their_loss_is_the_mean_of_both_parts(tmp_path: Path) -> None:
    data = make_images(tmp_path / "data", count=16) / "list.txt"
    # Nothing is learned, so that one process sees in two steps what two ranks see in one.
    still: dict[str, str | int | Path] = {"data": data, "batch_per_device": 4, "learning_rate": "0"}

    alone = train(tmp_path, **still, steps=4)
    together, _ = train_together(tmp_path, **still, steps=2, warmup_steps=1)

    assert together.code == 0, together.stderr
    parts = [step["loss"] for step in alone.steps]
    assert [step["loss"] for step in together.steps] == pytest.approx(
        [(parts[0] + parts[1]) / 2, (parts[2] + parts[3]) / 2], rel=1e-4
    )


def test_torchrun_starts_it(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    torchrun = [
        PYTORCH,
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        f"--master-port={free_ports(1)}",
    ]

    done = subprocess.run(
        [*torchrun, *command({}, events)[1:]], capture_output=True, text=True, timeout=300, check=False
    )

    assert done.returncode == 0, done.stderr
    assert read_events(events)[-1]["data"]["world_size"] == 2


@pytest.mark.parametrize("gradients", ["ddp", "flat"])
def test_a_rank_that_is_killed_ends_the_other_one_which_says_that_it_lost_it(
    tmp_path: Path, gradients: str
) -> None:
    events = tmp_path / "events.jsonl"
    port = free_ports(1)
    endless = {"steps": "100000", "gradients": gradients}
    first, second = (start_rank(endless, events, rank_variables(rank, 2, port)) for rank in range(2))
    try:
        assert first.stdout is not None
        # A heartbeat: both ranks are in the middle of training.
        assert any(line.startswith("step ") for line in first.stdout)
        second.kill()
        _, stderr = first.communicate(timeout=120)
    finally:
        for process in (first, second):
            process.kill()
            process.communicate()

    assert first.returncode == 3
    last = read_events(events)[-1]["data"]
    assert last["outcome"] == "failed"
    assert last["peer_lost"] is True
    assert "rank 0: failed: lost contact with another rank" in stderr


def test_a_failure_of_another_rank_than_the_first_has_a_file_of_its_own(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"

    # Alone, because its failure comes before the ranks meet.
    second = start_rank({"data": str(tmp_path / "nowhere")}, events, rank_variables(1, 2, free_ports(1)))
    _, stderr = second.communicate(timeout=120)

    assert second.returncode == 3
    assert "trainmark-worker: rank 1: failed: the data set" in stderr
    last = read_events(tmp_path / "events.jsonl.rank1")[-1]["data"]
    assert (last["rank"], last["outcome"]) == (1, "failed")
    assert "does not exist" in last["reason"]
    assert not events.exists()
