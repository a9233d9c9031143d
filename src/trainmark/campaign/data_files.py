"""The data files of a card: their digests, and whether they are those that the card states."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainmark.node import Host, LocalHost, remote_path
from trainmark.node.trees import Trees
from trainmark.workload import Workload

_SHOWN = 12


@dataclass
class DataFiles:
    """Digests of data files; a file with unchanged size, times and inode is not read again."""

    _trees: Trees = field(default_factory=Trees)
    _whole: dict[tuple[str, int, int, int], str] = field(default_factory=dict)

    def digests(self, workload: Workload) -> dict[str, str]:
        """Return the digest of each data file of a card, by its path in the card."""
        return {one.path: self._digest(workload.base / one.path) for one in workload.card.data_files}

    def problem(self, workload: Workload, hosts: Sequence[Host]) -> str | None:
        """Return why a card's data files cannot be used on the hosts; None if they can."""
        for one in workload.card.data_files:
            path = workload.base / one.path
            for host in hosts:
                where = "" if isinstance(host, LocalHost) else f" on {host.name}"
                if not host.has(remote_path(host.paths, path)):
                    return f"the data file {one.path} is missing{where}: {path}; make it, or correct 'data_files'"
            if not path.exists():
                continue
            if one.size is not None and path.is_file() and (size := path.stat().st_size) != one.size:
                return f"the data file {one.path} has {size} bytes, but the card states {one.size}: {path}"
            if one.sha256 is not None and (digest := self._digest(path)) != one.sha256:
                return f"the data file {one.path} has the sha256 {digest}, but the card states {one.sha256}: {path}"
        return None

    def _digest(self, path: Path) -> str:
        """Return the SHA-256 of a file, or of the names and digests of a folder's files."""
        if path.is_file():
            found = path.stat()
            key = (str(path), found.st_size, found.st_mtime_ns, found.st_ino)
            if key not in self._whole:
                with path.open("rb") as file:
                    self._whole[key] = hashlib.file_digest(file, "sha256").hexdigest()
            return self._whole[key]
        if not path.is_dir():
            return "missing"
        lines = (f"{digest}  {name}\n" for name, digest in self._trees.digests(path).items())
        return hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()


def describe_change(name: str, was: str, now: str) -> str:
    """Return a clause that names both digests of a data file."""
    return f"{name} was {was[:_SHOWN]}… and is now {now[:_SHOWN]}{'…' if len(now) > _SHOWN else ''}"
