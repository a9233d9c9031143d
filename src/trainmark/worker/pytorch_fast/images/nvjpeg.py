"""NVIDIA's JPEG decoder, the library itself: a batch at once, on the GPU's JPEG engines where it has them.

torchvision has it too, one call at a time. Of nvJPEG's interface, see https://docs.nvidia.com/cuda/nvjpeg/.
"""

import ctypes
import ctypes.util
import importlib.util
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from ...core.outcomes import OOM, RunError

# The variable that CUDA reads when a program first asks it for something: how many hardware queues its streams have.
# nvJPEG has streams of its own for the engines. With the usual 8 queues some of them share one with the training, and
# work in a queue waits for all that was given to it before: for a whole step, where that is one CUDA graph.
CONNECTIONS = "CUDA_DEVICE_MAX_CONNECTIONS"

MOST_CONNECTIONS = "32"
# Backends: the engines, which read baseline JPEGs; and the multiprocessors, with the host's help.
HARDWARE, DEFAULT = 3, 0

PLANAR_RGB = 3
NO_MEMORY, ARCH_MISMATCH = 5, 7
ABOUT_THE_FILE = (2, 3, 4, 10)
STATUS = {
    1: "not initialised", 2: "invalid parameter", 3: "it is no JPEG, or a broken one",
    4: "this kind of JPEG is not supported", NO_MEMORY: "out of memory", 6: "execution failed",
    ARCH_MISMATCH: "not on this GPU", 8: "internal error", 9: "not implemented", 10: "it ends too soon",
}  # fmt: skip

ALIGNMENT = 256  # bytes, of a picture in its batch's memory


class _Image(ctypes.Structure):
    _fields_ = [("channel", ctypes.c_void_p * 4), ("pitch", ctypes.c_size_t * 4)]


def request_queues() -> None:
    """Make CUDA use all hardware queues; called before this process uses CUDA."""
    if not torch.cuda.is_initialized():
        os.environ.setdefault(CONNECTIONS, MOST_CONNECTIONS)


def libraries() -> Iterator[str]:
    """Yield where the library may lie: with torchvision, as a package of its own, with CUDA."""
    for package, pattern in (
        ("torchvision", "../torchvision.libs/libnvjpeg*.so*"),
        ("nvidia", "*/lib/libnvjpeg.so.*"),
    ):
        found = importlib.util.find_spec(package)
        for folder in (found.submodule_search_locations or []) if found is not None else []:
            yield from (str(file) for file in sorted(Path(folder).glob(pattern)))
    known = ctypes.util.find_library("nvjpeg")
    if known is not None:
        yield known
    yield from (str(file) for file in sorted(Path("/usr/local/cuda/lib64").glob("libnvjpeg.so.*")))


class Decoder:
    """A handle of the library's and its state, which hold one batch at a time."""

    def __init__(self, device: Any, threads: int) -> None:
        """Open the library; ``threads`` of the host help where the GPU has no JPEG engines. Raises OSError."""
        for path in libraries():
            with suppress(OSError):
                self._library = ctypes.CDLL(path)
                break
        else:
            raise OSError("libnvjpeg, which comes with CUDA and with torchvision, is not found")
        self._device = device
        self._handle, self._state, self._batch = ctypes.c_void_p(), ctypes.c_void_p(), 0
        status = self._call("CreateEx", HARDWARE, None, None, 0, ctypes.byref(self._handle))
        self.hardware = status == 0
        if status == ARCH_MISMATCH:
            status = self._call("CreateEx", DEFAULT, None, None, 0, ctypes.byref(self._handle))
        if not status:
            status = self._call("JpegStateCreate", self._handle, ctypes.byref(self._state))
        if status:
            raise OSError(f"nvJPEG cannot be used: {STATUS.get(status, status)}")
        self._threads = 1 if self.hardware else max(threads, 1)
        self._retained: Any = None

    def decode(self, files: Sequence[Any], sizes: Sequence[tuple[int, int]]) -> list[Any]:
        """Return pictures as bytes (3, height, width) of files, each bytes (length,) in host memory.

        ``sizes``: (height, width) of each by its header. The stream that is current decodes them once all that it was
        given before is done; until it has done so the files must stay. Raises ValueError if one of them cannot be
        decoded, ``RunError`` (oom), and RuntimeError for what is not a file's fault.
        """
        count = len(files)
        if not count:
            return []
        stream = torch.cuda.current_stream(self._device)
        # What it works on, the library keeps one of.
        stream.synchronize()
        pictures = self._room_for(sizes)
        images = (_Image * count)()
        for image, picture in zip(images, pictures):
            base, (_, height, width) = picture.data_ptr(), picture.shape
            for channel in range(3):
                image.channel[channel] = base + channel * height * width
                image.pitch[channel] = width
        data = (ctypes.c_void_p * count)(*[file.data_ptr() for file in files])
        lengths = (ctypes.c_size_t * count)(*[file.numel() for file in files])
        if self._batch != count:
            self._batch = 0
            self._check(
                "DecodeBatchedInitialize", self._handle, self._state, count, self._threads, PLANAR_RGB
            )
        handle = ctypes.c_void_p(stream.cuda_stream)
        # The pictures too, should it refuse some file and have begun on the others.
        self._retained = (files, images, data, lengths, pictures)
        self._check("DecodeBatched", self._handle, self._state, data, lengths, images, handle)
        # Begun anew after a refusal.
        self._batch, self._retained = count, self._retained[:-1]
        return pictures

    def close(self) -> None:
        """Release the handle and its state, once nothing is decoded any longer."""
        if self._handle:
            self._call("JpegStateDestroy", self._state)
            self._call("Destroy", self._handle)
        self._handle = ctypes.c_void_p()

    def _room_for(self, sizes: Sequence[tuple[int, int]]) -> list[Any]:
        """Return pictures of these sizes, in one piece of memory."""
        rooms = [-(-3 * height * width // ALIGNMENT) * ALIGNMENT for height, width in sizes]
        memory = torch.empty(sum(rooms), dtype=torch.uint8, device=self._device)
        return [
            piece[: 3 * height * width].view(3, height, width)
            for piece, (height, width) in zip(memory.split(rooms), sizes)
        ]

    def _check(self, name: str, *arguments: Any) -> None:
        status = self._call(name, *arguments)
        if not status:
            return
        self._batch = 0
        # What it has begun all the same reads and writes memory that is given away now.
        torch.cuda.current_stream(self._device).synchronize()
        message = f"nvJPEG: {STATUS.get(status, f'status {status}')}"
        if status == NO_MEMORY:
            raise RunError(OOM, f"{message} on the device, which it takes beside PyTorch")
        of_a_file = name == "DecodeBatched" and status in ABOUT_THE_FILE
        raise ValueError(message) if of_a_file else RuntimeError(f"{message} ({name})")

    def _call(self, name: str, *arguments: Any) -> int:
        with torch.cuda.device(self._device):
            return int(getattr(self._library, f"nvjpeg{name}")(*arguments))
