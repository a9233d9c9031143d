"""What an archive from another host may write here."""

import io
import os
import stat
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from trainmark.node.archives import pack_folder, unpack

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

    with pack_folder(folder) as content:
        unpack(content, tmp_path / "copy")

    found = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*")}
    assert found == {str(path.relative_to(folder)) for path in folder.rglob("*")}
    assert os.access(tmp_path / "copy/near", os.X_OK)
    assert (tmp_path / "copy/near").readlink() == Path("deep/er/program")
    (tmp_path / "copy/shut/later").write_text("ours, so it can be written to")


def too_long_to_be_resolved() -> list[tarfile.TarInfo]:
    """Return a way out whose links, written out, are longer than a path may be (CVE-2025-4517)."""
    folder, short, members, path = "d" * 247, "abcdefghijklmnop", [], Path()
    for name in short:
        members.append(member(str(path / folder), tarfile.DIRTYPE, mode=0o755))
        members.append(member(str(path / name), tarfile.SYMTYPE, folder))
        path /= folder
    long = "/".join([*short, "l" * 254])
    members.append(member(long, tarfile.SYMTYPE, "../" * len(short)))
    return [*members, member("out", tarfile.SYMTYPE, f"{long}/.."), member("out/beside")]


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
        [member("out", tarfile.SYMTYPE, ".."), member("beside", tarfile.LNKTYPE, "out")],
        [member("out", tarfile.SYMTYPE, "b/.."), member("b", tarfile.SYMTYPE, "."), member("out/beside")],
        [
            member("sound.d", tarfile.DIRTYPE),
            member("out", tarfile.SYMTYPE, "sound.d"),
            member("out/shut", tarfile.DIRTYPE, mode=0o755),
            member("out", tarfile.SYMTYPE, "b/.."),
            member("b", tarfile.SYMTYPE, "."),
        ],
        too_long_to_be_resolved(),
        [member("out", tarfile.SYMTYPE, "out"), member("out/beside")],
        [member("device", tarfile.CHRTYPE)],
        [member("device", tarfile.CHRTYPE), member("again", tarfile.LNKTYPE, "device")],
        [member("pipe", tarfile.FIFOTYPE)],
    ],
)
def test_what_leads_out_of_the_folder_and_devices_are_left(
    harmful: list[tarfile.TarInfo], tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "shut").mkdir(mode=0o700)

    unpack(archive(*harmful, member("sound")), tmp_path / "into")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["into", "secret", "shut"]
    assert (tmp_path / "secret").read_text() == "secret"
    assert stat.S_IMODE((tmp_path / "shut").stat().st_mode) == 0o700
    written = [path for path in (tmp_path / "into").rglob("*") if path.is_symlink() or not path.is_dir()]
    assert {path.name for path in written} <= {"sound", "beside", "b", *"abcdefghijklmnop"}
    assert all(os.path.realpath(path, strict=True).startswith(f"{tmp_path}/into") for path in written)
    assert not Path("/tmp/trainmark-absolute").exists()


def test_a_folder_arrives_a_second_time_whatever_links_it_has(tmp_path: Path) -> None:
    members = [
        member("leaf"),
        member("same", tarfile.LNKTYPE, "leaf"),
        member("deep", tarfile.DIRTYPE, mode=0o600),
        member("deep/leaf"),
        member("a", tarfile.SYMTYPE, "b"),
        member("b", tarfile.SYMTYPE, "a"),
        member("deep/near", tarfile.SYMTYPE, "../leaf"),
        member("later", tarfile.SYMTYPE, "missing"),
    ]
    for _ in range(2):
        unpack(archive(*members), tmp_path)
        found = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")}
        assert found == {"leaf", "same", "deep", "deep/leaf", "deep/near", "later"}
        assert (tmp_path / "same").samefile(tmp_path / "leaf")
        assert os.access(tmp_path / "deep", os.X_OK)


def test_what_arrives_is_ours_and_runs_as_nobody_else(tmp_path: Path) -> None:
    unpack(archive(member("program", mode=0o6777)), tmp_path)

    found = (tmp_path / "program").stat()
    assert (found.st_uid, found.st_gid) == (os.getuid(), os.getgid())
    assert stat.S_IMODE(found.st_mode) == 0o755


def test_debians_own_python_unpacks_too(tmp_path: Path, debian: Callable[[str], None]) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "leaf").write_text("leaf")

    debian(
        "from pathlib import Path; from trainmark.node.archives import pack_folder, unpack; "
        f"unpack(pack_folder(Path({str(tmp_path / 'folder')!r})), Path({str(tmp_path / 'copy')!r}))"
    )

    assert (tmp_path / "copy" / "leaf").read_text() == "leaf"


@pytest.fixture
def debian() -> Callable[[str], None]:
    if not DEBIAN_12.exists():
        pytest.skip(f"{DEBIAN_12} is not here")

    def run(program: str) -> None:
        subprocess.run([DEBIAN_12, "-c", program], env={"PYTHONPATH": str(SOURCE)}, check=True)

    return run
