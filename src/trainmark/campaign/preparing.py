"""Making a run ready: its program's source, its image and its card's prepare steps; and clearing up behind it."""

import fcntl
import hashlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from trainmark.campaign.sources import NoGitError, SourceError, check_out, discard, fetch, is_cached
from trainmark.errors import TrainmarkError
from trainmark.execution import OutcomeRecord
from trainmark.files import to_json, write_atomically
from trainmark.placement import Command, Plan, Preparation, Task, removal
from trainmark.suite import Outcome

SOURCE = "source.json"
"""In a run's folder: which repository, commit and tree the program came from."""

_DONE = "done.json"
_TAIL = 4096


class NotReady(TrainmarkError):  # noqa: N818 (it becomes the outcome of a run, with this reason)
    """What a run needs cannot be made; ``outcome`` is what that is for the run."""

    def __init__(self, outcome: Outcome, reason: str) -> None:
        super().__init__(reason)
        self.outcome = outcome


class Preparer:
    """Makes runs ready; what went wrong once is told again, and not tried again, for the next run that needs it."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._failed: dict[str, NotReady] = {}

    def make_ready(self, plan: Plan, directory: Path) -> None:
        """Make what the plan's run in ``directory`` needs, its working tree included; raise ``NotReady``."""
        # A trainmark that was killed leaves the container of its last run behind, under the same name.
        _end_containers(plan)
        preparation = plan.preparation
        if preparation is None:
            return
        self._have_commit(preparation)
        self._have_tasks(preparation)
        if preparation.source is not None:
            with _told():
                tree = check_out(preparation.source, preparation.inside)
            write_atomically(directory / SOURCE, to_json(_origin(preparation, tree)))

    def clear(self, plan: Plan) -> None:
        """End the containers of a run that has ended, however that was, and remove its working tree."""
        _end_containers(plan)
        if plan.preparation is not None and plan.preparation.source is not None:
            discard(plan.preparation.source)

    def _have_commit(self, preparation: Preparation) -> None:
        source = preparation.source
        if source is not None:
            with self._once(f"{source.url} {source.commit}"):
                if not is_cached(source):
                    self._say(f"fetching {source.url} at {source.commit}")
                fetch(source)

    def _have_tasks(self, preparation: Preparation) -> None:
        if not preparation.tasks:
            return
        try:
            preparation.folder.mkdir(parents=True, exist_ok=True)
            with (preparation.folder / ".lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._do_tasks(preparation)
        except OSError as error:
            raise NotReady(
                Outcome.FAILED, f"{preparation.folder}: cannot be written: {error.strerror}"
            ) from None

    def _do_tasks(self, preparation: Preparation) -> None:
        done = _read_done(preparation.folder)
        left = [
            (number, task) for number, task in enumerate(preparation.tasks, 1) if not _is_done(task, done)
        ]
        if not left:
            return
        workshop = preparation.workshop
        if workshop is not None:
            # A trainmark that was killed may have left a tree that nobody vouches for.
            discard(workshop)
        try:
            for number, task in left:
                with self._once(f"{preparation.folder} {_mark(task)}"):
                    if workshop is not None and not workshop.tree.exists():
                        check_out(workshop, preparation.inside)
                    self._say(f"preparing {preparation.folder.name}: {task.description}")
                    _do(task, preparation.folder, preparation.folder / f"prepare-{number}.log")
                done.add(_mark(task))
                write_atomically(preparation.folder / _DONE, to_json(sorted(done)))
        finally:
            if workshop is not None:
                discard(workshop)

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


def _end_containers(plan: Plan) -> None:
    for words in filter(None, map(removal, plan.commands)):
        with suppress(OSError):
            subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)


@contextmanager
def _told() -> Iterator[None]:
    """Tell of a source that cannot be had as what it is for the run."""
    try:
        yield
    except SourceError as error:
        outcome = Outcome.UNSUPPORTED if isinstance(error, NoGitError) else Outcome.FAILED
        raise NotReady(outcome, str(error)) from None


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


def _mark(task: Task) -> str:
    return hashlib.sha256(task.command.text().encode()).hexdigest()


def _read_done(folder: Path) -> set[str]:
    try:
        return set(json.loads((folder / _DONE).read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return set()


def _is_done(task: Task, done: set[str]) -> bool:
    if task.present is not None:
        try:
            found = subprocess.run(task.present, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        except OSError:
            return False
        return found.returncode == 0
    return _mark(task) in done and all(path.exists() for path in task.leaves)


def _do(task: Task, folder: Path, log: Path) -> None:
    """Run a task to its end; raise ``NotReady`` when it fails or does not leave what it should."""
    with log.open("wb") as file:
        file.write(f"# {task.description}\n# {task.command.text()}\n".encode())
        file.flush()
        try:
            code = _run(task.command, folder, file.fileno())
        except OSError as error:
            raise _failure(task, f"cannot be started: {error.strerror}", log) from None
    if code != 0:
        raise _failure(task, f"ended with exit code {code}: {_last_line(log)}", log)
    missing = [str(path) for path in task.leaves if not path.exists()]
    if missing:
        raise _failure(task, f"ended well and did not leave {', '.join(missing)}", log)


def _run(command: Command, folder: Path, log: int) -> int:
    environ = {name: value for name, value in os.environ.items() if name not in command.without}
    process = subprocess.Popen(
        command.words,
        env=environ | dict(command.variables),
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return process.wait()
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if (words := removal(command)) is not None:
            subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False)
        raise


def _failure(task: Task, what: str, log: Path) -> NotReady:
    return NotReady(Outcome.FAILED, f"prepare step '{task.description}' {what} ({log})")


def _last_line(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL))
        lines = file.read().decode(errors="replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "it printed nothing")
