"""Encode JPEGs, and find damage in the bytes of a picture."""

import io
import warnings
from enum import StrEnum

from trainmark.dataset.images.picture import Pixels
from trainmark.dataset.problems import Depth

_START = b"\xff\xd8"
_END = b"\xff\xd9"
_START_OF_SCAN = 0xDA
_WITHOUT_LENGTH = frozenset((0x01, *range(0xD0, 0xD9)))
"""Markers that are not followed by a length: TEM, RST0 to RST7, SOI (ITU-T T.81, table B.1)."""


def encoder_name() -> str:
    """Return the encoder's name and version; the same encoder gives equal bytes for equal pixels."""
    from PIL import features

    library = "libjpeg_turbo" if features.check_feature("libjpeg_turbo") else "jpg"
    version = features.version(library)
    return f"Pillow {features.version('pil')}, {library.replace('_', '-')} {version}"


def encode(pixels: Pixels, quality: int) -> bytes:
    """Return ``pixels`` (uint8, height x width x 3) as a baseline JPEG with 4:2:0 chroma."""
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=quality, subsampling="4:2:0")
    return file.getvalue()


class Fault(StrEnum):
    """The kinds of damage to a picture's file."""

    TRUNCATED = "truncated"
    UNDECODABLE = "undecodable"


def find_fault(data: bytes, depth: Depth) -> tuple[Fault, str] | None:
    """Return the damage to a picture's file and its description, or None.

    A JPEG without its end marker is truncated, even if a decoder would fill the rest with grey; bytes after the marker
    are allowed, as in some of ImageNet's files. For other formats, the structure check is Pillow's ``verify``. Only a
    checksum finds a changed byte among the compressed pixels: the structure stays valid, and decoding mostly succeeds
    because Pillow fills in unreadable parts.
    """
    if not data:
        return Fault.TRUNCATED, "the file is empty"
    is_jpeg = data.startswith(_START)
    if is_jpeg:
        fault = _jpeg_fault(data)
        if fault or depth is Depth.STRUCTURE:
            return fault
    elif not data.strip(b"\0"):
        return Fault.TRUNCATED, f"{len(data)} bytes, all of them zero"
    from PIL import Image, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            # Warnings about odd metadata do not matter here.
            warnings.simplefilter("ignore")
            with Image.open(io.BytesIO(data)) as image:
                if depth is Depth.DECODE:
                    image.load()
                else:
                    image.verify()
    except UnidentifiedImageError:
        return Fault.UNDECODABLE, "no picture of a known format"
    # Pillow's format plugins raise what their parsers raise: OSError, SyntaxError, ValueError, struct.error, ...
    except Exception as error:
        message = " ".join(str(error).split()) or type(error).__name__
        return (Fault.TRUNCATED if "truncated" in message.lower() else Fault.UNDECODABLE), message
    return None


def _jpeg_fault(data: bytes) -> tuple[Fault, str] | None:
    """Walk the marker segments up to the first scan, then search for the end marker after it.

    A search from the start of the file would find the end marker of an embedded thumbnail. In compressed pixels 0xFF is
    always followed by 0x00 or a restart marker (ITU-T T.81, B.1.1.5), so any end marker found there is real.
    """
    at = 2
    has_frame = False
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            return Fault.UNDECODABLE, f"no JPEG marker at byte {at}"
        marker = data[at + 1]
        if marker == 0xFF:
            at += 1
            continue
        if marker in _WITHOUT_LENGTH:
            at += 2
            continue
        if marker == _START_OF_SCAN:
            if not has_frame:
                return Fault.UNDECODABLE, "pixels before any frame header"
            if data.find(_END, at) < 0:
                return Fault.TRUNCATED, f"no end marker in its {len(data)} bytes"
            return None
        # SOF0 to SOF15, except DHT, JPG and DAC, which are in that range.
        has_frame |= 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC)
        at += 2 + max(2, int.from_bytes(data[at + 2 : at + 4], "big"))
    return Fault.TRUNCATED, f"{len(data)} bytes end before the pixels begin"
