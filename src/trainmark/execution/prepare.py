"""Preparation of a run: its program's source, its image and its card's prepare steps; and the clean-up after it."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from pathlib import Path

from trainmark.errors import TrainmarkError
from trainmark.execution.runner import is_shared
from trainmark.execution.sources import Git, SourceError, check_out, discard, fetch, is_cached
from trainmark.files import to_json, write_run_file
from trainmark.node import (
    NOT_FOUND,
    CommandRunner,
    Heartbeat,
    Host,
    Job,
    JobOnHost,
    child_mark,
    ignore_heartbeat,
    run_jobs,
)
from trainmark.placement import removal_command
from trainmark.printable import last_line
from trainmark.schema.names import name_on
from trainmark.schema.outcome import Outcome, OutcomeRecord
from trainmark.schema.plan import Command, Plan, Preparation, PrepareStep
from trainmark.schema.suite import Limits

SOURCE = "source.json"
"""The file in a run's folder with the program's repository, commit and tree."""

_DONE = "done.json"
"""The file with the finished steps, in the steps' folder. It is missing while a step runs and after one that failed."""
_LOCK = ".lock"
_LINK = """\
if [ "$(readlink "$1")" = "$2" ]; then exit 0; fi
if [ -e "$1" ] || [ -L "$1" ]; then
    echo "exists, but the card declares a stand-in for it: remove the file, or the stand-in from the card" >&2
    exit 1
fi
mkdir -p "$(dirname "$1")" && ln -s "$2" "$1"
"""
_UNLINK = 'if [ "$(readlink "$1")" = "$2" ]; then rm "$1"; fi'

_REMOVAL_S = 60.0
"""The time limit for ending a container, in seconds."""


class PreparationError(TrainmarkError):
    """A prerequisite of a run cannot be provided; ``outcome`` is the run's outcome."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


class Preparer:
    """Prepares runs; a failure is cached and raised again, without another attempt, for the next run that needs it.

    Its commands have the limits and the mark of their run and are ended in the same way. ``watch`` is called while they
    run and can end them by raising.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        hosts: Sequence[Host],
        limits: Limits,
        watch: Callable[[Heartbeat], None] = ignore_heartbeat,
    ) -> None:
        self._say, self._watch = say, watch
        self._hosts = {host.name: host for host in hosts}
        self._limits = limits
        self._failed: dict[str, PreparationError] = {}

    def reporting_to(self, say: Callable[[str], None], watch: Callable[[Heartbeat], None]) -> "Preparer":
        """Return a copy with another listener and watch; the cache of failures is shared."""
        other = copy(self)
        other._say, other._watch = say, watch
        return other

    def make_ready(self, plan: Plan, directory: Path) -> None:
        """Provide everything that the plan's run needs on its nodes, or raise ``PreparationError``."""
        # A killed trainmark leaves the container of its last run behind, with the same name.
        self._end_containers(plan, directory)
        for node in plan.nodes if plan.cannot_run is None else ():
            # On a host with its own disk, the files of that run are left too.
            host = self._hosts.get(node.host)
            if host is not None and not is_shared(host, node.directory, directory):
                host.remove(node.directory)
        for preparation in plan.preparations:
            runner = self._runner(plan, preparation.node, directory)
            self._have_commit(preparation, runner)
            self._have_tasks(preparation, runner)
            if preparation.source is not None:
                with _reported():
                    tree = check_out(preparation.source, preparation.subfolder, Git(runner))
                origin = to_json(_origin(preparation, tree))
                write_run_file(directory / name_on(SOURCE, preparation.node), origin)
            for link, target in preparation.links:
                _link(runner, link, target)

    def clear(self, plan: Plan, directory: Path) -> None:
        """End the containers of a run that has ended in any way, and remove its working trees."""
        self._end_containers(plan, directory)
        for preparation in plan.preparations:
            for link, target in preparation.links:
                _unlink(self._runner(plan, preparation.node, directory), link, target)
            if preparation.source is not None:
                discard(preparation.source, Git(self._runner(plan, preparation.node, directory)))

    def _runner(self, plan: Plan, node: int, directory: Path) -> CommandRunner:
        host, mark = self._hosts[plan.nodes[node].host], str(directory.resolve())
        return CommandRunner(host, self._limits, mark, self._watch)

    def _end_containers(self, plan: Plan, directory: Path) -> None:
        for command in plan.commands:
            if plan.cannot_run is None:
                _end_container(self._runner(plan, command.node, directory), command)

    def _have_commit(self, preparation: Preparation, runner: CommandRunner) -> None:
        source, git = preparation.source, Git(runner)
        if source is not None:
            with self._once(f"{runner.host.name} {source.url} {source.commit}"):
                if not is_cached(source, git):
                    self._say(f"fetching {source.url} at {source.commit}")
                fetch(source, git)

    def _have_tasks(self, preparation: Preparation, runner: CommandRunner) -> None:
        if not preparation.tasks:
            return
        try:
            with runner.host.locked(preparation.folder / _LOCK):
                self._do_tasks(preparation, runner)
        except OSError as error:
            raise PreparationError(
                Outcome.FAILED, f"{preparation.folder}: cannot be written: {error.strerror}"
            ) from None

    def _do_tasks(self, preparation: Preparation, runner: CommandRunner) -> None:
        host, folder = runner.host, preparation.folder
        done = _read_done(host, folder)
        if done is None:
            # A step failed or was ended and may have damaged other files: all steps start again in an empty folder.
            host.remove(folder, without=(_LOCK,))
            done = set()
        left = [
            (number, task)
            for number, task in enumerate(preparation.tasks, 1)
            if not _is_done(task, done, runner)
        ]
        if not left:
            return
        for path, content in preparation.files.items():
            host.put(path, content.encode())
        workshop, git = preparation.workshop, Git(runner)
        if workshop is not None:
            # A killed trainmark may have left an unverified tree.
            discard(workshop, git)
        announced = None
        try:
            for number, task in left:
                with self._once(f"{host.name} {folder} {_digest(task)}"):
                    if workshop is not None and not host.has(workshop.tree):
                        check_out(workshop, preparation.subfolder, git)
                    # The commands that install a card's packages have one description.
                    if task.description != announced:
                        announced = task.description
                        self._say(f"preparing {folder.name}: {task.description}")
                    if task.present is None:
                        host.remove(folder / _DONE)
                    _do(task, folder, folder / f"prepare-{number}.log", runner)
                done.add(_digest(task))
                host.put(folder / _DONE, to_json(sorted(done)).encode())
        finally:
            if workshop is not None:
                discard(workshop, git)

    @contextmanager
    def _once(self, what: str) -> Iterator[None]:
        if what in self._failed:
            raise self._failed[what]
        try:
            with _reported():
                yield
        except PreparationError as error:
            self._failed[what] = error
            raise


def _end_container(runner: CommandRunner, command: Command) -> None:
    words = removal_command(command)
    if words is not None and runner.host.which(words[0]) is not None:
        limits = Limits(timeout_s=_REMOVAL_S)
        CommandRunner(runner.host, limits, runner.mark).run(Command(command.node, words, {}))


def _link(runner: CommandRunner, link: Path, target: Path) -> None:
    """Make a link for the run; raise ``PreparationError`` if there is something else in its place."""
    words = ("sh", "-c", _LINK, "sh", str(link), str(target))
    done = runner.run(Command(0, words, {}))
    if done.code != 0:
        raise PreparationError(Outcome.FAILED, f"{link}: {done.error_line()}")


def _unlink(runner: CommandRunner, link: Path, target: Path) -> None:
    runner.run(Command(0, ("sh", "-c", _UNLINK, "sh", str(link), str(target)), {}))


@contextmanager
def _reported() -> Iterator[None]:
    """Convert a ``SourceError`` to a ``PreparationError`` with the same outcome."""
    try:
        yield
    except SourceError as error:
        raise PreparationError(error.outcome, str(error)) from None


def check_expected_files(record: OutcomeRecord, plan: Plan) -> OutcomeRecord:
    """Return a run's record, as ``invalid`` if it ended normally without the files that its card expects."""
    missing = [path.name for path in plan.expects if not path.exists()]
    if record.outcome is not Outcome.OK or not missing:
        return record
    reason = f"the run ended normally, but without {', '.join(missing)}, which its card expects"
    return record.model_copy(update={"outcome": Outcome.INVALID, "reason": reason})


def _origin(preparation: Preparation, tree: str) -> dict[str, str]:
    assert preparation.source is not None
    url, commit = preparation.source.url, preparation.source.commit
    return {"url": url, "commit": commit, "tree": tree, "folder": preparation.subfolder}


def _digest(task: PrepareStep) -> str:
    return hashlib.sha256(task.command.text().encode()).hexdigest()


def _read_done(host: Host, folder: Path) -> set[str] | None:
    """Return the digests of the finished steps; None if the state of the folder is unknown."""
    try:
        return set(json.loads(host.read(folder / _DONE) or b""))
    except ValueError:
        return None


def _is_done(task: PrepareStep, done: set[str], runner: CommandRunner) -> bool:
    if task.present is not None:
        return runner.run(Command(task.command.node, task.present, {})).code == 0
    return _digest(task) in done and all(runner.host.has(path) for path in task.leaves)


def _do(task: PrepareStep, folder: Path, log: Path, runner: CommandRunner) -> None:
    """Run a task to its end; raise ``PreparationError`` if it fails or its files are missing."""
    heading = f"# {task.description}\n# {task.command.text()}\n".encode()
    job = Job((task.command,), folder, log, child_mark(runner.mark), runner.limits.memory, heading=heading)
    try:
        carried = run_jobs([JobOnHost(runner.host, job)], runner.limits, runner.watch)
    except BaseException:
        _end_container(runner, task.command)
        raise
    if carried.stopped is not None:
        _end_container(runner, task.command)
        outcome, reason = carried.stopped
        raise PreparationError(outcome, _failure(task, f"was ended: {reason}", log))
    code, reported = carried.ended[0].code, _last_line(runner.host.read(log) or b"")
    absent = f"cannot start {task.command.words[0]}: "
    if code == NOT_FOUND and reported.startswith(absent):
        why = f"cannot be started: {reported.removeprefix(absent)}"
        raise PreparationError(Outcome.FAILED, _failure(task, why, log))
    if code != 0:
        raise PreparationError(
            Outcome.FAILED, _failure(task, f"ended with exit code {code}: {reported}", log)
        )
    missing = [str(path) for path in task.leaves if not runner.host.has(path)]
    if missing:
        raise PreparationError(
            Outcome.FAILED, _failure(task, f"ended normally, but without {', '.join(missing)}", log)
        )


def _failure(task: PrepareStep, what: str, log: Path) -> str:
    return f"prepare step '{task.description}' {what} ({log})"


def _last_line(log: bytes) -> str:
    return last_line(log.decode(errors="replace")) or "it printed nothing"
