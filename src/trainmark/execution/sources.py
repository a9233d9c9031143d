"""Programs from git repositories: one commit fetched into a cache, and a verified working tree for each run.

Verification: all files of the tree are hashed and must give the commit's tree, and the commit's bytes must give its id,
so that a damaged or modified cache is detected. Git's hooks, filters and line-end conversions are off: the bytes are
the repository's.
"""

import hashlib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from trainmark.errors import TrainmarkError
from trainmark.node import CommandOutput, CommandRunner, display_name, ignore_heartbeat
from trainmark.schema.outcome import Outcome
from trainmark.schema.plan import Checkout, Command

_SAFE = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.autocrlf=false"),
    *(
        "-c",
        "core.symlinks=true",
        "-c",
        "core.fileMode=true",
        "-c",
        "gc.auto=0",
        "-c",
        "maintenance.auto=false",
    ),
    # A server that sends nothing for a minute is considered lost.
    *("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60"),
)
_RAW = "* -text -eol -filter -ident -working-tree-encoding\n"
"""For ``info/attributes``, which overrides the repository's own ``.gitattributes``."""

_LACKS_FILES = b"repository corruption on the remote side"
_UNKNOWN_PATH = re.compile(r"pathspec '(.*)' did not match any file")

_ELSEWHERE = (
    *("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_CONFIG"),
    *(
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_NAMESPACE",
        "GIT_PREFIX",
        "GIT_SHALLOW_FILE",
        "GIT_GRAFT_FILE",
    ),
)
"""Variables of a caller's git (such as a hook's) that would redirect commands to another repository."""

_VARIABLES = {
    "GIT_ALLOW_PROTOCOL": "https:ssh:file",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_LFS_SKIP_SMUDGE": "1",
    "LC_ALL": "C",
}


class SourceError(TrainmarkError):
    """The program of a commit is not available; the message has the reason, ``outcome`` is the run's outcome."""

    def __init__(self, message: str, outcome: Outcome = Outcome.FAILED) -> None:
        super().__init__(message)
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Git:
    """The runner of git commands, and the host that stores the repositories."""

    runner: CommandRunner

    def run(self, words: Sequence[str], variables: Mapping[str, str] | None = None) -> CommandOutput:
        """Run a git command, without hooks, filters and the caller's own repository.

        Raises ``SourceError`` if a limit ends it.
        """
        git, *rest = words
        command = Command(0, (git, *_SAFE, *rest), _VARIABLES | dict(variables or {}), _ELSEWHERE)
        reported = self.runner.run(command)
        if reported.stopped is not None:
            raise SourceError(f"{shlex.join(words)}: {reported.stopped[1]}", reported.stopped[0])
        return reported

    def must(self, words: Sequence[str], trouble: str) -> None:
        """Run a git command; raise ``SourceError`` with ``trouble`` and git's message if it fails."""
        reported = self.run(words)
        if reported.code != 0:
            raise SourceError(f"{trouble}: {_complaint(reported)}")


def fetch(checkout: Checkout, git: Git) -> None:
    """Fetch the commit into the cache, unless it is there; raise ``SourceError`` if that fails."""
    host = git.runner.host
    if host.which("git") is None:
        raise SourceError(
            f"git was not found on {display_name(host)}, and the program is in {checkout.url}",
            Outcome.UNSUPPORTED,
        )
    with _guarded(checkout.cache, git):
        initialise, bring = checkout.cached()
        git.must(initialise, "its cache cannot be made")
        host.put(checkout.cache / "info" / "attributes", _RAW.encode())
        if is_cached(checkout, git):
            return
        done = git.run(bring)
        if done.code == 0 and is_cached(checkout, git):
            return
    reported = _complaint(done)
    if done.code == 0 or "not our ref" in reported:
        raise SourceError(f"{checkout.url} has no commit {checkout.commit}")
    if _LACKS_FILES in done.err:
        raise SourceError(
            f"{checkout.url} lacks files of {checkout.commit}; if the program needs none of them, name those that it "
            "needs (the card's source: {paths: […]})"
        )
    raise SourceError(f"{checkout.url} cannot be fetched: {reported}")


def is_cached(checkout: Checkout, git: Git) -> bool:
    """Return whether the commit is in the cache."""
    question = ("cat-file", "-e", f"{checkout.commit}^{{commit}}")
    host = git.runner.host
    found = host.which("git") is not None and host.has(checkout.cache)
    return found and git.run(("git", "--git-dir", str(checkout.cache), *question)).code == 0


def check_out(checkout: Checkout, folder: str, git: Git) -> str:
    """Create and verify the working tree of a commit in the cache; return the id of its git tree.

    ``folder`` is the program's folder in it. Raises ``SourceError``; then no tree is left.
    """
    discard(checkout, git)
    try:
        with _guarded(checkout.cache, git):
            _make(checkout, git)
            tree = _proven(checkout, git)
        if not git.runner.host.has(checkout.tree / folder):
            raise SourceError(f"{checkout.url} has no folder '{folder}' at {checkout.commit}")
    except BaseException:
        discard(checkout, git)
        raise
    return tree


def _make(checkout: Checkout, git: Git) -> None:
    for words in checkout.made():
        done = git.run(words)
        reported = _complaint(done)
        if done.code != 0 and (path := _UNKNOWN_PATH.search(reported)) is not None:
            raise SourceError(f"{checkout.url} has no '{path[1]}' at {checkout.commit}; correct 'paths'")
        if done.code != 0:
            trouble = f"no working tree can be made of {checkout.cache} (if it is damaged, remove it)"
            raise SourceError(f"{trouble}: {reported}")


def discard(checkout: Checkout, git: Git) -> None:
    """Remove a working tree in any state, even if the user interrupts meanwhile."""
    git = Git(replace(git.runner, watch=ignore_heartbeat))
    with suppress(OSError):
        git.runner.host.remove(checkout.tree)
    if git.runner.host.has(checkout.cache):
        with suppress(SourceError):
            git.run(("git", "--git-dir", str(checkout.cache), "worktree", "prune"))


def _proven(checkout: Checkout, git: Git) -> str:
    changed = SourceError(
        f"{checkout.cache}: its content is not commit {checkout.commit}: it was modified; remove it"
    )
    reported = git.run(("git", "--git-dir", str(checkout.cache), "cat-file", "commit", checkout.commit)).out
    if (
        hashlib.sha1(b"commit %d\0" % len(reported) + reported, usedforsecurity=False).hexdigest()
        != checkout.commit
    ):
        raise changed
    wanted = reported.split(b"\n", 1)[0].decode().removeprefix("tree ")
    within = ("git", "-C", str(checkout.tree))
    head = git.run((*within, "rev-parse", "HEAD")).out.decode().strip()
    # An index without file times makes git read and hash every file.
    index = checkout.tree.with_name(f".{checkout.tree.name}.index")
    try:
        fresh = {"GIT_INDEX_FILE": str(index.absolute())}
        for words in _indexing(checkout.paths):
            if git.run((*within, *words), fresh).code != 0:
                raise changed
        # Files outside the paths are not in the cache.
        part = ("--missing-ok",) if checkout.paths else ()
        found = git.run((*within, "write-tree", *part), fresh).out.decode().strip()
    finally:
        git.runner.host.remove(index)
    if (head, found) != (checkout.commit, wanted):
        raise changed
    return found


def _indexing(paths: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """Return the commands that fill an empty index with the tree's files, for its proof; with paths, they prove these.

    The index of a part must not have the other files before its own are read: git would fetch ``.gitattributes``.
    """
    whole, add = ("read-tree", "HEAD"), ("add", "--all", "--force", "--")
    if not paths:
        return whole, (*add, ".")
    same = ("diff-index", "--cached", "--quiet", "--ignore-submodules", "HEAD", "--", *paths)
    return (*add, *paths), same, whole


def _complaint(done: CommandOutput) -> str:
    """Return git's error line; hints and counts follow it."""
    lines = [line.strip() for line in done.err.decode(errors="replace").splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return (fatal or lines or [f"git ended with exit code {done.code}"])[0]


@contextmanager
def _guarded(cache: Path, git: Git) -> Iterator[None]:
    """Lock the cache, so that two trainmarks do not fetch into it at once."""
    try:
        with git.runner.host.locked(cache.with_name(f".{cache.name}.guard")):
            yield
    except OSError as error:
        raise SourceError(f"{cache.parent}: cannot be written: {error.strerror}") from None
