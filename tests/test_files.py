"""Files are written whole or not at all, and what is no file is not made one."""

import os
import stat
from pathlib import Path

from trainmark.files import write_atomically


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


def test_a_link_stays_and_the_file_that_it_leads_to_is_written(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere" / "report.md"
    target.parent.mkdir()
    target.write_text("old")
    link = tmp_path / "report.md"
    link.symlink_to(target)

    write_atomically(link, "new")

    assert link.is_symlink()
    assert target.read_text() == "new"
    assert list(target.parent.iterdir()) == [target]


def test_a_link_into_nowhere_leads_to_the_new_file(tmp_path: Path) -> None:
    link = tmp_path / "report.md"
    link.symlink_to(tmp_path / "there.md")

    write_atomically(link, "new")

    assert (tmp_path / "there.md").read_text() == "new"
