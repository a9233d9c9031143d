"""Carrying out one run: start its process, watch it, bound it, and leave nothing of it behind."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trainmark.errors import TrainmarkError
from trainmark.execution.classify import Exit, classify, last_step
from trainmark.execution.processes import MARK, end_all, kernel_oom_kills, private_bytes
from trainmark.execution.signals import held
from trainmark.files import to_json, write_atomically
from trainmark.placement import Command, Plan
from trainmark.suite import Limits, Outcome
from trainmark.words.outcome import OutcomeRecord

LOG = "train.log"
RANKS = "ranks.json"
"""The commands of a run with several, as they are handed to the process that starts them."""
_STUB = Path(__file__).with_name("stub.py")
_RANKS = Path(__file__).with_name("ranks.py")
_POLL_S = 0.05
_LOOK_S = 0.5


@dataclass(frozen=True, slots=True)
class Pulse:
    """A sign of life of a running run: seconds since its start, and the last step it spoke of."""

    elapsed_s: float
    step: int | None


def carry_out(
    plan: Plan,
    directory: Path,
    limits: Limits,
    watch: Callable[[Pulse], None] = lambda _pulse: None,
    started: Callable[[int], None] = lambda _pid: None,
) -> OutcomeRecord:
    """Run a plan in ``directory`` and return what became of it; ``train.log`` holds what it printed, untouched.

    ``watch`` is called about twice a second, ``started`` once with the process's id. Whatever happens, a
    ``KeyboardInterrupt`` included, no process of the run is alive when this returns or raises. Raises
    ``TrainmarkError`` when the log cannot be opened.
    """
    commands = tuple(command.text() for command in plan.commands)
    if plan.cannot_run is not None:
        return _not_started(plan, Outcome.UNSUPPORTED, plan.cannot_run, commands)
    mark = str(directory.resolve())
    started_at, began = datetime.now(UTC), time.monotonic()
    oom_kills = kernel_oom_kills()
    # Held: an interrupt between the fork and our knowing of it would leave a process that nobody ends.
    with held():
        try:
            process = _start(plan, directory, limits, mark)
        except (OSError, ValueError) as error:
            reason = f"the command cannot be started: {getattr(error, 'strerror', None) or error}"
            return _not_started(plan, Outcome.FAILED, reason, commands)
    try:
        started(process.pid)
        ended_for = _wait(process, (directory / LOG, plan.events), limits, began, watch)
    finally:
        with held():
            strays = end_all(mark, process.pid)
            exit_code = process.wait()
    ended = ended_for or classify(
        Exit(exit_code, kernel_oom_kills() - oom_kills), plan.events, directory / LOG
    )
    return OutcomeRecord(
        case_id=plan.case.id,
        repeat=plan.repeat,
        outcome=ended[0],
        reason=ended[1],
        exit_code=exit_code,
        started_at=started_at,
        ended_at=datetime.now(UTC),
        duration_s=time.monotonic() - began,
        last_step=last_step(directory / LOG),
        strays=strays if ended_for is None else 0,
        commands=commands,
    )


def _not_started(plan: Plan, outcome: Outcome, reason: str, commands: tuple[str, ...]) -> OutcomeRecord:
    return OutcomeRecord(
        case_id=plan.case.id, repeat=plan.repeat, outcome=outcome, reason=reason, commands=commands
    )


def _start(plan: Plan, directory: Path, limits: Limits, mark: str) -> "subprocess.Popen[bytes]":
    commands = [command for command in plan.commands if command.node == 0]
    python = (sys.executable, "-I", "-S")
    bounds = (str(os.getpid()), str(limits.memory or 0))
    if len(commands) == 1:
        words = (*python, str(_STUB), *bounds, *commands[0].words)
        environment = _environment(os.environ, commands[0].variables, commands[0].without) | {MARK: mark}
    else:
        # Absolute, because it is read by a process whose working directory is the run's folder.
        ranks = directory.resolve() / RANKS
        write_atomically(ranks, to_json([_described(command) for command in commands]))
        words = (*python, str(_STUB), *bounds, *python, str(_RANKS), str(ranks), str(_STUB))
        environment = dict(os.environ) | {MARK: mark}
    try:
        log = (directory / LOG).open("wb")
    except OSError as error:
        raise TrainmarkError(f"{directory / LOG}: cannot be written: {error.strerror}") from None
    with log:
        return subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=directory,
            start_new_session=True,
        )


def _described(command: Command) -> dict[str, object]:
    return {
        "words": command.words,
        "variables": dict(command.variables),
        "without": command.without,
    }


def _environment(base: Mapping[str, str], add: Mapping[str, str], without: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, value in base.items() if name not in without} | dict(add)


def _wait(
    process: "subprocess.Popen[bytes]",
    signs: tuple[Path, Path],
    limits: Limits,
    began: float,
    watch: Callable[[Pulse], None],
) -> tuple[Outcome, str] | None:
    """Wait for the process; return why it must be ended, or None when it ended by itself.

    ``signs`` are its log and its events: as long as one of them grows, it is not stalled.
    """
    sizes, grown, next_look = (0, 0), began, began
    while True:
        try:
            process.wait(timeout=_POLL_S)
            return None
        except subprocess.TimeoutExpired:
            pass
        now = time.monotonic()
        if now < next_look:
            continue
        next_look = now + _LOOK_S
        if (now_sizes := (_size(signs[0]), _size(signs[1]))) != sizes:
            sizes, grown = now_sizes, now
        step = last_step(signs[0])
        watch(Pulse(now - began, step))
        at = f" at step {step}" if step is not None else ""
        if now - began > limits.timeout_s:
            return Outcome.TIMEOUT, f"it took longer than {limits.timeout_s:g} s{at} (limits.timeout_s)"
        if now - grown > limits.stall_timeout_s:
            silent = f"it printed nothing for {limits.stall_timeout_s:g} s"
            return Outcome.TIMEOUT, f"{silent}{at} (limits.stall_timeout_s)"
        if limits.memory is not None and (used := private_bytes(process.pid)) > limits.memory:
            return (
                Outcome.OOM,
                f"it used {used} bytes of memory{at}, more than {limits.memory} (limits.memory)",
            )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
