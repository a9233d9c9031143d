"""The ``loader`` axis in PyTorch: who reads and decodes real images."""

from __future__ import annotations

from typing import Any, Callable, Dict

from ....core.choices import one_of
from ....core.feed import Feed
from ....core.outcomes import UNSUPPORTED, RunError, first_sentence
from ....core.place import Place
from ....tasks.image_classification.settings import ImageSettings

ON_GPU = frozenset({"nvjpeg", "dali-gpu", "dali-gpu-tfrecord"})
"""Loaders that decode on an NVIDIA GPU."""


def open_loader(settings: ImageSettings, place: Place, device: Any, dtype: Any) -> Feed:
    """Return the feed of the loader that was asked for; its first images are already being read."""
    one_of("PyTorch", "loader", settings.loader, LOADERS)
    return LOADERS[settings.loader](settings, place, device, dtype)


def require_gpu(settings: ImageSettings, device: Any) -> None:
    """Raise where a loader that decodes on a GPU is to feed a run on a CPU."""
    if device.type != "cuda":
        said = f"the loader {settings.loader} decodes on an NVIDIA GPU, and this run is on a CPU"
        raise RunError(UNSUPPORTED, said)


def _native(settings: ImageSettings, place: Place, device: Any, dtype: Any) -> Feed:
    from .native import open_native

    return open_native(settings, place, device, dtype)


def _nvjpeg(settings: ImageSettings, place: Place, device: Any, dtype: Any) -> Feed:
    from .nvjpeg import open_nvjpeg

    return open_nvjpeg(settings, place, device, dtype)


def _dali_folder(settings: ImageSettings, place: Place, device: Any, dtype: Any) -> Feed:
    return _dali().open_folder(settings, place, device, dtype)


def _dali_tfrecord(settings: ImageSettings, place: Place, device: Any, dtype: Any) -> Feed:
    return _dali().open_tfrecord(settings, place, device, dtype)


def _dali() -> Any:
    try:
        from . import dali
    except ImportError as error:
        raise RunError(
            UNSUPPORTED,
            f"NVIDIA DALI does not import here ({first_sentence(error)}); trainmark env create pytorch --extra dali "
            "adds it (in an interpreter of your own: pip install nvidia-dali-cuda130 google-crc32c)",
        ) from error
    return dali


LOADERS: Dict[str, Callable[[ImageSettings, Place, Any, Any], Feed]] = {
    "native": _native,
    "nvjpeg": _nvjpeg,
    "dali-cpu": _dali_folder,
    "dali-cpu-tfrecord": _dali_tfrecord,
    "dali-gpu": _dali_folder,
    "dali-gpu-tfrecord": _dali_tfrecord,
}
