"""The kept results: few files, whole archives, and runs that can be read again."""

import hashlib
import json
import lzma
import tarfile
from pathlib import Path

import pytest

from trainmark.cli.main import main
from trainmark.node.archives import unpack

RESULTS = Path(__file__).parents[2] / "docs" / "results"
STORED = sorted(path for path in RESULTS.iterdir() if path.is_dir())
MOST_BYTES = 400_000
"""Of an archive (docs/adr/0015)."""
SMALLEST = "h200-scaling"
"""The result whose runs are the fewest."""


@pytest.fixture
def unpacked(tmp_path: Path) -> Path:
    for name in ("suite.yaml", "results.json"):
        (tmp_path / name).write_bytes((RESULTS / SMALLEST / name).read_bytes())
    with lzma.open(RESULTS / SMALLEST / "runs.tar.xz") as content:
        unpack(content, tmp_path)
    return tmp_path


@pytest.mark.parametrize("result", STORED, ids=lambda path: path.name)
def test_an_archive_is_small_and_has_the_checksum_next_to_it(result: Path) -> None:
    digest, name = (result / "runs.tar.xz.sha256").read_text(encoding="ascii").split()
    data = (result / name).read_bytes()

    assert name == "runs.tar.xz"
    assert hashlib.sha256(data).hexdigest() == digest
    assert len(data) < MOST_BYTES


@pytest.mark.parametrize("result", STORED, ids=lambda path: path.name)
def test_an_archive_holds_the_runs_of_the_results_and_says_nothing_of_who_packed_it(result: Path) -> None:
    cases = json.loads((result / "results.json").read_bytes())["cases"]
    runs = {run["directory"] for case in cases for run in case["runs"]}

    with tarfile.open(result / "runs.tar.xz") as archive:
        entries = archive.getmembers()

    assert runs <= {entry.name for entry in entries}
    assert {(entry.uid, entry.gid, entry.uname, entry.gname, entry.mtime) for entry in entries} == {
        (0, 0, "", "", 0)
    }


def test_unpacked_runs_give_the_stored_numbers_again(
    unpacked: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = json.loads((unpacked / "results.json").read_bytes())

    assert main(["report", str(unpacked), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    for before, after in zip(stored["cases"], again["cases"], strict=True):
        assert after["estimate"]["median"] == pytest.approx(before["estimate"]["median"])
        assert len(after["runs"]) == len(before["runs"])
