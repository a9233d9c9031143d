"""The cluster of `scripts/cluster` as tests use it."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "cluster"
HOSTS = ("node01", "node02", "node03", "node04")
PATIENCE_S = 120
"""No command of these tests takes a tenth of it on an idle machine."""

Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Cluster:
    """A cluster that is up; `state` is the folder of what it is used by."""

    state: Path

    def do(self, *words: str, check: bool = True) -> Done:
        """Run a verb of the script."""
        return call(sys.executable, str(SCRIPT), "--state", str(self.state), *words, check=check)

    def run(self, place: str, *words: str, check: bool = True) -> Done:
        """Run a command on a host, or where jobs are started."""
        return self.do("run", place, *words, check=check)

    def ssh(self, host: str, line: str, *options: str, check: bool = True) -> Done:
        """Run a line of shell on a host by this machine's own ssh."""
        return call("ssh", "-F", str(self.state / "ssh_config"), *options, host, line, check=check)

    @contextmanager
    def fault(self, name: str, host: str, *amount: str) -> Iterator[None]:
        """Have something go wrong on a host, and heal it."""
        self.do("fault", name, host, *amount)
        try:
            yield
        finally:
            self.do("fault", "heal", host)

    def processes(self, place: str) -> list[str]:
        """Return what runs in a place, as `status` tells it."""
        found: dict[str, list[str]] = {}
        for line in self.do("status").stdout.splitlines():
            if line.startswith(" "):
                found[list(found)[-1]].append(line.strip())
            else:
                found[line.split()[0]] = []
        return found[place]


def call(*words: str, check: bool = True) -> Done:
    """Run a command to its end; what it said stands in the error."""
    done = subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
        cwd="/tmp",
    )
    assert not check or done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def skip_where_none_can_be() -> None:
    """Skip a test, by what is missing, where this machine cannot have a cluster."""
    answer = call(sys.executable, str(SCRIPT), "missing", check=False)
    if answer.returncode:
        pytest.skip(f"a cluster on this machine needs {answer.stdout.strip()}")


@contextmanager
def cluster(*options: str, while_pid: int | None = None) -> Iterator[Cluster]:
    """Have a cluster up; it goes with this process, whatever ends it."""
    skip_where_none_can_be()
    # Names of sockets are short, pytest's folders are not.
    made = Cluster(Path(tempfile.mkdtemp(prefix="tmc")))
    made.do("up", "--while", str(while_pid or os.getpid()), "--python", sys.executable, *options)
    try:
        yield made
    finally:
        made.do("down")
