"""The verbs of `scripts/cluster`."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from testcluster.entering import ENTRY, entrance, look
from testcluster.faults import FAULTS
from testcluster.keeper import end_keeper, hold, take_down
from testcluster.layout import CONTROL, PACKAGES, Layout, Python, Shared, inspect_python
from testcluster.line import carry
from testcluster.place import live

REPOSITORY = Path(__file__).resolve().parents[2]
DEFAULT_STATE = Path(tempfile.gettempdir()) / "trainmark-cluster"


def main() -> int:
    """Read the command line and do what it says; return the exit code."""
    words = _parser().parse_args()
    os.environ["PATH"] = _path()
    layout = Layout(words.state.resolve())
    code: int = words.do(layout, words)
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cluster", description="Four hosts on this machine, as root.")
    parser.add_argument(
        "--state", type=Path, default=DEFAULT_STATE, help="folder of this cluster (%(default)s)"
    )
    verbs = parser.add_subparsers(required=True, metavar="VERB")

    def verb(name: str, do: object, description: str | None) -> argparse.ArgumentParser:
        made = verbs.add_parser(name, help=description) if description else verbs.add_parser(name)
        made.set_defaults(do=do)
        return made

    up = verb("up", _up, "bring the cluster up; it stays up until down")
    up.add_argument("--hosts", type=int, default=4)
    up.add_argument(
        "--python", default=str(REPOSITORY / ".venv/bin/python"), help="with what trainmark needs"
    )
    up.add_argument("--source", type=Path, default=REPOSITORY / "src", help="trainmark's own folder")
    up.add_argument(
        "--share", action="append", default=[], metavar="FOLDER[:THERE]", help="seen by all, read-only"
    )
    up.add_argument(
        "--disk", type=int, default=512, metavar="MIB", help="each host's own disk (%(default)s MiB)"
    )
    up.add_argument(
        "--while", dest="while_pid", type=int, metavar="PID", help="take it down when this process ends"
    )
    verb("status", _status, "what is up, and what runs on each host")
    verb(
        "missing",
        _missing,
        "what this machine lacks for a cluster, by Debian's names; exit code 1 if anything",
    )
    shell = verb("shell", _shell, "a shell on a host; `control` is where jobs are started")
    shell.add_argument("host", nargs="?", default=CONTROL)
    run = verb("run", _run, "run a command on a host")
    run.add_argument("host")
    run.add_argument("words", nargs=argparse.REMAINDER)
    fault = verb("fault", _fault, "; ".join(f"{name} HOST: {do.__doc__}" for name, do in FAULTS.items()))
    fault.add_argument("fault", choices=FAULTS)
    fault.add_argument("host")
    fault.add_argument("amount", nargs="?", type=float)
    verb("down", _down, "take the cluster down, also what a killed one has left")
    # What this script starts of itself.
    for name, do in (("hold", _hold), ("live", _live), ("line", _line)):
        verb(name, do, None).add_argument("words", nargs=argparse.REMAINDER)
    return parser


def missing() -> str:
    """Return what stops a cluster from being brought up here, or nothing."""
    if os.geteuid():
        return "root"
    lacking = dict.fromkeys(package for it, package in PACKAGES.items() if not shutil.which(it, path=_path()))
    return " ".join(lacking) or _forbidden()


def _path() -> str:
    """Return where commands are looked for: daemons too, which a plain shell's own path does not reach."""
    return os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"


def _forbidden() -> str:
    """Return what the kernel, or the container that we are in, does not let root do; nothing where it lets us."""
    tried = (
        "ip link add tm0 type veth peer name tm1 && ip link add tm2 type bridge && mount -t tmpfs none /mnt"
    )
    words = ["unshare", "--net", "--mount", "--pid", "--uts", "--ipc", "--fork", "sh", "-c", tried]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    return f"namespaces, veth and mounts ({' '.join(done.stderr.split()) or 'unshare failed'})"


def _missing(_layout: Layout, _words: argparse.Namespace) -> int:
    lacking = missing()
    if lacking:
        print(f"a cluster on this machine needs {lacking}")
    return 1 if lacking else 0


def _up(layout: Layout, words: argparse.Namespace) -> int:
    if lacking := missing():
        sys.exit(f"a cluster on this machine needs {lacking}")
    if look(layout):
        sys.exit(f"a cluster is up in {layout.folder}")
    shared = [each.partition(":") for each in words.share]
    order = {
        "size": words.hosts,
        "python": inspect_python(words.python, words.source.resolve()).to_json(),
        "shared": [
            [str(Path(source).resolve()), target or str(Path(source).resolve())]
            for source, _, target in shared
        ],
        "megabytes": words.disk,
        "while": words.while_pid,
    }
    layout.folder.mkdir(parents=True, exist_ok=True)
    keeper = subprocess.Popen(
        [
            sys.executable,
            str(ENTRY),
            "--state",
            str(layout.folder),
            "hold",
            json.dumps(order),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    assert keeper.stdout is not None
    if keeper.stdout.readline() != "up\n":
        return keeper.wait() or 1
    print(layout.folder)
    return 0


def _hold(layout: Layout, words: argparse.Namespace) -> int:
    hold(layout, json.loads(words.words[0]))
    return 0


def _live(layout: Layout, words: argparse.Namespace) -> int:
    name, order = words.words[0], json.loads(words.words[1])
    shared = tuple(Shared(Path(source), Path(target)) for source, target in order["shared"])
    live(
        Layout(layout.folder, order["size"]),
        name,
        Python.from_json(order["python"]),
        shared,
        order["megabytes"],
    )
    return 0


def _line(_layout: Layout, words: argparse.Namespace) -> int:
    carry(words.words[0], words.words[1], float(words.words[2]), float(words.words[3]))
    return 0


def _status(layout: Layout, _words: argparse.Namespace) -> int:
    found = look(layout)
    if found is None:
        print(f"down: {layout.folder}")
        return 1
    for place in (CONTROL, *found.layout.hosts):
        state = found.layout.address(place) if place in found.first else "gone"
        print(f"{place} {state}")
        for number, line in found.processes(place) if place in found.first else ():
            print(f"  {number} {line[:120]}")
    return 0


def _shell(layout: Layout, words: argparse.Namespace) -> int:
    return subprocess.run([*entrance(layout).words(words.host), "bash"], check=False).returncode


def _run(layout: Layout, words: argparse.Namespace) -> int:
    command = [*entrance(layout).words(words.host), *words.words]
    os.execvp(command[0], command)


def _fault(layout: Layout, words: argparse.Namespace) -> int:
    FAULTS[words.fault](entrance(layout), words.host, *([] if words.amount is None else [words.amount]))
    return 0


def _down(layout: Layout, _words: argparse.Namespace) -> int:
    found = look(layout)
    if found:
        end_keeper(found)
        take_down(found.layout, list(found.first.values()))
    else:
        take_down(layout, [])
    return 0
