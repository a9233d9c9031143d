"""Run short probes on several hosts in parallel, each with a timeout and full clean-up."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainmark.environment.resolving import last_answer
from trainmark.errors import TrainmarkError
from trainmark.node import NOT_FOUND, Host, Job, child_mark, deferred_signals, probe_mark
from trainmark.schema.plan import Command

REMOTE_SCRIPTS = Path(__file__).parent / "remote_scripts"
"""Self-contained scripts, passed as a command-line argument so that no file is written on a host."""

_WAIT_S = 0.05


@dataclass(frozen=True, slots=True)
class Probe:
    """Commands to start on a host: one process, or ranks that are started and ended as one job."""

    host: Host
    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class ProbeResult:
    """The JSON object that a probe printed, or the reason why there is no object."""

    value: dict[str, Any] | None
    problem: str | None = None


def script_command(
    python: Path,
    name: str,
    argument: object,
    variables: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
) -> Command:
    """Return the command that runs a remote script in an interpreter, with a JSON value as its argument."""
    source = (REMOTE_SCRIPTS / f"{name}.py").read_text(encoding="utf-8")
    return Command(0, (str(python), *flags, "-c", source, json.dumps(argument)), dict(variables or {}))


def run_probe(host: Host, command: Command, timeout_s: float) -> ProbeResult:
    """Run one command on one host and return its result; see ``run_probes``."""
    (answer,) = run_probes([Probe(host, (command,))], timeout_s)
    return answer


def run_probes(probes: Sequence[Probe], timeout_s: float) -> tuple[ProbeResult, ...]:
    """Run probes in parallel and return their results in order; a slow host does not delay the others."""
    with start_probes(probes) as running:
        deadline = time.monotonic() + timeout_s
        return tuple(_answer(one, deadline, timeout_s) for one in running)


@dataclass(slots=True)
class RunningProbe:
    """A probe that was started on its host, or the reason why it could not be; the paths are the host's."""

    probe: Probe
    out: Path = Path()
    errors: Path = Path()
    mark: str = ""
    pid: int | None = None
    problem: str | None = None
    folders: ExitStack = field(default_factory=ExitStack)

    def wait(self, timeout_s: float) -> int | None:
        """Return the exit code, or None while the probe runs."""
        assert self.pid is not None
        return self.probe.host.wait(self.pid, timeout_s)

    def printed(self) -> dict[str, Any] | None:
        """Return the last JSON object that was printed so far, or None."""
        with suppress(ValueError, RecursionError):
            value = last_answer(self.probe.host.read(self.out) or b"")
            return value if isinstance(value, dict) else None
        return None


@contextmanager
def start_probes(probes: Sequence[Probe]) -> Iterator[tuple[RunningProbe, ...]]:
    """Start all probes, and end them when the context exits."""
    running = tuple(RunningProbe(probe) for probe in probes)
    try:
        for one in running:
            # An interrupt between the start and the assignment of its pid would leave an unknown process running.
            with deferred_signals():
                _start(one)
        yield running
    finally:
        with deferred_signals():
            for one in running:
                _end(one)


def _start(running: RunningProbe) -> None:
    host = running.probe.host
    try:
        folder = running.folders.enter_context(host.scratch())
        running.out, running.errors = folder / "out", folder / "errors"
        running.mark = child_mark(probe_mark())
        running.pid = host.start(
            Job(running.probe.commands, folder, running.out, running.mark, errors=running.errors)
        )
    except (OSError, ValueError, TrainmarkError) as error:
        running.problem = str(getattr(error, "strerror", None) or error)


def _end(running: RunningProbe) -> None:
    host = running.probe.host
    try:
        if running.pid is not None:
            host.kill(running.mark, running.pid)
            host.reap(running.pid)
        running.folders.close()
    except (OSError, TrainmarkError) as error:
        running.problem = running.problem or str(error)


def _answer(running: RunningProbe, deadline: float, timeout_s: float) -> ProbeResult:
    if running.pid is None:
        return ProbeResult(None, running.problem)
    try:
        code = running.wait(max(0.0, deadline - time.monotonic()))
        if code is None:
            return ProbeResult(None, f"no answer within {timeout_s:g} s")
        value = running.printed() or {}
        if "problem" in value:
            return ProbeResult(None, str(value["problem"]))
        return ProbeResult(value) if code == 0 and value else ProbeResult(None, _why(running, code))
    except (OSError, TrainmarkError) as error:
        return ProbeResult(None, str(getattr(error, "strerror", None) or error))


def wait_for_output(running: RunningProbe, timeout_s: float) -> ProbeResult:
    """Return the first output of a process that keeps running."""
    if running.pid is None:
        return ProbeResult(None, running.problem)
    deadline = time.monotonic() + timeout_s
    try:
        while True:
            code = running.wait(_WAIT_S)
            value = running.printed()
            if value:
                return ProbeResult(None, str(value["problem"])) if "problem" in value else ProbeResult(value)
            if code is not None:
                return ProbeResult(None, _why(running, code))
            if time.monotonic() > deadline:
                return ProbeResult(None, f"no answer within {timeout_s:g} s")
    except (OSError, TrainmarkError) as error:
        return ProbeResult(None, str(getattr(error, "strerror", None) or error))


def _why(running: RunningProbe, code: int) -> str:
    """Return why an ended process has no result: the last line of its standard error, or of its output."""
    host = running.probe.host
    outputs = (host.read(running.errors) or b"", host.read(running.out) or b"")
    lines = [line.strip() for text in outputs for line in text.decode(errors="replace").splitlines()[::-1]]
    last = next(filter(None, lines), "")[:200]
    if code == NOT_FOUND and last:
        return last
    if code == 0:
        return f"its output has no result{f': {last}' if last else ''}"
    return f"it exited with code {code}{f': {last}' if last else ''}"
