"""The state of a git working tree, as a manifest keeps it."""

import os
import subprocess
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from trainmark.words.manifest import GitFacts


def read_git(directory: Path) -> GitFacts | None:
    """Return commit, cleanliness and remote of the tree that ``directory`` is in; None without git or a tree."""
    if _git(directory, "rev-parse", "--is-inside-work-tree") != "true":
        return None
    changes = _git(directory, "status", "--porcelain", "--untracked-files=no")
    remote = _git(directory, "config", "--get", "remote.origin.url")
    return GitFacts(
        commit=_git(directory, "rev-parse", "--verify", "HEAD"),
        dirty=None if changes is None else changes != "",
        remote=without_credentials(remote) if remote else None,
    )


def without_credentials(url: str) -> str:
    """Return an address without user, password, query and fragment; a path or ``host:path`` loses its user only."""
    parts = urlsplit(url)
    if "://" in url:
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    host, colon, path = url.partition(":")
    return f"{host.rpartition('@')[2]}{colon}{path}" if colon else url


def _git(directory: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(directory), *arguments],
            env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=30,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
