"""The state of a working tree, from a real git."""

import shutil
import subprocess
from pathlib import Path

import pytest

from trainmark.node import LocalHost
from trainmark.node.machine import read_git, without_credentials

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(tree: Path, *arguments: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", str(tree), *identity, *arguments], check=True, capture_output=True)


def test_a_tree_is_clean_until_a_tracked_file_changes(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    unborn = read_git(tmp_path, LocalHost())
    assert unborn is not None
    assert unborn.commit is None
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-q", "-m", "one")
    git(tmp_path, "remote", "add", "origin", "https://me:token@example.org/a/b.git")
    (tmp_path / "untracked").write_text("results")
    clean = read_git(tmp_path, LocalHost())
    assert clean is not None
    assert clean.commit is not None
    assert len(clean.commit) == 40
    assert (clean.dirty, clean.remote) == (False, "https://example.org/a/b.git")
    (tmp_path / "file").write_text("two")
    changed = read_git(tmp_path, LocalHost())
    assert changed is not None
    assert (changed.dirty, changed.commit) == (True, clean.commit)


def test_a_folder_that_is_no_tree_has_no_git_state(tmp_path: Path) -> None:
    assert read_git(tmp_path, LocalHost()) is None
    assert read_git(tmp_path / "missing", LocalHost()) is None


@pytest.mark.parametrize(
    ("url", "cleaned"),
    [
        ("https://me:token@example.org/a.git?x=secret", "https://example.org/a.git"),
        ("https://example.org:8443/a.git", "https://example.org:8443/a.git"),
        ("git@example.org:a/b.git", "example.org:a/b.git"),
        ("ssh://git@example.org/a.git", "ssh://example.org/a.git"),
        ("/srv/git/a.git", "/srv/git/a.git"),
    ],
)
def test_a_remote_is_recorded_without_its_credentials(url: str, cleaned: str) -> None:
    assert without_credentials(url) == cleaned
