"""The logs that the ranks of a program wrote themselves, below the folder of its run: ``--log-dir {run}/ranks``."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from trainmark.schema.names import LOG

_NAMES = re.compile(r"stdout|.+\.(?:log|txt|out)", re.IGNORECASE)
_NOT_OUTPUT = re.compile(r"stderr", re.IGNORECASE)
_NODE = re.compile(r"node(\d+)")
_ATTEMPT = re.compile(r"attempt_(\d+)")
_RANK = re.compile(r"(?:global[-_]?rank|rank|worker|task)[-_.]?(\d+)", re.IGNORECASE)
_MOST_FILES = 10_000


@dataclass(frozen=True, slots=True)
class RankFile:
    """One rank's own log; ``local`` numbers it on its node, else ``number`` is the rank in the job."""

    path: Path
    node: int
    number: int
    local: bool

    def rank(self, per_node: int) -> int:
        """Return the rank in a job with ``per_node`` ranks on each node."""
        return self.node * per_node + self.number if self.local else self.number


def rank_files(folder: Path) -> tuple[RankFile, ...]:
    """Return the ranks' own logs below a run's folder, of the last attempt of a node.

    They are torchrun's ``attempt_0/LOCAL_RANK/stdout.log`` and files whose path names a rank, as OpenMPI's
    ``rank.3/stdout``. The files of node 1 are in ``node1``, into which they are fetched.
    """
    found = list(_found(folder))
    last = {
        node: max(attempt for attempt, one in found if one.node == node)
        for _, one in found
        for node in [one.node]
    }
    return tuple(one for attempt, one in found if attempt == last[one.node])


def _found(folder: Path) -> Iterator[tuple[int, RankFile]]:
    for path in sorted(islice(folder.rglob("*"), _MOST_FILES)):
        name, parts = path.name, path.relative_to(folder).parts
        if not _NAMES.fullmatch(name) or _NOT_OUTPUT.search(name) or not path.is_file():
            continue
        if len(parts) == 1 and name.startswith(LOG.partition(".")[0]):
            continue
        in_node = _NODE.fullmatch(parts[0])
        node = int(in_node[1]) if in_node else 0
        attempts = [at for at, part in enumerate(parts) if _ATTEMPT.fullmatch(part)]
        if attempts and attempts[-1] + 1 < len(parts) and parts[attempts[-1] + 1].isdecimal():
            at = attempts[-1]
            yield int(parts[at].rpartition("_")[2]), RankFile(path, node, int(parts[at + 1]), local=True)
        elif ranks := _RANK.findall("/".join(parts)):
            yield 0, RankFile(path, node, int(ranks[-1]), local=False)
