"""The state of a git working tree, as a manifest keeps it."""

from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from trainmark.node.host import Host
from trainmark.node.jobs import CommandRunner, probe_runner
from trainmark.schema.manifest import GitFacts
from trainmark.schema.plan import Command

_ASK_S = 30.0


def read_git(directory: Path, host: Host) -> GitFacts | None:
    """Return commit, cleanliness and remote of the tree that a host's ``directory`` is in; None without git or tree."""
    runner = probe_runner(host, _ASK_S)
    if _git(runner, directory, "rev-parse", "--is-inside-work-tree") != "true":
        return None
    changes = _git(runner, directory, "status", "--porcelain", "--untracked-files=no")
    remote = _git(runner, directory, "config", "--get", "remote.origin.url")
    return GitFacts(
        commit=_git(runner, directory, "rev-parse", "--verify", "HEAD"),
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


def _git(runner: CommandRunner, directory: Path, *arguments: str) -> str | None:
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    said = runner.run(Command(0, ("git", "-C", str(directory), *arguments), quiet))
    return said.out.decode(errors="replace").strip() if said.code == 0 else None
