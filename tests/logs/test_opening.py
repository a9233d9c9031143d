"""Compressed logs, archives of logs, pipes and devices."""

import bz2
import gzip
import io
import lzma
import os
import tarfile
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from preloading import call_trainmark
from trainmark.logs import Status
from trainmark.logs.lines.archives import archive_members
from trainmark.logs.synthetic import SampleRun
from trainmark.measure.rules import measure_log
from trainmark.programs import read_log, read_stream, synthetic_log

_TEXT = synthetic_log("ngc-pytorch-convnets", SampleRun([0.5] * 120, gpus=8, batch_per_device=64)).encode()
_PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("kind", _PACKERS)
def test_a_compressed_log_gives_the_same_number(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.log.{kind}"
    path.write_bytes(_PACKERS[kind](_TEXT))

    log = read_log(path)

    assert measure_log(log).value == pytest.approx(1024)
    assert measure_log(read_stream(io.BytesIO(path.read_bytes()))).value == pytest.approx(1024)


@pytest.mark.parametrize("kind", _PACKERS)
def test_two_compressed_parts_one_after_the_other_are_one_log(tmp_path: Path, kind: str) -> None:
    middle = _TEXT.index(b"\n", len(_TEXT) // 2) + 1
    packed = _PACKERS[kind](_TEXT[:middle]) + _PACKERS[kind](_TEXT[middle:])
    (tmp_path / "a.log").write_bytes(packed)

    assert read_log(tmp_path / "a.log").records.count == 120


@pytest.mark.parametrize("kind", _PACKERS)
def test_a_cut_compressed_log_gives_what_can_be_read_and_a_doubt(tmp_path: Path, kind: str) -> None:
    long = synthetic_log(
        "ngc-pytorch-convnets", SampleRun([0.5 + 0.0001 * (n * 7919 % 997) for n in range(9000)])
    )
    packed = _PACKERS[kind](long.encode())
    path = tmp_path / "a.log"
    path.write_bytes(packed[: len(packed) * 9 // 10])

    log = read_log(path)

    damage = [problem for problem in log.problems if "damaged or cut" in problem.message]
    assert damage
    assert log.status is Status.OK or "stream is damaged or cut" in damage[0].message


def _tar(folder: Path, name: str) -> Path:
    (folder / "logs").mkdir(exist_ok=True)
    (folder / "logs" / "a.log").write_bytes(_TEXT)
    (folder / "logs" / "b.log.gz").write_bytes(gzip.compress(_TEXT))
    (folder / "logs" / ".hidden").write_bytes(b"x")
    inner = folder / "logs" / "inner.zip"
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("c.log", _TEXT)
    path = folder / name
    if name.endswith(".zip"):
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in sorted((folder / "logs").iterdir()):
                archive.write(file, f"logs/{file.name}")
        return path
    mode = {".tar": "w", ".gz": "w:gz", ".tgz": "w:gz", ".bz2": "w:bz2", ".xz": "w:xz"}.get(path.suffix)
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as tar:
        tar.add(folder / "logs", "logs")
    if mode is None:
        path.write_bytes(_PACKERS["zst"](plain.getvalue()))
    else:
        with tarfile.open(path, mode) as tar:  # type: ignore[call-overload]
            tar.add(folder / "logs", "logs")
    return path


@pytest.mark.parametrize(
    "name", ["a.tar", "a.tar.gz", "a.tgz", "a.tar.bz2", "a.tar.xz", "a.tar.zst", "a.zip"]
)
def test_each_member_of_an_archive_is_read_and_nothing_is_unpacked_to_the_disk(
    tmp_path: Path, name: str
) -> None:
    path = _tar(tmp_path, name)
    for file in (tmp_path / "logs").iterdir():
        file.unlink()

    done = call_trainmark("parse", path)

    assert done.stdout.count("1024  images/s  ok") == 2
    assert f"{path}/logs/a.log" in done.stdout
    assert "an archive in an archive: unpack it first" in done.stdout
    assert ".hidden" not in done.stdout
    assert list((tmp_path / "logs").iterdir()) == []


@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz", "a.tar.zst", "a.zip"])
def test_a_damaged_archive_is_one_unreadable_file(tmp_path: Path, name: str) -> None:
    path = _tar(tmp_path, name)
    path.write_bytes(
        path.read_bytes()[: path.stat().st_size // 3] if name == "a.zip" else b"not an archive" * 99
    )

    done = call_trainmark("parse", path)

    assert done.returncode == 1
    assert "the archive is damaged or cut" in done.stdout


def test_the_names_in_an_archive_are_only_names(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as tar:
        entry = tarfile.TarInfo("../../etc/a.log")
        entry.size = len(_TEXT)
        tar.addfile(entry, io.BytesIO(_TEXT))

    assert [name for name, _ in archive_members(tmp_path / "a.tar")] == [f"{tmp_path}/a.tar/../../etc/a.log"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.tar"]


def test_a_pipe_without_a_writer_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    log = read_log(tmp_path / "pipe")

    assert log.status is Status.UNREADABLE
    assert "a pipe that nothing writes to" in log.problems[0].message


def test_a_pipe_with_a_writer_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    # Open for both, so that neither end waits for the other; the pipe's buffer holds the whole log.
    descriptor = os.open(tmp_path / "pipe", os.O_RDWR)
    assert os.write(descriptor, _TEXT) == len(_TEXT)
    closing = threading.Timer(0.5, os.close, [descriptor])
    closing.start()

    log = read_log(tmp_path / "pipe")
    closing.join()

    assert log.records.count == 120


def test_a_device_without_end_is_refused() -> None:
    assert "is a device" in read_log("/dev/zero").problems[0].message
    assert read_log("/dev/null").status is Status.EMPTY


def test_several_processes_print_the_same_in_the_same_order(tmp_path: Path) -> None:
    for number in range(150):
        (tmp_path / f"{number:03}.log").write_bytes(_TEXT if number % 3 else b"nothing\n")
    (tmp_path / "z.tar").write_bytes(b"")

    one, three = (call_trainmark("parse", tmp_path, "--json", "-j", jobs) for jobs in ("1", "3"))

    assert three.stdout == one.stdout
    assert three.returncode == one.returncode == 1
    assert len(one.stdout.splitlines()) == 151


def test_processes_and_standard_input_exclude_each_other(tmp_path: Path) -> None:
    done = call_trainmark("parse", "-", "-j", "2")

    assert done.returncode == 2
    assert "-j reads files" in done.stderr
