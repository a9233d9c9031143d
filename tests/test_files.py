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
