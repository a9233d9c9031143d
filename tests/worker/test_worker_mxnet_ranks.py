"""The MXNet worker on real images and with two ranks, by its parameter server and by Horovod."""

import contextlib
import io
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mxnet_process import in_mxnet, write_colours, write_records
from PIL import Image
from worker_process import (
    LONG_S,
    end_group,
    make_images,
    read_events,
    start_rank,
    start_ranks,
    train,
    train_together,
    wait_for_steps,
)

from frameworks import framework_python, needs_framework
from trainmark.dataset.images import Form, convert

pytestmark = [pytest.mark.training, needs_framework("mxnet"), pytest.mark.xdist_group("worker-mxnet")]


def _has_horovod() -> bool:
    python = framework_python("mxnet")
    return bool(python) and any(Path(python).parents[1].glob("lib/python3*/site-packages/horovod/mxnet"))


COLLECTIVES = [
    "native",
    pytest.param(
        "horovod",
        marks=pytest.mark.skipif(
            not _has_horovod(),
            reason="the environment 'mxnet' has no Horovod (env create mxnet --extra horovod)",
        ),
    ),
]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with 16 images in RecordIO."""
    root = tmp_path_factory.mktemp("data")
    convert(make_images(root / "images", count=16), root / "records", Form.RECORDIO)
    return root / "records"


# Real images.


def _jpeg() -> bytes:
    """Return a photo-like JPEG."""
    pixels = np.random.default_rng(0).integers(0, 255, (6, 8, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).resize((120, 90)).save(file, "JPEG")
    return file.getvalue()


@pytest.mark.parametrize("model", ["mobilenet_tiny", pytest.param("resnet50_v1.5", marks=pytest.mark.rare)])
def test_real_images_in_recordio_train_one_rank_and_two(tmp_path: Path, records: Path, model: str) -> None:
    alone = train(tmp_path, framework="mxnet", model=model, data=records, classes=2, steps=4)
    together, other = train_together(
        tmp_path, framework="mxnet", model=model, data=records, classes=2, steps=4
    )

    assert alone.code == together.code == other.code == 0, alone.stderr + together.stderr + other.stderr
    for ran in (alone, together):
        assert ran.parameters["decoder"].startswith("opencv")
        assert ran.parameters["epoch_images"] == 16
        assert all(step["loss"] is not None for step in ran.steps)
        assert ran.last["ranks_agree"] is True
    assert together.last["world_size"] == 2


def test_the_ranks_share_out_the_images_without_overlap_and_shuffle_them_each_epoch(tmp_path: Path) -> None:
    data = write_colours(tmp_path / "data", list(range(7)) * 2)

    parts = in_mxnet(f"""
from trainmark_worker.core.arguments import parse
from trainmark_worker.backends.mxnet.loading import open_images
from trainmark_worker.core.place import Place
flags = "--framework mxnet --batch-per-device 3 --image-size 32 --classes 7 --data {data}".split()
parts = []
for rank in range(2):
    feed = open_images(parse(flags, 2), Place(rank, 2, rank, 2, "127.0.0.1", 1), mx.cpu())
    parts.append([int(label) for _ in range(14) for label in feed.next()[1].asnumpy()])
print(json.dumps(parts))
""")

    for part in parts:
        # Each rank has seven images, one of each label; 42 draws are six epochs.
        epochs = [part[start : start + 7] for start in range(0, 42, 7)]
        assert all(sorted(epoch) == list(range(7)) for epoch in epochs)
        assert len({tuple(epoch) for epoch in epochs}) > 1


def test_an_image_gets_another_crop_in_another_epoch(tmp_path: Path) -> None:
    (jpeg,) = make_images(tmp_path / "images", count=1).rglob("*.jpg")
    data = write_records(tmp_path / "data", [(0, jpeg.read_bytes())])

    sums = in_mxnet(f"""
from trainmark_worker.core.arguments import parse
from trainmark_worker.backends.mxnet.loading import open_images
from trainmark_worker.core.place import place_from
flags = "--framework mxnet --batch-per-device 1 --image-size 32 --classes 1 --data {data}".split()
feed = open_images(parse(flags, 1), place_from({{}}), mx.cpu())
print(json.dumps([float(feed.next()[0].sum().asscalar()) for _ in range(6)]))
""")

    assert len(set(sums)) >= 5


def test_bytes_that_a_gpu_normalises_become_what_a_cpu_gets(tmp_path: Path) -> None:
    """No GPU is here: a CPU normalises the bytes in its place."""
    data = write_colours(tmp_path / "data", [10, 90, 200])

    plain, of_bytes = in_mxnet(f"""
from trainmark_worker.core.arguments import parse
from trainmark_worker.backends.mxnet.loading import open_records
from trainmark_worker.core.place import place_from
flags = "--framework mxnet --batch-per-device 3 --image-size 32 --classes 7 --data {data}".split()
batches = []
on_gpu = type("OnGpu", (mx.Context,), {{"device_type": "gpu"}})("cpu")
for context in (mx.cpu(), on_gpu):
    images, labels = open_records(parse(flags, 1), place_from({{}}), context).next()
    means = images.mean(axis=(2, 3)).asnumpy().tolist()
    batches.append([str(images.dtype), sorted(zip(labels.asnumpy().tolist(), means))])
print(json.dumps(batches))
""")

    assert plain[0] == of_bytes[0] == "<class 'numpy.float32'>"
    for (label, wanted), (same, given) in zip(plain[1], of_bytes[1], strict=True):
        assert label == same
        assert given == pytest.approx(wanted, abs=0.02)


def _cut(folder: Path) -> None:
    whole = (folder / "train.rec").read_bytes()
    (folder / "train.rec").write_bytes(whole[: len(whole) * 2 // 3])


def _cut_a_little(folder: Path) -> None:
    whole = (folder / "train.rec").read_bytes()
    (folder / "train.rec").write_bytes(whole[:-4])


def _take_another_index(folder: Path) -> None:
    lines = (folder / "train.idx").read_text(encoding="ascii").splitlines()
    moved = [f"{line.split()[0]}\t{int(line.split()[1]) + 4 * (i > 0)}" for i, line in enumerate(lines)]
    (folder / "train.idx").write_text("\n".join(moved) + "\n", encoding="ascii")


def _spoil_a_picture(folder: Path) -> None:
    whole = bytearray((folder / "train.rec").read_bytes())
    whole[32:132] = bytes(100)
    (folder / "train.rec").write_bytes(whole)


def _cut_a_picture_before_it_is_packed(folder: Path) -> None:
    shutil.rmtree(folder)
    jpeg = _jpeg()
    write_records(folder, [(0, jpeg), (1, jpeg[:-200]), (0, jpeg)])


def _lose_the_index(folder: Path) -> None:
    (folder / "train.idx").unlink()


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (_cut, "is cut off"),
        (_cut_a_little, "is cut off"),
        (_take_another_index, "is damaged: the record at byte 0 does not end at byte"),
        (_spoil_a_picture, "cannot be read or decoded"),
        (_cut_a_picture_before_it_is_packed, "is cut off: it has no end marker"),
        (_lose_the_index, "train.idx does not exist"),
    ],
)
def test_a_damaged_recordio_file_is_a_failed_run_that_names_it(
    tmp_path: Path, records: Path, damage: Any, said: str
) -> None:
    shutil.copytree(records, tmp_path / "copy")
    damage(tmp_path / "copy")

    ran = train(tmp_path, framework="mxnet", data=tmp_path / "copy", classes=2, steps=12)

    assert (ran.code, ran.last["outcome"]) == (3, "failed")
    assert str(tmp_path / "copy") in ran.last["reason"]
    assert said in ran.last["reason"]


def test_pictures_as_imagenet_has_them_train_by_either_loader(tmp_path: Path) -> None:
    jpeg, png = io.BytesIO(), io.BytesIO()
    with Image.open(io.BytesIO(_jpeg())) as picture:
        picture.convert("CMYK").save(jpeg, "JPEG")
        picture.save(png, "PNG")
    # One of ImageNet's files is a PNG by another name, some are CMYK, and some have bytes behind their end.
    pictures = {"png": png.getvalue(), "cmyk": jpeg.getvalue(), "stray": _jpeg() + bytes(3)}
    packed = write_records(tmp_path / "packed", [(0, data) for data in pictures.values()])
    folder = tmp_path / "folder" / "class"
    folder.mkdir(parents=True)
    for name, data in pictures.items():
        (folder / f"{name}.JPEG").write_bytes(data)

    # The one has a thread of its own at least, the other may read in the process that trains.
    for given, loader, reading in ((packed, "native", 1), (folder.parent, "native-folder", 0)):
        flags: dict[str, Any] = {"data": given, "loader": loader, "loader_workers": 0, "classes": 2}
        ran = train(tmp_path, framework="mxnet", steps=4, **flags)
        assert ran.code == 0, ran.stderr
        assert ran.parameters["loader_workers"] == reading


def test_a_loader_process_that_is_killed_fails_the_run(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    flags = {
        "batch_per_device": 4,
        "steps": 1_000_000,
        "data": make_images(tmp_path / "images"),
        "loader": "native-folder",
        "loader_workers": 2,
    }
    process = start_rank(flags, events, {}, "mxnet")
    try:
        wait_for_steps(process)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")
        os.kill(int(children.split()[0]), signal.SIGKILL)
        process.communicate(timeout=60)
    finally:
        end_group(process)

    assert process.returncode == 3
    last = read_events(events)[-1]["data"]
    assert (last["outcome"], last["reason"]) == ("failed", "a loader process ended: killed by SIGKILL")


def test_labels_that_the_network_has_no_class_for_are_found_before_any_step(tmp_path: Path) -> None:
    data = write_colours(tmp_path / "data", [0, 1, 2, 3])

    ran = train(tmp_path, framework="mxnet", data=data, classes=3)

    assert (ran.code, ran.last["outcome"]) == (3, "failed")
    assert "has label 3, but the network has 3 classes" in ran.last["reason"]


# Two ranks.


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_two_ranks_that_see_the_same_images_learn_what_one_learns(tmp_path: Path, collective: str) -> None:
    once = write_colours(tmp_path / "once", [0, 60, 120, 180])
    twice = write_colours(tmp_path / "twice", [0, 60, 120, 180] * 2)
    flags: dict[str, Any] = {"batch_per_device": 4, "learning_rate": "0.05", "warmup_epochs": 0, "classes": 7}

    alone = train(tmp_path, framework="mxnet", data=once, **flags)
    together, other = train_together(
        tmp_path, framework="mxnet", data=twice, collective=collective, compiler="hybridize", **flags
    )

    assert together.code == other.code == 0, together.stderr + other.stderr
    assert (
        together.parameters["backend"]
        == {"native": "kvstore dist_sync", "horovod": "horovod gloo"}[collective]
    )
    assert together.last["ranks_agree"] is True
    losses = [step["loss"] for step in alone.steps]
    assert [step["loss"] for step in together.steps] == pytest.approx(losses, rel=2e-3)
    # They did learn: a sum in the place of the mean would show.
    assert abs(losses[-1] - losses[0]) > 0.05
    assert (other.stdout, other.events) == ("", [])


@pytest.mark.skipif(_has_horovod(), reason="the environment 'mxnet' has Horovod")
def test_without_horovod_the_run_is_unsupported_and_says_how_to_get_it(tmp_path: Path) -> None:
    first, second = train_together(tmp_path, framework="mxnet", collective="horovod")

    assert first.last["outcome"] == second.last["outcome"] == "unsupported"
    assert "trainmark env create mxnet --extra horovod" in first.last["reason"]


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_the_parameter_servers_end_with_a_rank_that_is_killed(tmp_path: Path, collective: str) -> None:
    events = tmp_path / "events.jsonl"
    ranks = start_ranks({"steps": 100_000, "collective": collective}, events, "mxnet")
    try:
        wait_for_steps(ranks[0])
        servers = servers_of(ranks[0].pid)
        ranks[0].kill()
        _, stderr = ranks[1].communicate(timeout=LONG_S)
        deadline = time.monotonic() + LONG_S
        while (left := servers_of(ranks[0].pid)) and time.monotonic() < deadline:
            time.sleep(0.05)
    finally:
        for rank in ranks:
            end_group(rank)

    assert ranks[1].returncode == 3, stderr
    last = read_events(events.with_name("events.jsonl.rank1"))[-1]["data"]
    assert (last["outcome"], last["peer_lost"]) == ("failed", True)
    assert "lost contact with another rank" in last["reason"]
    assert len(servers) == (2 if collective == "native" else 0)
    assert left == []


def servers_of(rank: int) -> list[int]:
    """Return the processes of the parameter server that a rank (by its process) has started."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdecimal() else []
            if len(words) > 3 and b"import mxnet" in words[2] and words[3] == str(rank).encode():
                found.append(int(entry.name))
    return found
