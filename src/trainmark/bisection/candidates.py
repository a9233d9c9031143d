"""The candidates of a bisection: the commits between two, versions of a package, or values of an axis."""

import re
import subprocess
from pathlib import Path

from trainmark.errors import InputError
from trainmark.schema.bisection import Candidate

_SAFE = re.compile(r"[^A-Za-z0-9._+-]+")
_LONGEST_SUBJECT = 60


def git(folder: Path, *words: str) -> str:
    """Return what git prints; raise ``InputError`` with its own message if it fails."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise InputError("git is not installed: a bisection over commits needs it") from None
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise InputError(f"git {words[0]}: {lines[-1]}")
    return done.stdout


def commits_between(folder: Path, good: str, bad: str) -> tuple[Candidate, ...]:
    """Return the commits from ``good`` to ``bad`` along first parents, in order; raise ``InputError`` otherwise."""
    first, last = (_commit(folder, word) for word in (good, bad))
    if first == last:
        raise InputError(f"{good} and {bad} are the same commit")
    lines = git(
        folder, "log", "--first-parent", "--reverse", "--format=%H %s", f"{first}..{last}"
    ).splitlines()
    path = git(folder, "rev-list", "--first-parent", last).split()
    if first not in path:
        raise InputError(
            f"{good} is not an ancestor of {bad} along first parents: give a good commit of the same branch"
        )
    subject = git(folder, "log", "-1", "--format=%H %s", first).strip()
    return tuple(_of_commit(line) for line in (subject, *lines))


def _commit(folder: Path, word: str) -> str:
    if word.startswith("-"):
        raise InputError(f"{word}: not a commit")
    return git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{word}^{{commit}}").strip()


def _of_commit(line: str) -> Candidate:
    commit, _, subject = line.partition(" ")
    return Candidate(name=commit, label=f"{commit[:12]} {subject[:_LONGEST_SUBJECT]}".rstrip())


def listed(option: str, text: str) -> tuple[str, tuple[Candidate, ...]]:
    """Return the name and the candidates of ``NAME=V1,V2,…``; raise ``InputError`` for fewer than two values."""
    name, mark, values = text.partition("=")
    words = [word.strip() for word in values.split(",")]
    if not (mark and name.strip()) or len(words) < 2 or not all(words):
        raise InputError(f"{option} {text}: expected NAME=V1,V2,… two values or more, the good one first")
    if len(set(words)) < len(words):
        raise InputError(f"{option} {text}: a value is given twice")
    safe = [_SAFE.sub("_", word) for word in words]
    unique = len(set(safe)) == len(safe)
    names = safe if unique else [f"{number:03}-{word}" for number, word in enumerate(safe)]
    return name.strip(), tuple(
        Candidate(name=one, label=f"{name.strip()}={word}") for one, word in zip(names, words, strict=True)
    )
