"""The cost of a run on many hosts for the controller: processor time, memory, and wall time besides the run.

    python benchmarks/controller.py [--hosts 128] [--ranks 8] [--seconds 20]

The hosts are processes on this machine that answer as an agent does and run nothing (``silent_agent.py``); everything
else is the campaign's own: connecting, planning, starting, supervising, fetching files, judging, writing results.
Wall times are this machine's, on which all agents run too; the controller's processor time and memory are its own.
"""

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import yaml

from trainmark import __file__ as package
from trainmark.campaign import Order, run_campaign
from trainmark.cli.suite_input import chosen_hosts
from trainmark.node import LocalHost
from trainmark.suite import load_suite
from trainmark.version import __version__

CARD = {
    "name": "silent",
    "description": "a program that is never run",
    "framework": "python",
    "environment": "system",
    "launcher": "ranks",
    "log_format": "pytorch-imagenet",
    "command": ["{source}/train.py", "--batch={batch_per_device}"],
    "axes": {
        name: {}
        for name in ("model", "precision", "nodes", "devices_per_node", "data", "image_size", "device")
    }
    | {"batch_per_device": {"flags": ["--batch={value}"]}},
}


class SilentListener:
    """A progress listener that ignores every event."""

    def __getattr__(self, _name: str) -> object:
        return lambda *_words: None


def prepared(folder: Path, hosts: int, ranks: int, seconds: float) -> tuple[Path, Path]:
    """Write the suite, the hosts file, and a stand-in for ssh that starts the silent agents."""
    (folder / "program").mkdir()
    (folder / "program" / "train.py").write_text("")
    card = {
        **CARD,
        "source": {"kind": "folder", "path": str(folder / "program")},
        "command": ["{source}/train.py"],
    }
    (folder / "card.yaml").write_text(yaml.safe_dump(card, sort_keys=False))
    case = {
        "workload": "silent",
        "framework": "python",
        "nodes": hosts,
        "devices_per_node": ranks,
        "device": "cpu",
    }
    suite = {
        "name": "many-hosts",
        "environment": "system",
        "protocol": {"name": "adaptive", "steps": 100, "warmup_steps": 20, "repeats": 1},
        "cards": ["card.yaml"],
        "cases": [{**case, "model": "resnet50", "batch_per_device": 4}],
    }
    (folder / "suite.yaml").write_text(yaml.safe_dump(suite, sort_keys=False))
    here = LocalHost()
    machine = here.machine()
    answers = {
        "hello": {
            "version": __version__,
            "python": sys.executable,
            "package": str(Path(package).parent),
            "home": str(folder / "home"),
            "pid": 0,
        },
        "machine": {"cores": max(ranks, machine.cores), "gpus": 0},
        "facts": here.facts(None, None, None).model_dump(mode="json"),
        "interface": "eth0",
    }
    (folder / "answers.json").write_text(json.dumps(answers))
    agent = Path(__file__).with_name("silent_agent.py")
    (folder / "bin").mkdir()
    ssh = folder / "bin" / "ssh"
    start = f"exec {sys.executable} -I -S {agent} {folder}/answers.json {seconds} ${{last##* }}"
    ssh.write_text(f"#!/bin/sh\nfor last; do :; done\n{start}\n")
    ssh.chmod(0o755)
    os.environ["PATH"] = f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}"
    (folder / "hosts.yaml").write_text(f"hosts:\n  - {{name: 'node[001-{hosts:03d}]', folder: /scratch}}\n")
    return folder / "suite.yaml", folder / "hosts.yaml"


def main() -> None:
    """Run one case on many hosts, and print its cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=128)
    parser.add_argument("--ranks", type=int, default=8, help="on each host")
    parser.add_argument("--seconds", type=float, default=20, help="how long the run takes")
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path, hosts = prepared(folder, words.hosts, words.ranks, words.seconds)
        suite = load_suite(path)
        before, began = time.process_time(), time.monotonic()
        with chosen_hosts(str(hosts), None) as there:
            connected_s, connecting = time.monotonic() - began, time.process_time() - before
            command = ("trainmark", "run", str(path))
            order = Order(suite, suite.cases, folder / "out", False, folder / "home", command, there)
            results = run_campaign(order, SilentListener()).results  # type: ignore[arg-type]
        taken, wall_s = time.process_time() - before, time.monotonic() - began
        (run,) = results.cases[0].runs
        logs = len(list((folder / "out").rglob("train*.log")))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{words.hosts} hosts, {words.hosts * words.ranks} ranks: {run.outcome} ({run.reason}), {logs} logs fetched"
    )
    print(
        f"controller: {taken:.2f} s of processor time ({connecting:.2f} s of it to connect), {memory:.0f} MB at most"
    )
    print(
        f"wall: {connected_s:.1f} s to connect, {wall_s - connected_s - words.seconds:.1f} s besides the run's own"
    )


if __name__ == "__main__":
    main()
