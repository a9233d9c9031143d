"""Verifying TFRecord shards and RecordIO files: each kind of damage is found, named by file and record, in one line."""

import json
import shutil
import struct
from pathlib import Path

import pytest

from trainmark.cli.main import main
from trainmark.dataset import Depth, ProblemKind, VerifyReport, example, tfrecord
from trainmark.dataset.images import Form, ImageFolderSpec, convert, make_image_folder, recordio, verify
from trainmark.dataset.images.features import ENCODED, LABEL
from trainmark.errors import InputError

SPEC = ImageFolderSpec(images=12, val_images=4, classes=2, width=64, height=48)
SHARD = "train-00001-of-00003"


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the data set ``tfrecord`` of three training shards, and ``recordio``."""
    folder = tmp_path_factory.mktemp("converted")
    make_image_folder(folder / "photos", SPEC, jobs=1)
    convert(folder / "photos", folder / "tfrecord", Form.TFRECORD, shards=3)
    convert(folder / "photos", folder / "recordio", Form.RECORDIO)
    return folder


@pytest.fixture
def shards(converted: Path, tmp_path: Path) -> Path:
    """Return shards that somebody else wrote: trainmark knows nothing of them."""
    return foreign(converted / "tfrecord", tmp_path)


@pytest.fixture
def records(converted: Path, tmp_path: Path) -> Path:
    return foreign(converted / "recordio", tmp_path)


def foreign(original: Path, tmp_path: Path) -> Path:
    directory = Path(shutil.copytree(original, tmp_path / "foreign"))
    for name in ("dataset.json", "SHA256SUMS"):
        (directory / name).unlink()
    return directory


def found(report: VerifyReport) -> list[tuple[str, str, str]]:
    return [(problem.kind.value, problem.path, problem.detail) for problem in report.problems]


def overwrite(path: Path, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(data)


def rewrite(path: Path, change: "dict[int, bytes]") -> None:
    """Write a shard anew, its index too, with other data in some of its records and right checksums."""
    with path.open("rb") as file:
        datas = [record.data for record in tfrecord.read_records(file, path.stat().st_size)]
    frames = [tfrecord.frame(change.get(number, data)) for number, data in enumerate(datas)]
    path.write_bytes(b"".join(frames))
    offsets = [sum(map(len, frames[:number])) for number in range(len(frames))]
    lines = [f"{offset} {len(frame)}\n" for offset, frame in zip(offsets, frames, strict=True)]
    (path.parent / "idx" / f"{path.name}.idx").write_text("".join(lines))


def places(directory: Path, name: str) -> list[tuple[int, ...]]:
    lines = (directory / name).read_text().splitlines()
    return [tuple(map(int, line.split())) for line in lines]


@pytest.mark.process
def test_intact_records_of_any_origin_have_no_problem(converted: Path, shards: Path, tmp_path: Path) -> None:
    for form in (Form.TFRECORD, Form.RECORDIO):
        report = verify(converted / form, jobs=2)
        assert (report.form, report.made, report.records, found(report)) == (form, True, 16, [])
        assert report.limits == ()
    report = verify(shards, depth=Depth.DECODE)
    assert (report.made, report.files, report.records, found(report)) == (False, 4, 16, [])
    assert report.limits == ("no manifest: the number of records and the labels were not checked",)


def test_a_broken_length_checksum_hides_the_rest_of_its_shard(shards: Path) -> None:
    second = places(shards, f"idx/{SHARD}.idx")[1][0]
    overwrite(shards / SHARD, second + 8, b"\0\1\2\3")
    report = verify(shards)
    assert found(report) == [
        ("broken", SHARD, f"record 1 at byte {second}: the checksum of its length is wrong")
    ]
    assert report.records == 13


def test_a_broken_data_checksum_is_one_record_and_the_others_are_read(shards: Path) -> None:
    where = places(shards, f"idx/{SHARD}.idx")
    for number in (0, 2):
        overwrite(shards / SHARD, where[number][0] + 200, b"\0\1\2\3")
    assert found(verify(shards)) == [
        (
            "broken",
            SHARD,
            "record 0 at byte 0: the checksum of its data is wrong; and 1 more such records",
        )
    ]


def test_a_shard_that_was_cut_off_is_truncated(shards: Path) -> None:
    size = (shards / SHARD).stat().st_size
    with (shards / SHARD).open("r+b") as file:
        file.truncate(size - 3)
    last = places(shards, f"idx/{SHARD}.idx")[-1][0]
    assert found(verify(shards)) == [
        ("truncated", SHARD, f"record 3 at byte {last}: the file ends within it")
    ]
    (shards / SHARD).write_bytes(b"")
    assert ("truncated", SHARD, "the file is empty") in found(verify(shards))


def test_a_shard_that_ends_between_records_differs_from_its_index(shards: Path) -> None:
    with (shards / SHARD).open("r+b") as file:
        file.truncate(places(shards, f"idx/{SHARD}.idx")[-1][0])
    assert found(verify(shards)) == [
        ("bad-index", f"idx/{SHARD}.idx", f"has 4 lines, but {SHARD} has 3 records")
    ]


def test_the_index_of_another_shard_is_found_by_its_offsets(shards: Path) -> None:
    other = "idx/train-00000-of-00003.idx"
    shutil.copy(shards / other, shards / f"idx/{SHARD}.idx")
    (offset, size), (_, real) = places(shards, other)[0], places(shards, f"idx/{SHARD}.idx")[0]
    assert real == size
    ((kind, path, detail),) = found(verify(shards))
    assert (kind, path) == ("bad-index", f"idx/{SHARD}.idx")
    assert detail.startswith(f"line 1 says {offset} {size}, but {SHARD} has 0 ")


def test_an_invalid_or_missing_index_is_reported(shards: Path) -> None:
    (shards / f"idx/{SHARD}.idx").write_text("0 12\nnonsense\n")
    (shards / "idx/train-00000-of-00003.idx").unlink()
    assert found(verify(shards)) == [
        ("missing", "idx/train-00000-of-00003.idx", "'trainmark data index' makes it"),
        ("bad-index", f"idx/{SHARD}.idx", "line 2 is not two numbers"),
    ]


def test_a_missing_shard_is_found_from_the_names_of_the_others(shards: Path) -> None:
    (shards / SHARD).unlink()
    (shards / f"idx/{SHARD}.idx").unlink()
    assert found(verify(shards)) == [("missing", SHARD, "2 of 3 shards are there")]


def test_shards_of_two_conversions_in_one_folder_are_reported(shards: Path) -> None:
    (shards / SHARD).rename(shards / "train-00001-of-00004")
    (shards / f"idx/{SHARD}.idx").rename(shards / "idx/train-00001-of-00004.idx")
    assert found(verify(shards)) == [
        ("wrong-count", "train-00000-of-00003", "the shards of train announce 3 and 4 of them")
    ]


def test_records_without_pictures_are_found(shards: Path) -> None:
    label: dict[str, bytes | int] = {LABEL: 1}
    png = b"\x89PNG\r\n\x1a\n" + bytes(8)
    rewrite(
        shards / SHARD,
        {
            0: b"no example",
            1: example.encode_example(label),
            2: example.encode_example({**label, ENCODED: png}),
            3: example.encode_example({ENCODED: (b"\xff\xd8" + bytes(9))}),
        },
    )
    kinds = {(kind, detail.split(": ", 1)[1]) for kind, _, detail in found(verify(shards))}
    assert kinds == {
        ("undecodable", "is not a tf.train.Example"),
        ("undecodable", "has no image/encoded"),
        ("undecodable", "no picture of a known format"),
        ("undecodable", "no JPEG marker at byte 2"),
        ("mislabelled", "has no integer in image/class/label"),
    }


def test_a_picture_of_another_format_is_not_a_jpeg(shards: Path, tmp_path: Path) -> None:
    from PIL import Image

    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    features: dict[str, bytes | int] = {LABEL: 1, ENCODED: (tmp_path / "a.png").read_bytes()}
    rewrite(shards / SHARD, {2: example.encode_example(features)})
    ((kind, path, detail),) = found(verify(shards))
    assert (kind, path) == ("undecodable", SHARD)
    assert detail.endswith("its picture is not a JPEG")


def test_a_changed_byte_that_was_checksummed_again_is_found_by_the_manifest(
    converted: Path, tmp_path: Path
) -> None:
    directory = Path(shutil.copytree(converted / "tfrecord", tmp_path / "d"))
    with (directory / SHARD).open("rb") as file:
        first = next(tfrecord.read_records(file, (directory / SHARD).stat().st_size)).data
    changed = first[:2000] + bytes([first[2000] ^ 1]) + first[2001:]
    rewrite(directory / SHARD, {0: changed})
    assert found(verify(directory)) == [
        ("corrupted", SHARD, "its SHA-256 differs from the one in SHA256SUMS")
    ]


def test_a_converted_data_set_is_compared_with_its_manifest(converted: Path, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(converted / "tfrecord", tmp_path / "d"))
    (directory / SHARD).unlink()
    (directory / "extra").write_text("")
    (directory / "idx/train-00000-of-00003.idx").write_text("0 1\n")
    assert {(kind, path) for kind, path, _ in found(verify(directory))} == {
        ("missing", SHARD),
        ("extra", "extra"),
        ("bad-index", "idx/train-00000-of-00003.idx"),
        ("corrupted", "idx/train-00000-of-00003.idx"),
    }


def test_counts_and_labels_that_contradict_the_manifest_are_found(converted: Path, tmp_path: Path) -> None:
    """A manifest that was written for other records, with the checksums of these."""
    directory = Path(shutil.copytree(converted / "recordio", tmp_path / "d"))
    manifest = json.loads((directory / "dataset.json").read_text())
    manifest["records"]["train"] = 13
    manifest["classes"] = 1
    (directory / "dataset.json").write_text(json.dumps(manifest))
    assert found(verify(directory)) == [
        ("wrong-count", "dataset.json", "12 records of train, but dataset.json names 13"),
        ("mislabelled", "train.rec", "a label is 1, but those of this data set are 0 to 0"),
        ("mislabelled", "val.rec", "a label is 1, but those of this data set are 0 to 0"),
    ]


def test_missing_or_modified_checksums_are_reported(converted: Path, tmp_path: Path) -> None:
    directory = Path(shutil.copytree(converted / "recordio", tmp_path / "d"))
    sums = (directory / "SHA256SUMS").read_text()
    (directory / "SHA256SUMS").write_text(sums + sums.splitlines()[0].replace("train", "other") + "\n")
    assert ("corrupted", "SHA256SUMS", "its SHA-256 differs from the one in dataset.json") in found(
        verify(directory)
    )
    (directory / "SHA256SUMS").unlink()
    assert found(verify(directory)) == [("missing", "SHA256SUMS", "no checksum can be compared without it")]


def test_a_recordio_file_that_was_cut_off_is_truncated(records: Path) -> None:
    size = (records / "train.rec").stat().st_size
    with (records / "train.rec").open("r+b") as file:
        file.truncate(size - 7)
    last = places(records, "train.idx")[-1][1]
    assert found(verify(records)) == [
        ("truncated", "train.rec", f"record 11 at byte {last}: the file ends within it")
    ]


def test_a_wrong_magic_number_hides_the_rest_of_its_file(records: Path) -> None:
    fourth = places(records, "train.idx")[3][1]
    overwrite(records / "train.rec", fourth, b"\0\0\0\0")
    report = verify(records)
    assert found(report) == [
        ("broken", "train.rec", f"record 3 at byte {fourth}: the magic number is missing")
    ]
    assert report.records == 3 + 4


def test_a_recordio_index_out_of_step_is_found(records: Path) -> None:
    lines = (records / "train.idx").read_text().splitlines()
    (records / "train.idx").write_text("\n".join([*lines[:5], lines[6], lines[5], *lines[7:]]) + "\n")
    five, six = places(records, "val.idx")[0], places(records, "train.idx")
    assert five[0] == 0
    assert found(verify(records)) == [
        (
            "bad-index",
            "train.idx",
            f"line 6 says {six[5][0]} {six[5][1]}, but train.rec has {six[6][0]} {six[6][1]}",
        )
    ]
    (records / "train.idx").write_text("\n".join(lines[:-1]) + "\n")
    assert found(verify(records)) == [
        ("bad-index", "train.idx", "has 11 lines, but train.rec has 12 records")
    ]
    (records / "train.idx").unlink()
    assert [(kind, path) for kind, path, _ in found(verify(records))] == [("missing", "train.idx")]


def test_recordio_records_without_pictures_are_found(records: Path) -> None:
    payloads = [b"short", struct.pack("<IfQQ", 0, 0.5, 1, 0) + b"\xff\xd8" + bytes(9)]
    (records / "val.rec").write_bytes(b"".join(recordio.frame(payload) for payload in payloads))
    report = verify(records)
    assert {
        (kind, detail.split(": ", 1)[1]) for kind, path, detail in found(report) if path == "val.rec"
    } == {
        ("broken", "5 bytes are too few for a record's header"),
        ("mislabelled", "its label 0.5 is not an integer"),
        ("undecodable", "no JPEG marker at byte 2"),
    }


def test_index_writes_the_same_files_as_a_conversion(converted: Path, shards: Path, tmp_path: Path) -> None:
    shutil.rmtree(shards / "idx")
    assert main(["data", "index", str(shards), "--jobs", "1"]) == 0
    for index in (shards / "idx").iterdir():
        assert index.read_text() == (converted / "tfrecord/idx" / index.name).read_text()
    assert len(list((shards / "idx").iterdir())) == 4
    its = foreign(converted / "recordio", tmp_path / "other")
    (its / "train.idx").unlink()
    assert main(["data", "index", str(its), "--jobs", "1"]) == 0
    assert (its / "train.idx").read_text() == (converted / "recordio/train.idx").read_text()


def test_an_empty_folder_and_own_conversions_are_not_indexed(
    converted: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    for directory, says in (
        (converted / "tfrecord", "was converted by trainmark and has an index"),
        (tmp_path / "empty", "holds no TFRecord shards and no RecordIO file"),
        (tmp_path / "nowhere", "no such folder"),
    ):
        assert main(["data", "index", str(directory)]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1
        assert says in error


def test_a_broken_shard_is_not_indexed(shards: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(shards / "idx")
    overwrite(shards / SHARD, 8, b"\0\1\2\3")
    assert main(["data", "index", str(shards), "--jobs", "1"]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f"{SHARD}: record 0 at byte 0 is broken (length-crc)" in error
    assert not (shards / f"idx/{SHARD}.idx").exists()


def test_the_command_prints_the_problems_and_exits_with_1(
    shards: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    overwrite(shards / SHARD, 8, b"\0\1\2\3")
    assert main(["data", "verify", str(shards), "--jobs", "1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"broken       {SHARD}: record 0 at byte 0: the checksum of its length is wrong"
    assert lines[-1].startswith(f"{shards}: 4 files of tfrecord, 12 records, ")
    assert lines[-1].endswith(" MB read, 1 problem found")
    assert main(["data", "verify", str(shards), "--json"]) == 1
    *problems, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert [problem["problem"] for problem in problems] == [ProblemKind.BROKEN]
    assert summary["summary"]["form"] == "tfrecord"
    assert summary["summary"]["records"] == 12


def test_a_list_file_does_not_apply_to_records(shards: Path) -> None:
    with pytest.raises(InputError, match="to which list files do not apply"):
        verify(shards, lists=[shards / "list.txt"])
