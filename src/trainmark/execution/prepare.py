"""Making a run ready: its program's source, its image and its card's prepare steps; and clearing up behind it."""

import fcntl
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from trainmark.errors import TrainmarkError
from trainmark.execution.runner import JobOnHost, ask, run_jobs
from trainmark.execution.sources import Git, SourceError, check_out, discard, fetch, is_cached
from trainmark.files import to_json, write_atomically
from trainmark.node import Host, Job, read_tail
from trainmark.placement import removal
from trainmark.words.outcome import Outcome, OutcomeRecord
from trainmark.words.plan import Command, Plan, Preparation, PrepareStep
from trainmark.words.suite import Limits

SOURCE = "source.json"
"""In a run's folder: which repository, commit and tree the program came from."""

NOT_FOUND = 127
"""The exit code of a command that is not there, as a shell has it."""

_DONE = "done.json"
_REMOVAL_S = 60.0
"""How long the end of a container may take."""


class NotReady(TrainmarkError):  # noqa: N818 (it becomes the outcome of a run, with this reason)
    """What a run needs cannot be made; ``outcome`` is what that is for the run."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


class Preparer:
    """Makes runs ready; what went wrong once is told again, and not tried again, for the next run that needs it.

    Its commands are bounded, marked and ended as those of the runs are, whose mark they carry.
    """

    def __init__(self, say: Callable[[str], None], hosts: Sequence[Host], limits: Limits) -> None:
        self._say = say
        self._hosts = {host.name: host for host in hosts}
        self._limits = limits
        self._failed: dict[str, NotReady] = {}

    def make_ready(self, plan: Plan, directory: Path) -> None:
        """Make what the plan's run in ``directory`` needs on its nodes, working trees included; raise ``NotReady``."""
        mark = str(directory.resolve())
        # A trainmark that was killed leaves the container of its last run behind, under the same name.
        self._end_containers(plan, mark)
        for preparation in plan.preparations:
            git = Git(self._host(plan, preparation.node), self._limits, mark)
            self._have_commit(preparation, git)
            self._have_tasks(preparation, git)
            if preparation.source is not None:
                with _told():
                    tree = check_out(preparation.source, preparation.inside, git)
                write_atomically(directory / SOURCE, to_json(_origin(preparation, tree)))

    def clear(self, plan: Plan, directory: Path) -> None:
        """End the containers of a run that has ended, however that was, and remove its working trees."""
        mark = str(directory.resolve())
        self._end_containers(plan, mark)
        for preparation in plan.preparations:
            if preparation.source is not None:
                discard(preparation.source, Git(self._host(plan, preparation.node), self._limits, mark))

    def _host(self, plan: Plan, node: int) -> Host:
        return self._hosts[plan.nodes[node].host]

    def _end_containers(self, plan: Plan, mark: str) -> None:
        for command in plan.commands:
            if plan.cannot_run is None:
                _end_container(self._host(plan, command.node), command, mark)

    def _have_commit(self, preparation: Preparation, git: Git) -> None:
        source = preparation.source
        if source is not None:
            with self._once(f"{git.host.name} {source.url} {source.commit}"):
                if not is_cached(source, git):
                    self._say(f"fetching {source.url} at {source.commit}")
                fetch(source, git)

    def _have_tasks(self, preparation: Preparation, git: Git) -> None:
        if not preparation.tasks:
            return
        try:
            preparation.folder.mkdir(parents=True, exist_ok=True)
            with (preparation.folder / ".lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._do_tasks(preparation, git)
        except OSError as error:
            raise NotReady(
                Outcome.FAILED, f"{preparation.folder}: cannot be written: {error.strerror}"
            ) from None

    def _do_tasks(self, preparation: Preparation, git: Git) -> None:
        done = _read_done(preparation.folder)
        left = [
            (number, task)
            for number, task in enumerate(preparation.tasks, 1)
            if not _is_done(task, done, git)
        ]
        if not left:
            return
        workshop = preparation.workshop
        if workshop is not None:
            # A trainmark that was killed may have left a tree that nobody vouches for.
            discard(workshop, git)
        try:
            for number, task in left:
                with self._once(f"{git.host.name} {preparation.folder} {_digest(task)}"):
                    if workshop is not None and not workshop.tree.exists():
                        check_out(workshop, preparation.inside, git)
                    self._say(f"preparing {preparation.folder.name}: {task.description}")
                    _do(task, preparation.folder, preparation.folder / f"prepare-{number}.log", git)
                done.add(_digest(task))
                write_atomically(preparation.folder / _DONE, to_json(sorted(done)))
        finally:
            if workshop is not None:
                discard(workshop, git)

    @contextmanager
    def _once(self, what: str) -> Iterator[None]:
        if what in self._failed:
            raise self._failed[what]
        try:
            with _told():
                yield
        except NotReady as error:
            self._failed[what] = error
            raise


def _end_container(host: Host, command: Command, mark: str) -> None:
    words = removal(command)
    if words is not None and shutil.which(words[0]) is not None:
        ask(host, Command(command.node, words, {}), Limits(timeout_s=_REMOVAL_S), mark)


@contextmanager
def _told() -> Iterator[None]:
    """Tell of a source that cannot be had as what it is for the run."""
    try:
        yield
    except SourceError as error:
        raise NotReady(error.outcome, str(error)) from None


def with_expected(record: OutcomeRecord, plan: Plan) -> OutcomeRecord:
    """Return a run's record, ``invalid`` when it ended well without leaving what its card expects."""
    missing = [path.name for path in plan.expects if not path.exists()]
    if record.outcome is not Outcome.OK or not missing:
        return record
    reason = f"the run ended well, and did not leave {', '.join(missing)}, which its card expects"
    return record.model_copy(update={"outcome": Outcome.INVALID, "reason": reason})


def _origin(preparation: Preparation, tree: str) -> dict[str, str]:
    assert preparation.source is not None
    url, commit = preparation.source.url, preparation.source.commit
    return {"url": url, "commit": commit, "tree": tree, "folder": preparation.inside}


def _digest(task: PrepareStep) -> str:
    return hashlib.sha256(task.command.text().encode()).hexdigest()


def _read_done(folder: Path) -> set[str]:
    try:
        return set(json.loads((folder / _DONE).read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return set()


def _is_done(task: PrepareStep, done: set[str], git: Git) -> bool:
    if task.present is not None:
        said = ask(git.host, Command(task.command.node, task.present, {}), git.limits, git.mark)
        return said.code == 0
    return _digest(task) in done and all(path.exists() for path in task.leaves)


def _do(task: PrepareStep, folder: Path, log: Path, git: Git) -> None:
    """Run a task to its end; raise ``NotReady`` when it fails or does not leave what it should."""
    heading = f"# {task.description}\n# {task.command.text()}\n".encode()
    job = Job((task.command,), folder, log, git.mark, git.limits.memory, heading=heading)
    try:
        carried = run_jobs([JobOnHost(git.host, job)], git.limits)
    except BaseException:
        _end_container(git.host, task.command, git.mark)
        raise
    if carried.stopped is not None:
        _end_container(git.host, task.command, git.mark)
        outcome, reason = carried.stopped
        raise NotReady(outcome, _failure(task, f"was ended: {reason}", log))
    code, said = carried.ended[0].code, _last_line(log)
    absent = f"cannot start {task.command.words[0]}: "
    if code == NOT_FOUND and said.startswith(absent):
        why = f"cannot be started: {said.removeprefix(absent)}"
        raise NotReady(Outcome.FAILED, _failure(task, why, log))
    if code != 0:
        raise NotReady(Outcome.FAILED, _failure(task, f"ended with exit code {code}: {said}", log))
    missing = [str(path) for path in task.leaves if not path.exists()]
    if missing:
        raise NotReady(
            Outcome.FAILED, _failure(task, f"ended well and did not leave {', '.join(missing)}", log)
        )


def _failure(task: PrepareStep, what: str, log: Path) -> str:
    return f"prepare step '{task.description}' {what} ({log})"


def _last_line(log: Path) -> str:
    lines = read_tail(log).decode(errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
