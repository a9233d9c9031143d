"""DALI's loader in a suite: a damaged shard is the outcome of its case, with the file's name."""

from pathlib import Path

import pytest

from fakes import Bench
from frameworks import framework_python, needs_extra
from trainmark.dataset.images import Form, ImageFolderSpec, convert, make_image_folder
from trainmark.schema.outcome import Outcome

PICTURES = ImageFolderSpec(images=12, classes=3, width=64, height=48)


@pytest.mark.training
@pytest.mark.rare
@needs_extra("pytorch", "dali")
def test_a_shard_with_a_broken_crc_fails_its_case_and_is_named(bench: Bench) -> None:
    make_image_folder(bench.folder / "photos", PICTURES, jobs=1)
    convert(bench.folder / "photos", bench.folder / "tfrecord", Form.TFRECORD, shards=2)
    (bench.folder / "home/envs").mkdir(parents=True)
    (bench.folder / "home/envs/pytorch").symlink_to(Path(framework_python("pytorch")).parents[1])
    case = {
        "workload": "trainmark", "framework": "pytorch", "model": "mobilenet_v1", "batch_per_device": 2,
        "image_size": 32, "data": "photos", "loader": "dali-cpu-tfrecord",
        "options": {"classes": 3, "loader_workers": 1},
    }  # fmt: skip
    datasets = {"photos": {"formats": {"tfrecord": "tfrecord"}}}
    bench.write(case, environment="auto", datasets=datasets, equivalence=False)
    (whole,) = bench.run().cases
    assert whole.outcome is Outcome.OK, whole.reason

    shard = bench.folder / "tfrecord/train-00001-of-00002"
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    (damaged,) = Bench(bench.folder, "second").run().cases
    assert damaged.outcome is Outcome.FAILED
    assert f"{shard} is damaged" in (damaged.reason or "")
    assert "has data with a wrong CRC" in (damaged.reason or "")
    assert damaged.estimate is None
