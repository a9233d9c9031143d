"""What trainmark converts, read by the frameworks themselves, each in its own environment."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from frameworks import in_framework, needs_extra
from preloading import preloaded
from trainmark.dataset import example, tfrecord
from trainmark.dataset.images import Form, ImageFolderSpec, convert, make_image_folder, recordio

pytestmark = pytest.mark.training

SPEC = ImageFolderSpec(images=26, val_images=5, classes=3, width=64, height=48)
LABELS = {"0": 9, "1": 9, "2": 8}


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("converted")
    make_image_folder(folder / "photos", SPEC, jobs=1)
    convert(folder / "photos", folder / "tfrecord", Form.TFRECORD, shards=3)
    convert(folder / "photos", folder / "recordio", Form.RECORDIO)
    return folder


def run_script(framework: str, code: str, *words: str) -> Any:
    """Run a piece of Python in a process that has imported the framework; return the JSON that it prints last."""
    process = preloaded(framework).start(["-c", *words], {}, Path.cwd(), code)
    out, errors = process.communicate(300)
    assert process.returncode == 0, errors
    return json.loads(out.splitlines()[-1])


IN_TENSORFLOW = """
import collections, glob, hashlib, json, sys
import tensorflow as tf
folder = sys.argv[1]
keys = {"image/encoded": tf.string, "image/class/label": tf.int64, "image/class/synset": tf.string,
        "image/height": tf.int64, "image/width": tf.int64, "image/filename": tf.string}
found = []
equal = True
for raw in tf.data.TFRecordDataset(sorted(glob.glob(folder + "/train-*-of-*"))):
    message = tf.train.Example.FromString(raw.numpy())
    equal = equal and message.SerializeToString(deterministic=True) == raw.numpy()
    parsed = tf.io.parse_single_example(raw, {k: tf.io.FixedLenFeature([], t) for k, t in keys.items()})
    shape = tuple(tf.io.decode_jpeg(parsed["image/encoded"]).shape)
    assert shape == (int(parsed["image/height"]), int(parsed["image/width"]), 3), shape
    found.append(int(parsed["image/class/label"]) - 1)
print(json.dumps({"labels": collections.Counter(found), "order": found, "equal": equal}))
"""


@in_framework("tensorflow")
def test_tensorflow_reads_the_shards_and_would_write_the_same_messages(converted: Path) -> None:
    read = run_script("tensorflow", IN_TENSORFLOW, str(converted / "tfrecord"))
    assert read["labels"] == LABELS
    assert read["equal"], "protobuf's own deterministic encoding gives other bytes"


TENSORFLOW_WRITES = """
import sys
import tensorflow as tf
feature = tf.train.Feature
with tf.io.TFRecordWriter(sys.argv[1]) as file:
    for number in range(3):
        features = {
            "image/encoded": feature(bytes_list=tf.train.BytesList(value=[b"x" * number * 1000])),
            "image/class/label": feature(int64_list=tf.train.Int64List(value=[number - 1, 7])),
            "score": feature(float_list=tf.train.FloatList(value=[0.5])),
        }
        file.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
print("0")
"""


@in_framework("tensorflow")
def test_records_written_by_tensorflow_are_readable(tmp_path: Path) -> None:
    path = tmp_path / "train-00000-of-00001"
    run_script("tensorflow", TENSORFLOW_WRITES, str(path))
    with path.open("rb") as file:
        records = list(tfrecord.read_records(file, path.stat().st_size))
    assert not any(record.broken for record in records)
    for number, record in enumerate(records):
        assert example.decode_example(record.data) == {
            "image/encoded": b"x" * number * 1000,
            "image/class/label": number - 1,
            "score": None,
        }


IN_MXNET = """
import collections, json, sys
import mxnet as mx
folder = sys.argv[1]
reader = mx.recordio.MXIndexedRecordIO(folder + "/train.idx", folder + "/train.rec", "r")
by_index = [mx.recordio.unpack(reader.read_idx(key)) for key in reader.keys]
assert [header.id for header, _ in by_index] == reader.keys
images = mx.io.ImageRecordIter(
    path_imgrec=folder + "/train.rec", path_imgidx=folder + "/train.idx", data_shape=(3, 32, 32), batch_size=13,
    shuffle=True, rand_crop=True, preprocess_threads=1, round_batch=False)
iterated = [int(label) for batch in images for label in batch.label[0].asnumpy().tolist()]
print(json.dumps({"order": [int(header.label) for header, _ in by_index],
                  "iterated": collections.Counter(iterated)}))
"""


@in_framework("mxnet")
def test_mxnet_reads_the_record_file_by_its_index_and_through_its_iterator(converted: Path) -> None:
    read = run_script("mxnet", IN_MXNET, str(converted / "recordio"))
    assert read["iterated"] == LABELS
    listing = (converted / "recordio/train.lst").read_text().splitlines()
    assert read["order"] == [float(line.split("\t")[1]) for line in listing]


MXNET_WRITES = """
import struct, sys
import mxnet as mx
magic = struct.pack("<I", 0xced7230a)
writer = mx.recordio.MXIndexedRecordIO(sys.argv[1] + "/a.idx", sys.argv[1] + "/a.rec", "w")
for number, data in enumerate([b"", b"abcd" + magic + magic + b"ef", magic, b"a" + magic, magic + b"abc"]):
    writer.write_idx(number, mx.recordio.pack(mx.recordio.IRHeader(0, float(number), number, 0), data))
writer.close()
print("0")
"""


@in_framework("mxnet")
def test_the_magic_number_in_a_record_is_framed_exactly_as_mxnet_frames_it(tmp_path: Path) -> None:
    run_script("mxnet", MXNET_WRITES, str(tmp_path))
    magic = recordio.MAGIC.to_bytes(4, "little")
    payloads = [b"", b"abcd" + magic + magic + b"ef", magic, b"a" + magic, magic + b"abc"]
    frames = [
        recordio.frame(recordio.pack(number, number, payload)) for number, payload in enumerate(payloads)
    ]
    assert (tmp_path / "a.rec").read_bytes() == b"".join(frames)
    offsets = [sum(map(len, frames[:number])) for number in range(len(frames))]
    lines = [recordio.index_line(number, offset) for number, offset in enumerate(offsets)]
    assert (tmp_path / "a.idx").read_text() == "".join(lines)


WORKER = Path(__file__).resolve().parents[2] / "src" / "trainmark" / "worker"

IN_DALI = """
import collections, json, sys
sys.path.insert(0, sys.argv[1])
import start, torch
from trainmark_worker.core.arguments import parse
from trainmark_worker.core.place import Place
from trainmark_worker.backends.pytorch.loading import open_images
settings = parse(["--framework=pytorch", "--model=mobilenet_v1", "--batch-per-device=1", "--image-size=32",
    "--steps=5", "--warmup-steps=2", "--classes=3", "--loader-workers=1", "--data=" + sys.argv[2],
    "--loader=" + sys.argv[3], "--events=unused"], 2)
counts = []
for rank in range(2):
    feed = open_images(settings, Place(rank, 2, rank, 2, "127.0.0.1", 1), torch.device("cpu"), torch.float32)
    assert feed.epoch_samples == 26, feed.epoch_samples
    labels = []
    for _ in range(13):
        images, label = feed.next()
        assert images.shape == (1, 3, 32, 32) and images.dtype == torch.float32
        assert float(images.std()) > 0.1 and float(images.abs().max()) < 3
        labels.append(int(label))
    counts.append(collections.Counter(labels))
print(json.dumps(counts))
"""


@in_framework("pytorch")
@needs_extra("pytorch", "dali")
@pytest.mark.parametrize(
    ("loader", "data"), [("dali-cpu", "photos/train"), ("dali-cpu-tfrecord", "tfrecord")]
)
def test_dali_gives_two_ranks_every_picture_once_an_epoch(converted: Path, loader: str, data: str) -> None:
    counts = run_script("pytorch", IN_DALI, str(WORKER), str(converted / data), loader)
    one, other = (Counter(its) for its in counts)
    assert one + other == LABELS


@in_framework("pytorch")
@pytest.mark.parametrize("loader", ["dali-cpu", "dali-cpu-tfrecord", "dali-gpu", "dali-gpu-tfrecord"])
def test_without_dali_its_loaders_are_unsupported_with_a_remedy(tmp_path: Path, loader: str) -> None:
    # Where the environment has DALI, this one comes first and does not import.
    package = tmp_path / "first/nvidia/dali"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").touch()
    (package / "__init__.py").write_text("raise ImportError('libdali.so: cannot open')\n")
    words = [f"--loader={loader}", "--data=anywhere", f"--events={tmp_path}/events", "--threads=1"]
    sizes = ["--batch-per-device=2", "--image-size=32", "--steps=4", "--warmup-steps=2", "--device=cpu"]
    flags = ["--framework=pytorch", "--model=mobilenet_v1", *sizes, *words]
    first = f"import runpy, sys\nsys.path.insert(0, {str(tmp_path / 'first')!r})\n"
    start = f"{first}runpy.run_path(sys.argv[0], run_name='__main__')"
    process = preloaded("pytorch").start([str(WORKER / "start.py"), *flags], {}, tmp_path, start)
    _, errors = process.communicate(300)
    assert process.returncode
    assert "unsupported: NVIDIA DALI does not import here (ImportError: libdali.so: cannot open)" in errors
    assert "trainmark env create pytorch --extra dali adds it" in errors
    assert "Traceback" not in errors
