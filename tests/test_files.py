"""Files are written whole or not at all, and what is no file is not made one."""

import os
import stat
from pathlib import Path

import pytest

from trainmark.files import write_atomically, write_run_file


def test_a_pipe_is_written_into_and_stays_one(tmp_path: Path) -> None:
    # As root, /dev/null would be a file from then on, for all programs of the machine.
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)

    write_atomically(pipe, "a report\n")

    assert os.read(reader, 100) == b"a report\n"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


def test_a_link_is_replaced_and_what_it_leads_to_is_left_alone(tmp_path: Path) -> None:
    pipe, target = tmp_path / "pipe", tmp_path / "elsewhere.md"
    os.mkfifo(pipe)
    target.write_text("old")
    for leads_to in (target, pipe, tmp_path / "nowhere"):
        link = tmp_path / "report.md"
        link.unlink(missing_ok=True)
        link.symlink_to(leads_to)

        write_atomically(link, "new")

        assert not link.is_symlink()
        assert link.read_text() == "new"
    assert target.read_text() == "old"
    assert not (tmp_path / "nowhere").exists()


def test_a_file_of_a_run_takes_the_place_of_what_its_program_has_put_there(tmp_path: Path) -> None:
    path = tmp_path / "outcome.json"
    (path / "inner").mkdir(parents=True)
    write_run_file(path, "one")
    assert path.read_text() == "one"
    path.unlink()
    os.mkfifo(path)
    write_run_file(path, b"two")
    assert path.read_bytes() == b"two"


def test_a_failed_write_leaves_the_old_file_of_a_run_and_no_temporary_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "outcome.json"
    write_run_file(path, "old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_run_file(path, "new")
    assert [child.name for child in tmp_path.iterdir()] == ["outcome.json"]
    assert path.read_text() == "old"


def test_a_file_that_cannot_be_written_is_named_and_not_its_temporary_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        write_atomically(tmp_path / "missing" / "report.md", "new")

    assert raised.value.filename == str(tmp_path / "missing" / "report.md")
