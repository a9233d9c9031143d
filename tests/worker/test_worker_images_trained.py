"""The PyTorch worker on real images."""

from pathlib import Path

import pytest
from worker_process import make_images, needs_pytorch, train

pytestmark = [pytest.mark.training, needs_pytorch]


@pytest.mark.parametrize("workers", [0, 2])
def test_real_images_are_trained_on_and_the_decoder_is_named(tmp_path: Path, workers: int) -> None:
    make_images(tmp_path / "data")

    ran = train(tmp_path, data=tmp_path / "data", loader_workers=workers, steps=9)

    assert ran.code == 0, ran.stderr
    assert ran.parameters["decoder"]
    assert ran.parameters["epoch_images"] == 12
    assert [event["step"][0] for event in ran.events[1:-1]] == [i * 2 // 12 for i in range(9)]
    assert any(step["data_wait_s"] > 0 for step in ran.steps)


def test_the_number_of_loader_processes_does_not_change_what_is_trained(tmp_path: Path) -> None:
    make_images(tmp_path / "data")

    losses = [
        [
            step["loss"]
            for step in train(tmp_path, data=tmp_path / "data" / "list.txt", loader_workers=workers).steps
        ]
        for workers in (0, 2)
    ]

    assert losses[0] == losses[1]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_corrupt_image_fails_the_run_by_its_name(tmp_path: Path, workers: int) -> None:
    make_images(tmp_path / "data")
    broken = tmp_path / "data" / "class1" / "image 3.jpg"
    broken.write_bytes(broken.read_bytes()[:500])

    ran = train(tmp_path, data=tmp_path / "data", loader_workers=workers, steps=30)

    assert ran.code == 3
    assert ran.last["outcome"] == "failed"
    assert str(broken) in ran.last["reason"]
    assert "Traceback" not in ran.stderr


def test_a_data_set_that_is_missing_or_empty_fails_before_any_step(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    missing, empty = train(tmp_path, data=tmp_path / "nowhere"), train(tmp_path, data=tmp_path / "empty")

    assert [ran.last["outcome"] for ran in (missing, empty)] == ["failed", "failed"]
    assert "does not exist" in missing.last["reason"]
    assert "no JPEG images" in empty.last["reason"]
    assert len(missing.events) == len(empty.events) == 1
