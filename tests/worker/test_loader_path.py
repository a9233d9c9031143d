"""What a loader makes of the known picture tells its crop, size and normalisation; each mistake in them is named."""

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google_crc32c import value as crc32c
from numpy.typing import NDArray
from PIL import Image

from trainmark.dataset.example import encode_example
from trainmark.dataset.tfrecord import frame
from trainmark.worker.core.task import Verified
from trainmark.worker.tasks.image_classification.images import Draw, random_resized_crop, randomness
from trainmark.worker.tasks.image_classification.known_picture import (
    ACROSS,
    ALONG,
    BLUE,
    CLASSES,
    DETAIL,
    DEVIATION,
    FOLDER,
    HEIGHT,
    JPEG,
    LOW,
    MEAN,
    PICTURES,
    RECORDS,
    RISE,
    TFRECORD,
    TURNED_OVER,
    WIDTH,
    Part,
    check_crops,
    check_labels,
    class_of,
    part_of,
    write_known,
)

SIDE = 64
Pixels = NDArray[np.float64]


def decoded(jpeg: bytes = JPEG) -> NDArray[np.uint8]:
    return np.asarray(Image.open(io.BytesIO(jpeg)))


def loaded(
    number: int, *, side: int = SIDE, box: Any = None, mirrored: bool | None = None, jpeg: bytes = JPEG
) -> Pixels:
    """Return what a sound loader makes of it: a crop, scaled, perhaps mirrored, and normalised."""
    rng = randomness(0, Draw(0, number))
    box = box or random_resized_crop(WIDTH, HEIGHT, rng)
    flipped = rng.random() < 0.5 if mirrored is None else mirrored
    part = Image.fromarray(decoded(jpeg)).crop(
        (box.left, box.top, box.left + box.width, box.top + box.height)
    )
    pixels = np.asarray(part.resize((side, side), Image.Resampling.BILINEAR), np.float64) / 255
    pixels = pixels[:, ::-1] if flipped else pixels
    return ((pixels - MEAN) / DEVIATION).transpose(2, 0, 1)


def parts(images: list[Pixels]) -> list[Part]:
    return [part_of(image) for image in images]


def codes(*batches: list[Pixels], side: int = SIDE) -> list[str]:
    sizes = [(batch[0].shape[1], batch[0].shape[2]) for batch in batches]
    return [code for code, _ in check_crops([parts(batch) for batch in batches], sizes, side).doubts]


def test_the_picture_is_what_its_formula_says() -> None:
    pixels = decoded().astype(float)
    across = LOW + RISE * (np.arange(WIDTH) + 0.5) / WIDTH
    down = LOW + RISE * (np.arange(HEIGHT) + 0.5) / HEIGHT
    upright = DETAIL * np.cos(2 * np.pi * (np.arange(WIDTH) + 0.5) / ACROSS)
    level = DETAIL * np.cos(2 * np.pi * (np.arange(HEIGHT) + 0.5) / ALONG)
    blue = BLUE + upright[None] + level[:, None]
    expected = np.stack(np.broadcast_arrays(across[None], down[:, None], blue), -1)
    assert pixels.shape == (HEIGHT, WIDTH, 3)
    assert np.abs(pixels - expected).max() < 6
    assert np.abs(pixels - expected).mean() < 1.1


def test_a_crop_is_solved_from_its_colours() -> None:
    for number in range(20):
        rng = randomness(0, Draw(0, number))
        box, flipped = random_resized_crop(WIDTH, HEIGHT, rng), rng.random() < 0.5
        part = part_of(loaded(number))
        assert part.mirrored is flipped
        assert part[:4] == pytest.approx(
            (box.left / WIDTH, box.top / HEIGHT, box.width / WIDTH, box.height / HEIGHT), abs=0.02
        )
        assert part.off < 2.5


def test_a_sound_loader_is_in_no_doubt() -> None:
    first, second = ([loaded(begin + number) for number in range(16)] for begin in (0, 16))
    found = check_crops([parts(first), parts(second)], [(SIDE, SIDE)] * 2, SIDE)
    assert found.doubts == []
    assert found.data["different_crops"] == found.data["pictures"] == 32
    assert found.data["off_levels"] < 2


def test_the_second_picture_is_the_first_one_turned_over() -> None:
    assert np.abs(decoded(TURNED_OVER)[::-1].astype(float) - decoded()).max() < 8
    both = [loaded(number, jpeg=(JPEG, TURNED_OVER)[number % 2]) for number in range(32)]
    found = parts(both)
    assert [part.turned_over for part in found] == [bool(number % 2) for number in range(32)]
    assert check_crops([found[:16], found[16:]], [(SIDE, SIDE)] * 2, SIDE).doubts == []


def test_a_label_that_belongs_to_another_picture_is_a_doubt() -> None:
    found = parts([loaded(number, jpeg=(JPEG, TURNED_OVER)[number % 2]) for number in range(32)])
    labels = [class_of(number, 10) for number in range(32)]
    assert check_labels(found, labels) == Verified({"labels": 32, "wrong_labels": 0})
    ((code, sentence),) = check_labels(found, [*labels[1:], labels[0]]).doubts
    assert code == "labels-differ"
    assert sentence == "32 of 32 known pictures come from the loader with the label of another picture."
    # In a network of one class all labels are alike.
    assert check_labels(parts([loaded(number) for number in range(4)]), [0.0] * 4).doubts == []


def decoded_at(reduced: int, number: int, side: int) -> Pixels:
    """Return what a loader makes of it that decodes at a reduced size, as libjpeg does in the DCT."""
    image = Image.open(io.BytesIO(JPEG))
    image.draft("RGB", (WIDTH // reduced, HEIGHT // reduced))
    width, height = image.size
    rng = randomness(0, Draw(0, number))
    box = random_resized_crop(width, height, rng)
    part = image.crop((box.left, box.top, box.left + box.width, box.top + box.height))
    pixels = np.asarray(part.resize((side, side), Image.Resampling.BILINEAR), np.float64) / 255
    pixels = pixels[:, ::-1] if rng.random() < 0.5 else pixels
    normalised: Pixels = (pixels - MEAN) / DEVIATION
    return normalised.transpose(2, 0, 1)


@pytest.mark.parametrize("side", [32, 96, 224])
@pytest.mark.parametrize("reduced", [1, 2, 4, 8])
def test_a_picture_that_is_decoded_at_a_reduced_size_has_no_detail(reduced: int, side: int) -> None:
    """Where a crop is scaled down, a decoder may reduce it as well: half the size is right for a side of 32."""
    batches = [[decoded_at(reduced, start + number, side) for number in range(16)] for start in (0, 16)]
    expected = ["known-picture-blurred"] if reduced > (2 if side == 32 else 1) else []
    assert codes(*batches, side=side) == expected


def test_mistakes_are_named() -> None:
    sound = [loaded(number) for number in range(32)]
    centre = random_resized_crop(1, 1, randomness(0, Draw(0, 0)))._replace(
        left=10, top=8, width=140, height=104
    )
    assert codes([loaded(number, side=SIDE // 2) for number in range(32)]) == ["image-size-differs"]
    assert codes([loaded(number, box=centre, mirrored=False) for number in range(32)]) == ["crop-not-random"]
    assert codes([loaded(number, mirrored=False) for number in range(32)]) == ["crop-not-random"]
    assert codes(sound, sound) == ["batch-reused"]
    unlike = "known-picture-differs"
    # As bytes; scaled to 1 alone; the colours in another order; turned by a quarter.
    assert codes(
        [(image.transpose(1, 2, 0) * DEVIATION + MEAN).transpose(2, 0, 1) * 255 for image in sound]
    ) == [unlike]
    assert codes([(image.transpose(1, 2, 0) * DEVIATION + MEAN).transpose(2, 0, 1) for image in sound]) == [
        unlike
    ]
    assert codes([image[::-1] for image in sound]) == [unlike]
    # A third of them by another way, which is wrong.
    assert codes([image[::-1] if index % 3 == 0 else image for index, image in enumerate(sound)]) == [unlike]
    assert codes([image.transpose(0, 2, 1) for image in sound]) == [unlike]


def test_the_known_records_are_whole(tmp_path: Path) -> None:
    write_known(TFRECORD, tmp_path, 5)
    shard = (tmp_path / "train-00000-of-00001").read_bytes()
    lines = (tmp_path / "idx" / "train-00000-of-00001.idx").read_text().splitlines()
    assert len(lines) == 5
    for line in lines:
        offset, size = map(int, line.split())
        record = shard[offset : offset + size]
        (length,) = struct.unpack_from("<Q", record)
        data = record[12 : 12 + length]
        assert size == length + 16
        assert struct.unpack_from("<I", record, 8)[0] == masked(record[:8])
        assert struct.unpack_from("<I", record, 12 + length)[0] == masked(data)
        assert JPEG in data


def test_the_stored_records_are_the_pictures_with_their_labels() -> None:
    examples = [
        encode_example({"image/encoded": PICTURES[label % 2], "image/class/label": label + 1})
        for label in range(CLASSES)
    ]
    assert b"".join(map(frame, examples)) == RECORDS


def masked(data: bytes) -> int:
    crc = int(crc32c(data))
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def test_the_known_files_are_the_picture(tmp_path: Path) -> None:
    write_known(FOLDER, tmp_path, 3)
    assert [path.read_bytes() for path in sorted(tmp_path.glob("class0/*.jpg"))] == [JPEG] * 3
