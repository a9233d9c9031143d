"""Short questions to several hosts at once: each is bounded, and whatever happens nothing of it is left there."""

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainmark.environment.introspection import last_answer
from trainmark.errors import TrainmarkError
from trainmark.node import NOT_FOUND, Host, Job, child_mark, deferred_signals, probe_mark
from trainmark.schema.plan import Command

INSIDE = Path(__file__).parent / "remote_scripts"
"""Scripts that import nothing of ours; they travel as a word of the command, so that nothing is put on a host."""

_WAIT_S = 0.05


@dataclass(frozen=True, slots=True)
class Question:
    """What is started on a host: one process, or ranks that are started and ended together."""

    host: Host
    commands: tuple[Command, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the object that was printed, or why there is none, in half a sentence."""

    value: dict[str, Any] | None
    problem: str | None = None


def script(
    python: Path,
    name: str,
    about: object,
    variables: Mapping[str, str] | None = None,
    flags: Sequence[str] = (),
) -> Command:
    """Return the command that runs a script of ours in an interpreter, with one JSON value to read."""
    source = (INSIDE / f"{name}.py").read_text(encoding="utf-8")
    return Command(0, (str(python), *flags, "-c", source, json.dumps(about)), dict(variables or {}))


def ask(host: Host, command: Command, timeout_s: float) -> Answer:
    """Return one host's answer to one command; see ``ask_all``."""
    (answer,) = ask_all([Question(host, (command,))], timeout_s)
    return answer


def ask_all(questions: Sequence[Question], timeout_s: float) -> tuple[Answer, ...]:
    """Return the hosts' answers in order, asked at the same time. What one of them does costs the others nothing."""
    with started(questions) as asked:
        deadline = time.monotonic() + timeout_s
        return tuple(_answer(one, deadline, timeout_s) for one in asked)


@dataclass(slots=True)
class Asked:
    """A question that was put to its host, or why it could not be; the files are that host's."""

    question: Question
    out: Path = Path()
    errors: Path = Path()
    mark: str = ""
    pid: int | None = None
    problem: str | None = None
    folders: ExitStack = field(default_factory=ExitStack)

    def wait(self, timeout_s: float) -> int | None:
        """Return the exit code, or None while it goes on."""
        assert self.pid is not None
        return self.question.host.wait(self.pid, timeout_s)

    def printed(self) -> dict[str, Any] | None:
        """Return the answer that stands in what it has printed so far."""
        with suppress(ValueError, RecursionError):
            value = last_answer(self.question.host.read(self.out) or b"")
            return value if isinstance(value, dict) else None
        return None


@contextmanager
def started(questions: Sequence[Question]) -> Iterator[tuple[Asked, ...]]:
    """Start what is asked on each host, and end all of it at the end."""
    asked = tuple(Asked(question) for question in questions)
    try:
        for one in asked:
            # Held: an interrupt between the start and our knowing of it would leave a process that nobody ends.
            with deferred_signals():
                _start(one)
        yield asked
    finally:
        with deferred_signals():
            for one in asked:
                _end(one)


def _start(asked: Asked) -> None:
    host = asked.question.host
    try:
        folder = asked.folders.enter_context(host.scratch())
        asked.out, asked.errors = folder / "out", folder / "errors"
        asked.mark = child_mark(probe_mark())
        asked.pid = host.start(
            Job(asked.question.commands, folder, asked.out, asked.mark, errors=asked.errors)
        )
    except (OSError, ValueError, TrainmarkError) as error:
        asked.problem = str(getattr(error, "strerror", None) or error)


def _end(asked: Asked) -> None:
    host = asked.question.host
    try:
        if asked.pid is not None:
            host.kill(asked.mark, asked.pid)
            host.reap(asked.pid)
        asked.folders.close()
    except (OSError, TrainmarkError) as error:
        asked.problem = asked.problem or str(error)


def _answer(asked: Asked, deadline: float, timeout_s: float) -> Answer:
    if asked.pid is None:
        return Answer(None, asked.problem)
    try:
        code = asked.wait(max(0.0, deadline - time.monotonic()))
        if code is None:
            return Answer(None, f"no answer within {timeout_s:g} s")
        value = asked.printed() or {}
        if "problem" in value:
            return Answer(None, str(value["problem"]))
        return Answer(value) if code == 0 and value else Answer(None, _why(asked, code))
    except (OSError, TrainmarkError) as error:
        return Answer(None, str(getattr(error, "strerror", None) or error))


def wait_for_words(asked: Asked, timeout_s: float) -> Answer:
    """Return what a process says that goes on, as soon as it has said it."""
    if asked.pid is None:
        return Answer(None, asked.problem)
    deadline = time.monotonic() + timeout_s
    try:
        while True:
            code = asked.wait(_WAIT_S)
            value = asked.printed()
            if value:
                return Answer(None, str(value["problem"])) if "problem" in value else Answer(value)
            if code is not None:
                return Answer(None, _why(asked, code))
            if time.monotonic() > deadline:
                return Answer(None, f"no answer within {timeout_s:g} s")
    except (OSError, TrainmarkError) as error:
        return Answer(None, str(getattr(error, "strerror", None) or error))


def _why(asked: Asked, code: int) -> str:
    """Return why a process that has ended gave no answer: the last line of its errors, or of what it printed."""
    host = asked.question.host
    said = (host.read(asked.errors) or b"", host.read(asked.out) or b"")
    lines = [line.strip() for text in said for line in text.decode(errors="replace").splitlines()[::-1]]
    last = next(filter(None, lines), "")[:200]
    if code == NOT_FOUND and last:
        return last
    if code == 0:
        return f"it printed what is no answer{f': {last}' if last else ''}"
    return f"it ended with {code}{f': {last}' if last else ''}"
