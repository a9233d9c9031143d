"""Archives of result directories: whole and equal on arrival; forged, cut or changed ones are refused."""

import io
import json
import math
import re
import shutil
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

from trainmark.archive import extract_archive, write_archive
from trainmark.cli.main import main
from trainmark.errors import InputError

PROGRAM = (
    "for step in range(1, 31):\n"
    "    print(f'step {step} loss 1.0 throughput: {1000 + step % 7:.2f} samples/s', flush=True)\n"
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the result directory of a command that was run three times."""
    folder = tmp_path_factory.mktemp("command")
    (folder / "train.py").write_text(PROGRAM)
    out = folder / "out"
    words = ["run", "--out", str(out), "--repeats", "3", "--skip", "2"]
    words += ["--require", "throughput=1e9 samples/s"]
    # Exit code 1: the format of an unknown program is guessed.
    assert main([*words, "--", sys.executable, str(folder / "train.py")]) in (0, 1)
    return out


@pytest.fixture(scope="module")
def archive(results: Path) -> Path:
    assert main(["archive", str(results)]) == 0
    return results.with_name("out.tar.zst")


def changed(source: Path, target: Path, change: Callable[[str, bytes], tuple[str, bytes] | None]) -> Path:
    """Write an archive whose members are changed (None leaves one out)."""
    with source.open("rb") as raw, zstandard.ZstdDecompressor().stream_reader(raw) as stream:
        content = stream.read()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=io.BytesIO(content)) as old, tarfile.open(fileobj=buffer, mode="w") as new:
        for member in old:
            file = old.extractfile(member)
            assert file is not None
            made = change(member.name, file.read())
            if made is not None:
                info = tarfile.TarInfo(made[0])
                info.size = len(made[1])
                new.addfile(info, io.BytesIO(made[1]))
    target.write_bytes(zstandard.ZstdCompressor().compress(buffer.getvalue()))
    return target


def archive_edited(results: Path, target: Path, edit: Callable[[Any], None]) -> None:
    """Archive the directory with ``edit`` made to its results.json, which stays as it was."""
    text = (results / "results.json").read_text()
    document = json.loads(text)
    edit(document)
    (results / "results.json").write_text(json.dumps(document))
    try:
        write_archive(results, target, "s", None, (results / "card.yaml",))
    finally:
        (results / "results.json").write_text(text)


def test_the_line_of_an_archive_has_the_number_of_its_files_and_both_sizes(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["archive", str(results), "--out", str(tmp_path / "r.tar.zst")]) == 0

    assert re.search(r"r\.tar\.zst: \d+ files, [\d ]+ bytes packed into [\d ]+\n", capsys.readouterr().out)


def test_an_archive_replaces_no_file_but_an_earlier_archive_of_its_directory(
    results: Path, archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, less = tmp_path / "a.tar.zst", tmp_path / "less"
    shutil.copytree(results, less)
    (run,) = less.glob("runs/*/3")
    shutil.rmtree(run)
    (less / "results.json").write_text((results / "results.json").read_text())

    assert main(["archive", str(less), "--out", str(target)]) == 0
    assert main(["archive", str(results), "--out", str(target)]) == 0
    whole = target.read_bytes()
    assert main(["archive", str(less), "--out", str(target)]) == 2
    assert "exists and has 1 run that" in capsys.readouterr().err
    assert target.read_bytes() == whole

    (tmp_path / "notes.txt").write_text("years of work")
    assert main(["archive", str(results), "--out", str(tmp_path / "notes.txt")]) == 2
    assert "notes.txt: exists and is not an archive of results; give another --out" in capsys.readouterr().err
    assert (tmp_path / "notes.txt").read_text() == "years of work"


def test_an_archive_that_is_cut_off_names_few_of_its_missing_files(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def cut(name: str, data: bytes) -> tuple[str, bytes] | None:
        return (name, data) if name == "ARCHIVE.json" else None

    assert main(["verify", str(changed(archive, tmp_path / "a.tar.zst", cut))]) == 1

    printed = capsys.readouterr().out
    assert printed.count(": is missing\n") == 5
    assert "missing: it may be cut off or damaged" in printed


def test_an_archive_gives_the_same_numbers_on_arrival(
    archive: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", str(archive)]) == 0

    out = capsys.readouterr().out
    assert "all files are as listed" in out
    assert "3 runs of 1 case give the same numbers, to the last digit" in out


def test_the_extracted_directory_is_that_of_the_run(archive: Path, results: Path, tmp_path: Path) -> None:
    assert main(["verify", str(archive), "--into", str(tmp_path / "received"), "--json"]) == 0

    for name in ("results.json", "suite.yaml", "card.yaml"):
        assert (tmp_path / "received" / name).read_bytes() == (results / name).read_bytes()


def test_a_number_that_does_not_follow_from_its_log_is_found(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = (results / "results.json").read_text()
    log = next(results.glob("runs/*/1/train.log"))
    text = log.read_text()
    log.write_text(text.replace("throughput: 1000.00", "throughput: 4000.00"))
    try:
        write_archive(results, tmp_path / "a.tar.zst", "s", None, (results / "card.yaml",))
    finally:
        log.write_text(text)

    assert main(["verify", str(tmp_path / "a.tar.zst")]) == 1
    assert "by its log" in capsys.readouterr().out
    assert (results / "results.json").read_text() == document


def test_a_document_that_contradicts_itself_is_a_difference_and_no_usage_error(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def edit(document: Any) -> None:
        document["cases"][0]["estimate"]["median"] *= 1.2

    archive_edited(results, tmp_path / "a.tar.zst", edit)

    assert main(["verify", str(tmp_path / "a.tar.zst")]) == 1
    # The path is that in the archive and not of a temporary folder.
    assert "\n  differs: results.json: " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("path", "figure"),
    [
        (("runs", 1, "measurement", "throughput"), "run 2: its throughput"),
        (("estimate", "mean"), "its mean"),
        (("estimate", "std"), "its std"),
        (("estimate", "maximum"), "its maximum"),
        (("compiled_ahead_s",), "its compiled_ahead_s is "),
    ],
    ids=lambda found: found if isinstance(found, str) else found[-1],
)
def test_a_figure_that_was_edited_by_its_last_digit_is_found(
    path: tuple[str | int, ...],
    figure: str,
    results: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def edit(document: Any) -> None:
        place = document["cases"][0]
        for key in path[:-1]:
            place = place[key]
        # The next number above, which is a change of the last binary digit.
        place[path[-1]] = math.nextafter(place[path[-1]] or 0.0, math.inf)

    archive_edited(results, tmp_path / "a.tar.zst", edit)

    assert main(["verify", str(tmp_path / "a.tar.zst")]) == 1
    assert figure in capsys.readouterr().out


def test_a_required_value_that_the_logs_do_not_show_is_not_met(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def edit(document: Any) -> None:
        document["findings"]["requirements"][0]["verdict"] = "met"

    archive_edited(results, tmp_path / "a.tar.zst", edit)

    assert main(["verify", str(tmp_path / "a.tar.zst")]) == 1
    assert "its required throughput is met in results.json, but " in capsys.readouterr().out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda name, data: (name, data[:-1] + b"x") if name.endswith("train.log") else (name, data),
            "its digest is",
        ),
        (lambda name, data: None if name.endswith("train.log") else (name, data), "is missing"),
        (
            lambda name, data: (name, data + b"x") if name == "suite.yaml" else (name, data),
            "is not the file of",
        ),
        (lambda name, data: (f"{name}2", data) if name == "runs.csv" else (name, data), "is not in the list"),
    ],
    ids=["changed", "missing", "longer", "renamed"],
)
def test_a_file_that_is_not_as_listed_is_named(
    change: Callable[[str, bytes], tuple[str, bytes] | None],
    message: str,
    archive: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["verify", str(changed(archive, tmp_path / "a.tar.zst", change))]) == 1

    assert message in capsys.readouterr().out


@pytest.mark.parametrize("path", ["../escaped", "/tmp/escaped", "a/../../escaped", "a\\..\\b", "./a", "a//b"])
def test_a_path_out_of_the_archive_is_refused_and_nothing_is_written(
    path: str, archive: Path, tmp_path: Path
) -> None:
    def change(name: str, data: bytes) -> tuple[str, bytes]:
        if name != "ARCHIVE.json":
            return (path if name == "runs.csv" else name), data
        document = json.loads(data)
        for one in document["files"]:
            one["path"] = path if one["path"] == "runs.csv" else one["path"]
        return name, json.dumps(document).encode()

    forged = changed(archive, tmp_path / "a.tar.zst", change)
    (tmp_path / "into").mkdir()

    with pytest.raises(InputError, match="leads out of the archive"):
        extract_archive(forged, tmp_path / "into")
    assert list((tmp_path / "into").iterdir()) == []


def test_an_archive_that_is_cut_off_is_one_line_and_exit_code_2(
    archive: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = archive.read_bytes()
    for size in (0, 10, len(whole) // 2, len(whole) - 5):
        (tmp_path / "cut").write_bytes(whole[:size])

        assert main(["verify", str(tmp_path / "cut")]) in (1, 2)
        captured = capsys.readouterr()
        assert (captured.err.count("\n") == 1) != ("differs:" in captured.out)


def test_a_link_is_left_out_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], results: Path
) -> None:
    (results / "link").symlink_to("/etc/passwd")
    try:
        assert main(["archive", str(results), "--out", str(tmp_path / "a.tar.zst"), "--json"]) == 0
    finally:
        (results / "link").unlink()

    captured = capsys.readouterr()
    assert "left out, because it is not a regular file" in captured.err
    assert "link" not in [one["path"] for one in json.loads(captured.out)["files"]]


def test_a_directory_without_results_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["archive", str(tmp_path)]) == 2

    assert "has no results.json" in capsys.readouterr().err
