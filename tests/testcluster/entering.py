"""How a command is started in a place of a cluster that is up."""

import json
import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from testcluster.layout import CONTROL, Layout

ENTRY = Path(__file__).resolve().parents[2] / "scripts" / "cluster"


@dataclass(frozen=True)
class Entrance:
    """A cluster that was up when this was read, and the outer number of each place's first process."""

    layout: Layout
    first: dict[str, int]
    keeper: int

    def words(self, place: str) -> list[str]:
        """Return the words before a command that make it run in a place: its network, folders, name, processes."""
        if place not in self.first:
            sys.exit(f"no host {place!r}; there are {', '.join(self.first)}")
        words = ["nsenter", "--target", str(self.first[place]), "--all"]
        if place == CONTROL:
            # Its folders are this machine's.
            return [
                *words,
                f"--wd={Path.cwd()}",
                "env",
                *(f"{k}={v}" for k, v in self.layout.variables().items()),
            ]
        clean = [
            "HOME=/root",
            "USER=root",
            "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        ]
        slurm = f"SLURM_CONF={self.layout.variables()['SLURM_CONF']}"
        terminal = f"TERM={os.environ.get('TERM', 'dumb')}"
        return [*words, "--wd=/root", "env", "--ignore-environment", *clean, slurm, terminal]

    def again(self, *words: str) -> list[str]:
        """Return this script's own command line with other words."""
        return [sys.executable, str(ENTRY), "--state", str(self.layout.folder), *words]

    def processes(self, place: str) -> list[tuple[int, str]]:
        """Return outer number and command line of all that runs in a place but its first process."""
        here = Path(f"/proc/{self.first[place]}/ns/pid").readlink()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == self.first[place]:
                continue
            try:
                if (entry / "ns/pid").readlink() == here:
                    words = (entry / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
                    found.append(
                        (int(entry.name), shlex.join(word.decode(errors="replace") for word in words))
                    )
            except OSError:
                continue  # It has just ended.
        return sorted(found)


def entrance(layout: Layout) -> Entrance:
    """Return the way into a cluster; where none is up this ends with one line that says so."""
    found = look(layout)
    if found is None:
        sys.exit(f"no cluster is up in {layout.folder} (scripts/cluster --state {layout.folder} up)")
    return found


def look(layout: Layout) -> Entrance | None:
    """Return the way into a cluster, or nothing where none of it is left."""
    try:
        record = json.loads(layout.record.read_text())
    except (OSError, ValueError):
        return None
    first = {name: number for name, number in record["first"].items() if _is_place(layout, number)}
    keeper = record["keeper"]
    return Entrance(Layout(layout.folder, record["size"]), first, keeper) if first else None


def _is_place(layout: Layout, number: int) -> bool:
    """Say whether a number is still this cluster's first process: numbers are given again."""
    try:
        words = Path(f"/proc/{number}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"live" in words and os.fsencode(layout.folder) in words
