"""Batches of JPEGs made on the GPU: decoded, cropped, scaled, flipped and normalised without leaving it."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

import torch

from ....tasks.image_classification.decoding import last_word
from ..feed import Batch
from ..nvjpeg import Decoder
from .nvjpeg_files import DECODED, ENCODED, UNREADABLE, Part, Photo, Slots, taken_apart


class Wanted(NamedTuple):
    """What the batches are to be: pictures of ``size`` by ``size`` in ``dtype``, on ``device``."""

    size: int
    dtype: Any
    nhwc: bool
    device: Any


class Maker:
    """Makes one batch at a time, on a stream of its own."""

    def __init__(
        self, wanted: Wanted, slots: Slots, decoder: Decoder, leave_out: Callable[[Photo, str], None]
    ) -> None:
        """Take the decoder; ``leave_out`` is told of each picture that cannot be decoded, and why."""
        self._wanted, self._device, self._slots = wanted, wanted.device, slots
        self._decoder, self._leave_out = decoder, leave_out
        self._stream = torch.cuda.Stream(wanted.device)

    def make(self, parts: List[Part]) -> Batch:
        """Return images and labels that are there, for any stream; what the parts lie in is not needed any longer."""
        with torch.cuda.device(self._device), torch.cuda.stream(self._stream):
            try:
                return self._make(parts)
            finally:
                # Where it fails too: what was begun reads from the parts until then.
                done = torch.cuda.Event(blocking=True)
                done.record()
                done.synchronize()

    def close(self) -> None:
        """Let the decoder go."""
        self._decoder.close()

    def _make(self, parts: List[Part]) -> Batch:
        """Return images and labels, from decoded to normalised without leaving the device."""
        from ..kernels.resample import resampled

        photos, files, reasons = taken_apart(parts, self._slots)
        decoded = self._decode(photos, files, reasons)
        crops = [_crop(photo, image) for photo, image in zip(photos, decoded)]
        # In the place of what cannot be decoded stands black: the batch keeps its size, and the run is in doubt.
        black = torch.zeros((3, 1, 1), dtype=torch.uint8, device=self._device)
        images = [black if image is None else image for image in decoded]
        labels = (
            torch.tensor([photo.label for photo in photos]).pin_memory().to(self._device, non_blocking=True)
        )
        size, dtype, nhwc, _ = self._wanted
        return resampled(images, crops, size, dtype, nhwc), labels

    def _decode(self, photos: List[Photo], files: List[Any], reasons: Dict[int, str]) -> List[Any]:
        """Return the pictures as bytes (3, height, width) on the device; None for one that cannot be decoded.

        One that nvJPEG refuses makes it refuse the batch, so the batch's files are then tried one by one.
        """
        encoded = [index for index, photo in enumerate(photos) if photo.state == ENCODED]
        by_index: Dict[int, Any] = {}
        with contextlib.suppress(ValueError):
            images = self._on_gpu([photos[index] for index in encoded], [files[index] for index in encoded])
            by_index = dict(zip(encoded, images))
        return [
            by_index[index] if index in by_index else self._decode_one(photo, file, reasons)
            for index, (photo, file) in enumerate(zip(photos, files))
        ]

    def _on_gpu(self, photos: List[Photo], files: List[Any]) -> List[Any]:
        return self._decoder.decode(files, [(photo.height, photo.width) for photo in photos])

    def _decode_one(self, photo: Photo, file: Any, reasons: Dict[int, str]) -> Optional[Any]:
        """Return one picture; Pillow has the last word, as it has in every loader that decodes here."""
        if photo.state == DECODED:
            return self._planes(file.view(photo.height, photo.width, 3))
        try:
            if photo.state == UNREADABLE:
                raise ValueError(reasons[photo.image])
            try:
                return self._on_gpu([photo], [file])[0]
            except ValueError as refused:
                pixels = last_word(file.numpy().tobytes(), refused)
            image = self._planes(torch.from_numpy(pixels.copy()))
            if tuple(image.shape) != photo.shape:
                raise ValueError(f"its header says {photo.width} x {photo.height}, and it is another size")
        except ValueError as error:
            self._leave_out(photo, str(error))
            return None
        return image

    def _planes(self, pixels: Any) -> Any:
        """Return pixels (height, width, 3) of the host as (3, height, width) on the device, as they lie."""
        return pixels.to(self._device, non_blocking=True).permute(2, 0, 1)


def _crop(photo: Photo, image: Optional[Any]) -> Tuple[int, int, int, int, int]:
    """Return top, left, height and width of what of a picture is trained on, and whether it is mirrored."""
    return (0, 0, 1, 1, 0) if image is None else (*photo.crop, photo.mirrored)
