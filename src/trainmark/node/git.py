"""The state of a git working tree, for the manifest."""

from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from trainmark.node.host import Host
from trainmark.node.jobs import CommandRunner, probe_runner
from trainmark.schema.manifest import GitFacts
from trainmark.schema.plan import Command

_TIMEOUT_S = 30.0


def read_git(directory: Path, host: Host) -> GitFacts | None:
    """Return commit, dirtiness and remote of the git tree around a host's ``directory``; None without git or tree."""
    runner = probe_runner(host, _TIMEOUT_S)
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
    """Return a URL without user, password, query and fragment; of a path or ``host:path`` only the user is removed."""
    parts = urlsplit(url)
    if "://" in url:
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    host, colon, path = url.partition(":")
    return f"{host.rpartition('@')[2]}{colon}{path}" if colon else url


def _git(runner: CommandRunner, directory: Path, *arguments: str) -> str | None:
    quiet = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0"}
    result = runner.run(Command(0, ("git", "-C", str(directory), *arguments), quiet))
    return result.out.decode(errors="replace").strip() if result.code == 0 else None
