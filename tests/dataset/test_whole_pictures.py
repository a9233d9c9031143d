"""Telling a whole picture from a broken one by its bytes."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from trainmark.dataset import Depth
from trainmark.dataset.images.jpeg import Fault, encode, find_fault
from trainmark.dataset.images.picture import paint
from trainmark.dataset.images.spec import ImageFolderSpec, pictures

SPEC = ImageFolderSpec(images=1, classes=1, width=64, height=48)
PIXELS = paint(SPEC, next(pictures(SPEC)))
JPEG = encode(PIXELS, 90)


def saved(kind: str, mode: str = "RGB", **options: object) -> bytes:
    file = io.BytesIO()
    Image.fromarray(PIXELS).convert(mode).save(file, kind, **options)
    return file.getvalue()


THUMBNAIL = JPEG[:2] + b"\xff\xe1" + (len(JPEG) + 2).to_bytes(2, "big") + JPEG + JPEG[2:]
"""A JPEG whose metadata hold another whole one, as a camera's do."""

WHOLE = {
    "baseline": JPEG,
    "progressive": saved("JPEG", progressive=True),
    "grey": saved("JPEG", "L"),
    "CMYK, as some of ImageNet's": saved("JPEG", "CMYK"),
    "a PNG, as one of ImageNet's": saved("PNG"),
    "with a thumbnail": THUMBNAIL,
    "with restart markers": saved("JPEG", restart_marker_blocks=2),
    "with bytes after the end": JPEG + b"\0\0trailer",
}


@pytest.mark.parametrize("depth", Depth)
@pytest.mark.parametrize("name", WHOLE)
def test_an_intact_picture_has_no_fault(name: str, depth: Depth) -> None:
    assert find_fault(WHOLE[name], depth) is None


@given(st.integers(0, len(JPEG) - 1))
def test_a_jpeg_cut_at_any_byte_is_truncated(length: int) -> None:
    fault = find_fault(JPEG[:length], Depth.STRUCTURE)
    assert fault is not None
    assert fault[0] is Fault.TRUNCATED or length < 2


@given(st.integers(len(JPEG) + 8, len(THUMBNAIL) - 1))
def test_the_end_of_a_thumbnail_is_not_the_end_of_the_picture(length: int) -> None:
    fault = find_fault(THUMBNAIL[:length], Depth.STRUCTURE)
    assert fault is not None
    assert fault[0] is Fault.TRUNCATED


@given(st.integers(2, len(JPEG) - 2))
def test_a_jpeg_whose_end_was_never_written_is_truncated(length: int) -> None:
    fault = find_fault(JPEG[:length] + bytes(len(JPEG) - length), Depth.STRUCTURE)
    assert fault is not None


@given(st.binary(max_size=300), st.sampled_from(Depth))
def test_arbitrary_bytes_are_checked_without_an_error(data: bytes, depth: Depth) -> None:
    assert find_fault(data, depth) is not None
    find_fault(JPEG[:200] + data + JPEG[200:], depth)
    find_fault(b"\xff\xd8" + data, depth)


def test_a_truncated_png_is_damaged() -> None:
    png = saved("PNG")
    assert find_fault(png[: len(png) // 2], Depth.STRUCTURE) is not None
