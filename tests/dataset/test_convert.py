"""Converting image folders: the same pictures and labels in every form, and there at once or not at all."""

import fcntl
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image

from preloading import Copy, start_trainmark
from trainmark.cli.main import main
from trainmark.dataset import example, tfrecord
from trainmark.dataset.images import (
    Form,
    ImageFolderSpec,
    convert,
    describe,
    describe_converted,
    make_image_folder,
    recordio,
    verify,
)
from trainmark.errors import InputError, TrainmarkError
from trainmark.worker.tasks.image_classification.images import read_images

SPEC = ImageFolderSpec(images=22, val_images=6, classes=3, seed=5, width=64, height=48)
FORMS = (Form.TFRECORD, Form.RECORDIO)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_image_folder(tmp_path_factory.mktemp("source") / "photos", SPEC, jobs=1).directory


def contents(directory: Path) -> dict[str, str]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def features_in(directory: Path, split: str) -> Iterator[dict[str, example.Value | None]]:
    for shard in sorted(directory.glob(f"{split}-*")):
        with shard.open("rb") as file:
            for record in tfrecord.read_records(file, shard.stat().st_size):
                assert record.broken is None
                yield example.decode_example(record.data)


def records_in(directory: Path, split: str) -> Iterator[recordio.Labelled]:
    with (directory / f"{split}.rec").open("rb") as file:
        for record in recordio.read_records(file, (directory / f"{split}.rec").stat().st_size):
            assert record.broken is None
            yield recordio.unpack(record.data)


def labelled(directory: Path, form: Form, split: str = "train") -> list[tuple[int, bytes]]:
    """Return the label from 0 and the bytes of each picture, in the order of the files."""
    if form is Form.RECORDIO:
        return [(int(held.label), held.picture) for held in records_in(directory, split)]
    word = {"train": "train", "val": "validation"}[split]
    found = []
    for features in features_in(directory, word):
        label, picture = features["image/class/label"], features["image/encoded"]
        assert isinstance(label, int)
        assert isinstance(picture, bytes)
        found.append((label - 1, picture))
    return found


def in_source(photos: Path, split: str) -> list[tuple[int, bytes]]:
    lines = (photos / f"{split}_list.txt").read_text().splitlines()
    return [(int(line.split()[1]), (photos / line.split()[0]).read_bytes()) for line in lines]


def test_both_forms_hold_the_same_pictures_labels_and_order(photos: Path, tmp_path: Path) -> None:
    for form in FORMS:
        convert(photos, tmp_path / form, form)
    for split in ("train", "val"):
        first, second = (labelled(tmp_path / form, form, split) for form in FORMS)
        assert first == second
        assert sorted(first) == sorted(in_source(photos, split))
    training = labelled(tmp_path / Form.RECORDIO, Form.RECORDIO)
    assert training != in_source(photos, "train"), "classes do not lie together"
    assert len({label for label, _ in training[:6]}) > 1
    assert labelled(tmp_path / Form.RECORDIO, Form.RECORDIO, "val") == in_source(photos, "val")


def test_another_seed_gives_another_order_of_the_same_pictures(photos: Path, tmp_path: Path) -> None:
    for seed in (0, 1):
        convert(photos, tmp_path / str(seed), Form.RECORDIO, seed=seed)
    one, other = (labelled(tmp_path / str(seed), Form.RECORDIO) for seed in (0, 1))
    assert one != other
    assert sorted(one) == sorted(other)


def test_shards_have_imagenets_names_keys_and_labels_from_1(photos: Path, tmp_path: Path) -> None:
    convert(photos, tmp_path / "d", Form.TFRECORD, shards=3)
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == [
        "SHA256SUMS",
        "dataset.json",
        "idx",
        *(f"train-{n:05d}-of-00003" for n in range(3)),
        "validation-00000-of-00001",
    ]
    for features in features_in(tmp_path / "d", "train"):
        label, name, picture = (features[f"image/{key}"] for key in ("class/label", "filename", "encoded"))
        assert isinstance(name, bytes)
        assert isinstance(label, int)
        assert isinstance(picture, bytes)
        assert name.startswith(f"n{label - 1:08d}_".encode())
        with Image.open(io.BytesIO(picture)) as image:
            assert (features["image/width"], features["image/height"]) == image.size
        assert features["image/class/synset"] == features["image/class/text"] == b"n%08d" % (label - 1)
        assert (features["image/format"], features["image/colorspace"]) == (b"JPEG", b"RGB")
        assert features["image/channels"] == 3
    manifest = json.loads((tmp_path / "d/dataset.json").read_text())
    assert (manifest["first_label"], manifest["classes"]) == (1, 3)
    assert manifest["records"] == {"train": 22, "val": 6}


def test_the_index_gives_the_offset_of_every_record(photos: Path, tmp_path: Path) -> None:
    convert(photos, tmp_path / "t", Form.TFRECORD, shards=2)
    for shard in ("train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001"):
        data = (tmp_path / "t" / shard).read_bytes()
        lines = (tmp_path / "t/idx" / f"{shard}.idx").read_text().splitlines()
        places = [tuple(map(int, line.split(" "))) for line in lines]
        assert b"".join(data[offset : offset + size] for offset, size in places) == data
    convert(photos, tmp_path / "r", Form.RECORDIO)
    data = (tmp_path / "r/train.rec").read_bytes()
    lines = (tmp_path / "r/train.idx").read_text().splitlines()
    listing = (tmp_path / "r/train.lst").read_text().splitlines()
    assert len(lines) == len(listing) == 22
    for number, (line, listed) in enumerate(zip(lines, listing, strict=True)):
        identity, offset = map(int, line.split("\t"))
        record = next(recordio.read_records(io.BytesIO(data[offset:]), len(data) - offset))
        held = recordio.unpack(record.data)
        assert (identity, held.identity) == (number, number)
        assert listed.split("\t")[:2] == [str(number), f"{held.label:f}"]
        assert (photos / listed.split("\t")[2]).read_bytes() == held.picture


@pytest.mark.process
@pytest.mark.parametrize("form", FORMS)
def test_the_bytes_do_not_depend_on_the_number_of_processes(photos: Path, tmp_path: Path, form: Form) -> None:
    convert(photos, tmp_path / "one", form, jobs=1)
    convert(photos, tmp_path / "two", form, jobs=2)
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_default_shards_follow_imagenets_and_never_outnumber_the_pictures(tmp_path: Path) -> None:
    for images, shards in ((5, 5), (100, 8)):
        spec = ImageFolderSpec(images=images, classes=2, width=32, height=32)
        make_image_folder(tmp_path / f"{images}", spec, jobs=1)
        done = convert(tmp_path / f"{images}", tmp_path / f"{images}.records", Form.TFRECORD)
        assert done.manifest.recipe.shards == shards
    with pytest.raises(InputError, match=r"6 shards: .* at most 5, the number of pictures"):
        convert(tmp_path / "5", tmp_path / "other", Form.TFRECORD, shards=6)


def test_a_complete_conversion_is_left_unchanged(
    photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["data", "convert", str(photos), str(tmp_path / "d"), "--to", "recordio", "--jobs", "1"]
    assert main(command) == 0
    first = capsys.readouterr().out
    assert first == (
        f"{tmp_path}/d: converted; recordio, 28 images (22 train, 6 val) of 3 classes, labels from 0, "
        f"{(tmp_path / 'd/train.rec').stat().st_size / 1e6 + (tmp_path / 'd/val.rec').stat().st_size / 1e6:.1f} MB\n"
    )
    before = {path: path.stat().st_ino for path in (tmp_path / "d").iterdir()}
    assert main([*command, "--json"]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["was_there"], output["records"]) == (True, {"train": 22, "val": 6})
    assert output["digest"] == hashlib.sha256((tmp_path / "d/dataset.json").read_bytes()).hexdigest()
    assert {path: path.stat().st_ino for path in (tmp_path / "d").iterdir()} == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d"]


def test_anything_else_in_the_destination_is_refused_and_untouched(photos: Path, tmp_path: Path) -> None:
    convert(photos, tmp_path / "d", Form.TFRECORD, shards=2)
    before = contents(tmp_path / "d")
    with pytest.raises(InputError, match=r"holds another conversion \(seed 0, not 1\)"):
        convert(photos, tmp_path / "d", Form.TFRECORD, shards=2, seed=1)
    with pytest.raises(InputError, match=r"form tfrecord, not recordio"):
        convert(photos, tmp_path / "d", Form.RECORDIO)
    fewer = Path(shutil.copytree(photos, tmp_path / "fewer"))
    shutil.rmtree(fewer / "val")
    for name in ("dataset.json", "SHA256SUMS", "val_list.txt"):
        (fewer / name).unlink()
    with pytest.raises(InputError, match=r"holds another conversion \(other pictures\)"):
        convert(fewer, tmp_path / "d", Form.TFRECORD, shards=2)
    assert contents(tmp_path / "d") == before

    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="is not empty"):
        convert(photos, tmp_path / "thesis", Form.TFRECORD)
    with pytest.raises(InputError, match="is a file"):
        convert(photos, tmp_path / "thesis/thesis.txt", Form.TFRECORD)
    with pytest.raises(InputError, match="holds an image folder"):
        convert(fewer, photos, Form.TFRECORD)
    for target in (photos, photos / "records"):
        with pytest.raises(InputError, match="name a folder outside the pictures"):
            convert(photos, target, Form.TFRECORD)


def test_the_second_of_two_concurrent_conversions_fails(photos: Path, tmp_path: Path) -> None:
    (tmp_path / ".d.converting").mkdir()
    with (tmp_path / ".d.converting/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(TrainmarkError, match="another process is converting"):
            convert(photos, tmp_path / "d", Form.TFRECORD)


def jpeg(path: Path, mode: str = "RGB", file_format: str = "JPEG") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, (40, 30), 77 if mode == "L" else None).save(path, file_format)


def test_classes_are_numbered_as_the_workers_number_them(tmp_path: Path) -> None:
    """By the order of the training folders' names, an empty one too, and not the hidden ones."""
    source = tmp_path / "source"
    for name in ("b/1.jpg", "a/2.JPEG", "z/3.jpg", ".cache/4.jpg", "a/no picture.txt"):
        jpeg(source / "train" / name)
    (source / "train/empty").mkdir()
    jpeg(source / "val/z/5.jpg")
    convert(source, tmp_path / "d", Form.RECORDIO)
    listing = (tmp_path / "d/train.lst").read_text().splitlines()
    labels = {line.split("\t")[2]: float(line.split("\t")[1]) for line in listing}
    assert labels == {"train/a/2.JPEG": 0.0, "train/b/1.jpg": 1.0, "train/z/3.jpg": 3.0}
    assert (tmp_path / "d/val.lst").read_text() == "0\t3.000000\tval/z/5.jpg\n"
    theirs = read_images(str(source / "train"), classes=10)
    assert labels == {
        str(Path(path).relative_to(source)): label
        for path, label in zip(theirs.paths, theirs.labels, strict=True)
    }

    convert(source / "train", tmp_path / "split", Form.RECORDIO)
    again = (tmp_path / "split/train.lst").read_text().splitlines()
    assert sorted(line.split("\t")[1] for line in again) == sorted(line.split("\t")[1] for line in listing)

    jpeg(source / "val/other/6.jpg")
    with pytest.raises(InputError, match="val/other: the training split has no class other"):
        convert(source, tmp_path / "e", Form.RECORDIO)


def test_a_list_file_gives_the_labels_of_a_flat_folder(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name in ("one.jpg", "two three.jpg"):
        jpeg(source / name)
    (source / "train_list.txt").write_text("two three.jpg 7\none.jpg 2\n")
    for given, to in ((source, tmp_path / "a"), (source / "train_list.txt", tmp_path / "b")):
        convert(given, to, Form.TFRECORD, shards=1)
        named = {f["image/filename"]: f["image/class/label"] for f in features_in(to, "train")}
        assert named == {b"one.jpg": 3, b"two three.jpg": 8}
    (source / "train_list.txt").write_text("two three.jpg 7\nnonsense\n")
    with pytest.raises(InputError, match=r"train_list\.txt:2: is not 'path label'"):
        convert(source, tmp_path / "c", Form.TFRECORD)
    (source / "train_list.txt").write_text("four.jpg 7\n")
    with pytest.raises(InputError, match=r"four\.jpg: train_list\.txt:1 names it"):
        convert(source, tmp_path / "c", Form.TFRECORD)


def test_skipped_pictures_and_contradictions_are_noted(tmp_path: Path) -> None:
    source = tmp_path / "source"
    for name in ("train/a/1.jpg", "train/b/2.jpg", "val/3.jpg"):
        jpeg(source / name)
    (source / "train_list.txt").write_text("train/a/1.jpg 0\ntrain/b/2.jpg 5\n")
    done = convert(source, tmp_path / "d", Form.RECORDIO)
    assert done.notes == (
        f"{source}/val is skipped: it has no class folders and no list val_list.txt",
        "train_list.txt:2 gives label 5, but the order of the class folders gives 1, which is used "
        f"(to use the list's labels, convert {source}/train_list.txt)",
    )


def test_unsupported_pictures_are_re_encoded_and_listed(tmp_path: Path) -> None:
    """ImageNet holds a PNG and CMYK pictures under JPEG names."""
    source = tmp_path / "source"
    jpeg(source / "train/a/cmyk.JPEG", "CMYK")
    jpeg(source / "train/a/png.JPEG", "RGB", "PNG")
    jpeg(source / "train/a/grey.JPEG", "L")
    done = convert(source, tmp_path / "d", Form.TFRECORD, shards=1)
    assert done.manifest.encoded_anew == ("train/a/cmyk.JPEG", "train/a/png.JPEG")
    for features in features_in(tmp_path / "d", "train"):
        picture, name = features["image/encoded"], features["image/filename"]
        assert isinstance(picture, bytes)
        with Image.open(io.BytesIO(picture)) as image:
            image.load()
            assert (image.format, image.mode) == ("JPEG", "L" if name == b"grey.JPEG" else "RGB")
        if name == b"grey.JPEG":
            assert picture == (source / "train/a/grey.JPEG").read_bytes()
            assert (features["image/colorspace"], features["image/channels"]) == (b"Grayscale", 1)
    assert not verify(tmp_path / "d").problems


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (b"", "truncated: the file is empty"),
        (b"\xff\xd8\xff", "truncated: 3 bytes end before the pixels begin"),
        (b"no picture", "undecodable: no picture of a known format"),
    ],
)
def test_a_damaged_picture_stops_the_conversion_by_its_name(
    photos: Path, tmp_path: Path, damage: bytes, says: str
) -> None:
    source = Path(shutil.copytree(photos, tmp_path / "source"))
    (source / "train/n00000001/n00000001_4.JPEG").write_bytes(damage)
    with pytest.raises(InputError, match=f"n00000001_4.JPEG: {says}"):
        convert(source, tmp_path / "d", Form.TFRECORD, jobs=2)
    assert not (tmp_path / "d").exists()


def test_a_created_folder_with_missing_pictures_is_not_converted(photos: Path, tmp_path: Path) -> None:
    source = Path(shutil.copytree(photos, tmp_path / "source"))
    (source / "train/n00000001/n00000001_4.JPEG").unlink()
    with pytest.raises(InputError, match="has 27 of its 28 pictures; 'trainmark data verify"):
        convert(source, tmp_path / "d", Form.TFRECORD)


def test_a_converted_data_set_is_not_an_image_folder(photos: Path, tmp_path: Path) -> None:
    convert(photos, tmp_path / "d", Form.TFRECORD)
    for use in (describe, lambda path: convert(path, tmp_path / "e", Form.RECORDIO)):
        with pytest.raises(InputError, match="holds record files of pictures, not an image folder"):
            use(tmp_path / "d")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--to", "tfrecrd"], "--to tfrecrd: not tfrecord or recordio; did you mean 'tfrecord'?"),
        (["--to", "tfrecord", "--shards", "0"], "0 shards: there must be at least 1"),
    ],
)
def test_unusable_options_are_exit_code_2_and_write_nothing(
    photos: Path, tmp_path: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "convert", str(photos), str(tmp_path / "d"), *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert says in error
    assert list(tmp_path.iterdir()) == []


LONG = ImageFolderSpec(images=2600, classes=4, width=64, height=48)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_image_folder(tmp_path_factory.mktemp("source") / "many", LONG, jobs=2).directory


def start_converting(source: Path, destination: Path, form: Form) -> Copy:
    """Start a conversion, and return when its first part is whole."""
    words = ["data", "convert", str(source), str(destination), "--to", form, "--jobs", "2"]
    converter = start_trainmark(*words)
    done = destination.parent / f".{destination.name}.converting" / "done"
    deadline = time.monotonic() + 300
    while not any(done.glob("*.json")):
        assert time.monotonic() < deadline
        assert converter.poll() is None, converter.communicate()
        time.sleep(0.002)
    return converter


@pytest.mark.process
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("stop", [pytest.param(signal.SIGINT, marks=pytest.mark.rare), signal.SIGKILL])
def test_an_interrupted_conversion_is_invisible_and_resumes(
    many: Path, tmp_path: Path, form: Form, stop: signal.Signals
) -> None:
    destination = tmp_path / "d"
    converter = start_converting(many, destination, form)
    if stop is signal.SIGINT:
        os.killpg(converter.pid, stop)
    else:
        converter.kill()
    out, err = converter.communicate(timeout=300)
    assert converter.returncode == (130 if stop is signal.SIGINT else -signal.SIGKILL), (out, err)
    assert "Traceback" not in err
    assert not destination.exists()
    finished = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob(".d.converting/done/*.json")}
    assert finished

    with pytest.raises(Stopped):
        convert(many, destination, form, jobs=1, progress=stop_before_the_end)
    after = {path.name: path.stat().st_mtime_ns for path in tmp_path.glob(".d.converting/done/*.json")}
    assert {name: after[name] for name in finished} == finished, "whole parts are kept"
    (tmp_path / ".d.converting/data/.train.17.tmp").write_bytes(b"half a part of a killed helper")
    convert(many, destination, form, jobs=1)
    whole = tmp_path / "whole"
    convert(many, whole, form, jobs=1)
    assert contents(destination) == contents(whole)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "whole"]


class Stopped(Exception):  # noqa: N818 -- no error
    """The call ends here, as if the power had gone."""


def stop_before_the_end(done: int, total: int) -> None:
    if done == total:
        raise Stopped


@pytest.mark.process
@pytest.mark.parametrize("cut", [0, 1, 5000, 10**9])
def test_a_join_killed_at_any_point_resumes(many: Path, tmp_path: Path, cut: int) -> None:
    """As after a kill while parts are joined: some parts are joined and gone, one is half in the joined file."""
    convert(many, tmp_path / "whole", Form.RECORDIO)
    with pytest.raises(Stopped):
        convert(many, tmp_path / "d", Form.RECORDIO, progress=stop_before_the_end)
    work = tmp_path / ".d.converting"
    first, second, *_ = sorted(path for path in (work / "parts").iterdir() if "." not in path.name)
    joined = first.read_bytes() + second.read_bytes()[:cut]
    (work / "data/train.rec").write_bytes(joined)
    if cut:
        first.unlink()
    convert(many, tmp_path / "d", Form.RECORDIO)
    assert contents(tmp_path / "d") == contents(tmp_path / "whole")


@pytest.mark.rare
@pytest.mark.parametrize("form", FORMS)
def test_a_full_disk_is_one_line_and_leaves_no_complete_data_set(
    many: Path, tmp_path: Path, form: Form
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    command = f"{sys.executable} -m trainmark.cli.main data convert {many} {disk}/d --to {form} --jobs 1"
    script = f"""
        set -eu
        mount -t tmpfs -o size=40m none {disk}
        head -c $((40 * 1024 * 1024 - 2 * 1024 * 1024)) /dev/zero > {disk}/filler
        {command} 2>{tmp_path}/err && exit 90
        echo "exit $?"
        test ! -e {disk}/d
        rm {disk}/filler
        {command} 2>>{tmp_path}/err
        {sys.executable} -m trainmark.cli.main data verify {disk}/d
    """
    if subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", disk], check=False).returncode:
        pytest.skip("this machine does not let us mount a small disk (unshare -rm mount)")
    ran = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, check=False)
    error = (tmp_path / "err").read_text()
    assert ran.returncode == 0, (ran.stdout, ran.stderr, error)
    assert ran.stdout.startswith("exit 1\n")
    # On a slow machine it says now and then how far it is.
    messages = [line for line in error.splitlines() if not line.startswith("converting: ")]
    assert len(messages) == 1
    assert "the disk is full after" in messages[0]
    assert f"{disk}/d: converted; {form}, 2600 images" in ran.stdout
    assert "no problems found" in ran.stdout


def test_a_destination_that_cannot_be_written_is_one_line(photos: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainmarkError, match="cannot be written"):
        convert(photos, tmp_path / "file/d", Form.TFRECORD)


def test_the_shards_of_each_class_are_mixed(photos: Path, tmp_path: Path) -> None:
    convert(photos, tmp_path / "d", Form.TFRECORD, shards=2)
    first = Counter(label for label, _ in labelled(tmp_path / "d", Form.TFRECORD)[:11])
    assert len(first) == 3
    assert describe_converted(tmp_path / "d").form is Form.TFRECORD


def test_training_records_stay_when_the_source_gets_validation_pictures(
    tmp_path: Path,
) -> None:
    without = SPEC.model_copy(update={"val_images": 0})
    make_image_folder(tmp_path / "photos", without, jobs=1)
    before = convert(tmp_path / "photos", tmp_path / "records", Form.RECORDIO)
    make_image_folder(tmp_path / "photos", SPEC, jobs=1)

    after = convert(tmp_path / "photos", tmp_path / "records", Form.RECORDIO)

    assert after.existed
    assert after.converted == before.converted
    assert after.notes == (
        f"{tmp_path}/records was converted from the training pictures only; remove it to convert the others too",
    )
