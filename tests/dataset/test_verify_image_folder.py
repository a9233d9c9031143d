"""Verifying image folders: made ones against their checksums, foreign ones by what they say of themselves."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from trainmark.cli.main import main
from trainmark.dataset import DatasetProblem, Depth, ProblemKind, VerifyReport
from trainmark.dataset.images import ImageFolderSpec, describe, make_image_folder, verify_image_folder
from trainmark.errors import InputError

SMALL = ImageFolderSpec(images=12, val_images=3, classes=3, width=64, height=48)
A = "train/n00000000/n00000000_0.JPEG"
A2 = "train/n00000000/n00000000_3.JPEG"
B = "train/n00000001/n00000001_1.JPEG"


@pytest.fixture(scope="session")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("pristine") / "d"
    make_image_folder(directory, SMALL, jobs=1)
    return directory


@pytest.fixture
def made(pristine: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(pristine, tmp_path / "made"))


@pytest.fixture
def foreign(pristine: Path, tmp_path: Path) -> Path:
    """A folder with lists that trainmark knows nothing of."""
    directory = Path(shutil.copytree(pristine, tmp_path / "foreign"))
    (directory / "dataset.json").unlink()
    (directory / "SHA256SUMS").unlink()
    return directory


def found(report: VerifyReport) -> set[tuple[str, str]]:
    return {(problem.kind.value, problem.path) for problem in report.problems}


def swap(directory: Path, one: str, other: str) -> None:
    (directory / one).rename(directory / "swap")
    (directory / other).rename(directory / one)
    (directory / "swap").rename(directory / other)


def flip_a_byte(directory: Path) -> None:
    data = bytearray((directory / A).read_bytes())
    data[len(data) * 2 // 3] ^= 0x10
    (directory / A).write_bytes(data)


def cut(directory: Path) -> None:
    os.truncate(directory / A, 900)


def edit(directory: Path, file: str, old: str, new: str) -> None:
    text = (directory / file).read_text()
    assert old in text
    (directory / file).write_text(text.replace(old, new))


def test_a_fresh_folder_has_no_problem_and_no_limit(made: Path) -> None:
    report = verify_image_folder(made)
    assert report.problems == ()
    assert report.limits == ()
    assert report.made
    assert report.lists == ("train_list.txt", "val_list.txt")
    assert report.files == 17
    names = ("*.JPEG", "*_list.txt")
    assert report.bytes == sum(path.stat().st_size for name in names for path in made.rglob(name))


DAMAGES: dict[str, tuple[Callable[[Path], object], set[tuple[str, str]]]] = {
    "missing": (lambda d: (d / A).unlink(), {("missing", A)}),
    "truncated": (cut, {("truncated", A)}),
    "emptied": (lambda d: (d / A).write_bytes(b""), {("truncated", A)}),
    "zeroed": (lambda d: (d / A).write_bytes(b"\0" * 5000), {("truncated", A)}),
    "flipped": (flip_a_byte, {("corrupted", A)}),
    "text": (lambda d: (d / A).write_text("<html>404 not found</html>"), {("undecodable", A)}),
    "swapped between classes": (lambda d: swap(d, A, B), {("mislabelled", A), ("mislabelled", B)}),
    "swapped within a class": (lambda d: swap(d, A, A2), {("corrupted", A), ("corrupted", A2)}),
    "moved to another class": (
        lambda d: (d / A).rename(d / "train/n00000001/n00000001_90.JPEG"),
        {("missing", A), ("mislabelled", "train/n00000001/n00000001_90.JPEG")},
    ),
    "renamed": (
        lambda d: (d / A).rename(d / "train/n00000000/other.JPEG"),
        {("missing", A), ("extra", "train/n00000000/other.JPEG")},
    ),
    "copied": (
        lambda d: shutil.copy(d / A, d / "train/n00000001/copy.JPEG"),
        {("duplicate", "train/n00000001/copy.JPEG"), ("extra", "train/n00000001/copy.JPEG")},
    ),
    "extra": (lambda d: (d / "train/notes.txt").write_text("x"), {("extra", "train/notes.txt")}),
    "list edited": (
        lambda d: edit(d, "train_list.txt", f"{A} 0", f"{A} 2"),
        {("corrupted", "train_list.txt"), ("mislabelled", A)},
    ),
    "list line lost": (
        lambda d: edit(d, "train_list.txt", f"{A} 0\n", ""),
        {("corrupted", "train_list.txt")},
    ),
    "list lost": (lambda d: (d / "val_list.txt").unlink(), {("missing", "val_list.txt")}),
    "checksums lost": (lambda d: (d / "SHA256SUMS").unlink(), {("missing", "SHA256SUMS")}),
    "checksums edited": (
        lambda d: edit(d, "SHA256SUMS", "train_list.txt\n", "train_list.txt\n\n"),
        {("corrupted", "SHA256SUMS")},
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_verification_of_a_created_folder_reports_exactly_the_damage(made: Path, damage: str) -> None:
    harm, expected = DAMAGES[damage]
    harm(made)
    assert found(verify_image_folder(made)) == expected


def test_the_report_does_not_depend_on_the_number_of_processes(made: Path) -> None:
    cut(made)
    swap(made, A2, B)
    assert verify_image_folder(made, jobs=2) == verify_image_folder(made, jobs=1)


def test_a_damaged_manifest_is_an_input_error_with_a_remedy(made: Path) -> None:
    (made / "dataset.json").write_text("{")
    with pytest.raises(InputError, match=r"dataset\.json: is not JSON; remove the folder"):
        verify_image_folder(made)
    (made / "dataset.json").write_text('{"schema": "trainmark.dataset/9"}')
    with pytest.raises(InputError, match=r"dataset\.json: schema"):
        verify_image_folder(made)


def test_a_foreign_folder_is_checked_by_its_lists_with_stated_limits(foreign: Path) -> None:
    report = verify_image_folder(foreign)
    assert report.problems == ()
    assert not report.made
    assert report.limits == (
        "no checksums: modified pixels are not found",
        "pictures were not decoded: damage that only a decoder detects is not found (use --deep)",
    )
    assert verify_image_folder(foreign, depth=Depth.DECODE).limits == report.limits[:1]


def test_a_foreign_folder_shows_missing_truncated_mislabelled_extra_and_duplicate_files(
    foreign: Path,
) -> None:
    (foreign / A).unlink()
    os.truncate(foreign / B, 1000)
    edit(foreign, "train_list.txt", f"{A2} 0", f"{A2} 1")
    shutil.copy(foreign / A2, foreign / "train/n00000002/again.JPEG")
    assert found(verify_image_folder(foreign)) == {
        ("missing", A),
        ("truncated", B),
        ("mislabelled", A2),
        ("extra", "train/n00000002/again.JPEG"),
        ("duplicate", "train/n00000002/again.JPEG"),
    }


def test_a_split_that_no_list_names_is_not_extra(foreign: Path) -> None:
    (foreign / "val_list.txt").unlink()
    assert verify_image_folder(foreign).problems == ()


def test_blanks_and_other_scripts_in_names_are_read(foreign: Path) -> None:
    (foreign / "train/n00000001").rename(foreign / "train/ein schöner 猫 Ordner")
    edit(foreign, "train_list.txt", "train/n00000001/", "train/ein schöner 猫 Ordner/")
    (foreign / A).rename(foreign / "train/n00000000/a  photo.jpg")
    edit(foreign, "train_list.txt", A, "train/n00000000/a  photo.jpg")
    # The name of the folder still stands in its files' names, but it is no WordNet id: nothing contradicts.
    assert verify_image_folder(foreign).problems == ()
    assert describe(foreign).classes == 4


def test_a_list_may_have_windows_line_ends_tabs_and_a_mark_at_its_start(foreign: Path) -> None:
    text = (foreign / "train_list.txt").read_text()
    (foreign / "train_list.txt").write_bytes(
        b"\xef\xbb\xbf" + text.replace(" ", "\t").replace("\n", "\r\n").encode()
    )
    assert verify_image_folder(foreign).problems == ()


def test_a_list_may_be_relative_to_its_split(foreign: Path) -> None:
    text = (foreign / "train_list.txt").read_text().replace("train/", "")
    (foreign / "train_list.txt").unlink()
    (foreign / "train.txt").write_text(text)
    assert verify_image_folder(foreign).problems == ()


def test_a_list_outside_the_folder_can_be_named(foreign: Path, tmp_path: Path) -> None:
    other = tmp_path / "my list.txt"
    other.write_text(f"{A} 0\n{A2} 0\nno label here\n{A2} 0\n{foreign / B} 1\n")
    report = verify_image_folder(foreign, lists=[other])
    kinds = [problem.kind for problem in report.problems if problem.kind is not ProblemKind.EXTRA]
    assert kinds == [ProblemKind.BAD_LIST, ProblemKind.DUPLICATE]
    assert report.problems[0] == DatasetProblem(
        "my list.txt", ProblemKind.BAD_LIST, "1 lines are not 'path label'; the first is my list.txt:3"
    )
    with pytest.raises(InputError, match="cannot be read"):
        verify_image_folder(foreign, lists=[tmp_path / "none.txt"])


def test_an_empty_list_is_a_problem(foreign: Path) -> None:
    (foreign / "val_list.txt").write_text("\n")
    assert ("bad-list", "val_list.txt") in found(verify_image_folder(foreign))
    with pytest.raises(InputError, match="no line 'path label'"):
        describe(foreign)


def test_a_flat_layout_has_no_labels_to_contradict(foreign: Path) -> None:
    flat = foreign / "val"
    lines = []
    for number, path in enumerate(sorted(flat.rglob("*.JPEG"))):
        path.rename(flat / path.name)
        path.parent.rmdir()
        lines.append(f"val/{path.name} {number % 2}\n")
    (foreign / "val_list.txt").write_text("".join(lines))
    shutil.rmtree(foreign / "train")
    (foreign / "train_list.txt").unlink()
    report = verify_image_folder(foreign)
    assert report.problems == ()
    assert "the folders are not classes: labels were not checked" in report.limits
    assert describe(foreign).classes == 2


def test_without_a_list_an_imagenet_name_in_another_class_is_mislabelled(foreign: Path) -> None:
    for name in ("train_list.txt", "val_list.txt"):
        (foreign / name).unlink()
    moved = "train/n00000002/n00000000_0.JPEG"
    (foreign / A).rename(foreign / moved)
    report = verify_image_folder(foreign)
    assert found(report) == {("mislabelled", moved)}
    assert "no list file: labels were not checked" in report.limits


def test_deep_finds_damage_that_only_a_decoder_detects(foreign: Path) -> None:
    # Without its first quantisation table, the markers still follow one another.
    data = (foreign / A).read_bytes()
    at = data.index(b"\xff\xdb")
    length = int.from_bytes(data[at + 2 : at + 4], "big")
    (foreign / A).write_bytes(data[:at] + data[at + 2 + length :])
    assert verify_image_folder(foreign).problems == ()
    report = verify_image_folder(foreign, depth=Depth.DECODE)
    assert found(report) == {("undecodable", A)}


def test_links_are_followed_and_cycles_end(foreign: Path, tmp_path: Path) -> None:
    (foreign / "train/n00000001").rename(tmp_path / "elsewhere")
    (foreign / "train/n00000001").symlink_to(tmp_path / "elsewhere")
    (foreign / "train/round").symlink_to(foreign)
    assert verify_image_folder(foreign).problems == ()
    (foreign / "train/n00000000/gone.JPEG").symlink_to(tmp_path / "nothing")
    assert found(verify_image_folder(foreign)) == {
        ("missing", "train/n00000000/gone.JPEG"),
        ("extra", "train/n00000000/gone.JPEG"),
    }


def test_a_path_that_is_not_an_image_folder_is_an_input_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    for name, message in (("none", "no such folder"), ("empty", "holds no pictures"), ("file", "is a file")):
        for function in (verify_image_folder, describe):
            with pytest.raises(InputError, match=message):
                function(tmp_path / name)


def test_the_digest_of_a_foreign_folder_follows_its_names_sizes_and_labels(foreign: Path) -> None:
    before = describe(foreign)
    assert (before.images, before.classes, before.spec) == (15, 3, None)
    assert describe(foreign) == before
    edit(foreign, "val_list.txt", " 1\n", " 2\n")
    relabelled = describe(foreign)
    (foreign / A).write_bytes((foreign / A).read_bytes() + b"\0")
    assert len({before.digest, relabelled.digest, describe(foreign).digest}) == 3


@pytest.mark.process
def test_the_command_prints_one_object_a_problem_and_a_summary(
    made: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["data", "verify", str(made), "--json"]) == 0
    capsys.readouterr()
    cut(made)
    assert main(["data", "verify", str(made), "--json"]) == 1
    problem, summary = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert problem == {"problem": "truncated", "path": A, "detail": "no end marker in its 900 bytes"}
    assert summary["summary"]["problems"] == {"truncated": 1}
    assert main(["data", "verify", str(made)]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"truncated    {A}: no end marker in its 900 bytes",
        f"{made}: 17 files, {summary['summary']['bytes'] / 1e6:.1f} MB read, 1 problem found",
    ]


@pytest.mark.process
def test_a_name_that_is_not_utf_8_is_printed_and_read_back(
    foreign: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = b"\xff\x1b[31m.JPEG"
    (foreign / "train/n00000000" / os.fsdecode(name)).touch()
    assert main(["data", "verify", str(foreign), "--json"]) == 1
    paths = {json.loads(line).get("path") for line in capsys.readouterr().out.splitlines()}
    assert os.fsdecode(b"train/n00000000/" + name) in paths
    assert main(["data", "verify", str(foreign)]) == 1
    assert "\x1b" not in capsys.readouterr().out
