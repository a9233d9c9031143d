r"""Programs of the same training step in turn on one machine: rounds, order, intervals. What contends stands elsewhere.

Each contestant is a process of its own, which builds its network, compiles, warms up and then waits; all stay on the
device together. In each round each of them trains one block of steps while the others wait, in an order drawn anew from
``--seed``. Printed are each one's median rate and the median of its ratios to the reference round by round, with 95 %
intervals by order statistics (see ``overhead.py``), and the GPU's clock, power and energy meanwhile; ``--json`` keeps
every block. ``--profile`` adds each one's kernel times by kind, measured after the rounds. All networks have the same
number of parameters, or the contestant is left out; a program that does not tell it contends, and that is said.
"""

import argparse
import importlib
import importlib.util
import json
import math
import os
import random
import runpy
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import peer_profile
from clocks import Clocks
from overhead import START, measured_block, median_interval

LEAST_ROUNDS = 6
"""For an interval of a median with 95 % confidence."""


class Step(NamedTuple):
    """A contestant's steps in blocks; ``parameters`` are the network's, ``memory`` tells the most bytes in use.

    Both are None where a program says nothing of it. ``told`` returns what else is worth keeping of it, once it has
    trained; ``warm_up`` is the number of blocks before the first that counts.
    """

    block: Callable[[int], float]
    parameters: int | None
    versions: Mapping[str, str]
    memory: Callable[[], int | None]
    told: Callable[[], Mapping[str, Any]] = dict
    warm_up: int = 2


class Block(NamedTuple):
    """A block of steps, and what the GPU's clock and power were meanwhile (see ``clocks.py``)."""

    seconds: float
    seen: Mapping[str, float]


class Contestant(NamedTuple):
    """A program of the step, and what it needs: packages, a device, one of these precisions, one of these models.

    Whoever has ``variables`` of the environment is a variant of another one, and contends where ``--only`` names it.
    Of one whose block is a ``whole`` run, start and all, clock and power would say nothing of its steps.
    One that ``tunes_kernels`` measures candidates while it compiles: it starts when all others are ready.
    """

    opened_by: Callable[[argparse.Namespace], Step]
    needs: tuple[str, ...] = ()
    device: str | None = None
    precisions: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    variables: Mapping[str, str] = {}
    whole: bool = False
    tunes_kernels: bool = False


class Contest(NamedTuple):
    """Who contends by name; ``parameters`` of the network, and ``work`` of one step by its unit, headline first.

    ``kept``: which flags the result repeats; they and ``passed`` are handed on to each contestant's process.
    """

    contestants: Mapping[str, Contestant]
    parameters: int
    work: Mapping[str, int]
    kept: Sequence[str]
    passed: Sequence[str] = ()


def parser_of(description: str | None, contestants: Mapping[str, Contestant]) -> argparse.ArgumentParser:
    """Return the flags that every contest has."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--steps", type=int, default=40,
        help="of one block, which should take some seconds: a GPU at its power limit lowers its clock only then",
    )  # fmt: skip
    parser.add_argument(
        "--minutes", type=float, default=60.0, help="of rounds, after which no further one begins"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the order")
    parser.add_argument("--only", nargs="+", choices=contestants, metavar="NAME", help=", ".join(contestants))
    parser.add_argument("--reference", help="what the ratios are to; the fastest that is not trainmark's")
    parser.add_argument(
        "--together", action="store_true",
        help="let all get ready at the same time: sooner, but compilers measure kernels beside each other. "
        "All stay on the device in any case: where one has no memory beside the others, take fewer by --only",
    )  # fmt: skip
    parser.add_argument(
        "--prepare-minutes", type=float, default=15.0, metavar="MINUTES",
        help="for each contestant to build, compile and warm up; one that needs longer is left out",
    )  # fmt: skip
    parser.add_argument(
        "--profile",
        action="store_true",
        help="after the rounds, measure each one's kernels in torch's profiler",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the result goes too")
    parser.add_argument("--contestant", choices=contestants, help=argparse.SUPPRESS)
    return parser


def ours(
    framework: str, task: str, flags: Sequence[str], own: argparse.Namespace, device: str | None = None
) -> Any:
    """Return a worker's training and what it says of itself."""
    runpy.run_path(str(START))
    arguments = importlib.import_module("trainmark_worker.core.arguments")
    place = importlib.import_module("trainmark_worker.core.place").place_from({})
    words = [
        f"--framework={framework}", f"--batch-per-device={own.batch}", f"--device={device or own.device}",
        f"--steps={own.steps + 1}", "--warmup-steps=1", "--seed=0", *flags,
    ]  # fmt: skip
    folders = importlib.import_module("trainmark_worker.core.folders")
    trainer = folders.import_trainer(framework, task.replace("_", "-"))
    return trainer.open_training(arguments.parse(words, 1), place)


def ours_in_blocks(training: Any, framework: str) -> Step:
    """Return a worker's steps, by the very code of its window."""
    told = training.describe()
    return Step(
        lambda steps: measured_block(training, steps),
        told["parameters"],
        {framework: told["framework_version"], "device": told["device_name"]},
        training.peak_memory_bytes,
        lambda: {name: value for name, value in training.actual().items() if name.startswith("attention")},
    )


def torch_in_blocks(
    step: Callable[[], Any], recorded: bool, model: Any, versions: Mapping[str, str], device: Any
) -> Step:
    """Return a public program's steps in torch; ``recorded``: the whole step as one CUDA graph."""
    import torch

    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize()

    once = step
    if recorded:
        aside = torch.cuda.Stream()
        with torch.cuda.stream(aside):
            for _ in range(3):
                step()
        wait()
        if device.type == "cuda":
            # The peak is that of the steps: a compiler that measures candidates needs more, once.
            torch.cuda.reset_peak_memory_stats()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=aside):
            step()
        once = graph.replay

    def block(steps: int) -> float:
        wait()
        started = time.perf_counter()
        for _ in range(steps):
            once()
        wait()
        return time.perf_counter() - started

    return Step(
        block,
        sum(parameter.numel() for parameter in model.parameters()),
        {**versions, "torch": torch.__version__},
        lambda: torch.cuda.max_memory_allocated() if device.type == "cuda" else 0,
    )


def hold(contest: Contest, own: argparse.Namespace, program: str) -> int:
    """Hold the contest, or be the contestant of it that ``program`` was started as; return the exit code."""
    if own.contestant:
        return _contend(contest.contestants[own.contestant], own)
    running = _prepare(contest, own, program)
    if own.reference not in (None, *running):
        print(f"{own.reference} is not there: the ratios are to another one", flush=True)
    # Who ends the contest early gets the rounds that were whole.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    trained: dict[str, list[Block]] = {name: [] for name in running}
    told = {name: one.told for name, one in running.items()}
    try:
        for number in _rounds(running, own, time.monotonic() + 60 * own.minutes, trained):
            if own.json:
                whole = {name: blocks[:number] for name, blocks in trained.items()}
                own.json.write_text(
                    json.dumps(_result(whole, told, own, contest), indent=1) + "\n", encoding="utf-8"
                )
    finally:
        number = min(map(len, trained.values()), default=0)
        code = _tell({name: blocks[:number] for name, blocks in trained.items()}, told, own, contest)
        if own.profile and number:
            _profile(running, own)
        for contestant in running.values():
            contestant.end()
    return code


def _prepare(contest: Contest, own: argparse.Namespace, program: str) -> "dict[str, Running]":
    """Start the contestants and return those that are ready to train, by name."""
    starting: dict[str, Running] = {}
    running: dict[str, Running] = {}
    tuning: list[str] = []
    for name in own.only or [name for name, one in contest.contestants.items() if not one.variables]:
        absent = _cannot(contest.contestants[name], own)
        if absent:
            print(f"{name}: left out, {absent}", flush=True)
            continue
        if contest.contestants[name].tunes_kernels:
            tuning.append(name)
            continue
        starting[name] = Running(name, own, contest, program)
        # One after the other, as nobody should be measured beside others while a compiler chooses kernels.
        if not own.together:
            _take_in(starting.pop(name), contest, running)
    for contestant in starting.values():
        _take_in(contestant, contest, running)
    for name in tuning:
        _take_in(Running(name, own, contest, program), contest, running)
    return running


def _profile(running: "dict[str, Running]", own: argparse.Namespace) -> None:
    """Print each contestant's kernel times by kind, and add them to the result's rows."""
    kernels = {name: one.profile() for name, one in running.items() if not one.whole}
    for name, found in kernels.items():
        by_kind = ", ".join(f"{kind} {ms:.3f}" for kind, ms in found.get("ms_per_step", {}).items())
        print(f"{name:<28} ms of kernels a step: {by_kind or found.get('error')}", flush=True)
    if own.json:
        result = json.loads(own.json.read_text(encoding="utf-8"))
        for row in result["rows"]:
            row["kernels"] = kernels.get(row["name"])
        own.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


def _take_in(contestant: "Running", contest: Contest, running: "dict[str, Running]") -> None:
    told = contestant.ready()
    if "error" in told or told["parameters"] not in (contest.parameters, None):
        why = told.get("error") or f"its network is another one, of {told['parameters']} parameters"
        print(f"{contestant.name}: left out, {why}", flush=True)
        contestant.end()
        return
    running[contestant.name] = contestant
    uncounted = "" if told["parameters"] else ", the parameters of its network are not told"
    print(f"{contestant.name}: ready, {told['versions']}{uncounted}", flush=True)


def _cannot(contestant: Contestant, own: argparse.Namespace) -> str | None:
    missing = [name for name in contestant.needs if importlib.util.find_spec(name) is None]
    if missing:
        return f"{', '.join(missing)} is not installed here"
    if contestant.device not in (None, own.device):
        return f"it needs {contestant.device}"
    if contestant.precisions and own.precision not in contestant.precisions:
        return f"it has no {own.precision}"
    if contestant.models and own.model not in contestant.models:
        return f"it does not train {own.model}"
    return None


class Running:
    """A contestant's process: ready once it is made; ``block`` lets it train."""

    def __init__(self, name: str, own: argparse.Namespace, contest: Contest, program: str) -> None:
        self.name, self.whole = name, contest.contestants[name].whole
        self.told: dict[str, Any] = {}
        words = [sys.executable, program, f"--contestant={name}"]
        for key in dict.fromkeys(("device", "batch", "steps", *contest.kept, *contest.passed)):
            if vars(own)[key] is not None:
                words.append(f"--{key.replace('_', '-')}={vars(own)[key]}")
        # All are on the device together, and JAX would take three quarters of it.
        share = {"XLA_PYTHON_CLIENT_MEM_FRACTION": "0.2"}
        # A variant's own variables are set for it alone, whatever is exported here.
        varied = {key for one in contest.contestants.values() for key in one.variables}
        exported = {key: value for key, value in os.environ.items() if key not in varied}
        variables = {**share, **exported, **contest.contestants[name].variables}
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=variables
        )
        self._deadline = threading.Timer(60 * own.prepare_minutes, self._process.kill)
        self._deadline.daemon = True
        self._deadline.start()

    def ready(self) -> dict[str, Any]:
        """Wait until it is; return what it tells of itself, or its ``error``."""
        self.told = self._line()
        self._deadline.cancel()
        return self.told

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # Frameworks print what they like.
            if line.startswith("{"):
                told: dict[str, Any] = json.loads(line)
                return told
        return {"error": f"it ended with exit code {self._process.wait()}"}

    def block(self) -> float:
        """Return the seconds of one block."""
        assert self._process.stdin is not None
        print("block", file=self._process.stdin, flush=True)
        told = self._line()
        if "seconds" not in told:
            raise SystemExit(f"peers: {self.name}: {told['error']}")
        return float(told["seconds"])

    def profile(self) -> dict[str, Any]:
        """Return the contestant's kernel times, or its ``error``."""
        assert self._process.stdin is not None
        print("profile", file=self._process.stdin, flush=True)
        return self._line()

    def end(self) -> None:
        """Let the process end."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def _contend(contestant: Contestant, own: argparse.Namespace) -> int:
    started = time.monotonic()
    try:
        step = contestant.opened_by(own)
        for _ in range(step.warm_up):
            step.block(own.steps)
    except Exception as error:
        lines = str(error).strip().splitlines() or [""]
        print(json.dumps({"error": f"{type(error).__name__}: {lines[0][:200]}"}), flush=True)
        raise
    told: dict[str, Any] = {
        "parameters": step.parameters,
        "versions": dict(step.versions),
        "memory_bytes": step.memory(),
    }
    told["prepared_s"] = round(time.monotonic() - started, 1)
    print(json.dumps({**told, "told": dict(step.told())}), flush=True)
    for line in sys.stdin:
        if line.strip() == "profile":
            print(json.dumps(_kernels(step)), flush=True)
            continue
        print(json.dumps({"seconds": step.block(own.steps)}), flush=True)
    return 0


def _kernels(step: Step) -> dict[str, Any]:
    try:
        return peer_profile.kernel_times(step.block)
    except Exception as error:  # the rates are measured: a profiler that fails must not lose them
        return {"error": f"{type(error).__name__}: {str(error)[:200]}"}


def _rounds(
    running: dict[str, Running], own: argparse.Namespace, ends: float, trained: dict[str, list[Block]]
) -> Iterator[int]:
    """Add each one's block, a block a round; give the number of rounds that are over."""
    order, clocks = random.Random(own.seed), Clocks(own.device)
    for number in range(own.rounds if running else 0):
        if number and time.monotonic() > ends:
            print(f"{number} of {own.rounds} rounds: the time is over", flush=True)
            break
        for name in order.sample(list(running), len(running)):
            one = running[name]
            trained[name].append(Block(one.block(), {}) if one.whole else Block(*clocks.during(one.block)))
        yield number + 1


def _result(
    trained: dict[str, list[Block]],
    told: dict[str, dict[str, Any]],
    own: argparse.Namespace,
    contest: Contest,
) -> dict[str, Any]:
    seconds = {name: [block.seconds for block in blocks] for name, blocks in trained.items()}
    others = [name for name in seconds if not name.startswith("trainmark")] or list(seconds)
    reference = own.reference if own.reference in seconds else None
    reference = reference or min(others, key=lambda name: statistics.median(seconds[name]))
    rows = []
    unit, headline = next(iter(contest.work.items()))
    for name, blocks in sorted(seconds.items(), key=lambda item: statistics.median(item[1])):
        ratios = [theirs_s / own_s for theirs_s, own_s in zip(seconds[reference], blocks, strict=True)]
        rates = [headline * own.steps / block for block in blocks]
        middle = statistics.median(rates)
        rows.append(
            {
                "name": name,
                **{f"{what}_per_s": middle * count / headline for what, count in contest.work.items()},
                "interval_95": _interval(rates),
                "ratio": statistics.median(ratios),
                "ratio_interval_95": _interval(ratios),
                "memory_bytes": told[name]["memory_bytes"],
                "prepared_s": told[name].get("prepared_s"),
                f"mj_per_{unit.removesuffix('s')}": _energy_mj(trained[name], headline * own.steps),
                "versions": told[name]["versions"],
                "blocks": [{"seconds": round(block.seconds, 6), **block.seen} for block in trained[name]],
                **({"told": told[name]["told"]} if told[name].get("told") else {}),
            }
        )
    return {
        "reference": reference,
        **{key: getattr(own, key) for key in contest.kept},
        **{key: getattr(own, key) for key in ("batch", "steps", "seed", "together")},
        "rounds": len(seconds[reference]),
        "rows": rows,
    }


def _tell(
    trained: dict[str, list[Block]],
    told: dict[str, dict[str, Any]],
    own: argparse.Namespace,
    contest: Contest,
) -> int:
    if not any(trained.values()):
        print("peers: nobody has trained a round here", file=sys.stderr)
        return 1
    result = _result(trained, told, own, contest)
    unit = next(iter(contest.work))
    asked = ", ".join(f"{key.replace('_', ' ')} {getattr(own, key)}" for key in (*contest.kept, "batch"))
    print(f"{asked}, {result['rounds']} rounds of {own.steps} steps; ratio to {result['reference']}")
    for row in result["rows"]:
        memory = "" if row["memory_bytes"] is None else f"{row['memory_bytes'] / 2**30:6.2f} GiB"
        millijoules = row[f"mj_per_{unit.removesuffix('s')}"]
        energy = "" if millijoules is None else f"{millijoules:.3f} mJ/{unit.removesuffix('s')}"
        print(
            f"{row['name']:<28} {row[f'{unit}_per_s']:9.1f} {_spoken(row['interval_95'], 1)} {unit}/s   "
            f"{row['ratio']:.3f} {_spoken(row['ratio_interval_95'], 3)}   {memory}   {_seen(row['blocks'])} {energy}",
            flush=True,
        )
    return 0


def _interval(values: list[float]) -> tuple[float, float] | None:
    return median_interval(values) if len(values) >= LEAST_ROUNDS else None


def _energy_mj(blocks: list[Block], work: int) -> float | None:
    """Return the GPU's energy for one unit of ``work``, in millijoules; None if its power is unknown."""
    if not all("power_w" in block.seen for block in blocks):
        return None
    joules = math.fsum(block.seen["power_w"] * block.seconds for block in blocks)
    return round(1e3 * joules / (work * len(blocks)), 4)


def _seen(blocks: list[dict[str, float]]) -> str:
    """Return the means over the blocks of what was seen of the GPU."""
    units = {"sm_mhz": "MHz", "power_w": "W"}
    return " ".join(
        f"{statistics.fmean(block[key] for block in blocks):.0f} {unit}"
        for key, unit in units.items()
        if all(key in block for block in blocks)
    )


def _spoken(interval: tuple[float, float] | None, digits: int) -> str:
    if interval is None:
        return "[too few rounds for an interval]"
    return f"[{interval[0]:.{digits}f}, {interval[1]:.{digits}f}]"
