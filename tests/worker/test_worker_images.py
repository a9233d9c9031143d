"""Finding images, dealing them out and choosing crops, without a framework."""

import io
import random
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from trainmark.worker.core.outcomes import RunError
from trainmark.worker.tasks.image_classification.decoding import (
    choose_decoder,
    decode_whole,
    frame_of,
    load_image,
)
from trainmark.worker.tasks.image_classification.images import (
    Draw,
    ImageSampler,
    random_resized_crop,
    read_images,
)


def jpeg(width: int = 60, height: int = 40) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8)
    out = io.BytesIO()
    Image.fromarray(pixels).save(out, format="JPEG")
    return out.getvalue()


def test_folders_are_classes_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.JPEG").write_bytes(b"")
        (tmp_path / name / "notes.txt").write_bytes(b"")

    images = read_images(str(tmp_path), classes=2)

    assert images.paths == [str(tmp_path / "a" / "x.JPEG"), str(tmp_path / "b" / "x.JPEG")]
    assert images.labels == [0, 1]


def test_a_list_file_gives_paths_beside_it_also_with_blanks_in_them(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("one/a b.jpg 3\n\ntwo.jpg 0\n", encoding="utf-8")

    images = read_images(str(tmp_path / "train.txt"), classes=4)

    assert images.paths == [str(tmp_path / "one/a b.jpg"), str(tmp_path / "two.jpg")]
    assert images.labels == [3, 0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a.jpg\n", "line 1: expected 'path label'"),
        ("a.jpg 1\nb.jpg x\n", "line 2: expected 'path label'"),
        ("a.jpg 7\n", "has label 7, but the network has 4 classes"),
        ("\n", "has no JPEG images"),
    ],
)
def test_a_list_file_that_cannot_be_used_is_said_to_be_so(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "train.txt").write_text(text, encoding="utf-8")

    with pytest.raises(RunError, match=said):
        read_images(str(tmp_path / "train.txt"), classes=4)


def test_a_data_set_that_is_not_there_is_said_to_be_so(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="does not exist"):
        read_images(str(tmp_path / "nowhere"), classes=4)


@given(
    images=st.integers(1, 40),
    batch=st.integers(1, 9),
    world_size=st.integers(1, 5),
    steps=st.integers(1, 12),
    seed=st.integers(0, 5),
)
def test_all_ranks_together_use_every_image_once_an_epoch(
    images: int, batch: int, world_size: int, steps: int, seed: int
) -> None:
    by_rank = [
        list(islice(ImageSampler(images, batch, rank, world_size, seed), steps)) for rank in range(world_size)
    ]

    shard_batches = [draw for step in zip(*by_rank, strict=True) for part in step for draw in part]

    assert len(shard_batches) == steps * batch * world_size
    assert len(set(shard_batches)) == len(shard_batches)
    for epoch in range(len(shard_batches) // images):
        assert {draw.image for draw in shard_batches if draw.epoch == epoch} == set(range(images))


def test_each_epoch_has_another_order() -> None:
    batches = list(islice(ImageSampler(50, 50, 0, 1, seed=1), 2))

    assert [draw.image for draw in batches[0]] != [draw.image for draw in batches[1]]


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(0, 2**32))
def test_a_crop_lies_inside_the_image(width: int, height: int, seed: int) -> None:
    box = random_resized_crop(width, height, random.Random(seed))

    assert box.width > 0
    assert box.height > 0
    assert 0 <= box.left <= width - box.width
    assert 0 <= box.top <= height - box.height


@given(st.integers(100, 2000), st.integers(100, 2000), st.integers(0, 2**32))
def test_a_crop_of_an_ordinary_image_keeps_to_its_area_and_aspect(width: int, height: int, seed: int) -> None:
    if not 3 / 4 <= width / height <= 4 / 3:
        return
    box = random_resized_crop(width, height, random.Random(seed))

    assert 0.07 <= box.width * box.height / (width * height) <= 1
    assert 0.7 <= box.width / box.height <= 1.42


def test_an_image_of_an_extreme_shape_gets_the_middle(tmp_path: Path) -> None:
    box = random_resized_crop(10, 5000, random.Random(0))

    assert (box.width, box.height) == (10, 13)
    assert box.top == (5000 - 13) // 2


def test_the_same_draw_gives_the_same_pixels_and_another_epoch_others(tmp_path: Path) -> None:
    decoder = choose_decoder()
    assert decoder is not None
    file = tmp_path / "a.jpg"
    file.write_bytes(jpeg())

    first = load_image(str(file), Draw(0, 5), 32, 7, decoder)
    again = load_image(str(file), Draw(0, 5), 32, 7, decoder)
    later = load_image(str(file), Draw(1, 5), 32, 7, decoder)

    assert first.shape == (32, 32, 3)
    assert first.dtype == np.uint8
    assert np.array_equal(first, again)
    assert not np.array_equal(first, later)


@pytest.mark.parametrize("kept", [0.0, 0.3, 0.9])
def test_half_an_image_is_refused_by_name(tmp_path: Path, kept: float) -> None:
    decoder = choose_decoder()
    assert decoder is not None
    data = jpeg()
    file = tmp_path / "half.jpg"
    file.write_bytes(data[: int(len(data) * kept)])

    with pytest.raises(RunError, match=r"half\.jpg cannot be decoded"):
        load_image(str(file), Draw(0, 0), 32, 0, decoder)


def test_stray_bytes_after_the_image_do_not_matter() -> None:
    decoder = choose_decoder()
    assert decoder is not None

    assert decode_whole(jpeg() + b"\0" * 100, decoder).shape == (40, 60, 3)


def test_the_size_of_a_jpeg_is_found_in_its_header_however_it_is_coded() -> None:
    drawn = Image.effect_noise((37, 53), 60)
    exif = Image.Exif()
    exif[0x010E] = "a description that is longer than nothing" * 40

    def saved(image: Image.Image, **options: Any) -> bytes:
        file = io.BytesIO()
        image.save(file, **options)
        return file.getvalue()

    found = [
        frame_of(saved(drawn.convert(mode), format="JPEG", **options))
        for mode, options in (
            ("RGB", {}),
            ("L", {}),
            ("CMYK", {}),
            ("RGB", {"progressive": True, "exif": exif}),
            ("RGB", {"optimize": True, "icc_profile": bytes(70_000)}),
        )
    ]

    assert found == [(37, 53, plain) for plain in (True, True, False, False, True)]
    assert frame_of(saved(drawn, format="PNG")) is None
    assert frame_of(b"") is None
    assert frame_of(saved(drawn, format="JPEG")[:60]) is None
    assert frame_of(b"\xff\xd8" + b"\xff" * 1000) is None
