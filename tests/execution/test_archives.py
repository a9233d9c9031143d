"""What an archive from another host may write here."""

import io
import os
import stat
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from trainmark.node.archives import packed, unpack

SOURCE = Path(__file__).parents[2] / "src"
DEBIAN_12 = Path("/usr/bin/python3.11")
"""3.11.2 there, whose tarfile has no filters."""


def archive(*members: tarfile.TarInfo) -> io.BytesIO:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as file:
        for member in members:
            file.addfile(member, io.BytesIO(b"x" * member.size))
    content.seek(0)
    return content


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, link, mode
    made.size = int(kind == tarfile.REGTYPE)
    made.uid = made.gid = 12345
    return made


def test_a_folder_arrives_as_it_was(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "deep" / "er" / "program").write_text("run")
    (folder / "deep" / "er" / "program").chmod(0o755)
    (folder / "near").symlink_to("deep/er/program")
    (folder / "shut").mkdir()
    (folder / "shut" / "leaf").write_text("leaf")
    (folder / "shut").chmod(0o555)

    with packed(folder) as content:
        unpack(content, tmp_path / "copy")

    found = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*")}
    assert found == {str(path.relative_to(folder)) for path in folder.rglob("*")}
    assert os.access(tmp_path / "copy/near", os.X_OK)
    assert (tmp_path / "copy/near").readlink() == Path("deep/er/program")
    (tmp_path / "copy/shut/later").write_text("ours, so it can be written to")


@pytest.mark.parametrize(
    "harmful",
    [
        [member("../beside")],
        [member("/tmp/trainmark-absolute")],
        [member("deep/../../beside")],
        [member("out", tarfile.SYMTYPE, "..")],
        [member("out", tarfile.SYMTYPE, "/etc/passwd")],
        [member("out", tarfile.SYMTYPE, ".."), member("out/beside")],
        [member("deep", tarfile.DIRTYPE), member("deep/out", tarfile.SYMTYPE, "../..")],
        [member("out", tarfile.LNKTYPE, "../secret")],
        [member("device", tarfile.CHRTYPE)],
        [member("pipe", tarfile.FIFOTYPE)],
    ],
)
def test_what_leads_out_of_the_folder_and_devices_are_left(
    harmful: list[tarfile.TarInfo], tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("secret")

    unpack(archive(*harmful, member("sound")), tmp_path / "into")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["into", "secret"]
    written = [path for path in (tmp_path / "into").rglob("*") if not path.is_dir()]
    assert {path.name for path in written} <= {"sound", "beside"}
    assert all(path.resolve().is_relative_to(tmp_path / "into") for path in written)
    assert not Path("/tmp/trainmark-absolute").exists()


def test_what_arrives_is_ours_and_runs_as_nobody_else(tmp_path: Path) -> None:
    unpack(archive(member("program", mode=0o6777)), tmp_path)

    found = (tmp_path / "program").stat()
    assert (found.st_uid, found.st_gid) == (os.getuid(), os.getgid())
    assert stat.S_IMODE(found.st_mode) == 0o755


def test_debians_own_python_unpacks_too(tmp_path: Path, debian: Callable[[str], None]) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "leaf").write_text("leaf")

    debian(
        "from pathlib import Path; from trainmark.node.archives import packed, unpack; "
        f"unpack(packed(Path({str(tmp_path / 'folder')!r})), Path({str(tmp_path / 'copy')!r}))"
    )

    assert (tmp_path / "copy" / "leaf").read_text() == "leaf"


@pytest.fixture
def debian() -> Callable[[str], None]:
    if not DEBIAN_12.exists():
        pytest.skip(f"{DEBIAN_12} is not here")

    def run(program: str) -> None:
        subprocess.run([DEBIAN_12, "-c", program], env={"PYTHONPATH": str(SOURCE)}, check=True)

    return run
