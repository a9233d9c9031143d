"""How a run of the PyTorch worker can end other than well."""

import os
import signal
from pathlib import Path

import pytest
from worker_process import make_images, needs_pytorch, read_events, start_rank, train

pytestmark = [pytest.mark.training, needs_pytorch]


def test_a_batch_that_does_not_fit_the_memory_limit_is_an_oom(tmp_path: Path) -> None:
    ran = train(tmp_path, batch_per_device=20_000, image_size=64, memory_limit=1_500_000_000)

    assert ran.code == 3
    assert ran.last["outcome"] == "oom"
    assert "throughput" not in ran.last
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ("/nowhere/at/all/events.jsonl", "cannot write the events to"),
        ("/dev/full", "No space left on device"),
    ],
)
def test_events_that_cannot_be_written_are_said_on_standard_error(events: str, said: str) -> None:
    process = start_rank({}, Path(events), {})
    _, stderr = process.communicate(timeout=120)

    assert process.returncode == 3
    assert said in stderr.splitlines()[-1]


@pytest.mark.parametrize("data", ["synthetic", "real"])
def test_sigterm_ends_it_with_a_line_and_takes_its_loaders_along(tmp_path: Path, data: str) -> None:
    source = "synthetic" if data == "synthetic" else str(make_images(tmp_path / "data"))
    events = tmp_path / "events.jsonl"
    process = start_rank({"steps": "1000000", "data": source}, events, {})
    try:
        assert process.stdout is not None
        assert any(line.startswith("step ") for line in process.stdout)
        process.send_signal(signal.SIGTERM)
        # The pipes close only when the loader processes, which inherited them, are gone too.
        _, stderr = process.communicate(timeout=60)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)

    assert process.returncode == 128 + signal.SIGTERM
    assert stderr.splitlines()[-1] == "trainmark-worker: rank 0: stopped by SIGTERM"
    # What was asked and what it really was stands there already; no step and no result does.
    assert [event["step"] for event in read_events(events)] == ["PARAMETER"]


def test_a_loader_process_that_is_killed_fails_the_run(tmp_path: Path) -> None:
    data = str(make_images(tmp_path / "data"))
    events = tmp_path / "events.jsonl"
    process = start_rank({"steps": "1000000", "data": data}, events, {})
    try:
        assert process.stdout is not None
        assert any(line.startswith("step ") for line in process.stdout)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")
        os.kill(int(children.split()[0]), signal.SIGKILL)
        process.communicate(timeout=120)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)

    assert process.returncode == 3
    last = read_events(events)[-1]["data"]
    assert last["outcome"] == "failed"
    assert last["reason"].startswith("a loader process ended")
