"""A small program that prints its steps and, in the middle of them, does something that no program should do."""

import os
import shutil
import signal
import sys
import time
from pathlib import Path

deed = sys.argv[1]
folder = Path("/proc/self/fd/1").readlink().parent
"""The run's folder, in which trainmark stores the program's output as ``train.log``."""


def remove_folder() -> None:
    """Delete the run's folder with everything in it."""
    shutil.rmtree(folder)


def replace_folder() -> None:
    """Put a file in the place of the run's folder."""
    shutil.rmtree(folder)
    folder.write_text("no folder")


def replace_log() -> None:
    """Put another file in the place of the log."""
    (folder / "train.log").unlink()
    (folder / "train.log").write_text("nothing\n")


def replace_files() -> None:
    """Put a folder, a named pipe or an endless file in the place of each file of the run's folder."""
    kinds = [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/zero")]
    names = sorted({*(path.name for path in folder.iterdir()), "outcome.json", "events.jsonl", "ranks.json"})
    for number, name in enumerate(names):
        (folder / name).unlink(missing_ok=True)
        kinds[number % len(kinds)](folder / name)


def lock_folder() -> None:
    """Make the run's folder and its files read-only."""
    for path in (*folder.iterdir(), folder):
        path.chmod(0o444 if path.is_file() else 0o555)


def fill_folder() -> None:
    """Write two thousand files, and a name that is no text."""
    for number in range(2000):
        (folder / f"shard-{number}").touch()
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff\xfe")).touch()


def start_daemon() -> None:
    """Leave a process behind that has its own session, no parent and no output."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in range(3):
                os.close(number)
            (folder / "daemon.pid").write_text(str(os.getpid()))
            time.sleep(300)
        os._exit(0)
    os.wait()
    while not (folder / "daemon.pid").exists():
        time.sleep(0.01)


def hide_daemon() -> None:
    """Leave a process behind with its own session, no parent, no output and a cleared environment."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            for number in range(3):
                os.close(number)
            (folder / "daemon.pid").write_text(str(os.getpid()))
            os.execve(sys.executable, [sys.executable, "-S", "-c", "import time; time.sleep(300)"], {})
        os._exit(0)
    os.wait()
    while not (folder / "daemon.pid").exists():
        time.sleep(0.01)


def close_output() -> None:
    """Close both outputs; the steps that follow cannot be printed."""
    os.close(1)
    os.close(2)
    os._exit(0)


def change_source() -> None:
    """Append a line to this file, as a program does that notes its state in its source."""
    with Path(__file__).open("a") as file:
        file.write(f"# {time.time()}\n")


def print_escapes() -> None:
    """Print what clears a terminal, renames its window and ends in the middle of a character; then fail."""
    sys.stdout.buffer.write(b"\x1b[2J\x1b]0;owned\x07\x9b31m\xe2\x82\n")
    sys.stdout.flush()
    sys.exit("\x1b[31mred\x1b[0m \x1b]0;owned\x07 \x08\x08\x08 failed\r")


def flood_output() -> None:
    """Print 100 MB."""
    line = b"x" * 99 + b"\n"
    for _ in range(100):
        os.write(1, line * 10_000)


def kill_group() -> None:
    """Kill the whole process group."""
    os.killpg(0, signal.SIGKILL)


for step in range(60):
    time.sleep(0.01)
    sys.stdout.write(f"step {step} loss {1 / (step + 1):.4f}\n")
    sys.stdout.flush()
    if step == 40 and deed != "nothing":
        globals()[deed.replace("-", "_")]()
