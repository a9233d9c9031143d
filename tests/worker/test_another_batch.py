"""The synthetic batch after the window: other pictures, of patches, which differ from one another."""

import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "trainmark" / "worker"))
importlib.import_module("start")
task: Any = importlib.import_module("trainmark_worker.tasks.image_classification.task")


def spread(pictures: Any) -> float:
    """Return how far the means of the pictures are apart: what is left of a picture that a network has pooled."""
    return float(pictures.mean(axis=(2, 3)).std())


def test_the_pictures_after_the_window_differ_in_what_a_network_pools() -> None:
    settings = SimpleNamespace(seed=1, batch_per_device=16, image_size=32, classes=1000)
    classification = task.ImageClassification()
    noise, labels = classification.synthetic(settings, 0)

    pictures, others = classification.another(settings, (noise, labels))

    assert pictures.shape == noise.shape
    assert pictures.dtype == noise.dtype
    assert abs(float(pictures.mean())) < 1e-3
    assert abs(float(pictures.std()) - 1) < 1e-3
    assert not np.array_equal(others, labels)
    assert others.dtype == labels.dtype
    assert others.shape == labels.shape
    assert spread(pictures) > 10 * spread(noise)


def test_ranks_have_other_pictures() -> None:
    settings = SimpleNamespace(seed=1, batch_per_device=4, image_size=32, classes=1000)
    classification = task.ImageClassification()
    own = [classification.another(settings, classification.synthetic(settings, rank))[0] for rank in (0, 1)]

    assert not np.array_equal(*own)
