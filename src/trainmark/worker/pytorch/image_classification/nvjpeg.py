"""NVIDIA's JPEG decoder, the library itself: a batch at once, on the GPU's JPEG engines where it has them.

torchvision has it too, one call at a time: small kernels wait for room among those of the training, and beside
it that gave a fifth of what it gives alone. Here several parts of a batch are decoded beside each other.
Of nvJPEG's interface, see https://docs.nvidia.com/cuda/nvjpeg/.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import importlib.util
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Iterator, List, Sequence, Tuple

import torch

from ...core.outcomes import OOM, RunError

HARDWARE, DEFAULT = 3, 0
"""Backends: the engines, which read baseline JPEGs; and the multiprocessors, with the host's help."""

PLANAR_RGB = 3
UNSAMPLED = 0
"""Pictures whose colours have as many values as their brightness: the largest there are."""

MOST_ROOM = 2**28
"""Bytes that a lane takes ahead."""

NO_MEMORY, ARCH_MISMATCH = 5, 7
ABOUT_THE_FILE = (2, 3, 4, 10)
STATUS = {
    1: "not initialised", 2: "invalid parameter", 3: "it is no JPEG, or a broken one",
    4: "this kind of JPEG is not supported", NO_MEMORY: "out of memory", 6: "execution failed",
    ARCH_MISMATCH: "not on this GPU", 8: "internal error", 9: "not implemented", 10: "it ends too soon",
}  # fmt: skip

LANES = 4
"""Parts of a batch that are decoded beside each other: their small kernels wait for room among the training's."""

FIRST = -1
"""The lanes' priority: their kernels come before the training's, which are many times as long."""

ALIGNMENT = 256
"""Bytes, of a picture in its batch's memory."""


Region = Tuple[int, int, int, int]
"""Top, left, height and width of a part of a picture."""


class _Image(ctypes.Structure):
    _fields_ = [("channel", ctypes.c_void_p * 4), ("pitch", ctypes.c_size_t * 4)]


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
    """Decodes batches on a device, for the stream that is current."""

    def __init__(self, device: Any, threads: int, lanes: int = LANES) -> None:
        """Open the library; ``threads`` of the host help where the GPU has no JPEG engines. Raises OSError."""
        library = next(_opened(), None)
        if library is None:
            raise OSError("libnvjpeg, which comes with CUDA and with torchvision, is not found")
        self._lanes = [_Lane(library, device, threads) for _ in range(lanes)]
        self._pool = ThreadPoolExecutor(lanes, thread_name_prefix="nvjpeg")
        self._device, self.hardware, self._parts = device, self._lanes[0].hardware, self._lanes[0].parts

    def decode(
        self, files: Sequence[Any], sizes: Sequence[Tuple[int, int]], wanted: Sequence[Region]
    ) -> List[Any]:
        """Return pictures as bytes (3, height, width) of files, each bytes (length,) in host memory.

        ``sizes``: (height, width) of each by its header; ``wanted``: what of it is wanted. A picture is that, or where
        the library decodes whole ones alone the whole. Files in pinned memory are copied without the host's waiting,
        and must stay. Raises ValueError if one of them cannot be decoded, ``RunError`` (oom), and RuntimeError for
        what is not a file's fault.
        """
        starts, end = [], 0
        regions = wanted if self._parts else [(0, 0, height, width) for height, width in sizes]
        for _, _, height, width in regions:
            starts.append(end)
            end += -(-3 * height * width // ALIGNMENT) * ALIGNMENT
        memory = torch.empty(end, dtype=torch.uint8, device=self._device)
        pictures = [
            memory[start : start + 3 * height * width].view(3, height, width)
            for start, (_, _, height, width) in zip(starts, regions)
        ]
        stream = torch.cuda.current_stream(self._device)
        free = stream.record_event()
        count = len(self._lanes)
        parts = [
            self._pool.submit(
                lane.decode,
                files[index::count],
                sizes[index::count],
                regions[index::count],
                pictures[index::count],
                free,
            )
            for index, lane in enumerate(self._lanes)
        ]
        # All of them, so that none still writes when another one's refusal is raised.
        wait(parts)
        refusals = [refusal for refusal in (part.exception() for part in parts) if refusal is not None]
        for part in parts:
            if part.exception() is None:
                stream.wait_event(part.result())
        if refusals:
            # Of a file another one's batch can do without; the rest ends the run.
            raise next((one for one in refusals if not isinstance(one, ValueError)), refusals[0])
        return pictures

    def close(self) -> None:
        """End the threads, and let the library go."""
        self._pool.shutdown()
        for lane in self._lanes:
            lane.close()


def _opened() -> Iterator[Any]:
    for path in libraries():
        try:
            yield ctypes.CDLL(path)
        except OSError:
            continue


class _Lane:
    """A handle of the library's, its state, and a stream."""

    def __init__(self, library: Any, device: Any, threads: int) -> None:
        self._library, self._device = library, device
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
        self._stream = torch.cuda.Stream(device, priority=FIRST)
        self.parts = self.hardware and hasattr(library, "nvjpegDecodeBatchedEx")
        self._room: Tuple[int, ...] = (0, 0, 0)
        self._wanted: List[ctypes.c_void_p] = []
        self._done: Any = None
        self._kept: Any = None

    def decode(
        self,
        files: Sequence[Any],
        sizes: Sequence[Tuple[int, int]],
        regions: Sequence[Region],
        pictures: Sequence[Any],
        free: Any,
    ) -> Any:
        """Decode into ``pictures`` once the event ``free`` has come; return the event of their being there."""
        if self._done is not None:
            # What it works on, the library keeps one of.
            self._done.synchronize()
        self._stream.wait_event(free)
        count = len(files)
        if count:
            images = (_Image * count)()
            for image, picture in zip(images, pictures):
                base, (_, height, width) = picture.data_ptr(), picture.shape
                for channel in range(3):
                    image.channel[channel] = base + channel * height * width
                    image.pitch[channel] = width
            data = (ctypes.c_void_p * count)(*[file.data_ptr() for file in files])
            lengths = (ctypes.c_size_t * count)(*[file.numel() for file in files])
            self._make_room(count, sizes)
            if self._batch != count:
                self._batch = 0
                self._check(
                    "DecodeBatchedInitialize", self._handle, self._state, count, self._threads, PLANAR_RGB
                )
            stream = ctypes.c_void_p(self._stream.cuda_stream)
            call = (self._handle, self._state, data, lengths, images)
            if self.parts:
                self._check("DecodeBatchedEx", *call, self._named(regions), stream)
            else:
                self._check("DecodeBatched", *call, stream)
            # Begun anew after a refusal.
            self._batch, self._kept = count, (files, images, data, lengths)
        self._done = self._stream.record_event()
        return self._done

    def close(self) -> None:
        """Give back the handle and what hangs on it, once nothing is decoded any longer."""
        self._stream.synchronize()
        for wanted in self._wanted:
            self._call("DecodeParamsDestroy", wanted)
        self._call("JpegStateDestroy", self._state)
        self._call("Destroy", self._handle)
        self._wanted = []

    def _make_room(self, count: int, sizes: Sequence[Tuple[int, int]]) -> None:
        """Have memory made before it is needed: what is taken in the midst of a decoding waits for all of the GPU."""
        needed = (count, max(width for _, width in sizes), max(height for height, _ in sizes))
        room = tuple(map(max, needed, self._room))
        if not self.hardware or room == self._room or 3 * room[0] * room[1] * room[2] > MOST_ROOM:
            return
        self._room = room
        if hasattr(self._library, "nvjpegDecodeBatchedPreAllocate"):
            # A hint: what it refuses here it may find when it is needed.
            self._call("DecodeBatchedPreAllocate", self._handle, self._state, *room, UNSAMPLED, PLANAR_RGB)

    def _named(self, regions: Sequence[Region]) -> Any:
        """Return the library's own names for the parts of pictures."""
        while len(self._wanted) < len(regions):
            wanted = ctypes.c_void_p()
            self._check("DecodeParamsCreate", self._handle, ctypes.byref(wanted))
            self._check("DecodeParamsSetOutputFormat", wanted, PLANAR_RGB)
            self._wanted.append(wanted)
        for wanted, (top, left, height, width) in zip(self._wanted, regions):
            self._check("DecodeParamsSetROI", wanted, left, top, width, height)
        return (ctypes.c_void_p * len(regions))(*[wanted.value for wanted in self._wanted[: len(regions)]])

    def _check(self, name: str, *arguments: Any) -> None:
        status = self._call(name, *arguments)
        if not status:
            return
        self._batch = 0
        # What it has begun all the same reads and writes memory that is given away now.
        self._stream.synchronize()
        said = f"nvJPEG: {STATUS.get(status, f'status {status}')}"
        if status == NO_MEMORY:
            raise RunError(OOM, f"{said} on the device, which it takes beside PyTorch")
        of_a_file = name in ("DecodeBatched", "DecodeBatchedEx") and status in ABOUT_THE_FILE
        raise ValueError(said) if of_a_file else RuntimeError(f"{said} ({name})")

    def _call(self, name: str, *arguments: Any) -> int:
        with torch.cuda.device(self._device):
            return int(getattr(self._library, f"nvjpeg{name}")(*arguments))
