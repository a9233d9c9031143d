"""The TensorFlow worker on several ranks, on real images in its own format, and on damaged ones."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tensorflow_process import TENSORFLOW, in_tensorflow, in_tensorflow_together
from worker_process import make_images, train, train_together

from frameworks import needs_framework
from trainmark.dataset.example import decode_example, encode_example
from trainmark.dataset.images import Form, convert
from trainmark.dataset.tfrecord import frame, read_records

pytestmark = [pytest.mark.training, needs_framework(TENSORFLOW), pytest.mark.xdist_group("worker-tensorflow")]

IMAGES = 16
COMPILED: dict[str, Any] = {"layout": "nhwc", "compiler": "graph"}
# At 32 x 32 pixels the last batch norms see one value per image: over two images, gradients are the noise of rounding.
SOUND: dict[str, Any] = {**COMPILED, "batch_per_device": 4}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same images as a folder with a list, and as 2 and 3 TFRecord shards."""
    folder = tmp_path_factory.mktemp("data")
    make_images(folder / "images", IMAGES)
    for shards in (2, 3):
        convert(folder / "images" / "list.txt", folder / f"shards{shards}", Form.TFRECORD, shards=shards)
    return folder


def test_tfrecord_is_trained_on(tmp_path: Path, data: Path) -> None:
    ran = train(tmp_path, TENSORFLOW, data=data / "shards2", steps=5, **SOUND)

    assert ran.code == 0, ran.stderr
    assert ran.parameters["decoder"] == "tf.io.decode_and_crop_jpeg"
    assert ran.parameters["epoch_images"] == IMAGES
    assert any(step["data_wait_s"] > 0 for step in ran.steps)
    assert ran.doubts == []


@pytest.mark.rare
@pytest.mark.parametrize(
    ("model", "source", "flags"),
    [
        ("mobilenet_v1", "shards3", {"precision": "amp-fp16"}),
        ("resnet50_v1.5", "shards2", {}),
        ("mobilenet_v1", "shards2", {"compiler": "none"}),
    ],
)
def test_two_ranks_hold_the_same_parameters_after_the_window(
    tmp_path: Path, data: Path, model: str, source: str, flags: dict[str, str]
) -> None:
    given = {**SOUND, "model": model, "data": data / source, "steps": 5, **flags}
    first, second = train_together(tmp_path, TENSORFLOW, **given)

    assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
    assert first.parameters["world_size"] == first.parameters["actual"]["world_size"] == 2
    assert first.parameters["backend"] == "ring"
    assert first.last["ranks_agree"] is True
    assert first.doubts == []
    assert first.last["rank_samples"] == [12, 12]
    assert second.stdout == ""


@pytest.mark.rare
@pytest.mark.parametrize(("compiler", "sums"), [("graph", 4), ("xla", 1)])
def test_a_graph_sums_the_gradients_in_packs_as_they_come_and_xla_at_its_end(
    compiler: str, sums: int
) -> None:
    given = ["--model=resnet50_v1.5", "--compiler", compiler]
    told = in_tensorflow_together(
        """
training = open_training(settings(*sys.argv[1:]), place_from())
graph = training._train.get_concrete_function(training._rates[0], *training.batch).graph
graphs = [graph, *graph._functions.values()]
sums = [node for part in graphs for node in getattr(part, "graph", part).get_operations()
        if node.type.startswith("CollectiveReduce")]
training.close()
print(json.dumps([[node.type, node.inputs[0].shape.num_elements() * 4] for node in sums]))
""",
        *given,
    )

    for rank in told:
        sizes = [size for _, size in rank]
        assert len(sizes) == sums
        assert sum(sizes) == 25_557_032 * 4
        assert all(size > 25 << 20 for size in sizes[:-1])


def test_ranks_share_out_the_images_and_see_each_once_an_epoch(data: Path) -> None:
    rows = in_tensorflow(
        """
from trainmark_worker.backends.tensorflow.loading import find_source
told = []
for flags in json.loads(sys.argv[1]):
    source = find_source(settings(*flags))
    ranks = []
    for rank in range(2):
        place = Place(rank, 2, rank, 2, "127.0.0.1", 1)
        names = [source.name(*example) for example in source.examples(place).take(16)]
        ranks.append(names)
    told.append(ranks)
print(json.dumps(told))
""",
        _sources(data),
    )

    for first, second in rows:
        assert len({*first, *second}) == IMAGES
    folder, by_shard, by_record = rows
    # One epoch of all ranks, then another in a new order.
    assert not set(folder[0][:8]) & set(folder[1][:8])
    assert sorted(folder[0][:8] + folder[1][:8]) == sorted(folder[0][8:] + folder[1][8:])
    assert folder[0][:8] != folder[0][8:]
    for ranks in (by_shard, by_record):
        assert ranks[0] != ranks[1]


def test_threads_of_the_loader_change_nothing_in_what_is_trained(data: Path) -> None:
    sums = in_tensorflow(
        """
from trainmark_worker.backends.tensorflow.collectives import Device
from trainmark_worker.backends.tensorflow.loading import find_source, open_pipeline
told = []
for flags in json.loads(sys.argv[1]):
    for workers in ("0", "3"):
        own = settings(*flags, "--loader-workers", workers)
        feed = open_pipeline(find_source(own), own, ALONE, Device("cpu", None))
        batches = [feed.next() for _ in range(12)]
        told.append([[int(tf.reduce_sum(tf.cast(images, tf.int64))), labels.numpy().tolist()]
                     for images, labels in batches])
        assert batches[0][0].shape == (2, 32, 32, 3) and batches[0][0].dtype == tf.uint8
print(json.dumps(told))
""",
        _sources(data),
    )

    for alone, parallel in zip(sums[::2], sums[1::2], strict=True):
        assert alone == parallel
        assert len({pixels for pixels, _ in alone}) == 12
        # In the files of the classic form the first class is 1.
        assert {label for _, labels in alone for label in labels} == {0, 1}


# Damage.


def test_a_broken_record_fails_the_run_by_its_shards_name(tmp_path: Path, data: Path) -> None:
    broken = shutil.copytree(data / "shards2", tmp_path / "broken") / "train-00001-of-00002"
    content = bytearray(broken.read_bytes())
    content[3000] ^= 1
    broken.write_bytes(content)

    ran = train(tmp_path, TENSORFLOW, data=broken.parent, steps=30, **COMPILED)

    assert ran.code == 3
    assert ran.last["outcome"] == "failed"
    assert ran.last["reason"].startswith(f"{broken} cannot be read: DataLossError: corrupted record")
    assert "Traceback" not in ran.stderr


def test_an_image_that_cannot_be_used_is_named(tmp_path: Path, data: Path) -> None:
    images = shutil.copytree(data / "images", tmp_path / "images")
    cut = images / "class1" / "image 3.jpg"
    cut.write_bytes(cut.read_bytes()[:500])
    records = shutil.copytree(data / "shards2", tmp_path / "records")
    shard = records / "train-00000-of-00002"
    shutil.rmtree(records / "idx")
    _rewrite(shard, 2, {"image/encoded": b"\xff\xd8\xff no picture"})
    labels = shutil.copytree(data / "shards2", tmp_path / "labels")
    _rewrite(labels / "train-00000-of-00002", 1, {"image/class/label": 0})
    flags = [
        ["--loader=native-folder", f"--data={images}"],
        [f"--data={records}"],
        [f"--data={labels}"],
    ]

    told = _end_of_feeds(flags)

    assert [outcome for outcome, _ in told] == ["failed"] * 3
    assert told[0][1].startswith(f"{cut} cannot be used: ")
    assert told[1][1].startswith(f"{shard}, record of image")
    assert "Invalid JPEG data" in told[1][1]
    assert told[2][1].endswith("its label does not fit the network's 1000 classes (--classes)")


def test_a_data_set_that_is_not_whole_fails_before_any_step(tmp_path: Path, data: Path) -> None:
    missing = shutil.copytree(data / "shards3", tmp_path / "missing")
    (missing / "train-00001-of-00003").unlink()
    cut = shutil.copytree(data / "shards2", tmp_path / "cut")
    shutil.rmtree(cut / "idx")
    os.truncate(cut / "train-00000-of-00002", 4000)
    flags = [[f"--data={path}"] for path in (tmp_path / "nowhere", data / "images", missing, cut)]

    told = _end_of_feeds(flags)

    assert [outcome for outcome, _ in told] == ["failed"] * 4
    assert [reason.rpartition(str(tmp_path))[2] for _, reason in told[::2]] == [
        "/nowhere does not exist",
        "/missing has 2 training shards of 3",
    ]
    assert "has no TFRecord shards" in told[1][1]
    assert "ends within a record" in told[3][1]


def _sources(data: Path) -> str:
    folder = ["--loader=native-folder", f"--data={data / 'images'}"]
    return json.dumps([folder, [f"--data={data / 'shards2'}"], [f"--data={data / 'shards3'}"]])


def _rewrite(shard: Path, index: int, features: dict[str, bytes | int]) -> None:
    """Change features of a record; its CRC is right."""
    with shard.open("rb") as file:
        records = [decode_example(record.data) for record in read_records(file, shard.stat().st_size)]
    records[index].update(features)
    written = [{key: value for key, value in record.items() if value is not None} for record in records]
    shard.write_bytes(b"".join(frame(encode_example(record)) for record in written))


def _end_of_feeds(flags: list[list[str]]) -> Any:
    """Return (outcome, reason) with which the loader of each data set ends within two epochs."""
    return in_tensorflow(
        """
from trainmark_worker.backends.tensorflow.collectives import Device
from trainmark_worker.backends.tensorflow.loading import find_source, open_pipeline

def two_epochs(own):
    feed = open_pipeline(find_source(own), own, ALONE, Device("cpu", None))
    for _ in range(16):
        feed.next()

print(json.dumps([refused(lambda: two_epochs(settings(*flags))) for flags in json.loads(sys.argv[1])]))
""",
        json.dumps(flags),
    )


def test_a_rank_leaves_though_another_one_has_gone_before_it() -> None:
    told = in_tensorflow_together("""
from trainmark_worker.backends.tensorflow.collectives import Group, choose_device
place = place_from()
group = Group(place, choose_device("cpu", place))
group.barrier()
print(json.dumps(place.rank), flush=True)
if place.rank == 0:
    os._exit(0)
group.leave()
""")

    assert told == [0, 1]
