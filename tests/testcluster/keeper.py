"""The process that holds a cluster: it makes the places, joins them, and takes all down when it ends, however it ends.

Each place's first process is killed by the kernel when its starter dies, and with it, by its PID namespace, all that
runs there. Networks and mounts belong to no name outside these namespaces, so they go with the last process.
"""

import json
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from testcluster.entering import ENTRY, Entrance
from testcluster.files import remove_files, write_files
from testcluster.layout import CONTROL, Layout, Shared


def hold(layout: Layout, order: dict[str, Any]) -> None:
    """Bring a cluster up, say so on stdout, and hold it until SIGTERM, SIGINT or the end of a process in `order`."""
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, _end)
    layout = Layout(layout.folder, order["size"])
    watched = [] if order["while"] is None else [os.pidfd_open(order["while"])]
    places: dict[str, _Place] = {}
    try:
        write_files(layout, tuple(Shared(Path(here), Path(there)) for here, there in order["shared"]))
        for name in (CONTROL, *layout.hosts):
            places[name] = _Place(layout, name, order)
        first = {name: place.number for name, place in places.items()}
        layout.record.write_text(json.dumps({"size": layout.size, "keeper": os.getpid(), "first": first}))
        _join(layout, first)
        for place in places.values():
            place.go()
        for place in places.values():
            place.wait_ready()
        _wait_for_slurm(layout, Entrance(layout, first, os.getpid()))
        print("up", flush=True)
        _detach()
        select.select([*watched, *(place.descriptor for place in places.values())], [], [])
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        take_down(layout, [place.number for place in places.values()])
        for place in places.values():
            place.wait_gone()


class _Place:
    """One namespaced first process, of which `number` is the process number outside."""

    def __init__(self, layout: Layout, name: str, order: dict[str, Any]) -> None:
        kinds = ["--net", "--mount", "--uts", "--ipc", "--pid"]
        words = [
            *("setpriv", "--pdeathsig", "KILL"),
            *("unshare", *kinds, "--fork", "--kill-child=KILL"),
            *(sys.executable, str(ENTRY), "--state", str(layout.folder), "live", name, json.dumps(order)),
        ]
        self._name, self._layout = name, layout
        self._process = subprocess.Popen(
            words,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=layout.log(name).open("ab"),
            text=True,
            start_new_session=True,
        )
        self.number = int(self._read())
        self.descriptor = os.pidfd_open(self.number)

    def go(self) -> None:
        """Let the place be furnished: its network cards are there."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def wait_ready(self) -> None:
        """Wait until its daemons answer."""
        self._read()

    def wait_gone(self) -> None:
        """Wait for the process that has made the namespaces, and is in some of them."""
        self._process.wait()

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            last_lines = self._layout.log(self._name).read_text(errors="replace").strip().splitlines()[-5:]
            sys.exit(f"{self._name} did not come up: " + " | ".join(last_lines))
        return line


def _join(layout: Layout, first: dict[str, int]) -> None:
    """Join all places, and this machine, by a bridge that lies in the control place."""
    control = str(first[CONTROL])
    bridge_ip = ("nsenter", "--net", "--target", control, "ip")
    _run(*bridge_ip, "link", "add", "br0", "type", "bridge")
    _run(*bridge_ip, "link", "set", "br0", "up")
    ends = [(layout.mark, ())] + [("eth0", ("netns", str(first[host]))) for host in layout.hosts]
    for port, (card, where) in zip(("machine", *layout.hosts), ends, strict=True):
        _run(
            "ip", "link", "add", "name", card, *where, "type", "veth", "peer", "name", port, "netns", control
        )
        _run(*bridge_ip, "link", "set", port, "master", "br0", "up")
    _run("ip", "address", "add", f"{layout.address('')}/24", "dev", layout.mark)
    _run("ip", "link", "set", layout.mark, "up")


def _wait_for_slurm(layout: Layout, at: Entrance, seconds: float = 60) -> None:
    """Wait until Slurm has all hosts idle."""
    ask = [*at.words(CONTROL), "sinfo", "--noheader", "--Node", "--format=%N %t"]
    end = time.monotonic() + seconds
    while True:
        answer = subprocess.run(ask, capture_output=True, text=True, check=False)
        if answer.stdout.splitlines() == [f"{host} idle" for host in layout.hosts]:
            return
        if time.monotonic() > end:
            sys.exit(f"Slurm's hosts are not idle after {seconds:.0f} s: {answer.stdout}{answer.stderr}")
        time.sleep(0.1)


def take_down(layout: Layout, first: list[int]) -> None:
    """End every place and wait until nothing of it is left; what is gone already is well."""
    descriptors = []
    for number in first:
        with suppress(ProcessLookupError):
            descriptors.append(os.pidfd_open(number))
            os.kill(number, signal.SIGKILL)
    for descriptor in descriptors:
        select.select([descriptor], [], [])
        os.close(descriptor)
    subprocess.run(["ip", "link", "delete", layout.mark], capture_output=True, check=False)
    remove_files(layout)


def end_keeper(found: Entrance) -> None:
    """End a cluster's keeper, which takes the cluster down, and wait for it."""
    try:
        descriptor = os.pidfd_open(found.keeper)
        words = Path(f"/proc/{found.keeper}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return
    if b"hold" in words and os.fsencode(found.layout.folder) in words:
        signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        select.select([descriptor], [], [])


def _detach() -> None:
    """Let go of the terminal and the pipes of who started this."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nothing, descriptor)


def _end(_signal: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(0)


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.stderr.strip()}")
