"""The cluster of `scripts/cluster` as tests use it."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from testcluster.entering import Entrance, entrance
from testcluster.layout import Layout

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "cluster"
HOSTS = ("node01", "node02", "node03", "node04")
DAEMONS = ("munged ", "'sshd: /usr/sbin/sshd ", "/usr/sbin/sshd", "slurmd ")
PATIENCE_S = 120
"""No command of these tests takes a tenth of it on an idle machine."""

ALLOCATED = {"slurm": ("salloc", "--quiet", "--nodes=4", "--exclusive")}
"""What stands before a command whose engine needs something to be held for it."""

Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True)
class Cluster:
    """A cluster that is up; `state` is the folder of what it is used by."""

    state: Path

    def do(self, *words: str, check: bool = True, patience_s: float = PATIENCE_S) -> Done:
        """Run a verb of the script."""
        command = (sys.executable, str(SCRIPT), "--state", str(self.state), *words)
        return call(*command, check=check, patience_s=patience_s)

    def run(self, place: str, *words: str, check: bool = True, patience_s: float = PATIENCE_S) -> Done:
        """Run a command on a host, or where jobs are started."""
        return self.do("run", place, *words, check=check, patience_s=patience_s)

    def ssh(self, host: str, line: str, *options: str, check: bool = True) -> Done:
        """Run a line of shell on a host by this machine's own ssh."""
        return call("ssh", "-F", str(self.state / "ssh_config"), *options, host, line, check=check)

    @contextmanager
    def fault(self, name: str, host: str, *amount: str) -> Iterator[None]:
        """Have something go wrong on a host, and heal it."""
        self.break_(name, host, *amount)
        try:
            yield
        finally:
            self.break_("heal", host)

    def break_(self, name: str, host: str, *amount: str) -> None:
        """Have something go wrong on a host, or all go well again."""
        self.do("fault", name, host, *amount)

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts."""
        return HOSTS

    @property
    def _entrance(self) -> Entrance:
        return entrance(Layout(self.state))

    def processes(self, place: str) -> dict[int, str]:
        """Return what runs on a host beside its own daemons: numbers here, and command lines."""
        return {
            number: line for number, line in self._entrance.processes(place) if not line.startswith(DAEMONS)
        }

    def daemons(self, host: str) -> list[str]:
        """Return the programs that run on a host."""
        return sorted(line.split()[0].strip("'") for _, line in self._entrance.processes(host))

    def files(self, host: str) -> set[str]:
        """Return the files on a host's own disk but those that its daemons keep, and compiled programs."""
        root = Path(f"/proc/{self._entrance.first[host]}/root")
        excluded = {
            root / str(path).lstrip("/")
            for path in (
                self.state,
                "/var/spool",
                "/run",
                "/root/.cache",
                "/proc",
                f"/tmp/trainmark-{os.getuid()}",
            )
        }
        found: set[str] = set()
        # What is mounted there is not its own, but for the memory that processes share.
        own = {root.stat().st_dev, (root / "dev/shm").stat().st_dev}
        for folder, folders, files in os.walk(root):
            here = Path(folder)
            folders[:] = [
                name
                for name in folders
                if here / name not in excluded and (here / name).lstat().st_dev in own
            ]
            found |= {str(here.relative_to(root) / name) for name in files}
        return found

    def wait_until_quiet(self) -> None:
        """Wait until nothing but daemons runs on any host; what stays is ended, so that it fails this test alone."""
        end = time.monotonic() + PATIENCE_S
        while left := {host: found for host in HOSTS if (found := self.processes(host))}:
            if time.monotonic() > end:
                for number in (number for found in left.values() for number in found):
                    with suppress(ProcessLookupError):
                        os.kill(number, signal.SIGKILL)
                raise AssertionError(f"left running: {left}")
            time.sleep(0.1)


def call(*words: str, check: bool = True, patience_s: float = PATIENCE_S) -> Done:
    """Run a command to its end; what it said stands in the error.

    One that does not end is ended with all that it has started, of which Python's programs say where they were.
    """
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd="/tmp",
        env={**os.environ, "PYTHONFAULTHANDLER": "1"},
    )
    try:
        out, errors = process.communicate(timeout=patience_s)
    except subprocess.TimeoutExpired:
        started = psutil.Process(process.pid).children(recursive=True)
        for number in (signal.SIGABRT, signal.SIGKILL):
            for one in started:
                with suppress(psutil.Error):
                    one.send_signal(number)
            psutil.wait_procs(started, timeout=2)
        out, errors = process.communicate()
        raise AssertionError(f"{words}: not at its end after {patience_s:g} s\n{out}\n{errors}") from None
    done = subprocess.CompletedProcess(words, process.returncode, out, errors)
    assert not check or done.returncode == 0, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def skip_where_none_can_be() -> None:
    """Skip a test, by what is missing, where this machine cannot have a cluster."""
    answer = call(sys.executable, str(SCRIPT), "missing", check=False)
    if answer.returncode:
        pytest.skip(answer.stdout.strip())


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


def shared_environments() -> dict[Path, Path]:
    """Return where the frameworks' environments lie here, and where a host of these tests has them."""
    folder = os.environ.get("TRAINMARK_TEST_ENVS", "")
    return (
        {Path(folder): Path("/root/.local/share/trainmark/envs")} if folder and Path(folder).is_dir() else {}
    )
