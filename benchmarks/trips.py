"""How many files and functions of trainmark one command goes through: a parse, a run of a command, a worker's run.

    python benchmarks/trips.py [--source CHECKOUT] [--framework pytorch] [--list parse|run|worker]

Each command runs in a process of its own with ``sys.setprofile``, and counts the functions of trainmark that are called
(code of a module or a class body that runs at import is not). The user's cache, which has an index of the log formats,
is one of its own, made by a parse before. ``--source`` is another checkout, to compare two versions. The worker's run
trains the task's smallest image network for four steps; it needs ``--framework``'s environment.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]

PROFILED = """
import atexit, json, runpy, sys, threading
package, out = sys.argv[1:3]
calls = {}
def note(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(package) and code.co_flags & 2:
        calls[code] = calls.get(code, 0) + 1
def write():
    sys.setprofile(None)
    threading.setprofile(None)
    found = [[c.co_filename[len(package):].lstrip("/"), c.co_qualname, c.co_firstlineno, n] for c, n in calls.items()]
    with open(out, "w") as file:
        json.dump(found, file)
atexit.register(write)
sys.argv[:] = sys.argv[3:]
threading.setprofile(note)
sys.setprofile(note)
if sys.argv[0].endswith(".py"):
    runpy.run_path(sys.argv[0], run_name="__main__")
else:
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""Flag 2 is of functions (CO_NEWLOCALS); modules do not have it, and class bodies have no name of theirs in calls."""

BUDGETS = {"parse": 35, "run": 90}
"""The most files of a command."""

LOG = "".join(
    f"Epoch: [0][{step}/100] Time 0.500 ( 0.500) Data 0.001 ( 0.001) Loss 6.9 ( 6.9)\n"
    for step in range(0, 100, 10)
)


def trip(source: Path, python: str, words: list[str], folder: Path) -> list[tuple[str, str, int, int]]:
    """Return the functions that a command calls: file, name, first line and calls."""
    out = folder / "calls.json"
    package = source / "src" / "trainmark"
    # No bytecode of another checkout's folder is read or left there.
    variables = {
        **os.environ,
        "PYTHONPATH": str(source / "src"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "XDG_CACHE_HOME": str(folder.resolve() / "cache"),
    }
    command = [python, "-c", PROFILED, str(package), str(out), *words]
    ran = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    if not out.exists() or ran.returncode not in (0, 1):
        raise SystemExit(f"trips: {' '.join(words)} ended with {ran.returncode}: {ran.stderr.strip()[-500:]}")
    return [(file, name, line, calls) for file, name, line, calls in json.loads(out.read_text())]


def commands(source: Path, folder: Path, framework: str) -> dict[str, tuple[str, list[str]]]:
    """Return the interpreter and the words of each command."""
    (folder / "train.log").write_text(LOG)
    step = "time.sleep(.01); print(f'step {step} 100.0 images/s', flush=True)"
    training = f"import time\nfor step in range(40): {step}"
    found = {
        "parse": (
            sys.executable,
            ["trainmark.cli.main", "parse", "train.log", "--gpus", "1", "--batch", "32"],
        ),
        "run": (
            sys.executable,
            [
                "trainmark.cli.main",
                "run",
                "--out",
                "out",
                "--repeats",
                "1",
                "--",
                sys.executable,
                "-c",
                training,
            ],
        ),
    }
    python = Path(os.environ.get("TRAINMARK_TEST_ENVS", "/nonexistent"), framework, "bin", "python")
    if python.exists():
        flags = [
            "--model=mobilenet_v1",
            "--batch-per-device=2",
            "--image-size=32",
            "--steps=4",
            "--warmup-steps=1",
        ]
        start = str(source / "src/trainmark/worker/start.py")
        events = ["--threads=1", "--device=cpu", "--events=events.jsonl"]
        found["worker"] = (str(python), [start, f"--framework={framework}", *flags, *events])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--source", type=Path, default=CHECKOUT, help="a checkout; default: this one")
    parser.add_argument(
        "--framework", default="pytorch", help="of the worker; TRAINMARK_TEST_ENVS has its folder"
    )
    parser.add_argument("--list", choices=("parse", "run", "worker"), help="list the files of this command")
    own = parser.parse_args()
    source = own.source.resolve()
    over = 0
    print("| command | files | functions | calls | budget |\n| --- | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory(prefix="trips-") as name:
        folder = Path(name)
        found = commands(source, folder, own.framework)
        trip(source, *found["parse"], folder)
        for command, (python, words) in found.items():
            calls = trip(source, python, words, folder)
            files = Counter(file for file, _, _, _ in calls)
            budget = BUDGETS.get(command)
            print(
                f"| {command} | {len(files)} | {len(calls)} | {sum(call[3] for call in calls)} |"
                f" {'' if budget is None else f'< {budget}'} |"
            )
            over += budget is not None and len(files) >= budget
            if own.list == command:
                print(
                    "\n".join(f"{count:5} {file}" for file, count in sorted(files.items())), file=sys.stderr
                )
    return int(over > 0)


if __name__ == "__main__":
    sys.exit(main())
