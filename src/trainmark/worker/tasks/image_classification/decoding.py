"""JPEG decoders, the fastest first, and the images of a run for a framework's own loader."""

import contextlib
import importlib.util
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from ...core.outcomes import FAILED, OOM, UNSUPPORTED, RunError
from ...core.place import Place
from .images import Draw, RankImages, crop_of
from .settings import ImageSettings

START_OF_IMAGE, END_OF_IMAGE = b"\xff\xd8", b"\xff\xd9"

END_BYTES = 4096  # where the end marker must be, of a file's last bytes: some have stray ones behind it
# Markers after which the picture's size stands: of all ways to code one (ITU-T T.81, table B.1).
FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}

BASELINE = 0xC0


class Frame(NamedTuple):
    """A JPEG's size, and whether it is baseline, of 8 bits and one or three colours: what JPEG engines read."""

    width: int
    height: int
    plain: bool


class Decoder(NamedTuple):
    """A way to get from a JPEG's bytes to pixels; both functions can be pickled.

    ``decode(data)`` returns bytes (height, width, 3) in RGB and raises ValueError for what it cannot read.
    ``fit(part, size, mirrored)`` scales such an array to (size, size, 3), and turns left and right if asked.
    """

    name: str
    decode: Callable[[bytes], Any]
    fit: Callable[[Any, int, bool], Any]


def installed(module: str) -> bool:
    """Return whether a module can be imported, without importing it."""
    return importlib.util.find_spec(module) is not None


def choose_decoder() -> Decoder | None:
    """Return the fastest decoder whose modules are installed, or None."""
    if installed("cv2"):
        if installed("simplejpeg"):
            return Decoder("simplejpeg+opencv", _decode_simplejpeg, _fit_opencv)
        return Decoder("opencv", _decode_opencv, _fit_opencv)
    if installed("PIL"):
        return Decoder("pillow", _decode_pillow, _fit_pillow)
    return None


def single_threaded(*_worker: int) -> None:
    """Keep OpenCV from starting threads: the loader's processes, each of which calls this, are the parallelism."""
    if installed("cv2"):
        import cv2

        cv2.setNumThreads(0)


def load_image(path: str, draw: Draw, size: int, seed: int, decoder: Decoder) -> Any:
    """Return a training image, bytes (size, size, 3), cropped and flipped by the draw, or raise ``RunError``."""
    try:
        image = decode_whole(Path(path).read_bytes(), decoder)
    except OSError as error:
        raise RunError(FAILED, f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise RunError(FAILED, f"{path} cannot be decoded: {error}") from error
    box, mirrored = crop_of(seed, draw, image.shape[1], image.shape[0])
    part = image[box.top : box.top + box.height, box.left : box.left + box.width]
    return decoder.fit(part, size, mirrored)


def decode_whole(data: bytes, decoder: Decoder) -> Any:
    """Decode, but never half an image; raise ValueError with the reason.

    OpenCV fills a truncated image up with grey, so the end marker is looked for first. Pillow has the last word on
    what the fast decoder refuses, because ImageNet itself holds files with stray bytes, CMYK, and a PNG.
    """
    try:
        if is_cut_off(data):
            raise ValueError("it has no end-of-image marker")
        return decoder.decode(data)
    except ValueError as error:
        if decoder.decode is _decode_pillow:
            raise
        return last_word(data, error)


def is_cut_off(data: bytes) -> bool:
    """Return whether the data begins as a JPEG and does not end as one; ImageNet's PNG is no JPEG."""
    return data[:2] == START_OF_IMAGE and END_OF_IMAGE not in data[-END_BYTES:]


def frame_of(data: bytes) -> Frame | None:
    """Return what the first frame header of a JPEG says, or None where there is none."""
    at = 2 if data[:2] == START_OF_IMAGE else len(data)
    while at + 10 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker in FRAMES:
            height, width = (int.from_bytes(data[start : start + 2], "big") for start in (at + 5, at + 7))
            plain = marker == BASELINE and data[at + 4] == 8 and data[at + 9] in (1, 3)
            return Frame(width, height, plain) if width and height else None
        if marker == 0xFF:  # a byte that only fills
            at += 1
        else:
            at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None


def last_word(data: bytes, refused: ValueError) -> Any:
    """Return what Pillow makes of data that a fast decoder refused; raise that refusal if it cannot either."""
    if installed("PIL"):
        with contextlib.suppress(ValueError):
            return _decode_pillow(data)
    raise refused


def _decode_simplejpeg(data: bytes) -> Any:
    import simplejpeg

    return simplejpeg.decode_jpeg(data, colorspace="RGB")


def _decode_opencv(data: bytes) -> Any:
    import cv2

    # Without the orientation flag OpenCV would turn the image by its EXIF data; the other decoders do not.
    flags = cv2.IMREAD_COLOR_RGB if hasattr(cv2, "IMREAD_COLOR_RGB") else cv2.IMREAD_COLOR
    pixels = np.frombuffer(data, np.uint8)
    image = cv2.imdecode(pixels, flags | cv2.IMREAD_IGNORE_ORIENTATION) if pixels.size else None
    if image is None:
        raise ValueError("OpenCV cannot read it")
    return image if hasattr(cv2, "IMREAD_COLOR_RGB") else cv2.cvtColor(image, cv2.COLOR_BGR2RGB)


def _decode_pillow(data: bytes) -> Any:
    from PIL import Image

    try:
        with Image.open(io.BytesIO(data)) as image:
            return np.asarray(image.convert("RGB"))
    except (OSError, SyntaxError) as error:
        raise ValueError(str(error)) from error


def _fit_opencv(part: Any, size: int, mirrored: bool) -> Any:
    import cv2

    fitted = cv2.resize(part, (size, size), interpolation=cv2.INTER_LINEAR)
    return cv2.flip(fitted, 1) if mirrored else fitted


def _fit_pillow(part: Any, size: int, mirrored: bool) -> Any:
    from PIL import Image

    fitted = np.asarray(Image.fromarray(part).resize((size, size), Image.Resampling.BILINEAR))
    return fitted[:, ::-1] if mirrored else fitted


# The modules of which one is needed, for a message.
DECODERS = "simplejpeg with opencv-python-headless, opencv-python-headless, Pillow"


class Photos(RankImages):
    """The images of a run, indexed by ``Draw``: what a framework's loader takes for a data set."""

    def __init__(self, settings: ImageSettings, place: Place) -> None:
        """Find the images and a decoder; raise ``RunError`` (failed, unsupported) if there are none."""
        decoder = choose_decoder()
        if decoder is None:
            reason = f"no JPEG decoder is installed here; install one of: {DECODERS}"
            raise RunError(UNSUPPORTED, reason)
        self.decoder, self.decoder_name = decoder, decoder.name
        super().__init__(settings, place)

    def __getitem__(self, draw: Draw) -> Any:
        """Return (bytes (size, size, 3), label), or the ``RunError`` that tells what went wrong.

        Returned and not raised: loaders wrap an exception of their processes into a text of many lines.
        """
        try:
            return self.load(draw)
        except RunError as stopped:
            return stopped
        except MemoryError:
            return RunError(OOM, "a loader process could not allocate memory")

    def load(self, draw: Draw) -> tuple[Any, int]:
        """Return (bytes (size, size, 3), label); raise ``RunError``, naming the file, if it cannot be read."""
        path = self.images.paths[draw.image]
        image = load_image(path, draw, self.size, self._seed, self.decoder)
        self.produced.add(1, [crc32(path.encode())])
        return image, self.images.labels[draw.image]


def collate(samples: list[Any]) -> Any:
    """Return (bytes (batch, size, size, 3), labels (batch,) in int64), or the first ``RunError`` of the samples."""
    failed = next((sample for sample in samples if isinstance(sample, RunError)), None)
    if failed is not None:
        return failed
    pixels, labels = zip(*samples)
    return np.stack(pixels), np.array(labels, np.int64)


def join(parts: list[Any]) -> Any:
    """Return one batch of parts, each a tuple of numpy arrays."""
    return tuple(np.concatenate(arrays) for arrays in zip(*parts))
