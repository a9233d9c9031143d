"""PyTorch's DALI loaders: they train, and what DALI would not notice, or would end a run for, is found and told."""

import shutil
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import pytest
from worker_process import beside, train

from frameworks import needs_extra
from trainmark.dataset.example import encode_example
from trainmark.dataset.images import Form, ImageFolderSpec, convert, make_image_folder
from trainmark.dataset.tfrecord import frame
from trainmark.worker.tasks.image_classification.known_picture import PICTURES

pytestmark = [pytest.mark.training, needs_extra("pytorch", "dali"), pytest.mark.xdist_group("worker-pytorch")]

FLAGS: dict[str, Any] = {
    "loader": "dali-cpu-tfrecord",
    "device": "cpu",
    "classes": 3,
    "loader_workers": 1,
}
FIRST, SECOND, LAST = (f"train-{number:05d}-of-00003" for number in range(3))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shards")
    make_image_folder(folder / "photos", ImageFolderSpec(images=26, classes=3, width=64, height=48), jobs=1)
    convert(folder / "photos", folder / "tfrecord", Form.TFRECORD, shards=3)
    return folder / "tfrecord"


@pytest.fixture
def shards(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "tfrecord"))


def index_of(shards: Path, name: str) -> Path:
    return shards / "idx" / f"{name}.idx"


def flip(shard: Path, byte: int) -> None:
    """Turn one bit over."""
    content = bytearray(shard.read_bytes())
    content[byte] ^= 1
    shard.write_bytes(content)


def _a_bit_in_a_picture(shards: Path) -> None:
    offset, size = map(int, index_of(shards, LAST).read_text().splitlines()[-1].split())
    flip(shards / LAST, offset + size // 2)


def _a_bit_in_a_length(shards: Path) -> None:
    flip(shards / SECOND, 0)


def _the_index_of_another_shard(shards: Path) -> None:
    shutil.copy(index_of(shards, SECOND), index_of(shards, FIRST))


def _an_index_with_other_bounds(shards: Path) -> None:
    """Let the first record end 16 bytes late and the second begin there: the file's length still fits."""
    index = index_of(shards, FIRST)
    first, second, *others = (tuple(map(int, line.split())) for line in index.read_text().splitlines())
    records = [(0, first[1] + 16), (second[0] + 16, second[1] - 16), *others]
    index.write_text("".join(f"{offset} {size}\n" for offset, size in records))


def _no_index(shards: Path) -> None:
    index_of(shards, LAST).unlink()


def _no_number_in_an_index(shards: Path) -> None:
    index_of(shards, LAST).write_text("0 one\n")


def _a_cut_shard(shards: Path) -> None:
    (shards / SECOND).write_bytes((shards / SECOND).read_bytes()[:-1])


def _a_missing_shard(shards: Path) -> None:
    (shards / SECOND).unlink()


def _a_shard_of_another_set(shards: Path) -> None:
    shutil.copy(shards / SECOND, shards / "train-00001-of-00008")


def _nothing(shards: Path) -> None:
    shutil.rmtree(shards)


@pytest.mark.parametrize(
    ("damage", "file", "said"),
    [
        (_a_bit_in_a_picture, LAST, "has data with a wrong CRC (trainmark data verify "),
        (_a_bit_in_a_length, SECOND, "the record at byte 0 has a length with a wrong CRC"),
        (_the_index_of_another_shard, FIRST, f"idx/{FIRST}.idx is for another file"),
        (_an_index_with_other_bounds, FIRST, "the record at byte 0 has"),
        (_no_index, f"idx/{LAST}.idx", "is missing, which DALI needs: trainmark data index "),
        (_no_number_in_an_index, f"idx/{LAST}.idx", "line 1: expected 'offset size', got '0 one"),
        (_a_cut_shard, SECOND, "it is truncated, or "),
        (_a_missing_shard, SECOND, "is missing: the data set has 3 training shards"),
        (
            _a_shard_of_another_set,
            "train-00001-of-00008",
            "does not belong to the same data set as train-00000-of-00003",
        ),
        (_nothing, "", "does not exist"),
    ],
)
def test_what_dali_would_read_over_fails_the_run_before_the_first_step_and_names_the_file(
    shards: Path, tmp_path: Path, damage: Callable[[Path], None], file: str, said: str
) -> None:
    damage(shards)
    ran = train(tmp_path, data=shards, **FLAGS)
    assert ran.code != 0
    assert ran.last["outcome"] == "failed", ran.last
    assert str(shards / file) in ran.last["reason"]
    assert said in ran.last["reason"]
    assert ran.steps == []
    assert "Traceback" not in ran.stderr


def test_whole_shards_are_trained_on(whole: Path, tmp_path: Path) -> None:
    ran = train(tmp_path, data=whole, **FLAGS)
    assert ran.code == 0, ran.stderr
    assert ran.parameters["decoder"] == "dali"
    path = ran.last["after_window"]["loader_path"]
    assert path["labels"] > 0.7 * path["pictures"]
    assert path["wrong_labels"] == 0


COUNTS_RECORDS = """
from pathlib import Path
from trainmark_worker.core.place import Place
from trainmark_worker.pytorch_fast.images import dali_files as shards
folder, sample_bytes = Path({folder!r}), {sample_bytes}
shards.SAMPLE_BYTES = sample_bytes or shards.SAMPLE_BYTES
read = [[], []]
look = shards._damage
for rank in range(2):
    def noting(record, size):
        read[rank].append(record.hex())
        return look(record, size)
    shards._damage = noting
    shards.find_shards(folder, Place(rank, 2, rank, 2, None, None))
print(json.dumps(read))
"""


def test_of_a_large_data_set_a_sample_is_read_and_the_ranks_share_it(whole: Path) -> None:
    one, other = beside("pytorch", COUNTS_RECORDS.format(folder=str(whole), sample_bytes=0))
    assert (len(one), len(other)) == (13, 13)
    assert len({*one, *other}) == 26
    quarter = sum((whole / name).stat().st_size for name in (FIRST, SECOND, LAST)) // 4
    one, other = beside("pytorch", COUNTS_RECORDS.format(folder=str(whole), sample_bytes=quarter))
    assert len({*one, *other}) == len(one) + len(other) == 7
    assert abs(len(one) - len(other)) <= 1


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    make_image_folder(tmp_path / "photos", ImageFolderSpec(images=26, classes=3, width=64, height=48), jobs=1)
    return tmp_path / "photos/train"


def test_a_file_that_dali_refuses_is_named_and_black_stands_in_its_place(
    photos: Path, tmp_path: Path
) -> None:
    text, empty, cut, *_, stray = sorted(photos.rglob("*.JPEG"))
    text.write_text("no picture at all")
    empty.write_bytes(b"")
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    stray.write_bytes(stray.read_bytes() + b"what a camera left")
    # Each rank's epoch has each file once, and the pipeline begins anew for each of the three.
    ran = train(tmp_path, data=photos, steps=60, **{**FLAGS, "loader": "dali-cpu"})
    assert ran.code == 0, ran.stderr
    assert ran.last["outcome"] == "ok"
    assert ran.last["unreadable"]["files"] == [3]
    assert set(ran.last["unreadable"]["first"]) == {str(text), str(empty), str(cut)}
    assert "samples-unreadable" in {doubt["code"] for doubt in ran.last["suspect"]}
    for file in (text, empty, cut):
        assert f"trainmark-worker: {file} cannot be decoded: " in ran.stderr
    assert "Traceback" not in ran.stderr


LEAVES_TWO_OUT = """
import os
from trainmark_worker.pytorch_fast.images.dali_files import Files, UnreadableError
from trainmark_worker.tasks.image_classification.images import ImageList
files = Files(ImageList(["first", "second"], [0, 1]), 0)
files.leave_out(UnreadableError("first", "why"))
black = next(path for path in files.paths if path != "second")
os.utime(black, (1, 1))
files.leave_out(UnreadableError("second", "why"))
print(json.dumps([files.paths == [black, black], os.stat(black).st_mtime, files.unreadable]))
"""


def test_the_black_picture_is_not_written_again_while_a_pipeline_has_it_mapped() -> None:
    # A mapped file that becomes shorter for a moment is SIGBUS for whoever reads it then.
    assert beside("pytorch", LEAVES_TWO_OUT) == [True, 1, ["first", "second"]]


def test_a_file_that_is_gone_ends_the_run(photos: Path, tmp_path: Path) -> None:
    listing = tmp_path / "list.txt"
    listing.write_text("".join(f"{file} 0\n" for file in sorted(photos.rglob("*.JPEG"))) + "gone.JPEG 1\n")
    ran = train(tmp_path, data=listing, steps=60, **{**FLAGS, "loader": "dali-cpu"})
    assert (ran.code != 0, ran.last["outcome"]) == (True, "failed")
    assert "gone.JPEG" in ran.last["reason"]
    assert "Traceback" not in ran.stderr


READS_WHAT_NOTHING_REFUSES = """
import torch
from nvidia.dali import fn, types
from trainmark_worker.core.arguments import parse
from trainmark_worker.core.outcomes import RunError
from trainmark_worker.core.place import Place
from trainmark_worker.backends.pytorch.loading import open_images
from trainmark_worker.pytorch_fast.images import dali
# A JPEG engine makes a picture of every file: so does this, and there is no GPU here.
dali._pictures = lambda *_: fn.cast(fn.zeros(shape=[8, 8, 3]), dtype=types.UINT8)
settings = parse(["--framework=pytorch", "--model=mobilenet_v1", "--batch-per-device=2", "--image-size=32", "--steps=5",
    "--warmup-steps=2", "--classes=3", "--loader-workers=1", "--events=unused", {loader!r}, {data!r}], 1)
feed = open_images(settings, Place(0, 1, 0, 1, None, None), torch.device("cpu"), torch.float32)
said = None
try:
    for _ in range(30):
        feed.next()
except RunError as error:
    said = str(error)
print(json.dumps([feed.unreadable, said]))
"""


def test_a_picture_that_is_cut_off_is_told_where_the_decoder_does_not_notice(photos: Path) -> None:
    cut, other, *_, stray = sorted(photos.rglob("*.JPEG"))
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2])
    other.write_bytes(other.read_bytes()[:-2])
    stray.write_bytes(stray.read_bytes() + b"what a camera left")
    code = READS_WHAT_NOTHING_REFUSES.format(loader="--loader=dali-cpu", data=f"--data={photos}")
    unreadable, said = beside("pytorch", code)
    assert said is None
    assert sorted(unreadable) == [str(cut), str(other)]


def test_of_tfrecord_a_picture_that_is_cut_off_ends_the_run_with_its_shard(tmp_path: Path) -> None:
    cut = [picture[:-2] for picture in (*PICTURES, *PICTURES)]
    records = [frame(encode_example({"image/encoded": picture, "image/class/label": 1})) for picture in cut]
    (tmp_path / "train-00000-of-00001").write_bytes(b"".join(records))
    begins = accumulate(map(len, records), initial=0)
    lines = (f"{begin} {len(record)}\n" for begin, record in zip(begins, records, strict=False))
    (tmp_path / "idx").mkdir()
    (tmp_path / "idx" / "train-00000-of-00001.idx").write_text("".join(lines))
    reads = READS_WHAT_NOTHING_REFUSES.format(loader="--loader=dali-cpu-tfrecord", data=f"--data={tmp_path}")
    unreadable, said = beside("pytorch", reads)
    assert unreadable is None
    assert str(tmp_path / "train-00000-of-00001") in said
    assert said.endswith("cannot be decoded: it has no end-of-image marker")


def test_the_mixed_pipeline_wants_a_gpu(photos: Path, tmp_path: Path) -> None:
    ran = train(tmp_path, data=photos, **{**FLAGS, "loader": "dali-gpu"})
    assert (ran.code != 0, ran.last["outcome"]) == (True, "unsupported")
    assert "the loader dali-gpu decodes on an NVIDIA GPU, and this run is on a CPU" in ran.last["reason"]
