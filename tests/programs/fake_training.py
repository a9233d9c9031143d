"""A training program that trains nothing: it writes the events of a run at once, or misbehaves as it is told.

Standard library only. Its step times are made up from the seed, so that a test takes milliseconds.
"""

import argparse
import fcntl
import json
import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

STEP_S = 0.010
MIB = 2**20


def main() -> None:
    given = arguments()
    with Path("pids").open("a", encoding="ascii") as pids:
        pids.write(f"{os.getpid()}\n")
    if given.behaviour == "garbage-output":
        sys.stdout.buffer.write(b"\x00\xff\xfe\x1b[31m" + bytes(range(256)) * 40 + b"no newline at the end")
        sys.stdout.buffer.flush()
    if given.behaviour.startswith("needs-"):
        refuse_above(int(given.behaviour.removeprefix("needs-")), given)
    before(given)
    say(f"step {given.warmup_steps}/{given.steps}")
    if given.behaviour in MISBEHAVIOUR:
        MISBEHAVIOUR[given.behaviour](given)
    with Path(given.events).open("w", encoding="utf-8") as file:
        write_events(given, file)
    if given.behaviour == "fails-after-its-events":
        sys.exit("the last words of a program that measured and then failed")


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name, kind in (("model", str), ("precision", str), ("behaviour", str), ("events", str)):
        parser.add_argument(f"--{name}", type=kind, default="well")
    for name in ("batch-per-device", "steps", "warmup-steps", "seed", "devices"):
        parser.add_argument(f"--{name}", type=int, default=1)
    parser.add_argument("--faster", type=float, action="append", default=[])
    return parser.parse_args()


def meet(place: Path, name: str) -> None:
    """Wait until a program of another precision is here too: one that came before this one has ended does not count."""
    with (place / name).open("w", encoding="ascii") as here:
        fcntl.flock(here, fcntl.LOCK_EX)
        deadline = time.monotonic() + 100
        while time.monotonic() < deadline:
            others = [path for path in place.iterdir() if path.name not in (name, "met")]
            if (place / "met").exists() or any(map(is_held, others)):
                (place / "met").touch()
                return
            time.sleep(0.01)
    sys.exit("nobody came")


def is_held(path: Path) -> bool:
    with path.open("a", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def before(given: argparse.Namespace) -> None:
    """Last as long as a real run's first moments, where a test wants to come in between."""
    if given.behaviour.startswith("lasts-"):
        time.sleep(float(given.behaviour.removeprefix("lasts-")))
    if given.behaviour.startswith("meets-at-"):
        meet(Path(given.behaviour.removeprefix("meets-at-")), given.precision)
    if given.behaviour.startswith("window-of-"):
        time.sleep(float(given.behaviour.removeprefix("window-of-")))
    if given.behaviour.startswith("steps-of-"):
        for step in range(1, given.steps + 1):
            time.sleep(float(given.behaviour.removeprefix("steps-of-")))
            sys.stdout.write(f"step {step}/{given.steps}\n")
            sys.stdout.flush()


def refuse_above(limit: int, given: argparse.Namespace) -> None:
    """End as out of memory when the batch is larger than ``limit``."""
    if given.batch_per_device > limit:
        with Path(given.events).open("w", encoding="utf-8") as file:
            write(file, [], {"outcome": "oom", "reason": f"{given.batch_per_device} images do not fit"})
        sys.exit(3)


def write_events(given: argparse.Namespace, file: TextIO) -> None:
    noise = random.Random(given.seed)
    pace = (1 + 0.002 * noise.random()) / math.prod(given.faster)
    times = [STEP_S * pace * (1 + 0.01 * noise.random()) for _ in range(given.steps)]
    measured = times[given.warmup_steps :]
    if given.behaviour == "measures-nothing":
        times, measured = times[: given.warmup_steps], []
    if given.behaviour == "stops-early":
        times, measured = times[:-3], measured[:-3]
    batch = given.batch_per_device if given.behaviour != "other-batch" else given.batch_per_device // 2
    write(file, "PARAMETER", parameters(given, batch))
    nan = given.behaviour == "nan-loss"
    if given.behaviour == "garbage-events":
        file.flush()
        file.buffer.write(
            b'\x00\xff\nDLLL {"step": [], "data": {"window_s": NaN}}\nDLLL {"step": []\nDLLL 7\n'
        )
        file.buffer.write(b'DLLL {"step": [], "data": 3}\nDLLL ' + b"[" * 100_000 + b"\n")
        file.buffer.flush()
    for index, step_s in enumerate(times):
        phase = "first_step" if index == 0 else "warmup" if index < given.warmup_steps else "measured"
        data = {"phase": phase, "step_time_s": step_s, "loss": None if nan else 6.9 - index / 100}
        write(file, [0, index], data | {"data_wait_s": 0.0})
    suspect = [{"code": "loss-not-finite", "sentence": "The loss of step 2 is nan."}] if nan else []
    told = peaks(given) if given.behaviour.startswith("tells-peaks") else {}
    write(file, [], summary(given, measured, batch * given.devices) | {"suspect": suspect} | told)
    if given.behaviour == "tells-peaks-and-fails":
        sys.exit("a program that measured what its device can do and then failed")
    if given.behaviour == "garbage-summary":
        nonsense = {"first_step_s": "soon", "suspect": [3], "peak_memory_bytes": {"a": 1}, "compile_s": [1]}
        write(file, [], nonsense)
    if given.behaviour == "nan-window":
        file.write('DLLL {"step": [], "data": {"window_s": NaN}}\n')
    if given.behaviour == "endless-window":
        write(file, [], {"window_s": 5e-324})
    if given.behaviour == "backward-clock":
        write(file, [], {"window_s": -1.0})


def parameters(given: argparse.Namespace, batch: int) -> dict[str, Any]:
    return {
        "schema": "trainmark.events/1",
        "framework": "fake",
        "model": given.model,
        "precision": given.precision,
        "batch_per_device": batch,
        "world_size": given.devices,
        "global_batch": batch * given.devices,
        "unit": "images/s",
    }


def summary(given: argparse.Namespace, measured: list[float], global_batch: int) -> dict[str, Any]:
    if not measured:
        return {"outcome": "ok"}
    window_s = sum(measured)
    if given.behaviour.startswith("window-of-"):
        window_s = float(given.behaviour.removeprefix("window-of-"))
    return {
        "outcome": "ok",
        "samples": len(measured) * global_batch,
        "window_s": window_s,
        "window_at": time.time() - window_s,
        "first_step_s": STEP_S,
        "peak_memory_bytes": [MIB],
    }


def peaks(given: argparse.Namespace) -> dict[str, Any]:
    """Return what a built-in worker tells of its devices, rank by rank; or what none can."""
    if given.behaviour == "tells-peaks-of-nonsense":
        return {"peak_operations_per_s": ["fast"], "peak_of": 3, "peak_type": None}
    return {
        "peak_operations_per_s": [1000 + rank for rank in range(given.devices)],
        "peak_of": "product of 768 x 768 matrices, bfloat16",
        "peak_type": "bfloat16",
        "peak_bytes_per_s": [100 + rank for rank in range(given.devices)],
        "peak_bytes_of": "sum of two rows of 33554432 values, float32",
        "peak_bytes_type": "float32",
    }


def write(file: TextIO, step: Any, data: dict[str, Any]) -> None:
    file.write(f"DLLL {json.dumps({'step': step, 'data': data})}\n")


def crash(_given: argparse.Namespace) -> None:
    say("step 7/12")
    raise ValueError("the labels of step 7 are wrong")


def hang(_given: argparse.Namespace) -> None:
    while True:
        signal.pause()


def hang_and_ignore_the_signal(given: argparse.Namespace) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say("deaf")
    hang(given)


def chatter(_given: argparse.Namespace) -> None:
    while True:
        say("still here")
        time.sleep(0.05)


def work_in_silence(given: argparse.Namespace) -> None:
    """Print nothing for a while, but write events all the time."""
    with Path(given.events).open("w", encoding="utf-8") as file:
        until = time.monotonic() + 5
        while time.monotonic() < until:
            file.write("\n")
            file.flush()
            time.sleep(0.05)


def be_killed(_given: argparse.Namespace) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def take_memory(_given: argparse.Namespace) -> None:
    held = []
    while True:
        held.append(bytearray(16 * MIB))


def take_memory_in_parts(given: argparse.Namespace) -> None:
    """Stay below the limit of one process, and exceed it with two children."""
    code = f"import signal\nheld = bytearray(b'x') * {60 * MIB}\nprint('held', flush=True)\nsignal.pause()"
    for _ in range(2):
        started([sys.executable, "-c", code])
    hang(given)


def say_torch_has_no_memory(_given: argparse.Namespace) -> None:
    sys.exit(
        "RuntimeError: [enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: "
        "you tried to allocate 102760448 bytes. Error code 12 (Cannot allocate memory)"
    )


def leave_a_daemon(_given: argparse.Namespace) -> None:
    """Start a process in a session of its own, through one that ends, as daemons do."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with Path("pids").open("a", encoding="ascii") as pids:
                pids.write(f"{os.getpid()}\n")
            while True:
                signal.pause()
        os._exit(0)
    os.wait()
    while Path("pids").read_text(encoding="ascii").count("\n") < 2:
        time.sleep(0.005)


def leave_a_child_with_a_clean_environment(_given: argparse.Namespace) -> None:
    subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import os, signal; print(os.getpid(), file=open('pids', 'a')); signal.pause()",
        ],
        env={},
        stdout=subprocess.DEVNULL,
    )
    while Path("pids").read_text(encoding="ascii").count("\n") < 2:
        time.sleep(0.005)


def hang_with_a_child(given: argparse.Namespace) -> None:
    started([sys.executable, "-c", "import signal; signal.pause()"])
    say("child started")
    hang(given)


def print_too_much(_given: argparse.Namespace) -> None:
    for _ in range(64):
        sys.stdout.buffer.write(b"x" * MIB)
        sys.stdout.buffer.flush()


def print_until_the_disk_is_full(given: argparse.Namespace) -> None:
    """Print as long as a file ``full`` in the run's data folder asks for it."""
    if Path(os.environ.get("FAKE_FILL", "/nonexistent")).exists():
        print_too_much(given)


def die_as_rank_1(_given: argparse.Namespace) -> None:
    if os.environ.get("RANK") == "1":
        os.kill(os.getpid(), signal.SIGKILL)
    while True:
        signal.pause()


def started(words: list[str]) -> None:
    process = subprocess.Popen(words)
    with Path("pids").open("a", encoding="ascii") as pids:
        pids.write(f"{process.pid}\n")


def write_no_events(_given: argparse.Namespace) -> None:
    sys.exit(0)


MISBEHAVIOUR: dict[str, Callable[[argparse.Namespace], None]] = {
    "crashes": crash,
    "hangs": hang,
    "hangs-deaf": hang_and_ignore_the_signal,
    "chatters": chatter,
    "silent": work_in_silence,
    "killed": be_killed,
    "takes-memory": take_memory,
    "takes-memory-in-parts": take_memory_in_parts,
    "torch-memory": say_torch_has_no_memory,
    "daemon": leave_a_daemon,
    "clean-child": leave_a_child_with_a_clean_environment,
    "hangs-with-child": hang_with_a_child,
    "fills-disk": print_until_the_disk_is_full,
    "rank-1-dies": die_as_rank_1,
    "writes-no-events": write_no_events,
}

if __name__ == "__main__":
    main()
