"""Making an image folder: the same bytes, ImageNet's looks, and never complete before it is."""

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from preloading import Copy, start_trainmark
from trainmark.cli.main import main
from trainmark.dataset.images import (
    FolderState,
    ImageFolderSpec,
    Sizes,
    describe,
    folder_state,
    make_image_folder,
    spec_from,
    verify,
)
from trainmark.dataset.images.picture import paint
from trainmark.dataset.images.spec import pictures
from trainmark.errors import InputError, TrainmarkError

SMALL = ImageFolderSpec(images=13, val_images=4, classes=3, seed=5, width=64, height=48)


def contents(directory: Path) -> dict[str, str]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def inodes(directory: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in directory.rglob("*.JPEG")}


@pytest.mark.process
def test_the_bytes_do_not_depend_on_the_number_of_processes(tmp_path: Path) -> None:
    one = make_image_folder(tmp_path / "one", SMALL, jobs=1)
    three = make_image_folder(tmp_path / "three", SMALL, jobs=3)
    assert contents(tmp_path / "one") == contents(tmp_path / "three")
    assert one.digest == three.digest


def test_another_seed_gives_other_pictures(tmp_path: Path) -> None:
    make_image_folder(tmp_path / "a", SMALL, jobs=1)
    make_image_folder(tmp_path / "b", SMALL.model_copy(update={"seed": 6}), jobs=1)
    a, b = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert not {a[path] for path in a if path.endswith("JPEG")} & set(b.values())


def test_a_larger_folder_begins_with_the_pictures_of_the_smaller(tmp_path: Path) -> None:
    make_image_folder(tmp_path / "small", SMALL, jobs=1)
    make_image_folder(tmp_path / "large", SMALL.model_copy(update={"images": 20}), jobs=1)
    small, large = contents(tmp_path / "small"), contents(tmp_path / "large")
    assert all(large[path] == digest for path, digest in small.items() if path.endswith("JPEG"))


def test_the_pixels_of_this_generator_stay_as_they_are() -> None:
    """If this fails on purpose, raise GENERATOR_VERSION; a new Pillow that draws otherwise does so too."""
    spec = ImageFolderSpec(images=4, classes=2, seed=1)
    digest = hashlib.sha256(b"".join(paint(spec, picture).tobytes() for picture in pictures(spec)))
    assert digest.hexdigest() == "5ca5f2f009646debf147d8a7af02e8060264286e40712a45c350259433338604"


@pytest.mark.process
def test_the_default_pictures_have_the_sizes_and_bytes_of_imagenet(tmp_path: Path) -> None:
    folder = make_image_folder(tmp_path / "d", ImageFolderSpec(images=120), jobs=2)
    assert folder.mean_bytes == pytest.approx(110_000, rel=0.15)
    sizes: Counter[tuple[int, int]] = Counter()
    for path in (tmp_path / "d").rglob("*.JPEG"):
        with Image.open(path) as image:
            sizes[image.size] += 1
            assert image.mode == "RGB"
    assert sizes.most_common(1)[0][0] == (500, 375)
    assert len(sizes) > 3


def test_fixed_sizes_are_all_the_same(tmp_path: Path) -> None:
    spec = ImageFolderSpec(images=12, classes=1, width=80, height=60, sizes=Sizes.FIXED)
    make_image_folder(tmp_path / "d", spec, jobs=1)
    for path in (tmp_path / "d").rglob("*.JPEG"):
        with Image.open(path) as image:
            assert image.size == (80, 60)


def test_the_lists_name_every_picture_with_the_label_of_its_folder(tmp_path: Path) -> None:
    folder = make_image_folder(tmp_path / "d", SMALL, jobs=1)
    assert folder.lists == ("train_list.txt", "val_list.txt")
    assert (folder.images, folder.classes, folder.spec) == (17, 3, SMALL)
    for split, count in (("train", 13), ("val", 4)):
        lines = (tmp_path / "d" / f"{split}_list.txt").read_text().splitlines()
        assert len(lines) == count
        for line in lines:
            path, label = line.split(" ")
            assert (tmp_path / "d" / path).is_file()
            assert path.startswith(f"{split}/n{int(label):08d}/")


TINY_FLAGS = ("--images", "13", "--classes", "3", "--seed", "5", "--width", "64", "--height", "48")
WITHOUT = SMALL.model_copy(update={"val_images": 0})
"""As trainmark made it before there were validation pictures."""


@pytest.mark.process
def test_validation_pictures_have_the_class_folders_of_train(tmp_path: Path) -> None:
    assert main(["data", "make", str(tmp_path / "d"), *TINY_FLAGS]) == 0

    train, val = (
        {path.name: sorted(path.iterdir()) for path in (tmp_path / "d" / split).iterdir()}
        for split in ("train", "val")
    )
    assert train.keys() == val.keys() == {"n00000000", "n00000001", "n00000002"}
    assert all(val.values())
    both = [path for split in (train, val) for paths in split.values() for path in paths]
    assert len({path.read_bytes() for path in both}) == len(both) == 13 + 3
    assert main(["data", "verify", str(tmp_path / "d")]) == 0


@pytest.mark.parametrize(("images", "classes", "expected"), [(13, 3, 3), (1000, 10, 50), (40, 2, 2)])
def test_validation_defaults_to_a_twentieth_with_at_least_one_per_class(
    images: int, classes: int, expected: int
) -> None:
    assert spec_from({"images": images, "classes": classes}, "x").val_images == expected
    assert spec_from({"images": images, "classes": classes, "validation": 0}, "x").val_images == 0
    with pytest.raises(InputError, match=rf"^x: validation \(1\) is less than classes \({classes}\)$"):
        spec_from({"images": images, "classes": classes, "validation": 1}, "x")


@pytest.mark.process
def test_no_validation_pictures_are_created_if_none_are_requested(tmp_path: Path) -> None:
    assert main(["data", "make", str(tmp_path / "d"), *TINY_FLAGS, "--validation", "0"]) == 0

    manifest = json.loads((tmp_path / "d/dataset.json").read_text())
    assert {path.name for path in (tmp_path / "d").iterdir()} == {
        "train",
        "train_list.txt",
        "SHA256SUMS",
        "dataset.json",
    }
    # What earlier versions wrote, to the letter: the digest of old and new sets is one.
    assert list(manifest) == ["schema", "recipe", "images", "bytes", "sums_sha256"]
    assert list(manifest["recipe"]) == ["generator", "encoder", "spec"]
    assert main(["data", "verify", str(tmp_path / "d")]) == 0


def test_adding_validation_pictures_keeps_the_digest(tmp_path: Path) -> None:
    before = make_image_folder(tmp_path / "d", WITHOUT, jobs=1)
    inodes_before = inodes(tmp_path / "d")
    assert folder_state(tmp_path / "d", SMALL) is FolderState.UNFINISHED
    calls: list[tuple[int, int]] = []

    after = make_image_folder(tmp_path / "d", SMALL, jobs=1, progress=lambda *done: calls.append(done))

    at_once = make_image_folder(tmp_path / "at once", SMALL, jobs=1)
    assert before.digest == after.digest == at_once.digest
    assert contents(tmp_path / "d") == contents(tmp_path / "at once")
    assert inodes(tmp_path / "d").items() >= inodes_before.items()
    assert (calls[-1], after.images) == ((4, 4), 17)
    assert verify(tmp_path / "d").problems == ()


def test_adding_validation_pictures_resumes_before_the_manifest(tmp_path: Path) -> None:
    make_image_folder(tmp_path / "whole", SMALL, jobs=1)
    make_image_folder(tmp_path / "d", WITHOUT, jobs=1)
    old = (tmp_path / "d/dataset.json").read_bytes()
    make_image_folder(tmp_path / "d", SMALL, jobs=1)
    recipe = json.loads((tmp_path / "d/dataset.json").read_text())["recipe"]
    (tmp_path / "d/.making").mkdir()
    (tmp_path / "d/.making/recipe.json").write_text(json.dumps(recipe))
    (tmp_path / "d/dataset.json").write_bytes(old)

    with pytest.raises(InputError, match="interrupted"):
        describe(tmp_path / "d")
    make_image_folder(tmp_path / "d", SMALL, jobs=1)
    assert contents(tmp_path / "d") == contents(tmp_path / "whole")


def test_validation_pictures_of_a_later_encoder_do_not_change_training_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = make_image_folder(tmp_path / "d", WITHOUT, jobs=1)
    monkeypatch.setattr("trainmark.dataset.images.make.encoder_name", lambda: "Pillow 99")

    after = make_image_folder(tmp_path / "d", SMALL, jobs=1)

    recipe = json.loads((tmp_path / "d/dataset.json").read_text())["recipe"]
    assert recipe["encoder"].startswith("Pillow 1")
    assert recipe["val_encoder"] == "Pillow 99"
    assert before.digest == after.digest
    (tmp_path / "d/train/n00000000/n00000000_0.JPEG").unlink()
    with pytest.raises(InputError, match="Pillow 99 cannot reproduce them"):
        make_image_folder(tmp_path / "d", SMALL, jobs=1)


def test_a_foreign_val_folder_is_left_alone(tmp_path: Path) -> None:
    make_image_folder(tmp_path / "d", WITHOUT, jobs=1)
    (tmp_path / "d/val").symlink_to("train")

    with pytest.raises(InputError, match="val: is not part of this data set; move it away"):
        make_image_folder(tmp_path / "d", SMALL, jobs=1)
    assert len(inodes(tmp_path / "d/train")) == 13
    assert describe(tmp_path / "d").images == 13


def test_the_checksums_are_those_that_coreutils_reads(tmp_path: Path) -> None:
    program = shutil.which("sha256sum")
    if program is None:
        pytest.skip("sha256sum (GNU coreutils) is not installed")
    make_image_folder(tmp_path / "d", SMALL, jobs=1)
    subprocess.run([program, "--check", "--quiet", "--strict", "SHA256SUMS"], cwd=tmp_path / "d", check=True)


def test_a_complete_folder_is_left_unchanged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_image_folder(tmp_path / "d", SMALL, jobs=1)
    before = inodes(tmp_path / "d")

    def never(done: int, total: int) -> None:
        raise AssertionError("made something")

    make_image_folder(tmp_path / "d", SMALL, jobs=1, progress=never)
    assert inodes(tmp_path / "d") == before

    flags = [
        "--images",
        "13",
        "--val",
        "4",
        "--classes",
        "3",
        "--seed",
        "5",
        "--width",
        "64",
        "--height",
        "48",
    ]
    assert main(["data", "make", str(tmp_path / "d"), *flags]) == 0
    assert "already complete" in capsys.readouterr().out


def test_another_data_set_in_the_folder_is_refused_with_the_differences(tmp_path: Path) -> None:
    make_image_folder(tmp_path / "d", SMALL, jobs=1)
    before = contents(tmp_path / "d")
    with pytest.raises(InputError, match=r"holds another data set \(seed 5, not 6\)"):
        make_image_folder(tmp_path / "d", SMALL.model_copy(update={"seed": 6}), jobs=1)
    assert contents(tmp_path / "d") == before


def test_a_folder_with_other_files_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="is not empty"):
        make_image_folder(tmp_path, SMALL, jobs=1)
    with pytest.raises(InputError, match="is a file"):
        make_image_folder(tmp_path / "thesis.txt", SMALL, jobs=1)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_missing_files_of_a_complete_folder_are_recreated(tmp_path: Path) -> None:
    make_image_folder(tmp_path / "d", SMALL, jobs=1)
    before, inodes_before = contents(tmp_path / "d"), inodes(tmp_path / "d")
    shutil.rmtree(tmp_path / "d/train/n00000001")
    (tmp_path / "d/val_list.txt").unlink()
    with pytest.raises(InputError, match="data verify"):
        describe(tmp_path / "d")
    assert folder_state(tmp_path / "d", SMALL) is FolderState.DAMAGED

    make_image_folder(tmp_path / "d", SMALL, jobs=1)
    assert contents(tmp_path / "d") == before
    after = inodes(tmp_path / "d")
    assert {name for name in inodes_before if inodes_before[name] != after[name]} <= {
        name for name in inodes_before if name.startswith("n00000001_")
    }


def test_only_one_process_makes_a_folder_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "d/.making").mkdir(parents=True)
    with (tmp_path / "d/.making/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(TrainmarkError, match="another process is making"):
            make_image_folder(tmp_path / "d", SMALL, jobs=1)


LONG = ImageFolderSpec(images=400, val_images=20, classes=2, width=320, height=240)
LONG_FLAGS = ["--images", "400", "--classes", "2", "--width", "320", "--height", "240", "--jobs", "2"]


def start_making(directory: Path, at_least: int, *flags: str) -> Copy:
    """Start making LONG in a process group of its own, and return when some pictures are there."""
    maker = start_trainmark("data", "make", directory, *LONG_FLAGS, *flags)
    deadline = time.monotonic() + 300
    while sum(1 for _ in directory.rglob("*.JPEG")) < at_least:
        assert time.monotonic() < deadline
        assert maker.poll() is None, maker.communicate()
        time.sleep(0.01)
    return maker


def group_is_gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.process
@pytest.mark.parametrize("stop", [signal.SIGINT, pytest.param(signal.SIGKILL, marks=pytest.mark.rare)])
def test_an_interrupted_creation_never_looks_complete_and_resumes(
    tmp_path: Path, stop: signal.Signals
) -> None:
    directory = tmp_path / "d"
    maker = start_making(directory, at_least=20)
    # Ctrl-C reaches the whole group; signal 9 is sent to the parent alone, and its helpers must notice.
    if stop is signal.SIGINT:
        os.killpg(maker.pid, stop)
    else:
        maker.kill()
    out, err = maker.communicate(timeout=300)
    assert maker.returncode == (130 if stop is signal.SIGINT else -signal.SIGKILL)
    assert out == ""
    assert "Traceback" not in err
    if stop is signal.SIGINT:
        assert err == "trainmark data: interrupted; run the same command again to continue\n"
    wait_for_the_end_of(maker.pid)

    assert not (directory / "dataset.json").exists()
    assert main(["data", "verify", str(directory)]) == 2
    with pytest.raises(InputError, match="interrupted"):
        describe(directory)
    with pytest.raises(InputError, match="seed 0, not 1"):
        make_image_folder(directory, LONG.model_copy(update={"seed": 1}), jobs=1)

    inodes_before = inodes(directory)
    assert 20 <= len(inodes_before) < 400
    make_image_folder(directory, LONG, jobs=2)
    after = inodes(directory)
    assert all(after[name] == inode for name, inode in inodes_before.items())
    assert not (directory / ".making").exists()
    assert main(["data", "verify", str(directory)]) == 0


def wait_for_the_end_of(group: int) -> None:
    deadline = time.monotonic() + 300
    while not group_is_gone(group):
        assert time.monotonic() < deadline, "helper processes outlive their parent"
        time.sleep(0.01)


@pytest.mark.rare
def test_a_creation_killed_among_the_validation_pictures_resumes(tmp_path: Path) -> None:
    directory = tmp_path / "d"
    flags = ("--images", "4", "--validation", "300")
    spec = LONG.model_copy(update={"images": 4, "val_images": 300})
    maker = start_making(directory, 14, *flags)
    maker.kill()
    maker.communicate(timeout=300)
    wait_for_the_end_of(maker.pid)

    inodes_before = inodes(directory)
    assert 14 <= len(inodes_before) < 304
    assert folder_state(directory, spec) is FolderState.UNFINISHED
    assert main(["data", "verify", str(directory)]) == 2
    with pytest.raises(InputError, match="interrupted"):
        describe(directory)
    with pytest.raises(InputError, match="validation 300, not 200"):
        make_image_folder(directory, spec.model_copy(update={"val_images": 200}), jobs=1)

    make_image_folder(directory, spec, jobs=2)
    after = inodes(directory)
    assert all(after[name] == inode for name, inode in inodes_before.items())
    assert main(["data", "verify", str(directory)]) == 0


def test_a_picture_truncated_by_a_power_failure_is_recreated(tmp_path: Path) -> None:
    make_image_folder(tmp_path / "whole", SMALL, jobs=1)
    make_image_folder(tmp_path / "d", SMALL, jobs=1)
    # The state of an interrupted making: its recipe is there, and no manifest.
    interrupted = tmp_path / "d"
    recipe = json.loads((interrupted / "dataset.json").read_text())["recipe"]
    (interrupted / ".making").mkdir()
    (interrupted / ".making/recipe.json").write_text(json.dumps(recipe))
    (interrupted / "dataset.json").unlink()
    cut = interrupted / "train/n00000000/n00000000_0.JPEG"
    cut.write_bytes(cut.read_bytes()[:300])
    (interrupted / "train/n00000000/n00000000_3.JPEG").write_bytes(b"")

    assert folder_state(interrupted, SMALL) is FolderState.UNFINISHED
    make_image_folder(interrupted, SMALL, jobs=1)
    assert contents(interrupted) == contents(tmp_path / "whole")


@pytest.mark.rare
def test_a_full_disk_is_one_line_and_leaves_no_complete_data_set(tmp_path: Path) -> None:
    directory = tmp_path / "disk"
    directory.mkdir()
    script = f"""
        set -eu
        mount -t tmpfs -o size=40m none {directory}
        cd {directory}
        head -c $((40 * 1024 * 1024 - 600 * 1024)) /dev/zero > filler
        {sys.executable} -m trainmark.cli.main data make d {" ".join(LONG_FLAGS)} 2>{tmp_path}/err && exit 90
        echo "exit $?"
        test ! -e d/dataset.json
        find d -name '*.JPEG' | wc -l
        ls d/.making
        rm filler
        {sys.executable} -m trainmark.cli.main data make d {" ".join(LONG_FLAGS)} 2>>{tmp_path}/err
        {sys.executable} -m trainmark.cli.main data verify d
    """
    if subprocess.run(["unshare", "-rm", "mount", "-t", "tmpfs", "none", directory], check=False).returncode:
        pytest.skip("this machine does not let us mount a small disk (unshare -rm mount)")
    ran = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, check=False)
    error = (tmp_path / "err").read_text()
    assert ran.returncode == 0, (ran.stdout, ran.stderr, error)
    assert ran.stdout.startswith("exit 1\n")
    # On a slow machine it says now and then how far it is.
    message = [line for line in error.splitlines() if not line.startswith("creating: ")]
    assert len(message) == 1
    assert "the disk is full after" in message[0]
    assert ".tmp" not in ran.stdout
    assert "d: finished; 420 images" in ran.stdout
    assert "no problems found" in ran.stdout


def test_an_invalid_spec_is_refused_in_one_line_with_the_key() -> None:
    with pytest.raises(InputError, match=r"^suite.yaml:3: images \(5\) is less than classes \(10\)$"):
        spec_from({"images": 5}, "suite.yaml:3")
    with pytest.raises(InputError, match=r"imags: is not a key .*did you mean 'images'\?"):
        spec_from({"imags": 5}, "suite.yaml:3")
    with pytest.raises(InputError, match="sizes: Input should be 'mixed' or 'fixed'"):
        spec_from({"sizes": "random"}, "suite.yaml:3")


@pytest.mark.parametrize(
    "flags", [["--images", "0"], ["--sizes", "odd"], ["--images", "3", "--classes", "4"]]
)
def test_unusable_options_are_exit_code_2_and_make_nothing(
    tmp_path: Path, flags: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "make", str(tmp_path / "d"), *flags]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert not (tmp_path / "d").exists()


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrainmarkError, match="cannot be written"):
        make_image_folder(tmp_path / "file/d", SMALL, jobs=1)
