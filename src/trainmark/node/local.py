"""The host that trainmark runs on: jobs are child processes that die with trainmark and are found by their mark."""

import fcntl
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import IO

from trainmark.errors import TrainmarkError
from trainmark.files import (
    remove_obstacles,
    restore_folder,
    restored,
    to_json,
    write_atomically,
    write_run_file,
)
from trainmark.node.archives import put_folder
from trainmark.node.jobs import Job, JobEnd, JobStatus, Paths, with_mapping
from trainmark.node.machine import (
    allocation_variables,
    collect,
    open_nvml,
    ports_are_free,
    read_git,
    this_machine,
)
from trainmark.node.processes import (
    MARK,
    end_all,
    kernel_oom_kills,
    marked_pids,
    private_bytes,
    stopped_ranks,
)
from trainmark.node.reserving import reserve
from trainmark.node.stacks import FAULTHANDLER_ENV, Stack, stacks, stop_ranks
from trainmark.node.telemetry import ArrivalClock, Telemetry
from trainmark.node.trees import Trees
from trainmark.schema.hosts import LOCALHOST, PLAIN, Traffic
from trainmark.schema.manifest import FrameworkVersions, Node
from trainmark.schema.plan import Command, NodeResources
from trainmark.training_loop import EVENTS_VARIABLE

TAIL_BYTES = 64 * 1024
SPAWN_ERROR = "torch-spawn-error.{}"
"""File in a job's folder with the error text of a rank of ``torch.multiprocessing.spawn``."""

_LONGEST_PAUSE_S = 0.05
"""Longest interval between two checks whether a job has ended."""

WAITS = "TRAINMARK_WAITS"
"""The variable for the working directory of a built-in worker that is started before its run."""

_EXEC_WRAPPER = Path(__file__).with_name("exec_wrapper.py")
_RANKS = Path(__file__).with_name("ranks.py")
_PYTHON = (sys.executable, "-I", "-S")
_SPAWN_FILES = "pytorch-errorfile-*.pickle"
# What may also be a setting is in a group of its own: `steps: 80`, `batch=64`.
_ANY_STEP = re.compile(
    rb"(?i)\b(?:global_?)?(?:step|iter(?:ation)?)(?:\b[ \t:=\[#]*(\d+)|s\b[ \t:=\[#]*(?P<setting>\d+))"
)
# A batch of an epoch: in words, or the position of a progress bar (Keras, tqdm) or in brackets (timm);
# `[640/60000 (1%)]`, whose share is not padded, counts samples, and so does a bar of "examples/s" (datasets' `Map:`).
_ANY_BATCH = re.compile(
    rb"(?i)(?<![/\w])batch(?:_?idx?\b[ \t:=\[#]*(\d+)|\b(?:[ \t\[#]*(\d+)|[ \t]*[:=][ \t:=\[#]*(?P<setting>\d+)))"
    rb"|(?:\b|(?<=\x1b\[1m))(\d+)/[ \t]*\d+(?:[ \t]|\x1b\[[\d;]*m)+(?:batches|steps|\xe2\x94\x81|\[[=>.])"
    rb"|\| *(\d+)/\d+ \[(?![^\]\r\n]{,80} examples/s\])"
    rb"|(?<!poch )(?<!poch: )\[ *(\d+)/\d+(?:\]| \( +\d+%\)\])"
)
_STRINGS = frozenset({"SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "UNICODE"})


@dataclass(frozen=True, slots=True)
class _StartedJob:
    """A started job; ``report`` is the pipe in which our wrapper writes the exit code of the program.

    ``files`` writes and restores the files of its folder until it is closed, ``pipes`` are closed at its end.
    """

    job: Job
    process: "subprocess.Popen[bytes] | None"
    files: ExitStack
    at: float
    oom_kills: int
    report: int = -1
    pipes: ExitStack = field(default_factory=ExitStack)


@dataclass(frozen=True, slots=True)
class _WaitingJob:
    """A job whose process was started before its run, and waits for a byte; ``path`` is the place of its log so far."""

    job: Job
    path: Path
    log: IO[bytes]
    process: "subprocess.Popen[bytes]"
    report: int

    def let_go(self) -> "tuple[subprocess.Popen[bytes], int]":
        """Let the job begin; return its process and the pipe for its exit code."""
        assert self.process.stdin is not None
        # The exit code of one that has ended meanwhile says why.
        with suppress(BrokenPipeError), self.process.stdin:
            self.process.stdin.write(b"\n")
        return self.process, self.report


class LocalHost:
    """This machine; with ``folder`` and ``paths`` it stores runs and other files there, as another host would.

    ``machine`` is its resources; they are detected if not given.
    """

    def __init__(
        self,
        name: str = LOCALHOST,
        address: str = "127.0.0.1",
        folder: Path | None = None,
        machine: NodeResources | None = None,
        paths: Paths = (),
        interface: str | None = None,
        labels: Mapping[str, str] = MappingProxyType({}),
        traffic: Traffic = PLAIN,
    ) -> None:
        self.interface, self.labels, self.traffic = interface, labels, traffic
        self.name, self.address, self.folder, self.paths = name, address, folder, paths
        self._machine = machine
        self._reserved: tuple[socket.socket, ...] = ()
        self._jobs: dict[int, _StartedJob] = {}
        self._codes: dict[int, int] = {}
        self._daemons: dict[int, tuple[str, ...]] = {}
        self._removed: set[int] = set()
        # Jobs that another host's mpirun starts have no process id here.
        self._numbers = itertools.count(-1, -1)
        self._trees = Trees()
        self._waiting: _WaitingJob | None = None

    def unreachable(self) -> str | None:
        """Return None: this machine is always reachable."""
        return None

    def machine(self) -> NodeResources:
        """Return this machine's cores, GPUs and OpenMPI, read once: planning thousands of cases asks as often."""
        if self._machine is None:
            self._machine = this_machine(self)
        return self._machine

    def facts(
        self, framework: FrameworkVersions | None, environment_lock: str | None, git_dir: Path | None
    ) -> Node:
        """Return this machine's facts for a manifest."""
        git = None if git_dir is None else read_git(git_dir, self)
        (node,) = collect(framework, environment_lock=environment_lock, git=git).nodes
        return node

    def reserve(self, by: str) -> str | None:
        """Reserve this machine as long as this object lives; return the current holder if it is reserved."""
        found = reserve(by)
        if isinstance(found, str):
            return found
        self._reserved = found
        return None

    def clock(self) -> None:
        """Return None: it is our own clock."""

    def has_free_ports(self, first: int, count: int) -> bool:
        """Return whether these ports are free."""
        return ports_are_free(first, count)

    def which(self, command: str) -> str | None:
        """Return the path of a command."""
        return shutil.which(command)

    def has(self, path: Path) -> bool:
        """Return whether a file or folder exists."""
        return path.exists()

    def read(self, path: Path) -> bytes | None:
        """Return a file's content, or None."""
        with suppress(FileNotFoundError, NotADirectoryError):
            return path.read_bytes()
        return None

    def digests(self, path: Path) -> Mapping[str, str]:
        """Return the digests of files; an unchanged file is hashed once."""
        return self._trees.digests(path)

    def put(self, path: Path, content: bytes) -> None:
        """Write a file atomically, creating its folder."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)

    def get(self, folder: Path, into: Path, without: Collection[str] = ()) -> None:
        """Copy a folder's content."""
        left = set(without)
        shutil.copytree(
            folder,
            into,
            dirs_exist_ok=True,
            symlinks=True,
            ignore=lambda where, _names: left if Path(where) == folder else set(),
        )

    def put_folder(self, path: Path, content: IO[bytes]) -> None:
        """Unpack an archive as a new folder."""
        path.parent.mkdir(parents=True, exist_ok=True)
        put_folder(content, path)

    def map_path(self, here: Path, present: Path) -> None:
        """Map a local path to another one."""
        self.paths = with_mapping(self.paths, here, present)

    def remove(self, path: Path, without: Collection[str] = ()) -> None:
        """Remove a file, a folder, or a folder's entries except some names; no job restores its files there later."""
        if not without:
            for pid, one in list(self._jobs.items()):
                if one.job.directory.is_relative_to(path):
                    # The folder may be used again before this job is ended, which must then change nothing there.
                    self._removed.add(pid)
                    one.files.close()
        if without:
            for child in path.iterdir() if path.is_dir() else ():
                if child.name not in without:
                    self.remove(child)
        elif path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            with suppress(NotADirectoryError):
                path.unlink(missing_ok=True)

    def remove_empty(self, folders: Sequence[Path]) -> None:
        """Remove those folders that are empty."""
        for folder in folders:
            with suppress(OSError):
                folder.rmdir()

    @contextmanager
    def locked(self, path: Path) -> Iterator[None]:
        """Hold a lock file, creating its folder."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Yield an empty folder below the temporary one."""
        with tempfile.TemporaryDirectory(prefix="trainmark-") as folder:
            yield Path(folder)

    def start(self, job: Job) -> int:
        """Start a job; see ``Host``. Raises ``TrainmarkError`` if its log cannot be opened."""
        job.directory.mkdir(parents=True, exist_ok=True)
        if not job.commands:
            return self._observe(job)
        waiting = self._taken(job)
        try:
            log = job.log.open("w+b", buffering=0) if waiting is None else waiting.log
        except OSError as error:
            raise TrainmarkError(f"{job.log}: cannot be written: {error.strerror}") from None
        oom_kills, at = kernel_oom_kills(), time.time()
        with ExitStack() as pipes, ExitStack() as files:
            # This descriptor outlives the file's name, which the program may remove.
            files.enter_context(log)
            files.enter_context(restored(job.log, log))
            log.write(job.heading)
            nvml = files.enter_context(open_nvml()) if job.telemetry else None
            process, report = self._launch(job, log) if waiting is None else waiting.let_go()
            pipes.callback(os.close, report)
            if job.telemetry is not None:
                # The ranks of an srun are children of Slurm's daemon, here too.
                find = partial(marked_pids, job.mark) if _starts_by_srun(job) else tuple
                files.enter_context(Telemetry(job.telemetry, None, find=find, wrapper=process.pid, nvml=nvml))
            if job.arrivals is not None:
                files.enter_context(ArrivalClock(job.log, job.arrivals))
            started = job if waiting is None else waiting.job
            self._jobs[process.pid] = _StartedJob(
                started, process, files.pop_all(), at, oom_kills, report, pipes.pop_all()
            )
        return process.pid

    def _launch(
        self, job: Job, log: IO[bytes], stdin: int = subprocess.DEVNULL, more: dict[str, str] | None = None
    ) -> "tuple[subprocess.Popen[bytes], int]":
        """Start a job's processes; return our wrapper and the pipe in which it writes the program's exit code."""
        with ExitStack() as opened, ExitStack() as pipes:
            errors = subprocess.STDOUT if job.errors is None else opened.enter_context(job.errors.open("wb"))
            report, writes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
            pipes.callback(os.close, report)
            opened.callback(os.close, writes)
            words, environment = self._starting(job, writes)
            process = subprocess.Popen(
                words,
                stdin=stdin,
                stdout=log,
                stderr=errors,
                env=(FAULTHANDLER_ENV if job.ranks > 1 else {})
                | environment
                | _variables_of(job)
                | (more or {}),
                cwd=Path(log.name).parent if more else job.working_directory,
                start_new_session=True,
                pass_fds=(writes,),
            )
            pipes.pop_all()
        return process, report

    def start_ahead(self, job: Job, log: Path) -> None:
        """Start the process of a coming run of a built-in worker, which then waits for ``start`` with an equal job.

        Until then its output is in the file ``log``, on the disk of the run's folder, which may be missing. A job with
        telemetry that is not equal ends the process. Raises ``OSError`` if it cannot be started.
        """
        self.drop_ahead()
        file = log.open("w+b", buffering=0)
        try:
            process, report = self._launch(job, file, subprocess.PIPE, {WAITS: str(job.working_directory)})
        except BaseException:
            file.close()
            log.unlink()
            raise
        self._waiting = _WaitingJob(job, log, file, process, report)

    def drop_ahead(self) -> None:
        """End the process that waits for its run, if there is one, and leave nothing of it."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(waiting.process.pid, signal.SIGKILL)
        waiting.process.wait()
        if waiting.process.stdin is not None:
            waiting.process.stdin.close()
        os.close(waiting.report)
        waiting.log.close()
        waiting.path.unlink(missing_ok=True)

    def _taken(self, job: Job) -> _WaitingJob | None:
        """Return the process that waits for this job, with its log in the job's place; another run's is ended."""
        waiting = self._waiting
        # Short commands (git, probes), which have no telemetry, run before a run begins.
        if waiting is None or job.telemetry is None:
            return None
        if replace(job, mark=waiting.job.mark) != waiting.job or _ended(waiting.process) is not None:
            self.drop_ahead()
            return None
        waiting.path.replace(job.log)
        self._waiting = None
        return waiting

    def wait(self, pid: int, timeout_s: float) -> int | None:
        """Wait up to ``timeout_s`` for a job; return its exit code, or None if it still runs.

        The child stays, perhaps as a zombie, until ``reap``, so that its process id cannot be reused by an unrelated
        program.
        """
        deadline, pause = time.monotonic() + timeout_s, 0.0005
        process = self._jobs[pid].process
        if process is None:
            return None
        while (code := self._code(pid, process)) is None and (left := deadline - time.monotonic()) > 0:
            time.sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE_S)
        return code

    def _code(self, pid: int, process: "subprocess.Popen[bytes]") -> int | None:
        """Return the exit code of a job's program, or of our wrapper if that was killed; None while it runs."""
        if pid not in self._codes:
            ended = _ended(process)
            with suppress(BlockingIOError):
                if written := os.read(self._jobs[pid].report, 16):
                    self._codes[pid] = int(written)
            if pid not in self._codes and ended is not None:
                self._codes[pid] = ended
        return self._codes.get(pid)

    def job_status(self, pid: int) -> JobStatus:
        """Return the state of a running job."""
        job = self._jobs[pid].job
        files = (job.log, *job.signs, *((job.errors,) if job.errors else ()))
        step, steps = _last_of(read_tail(job.log))
        memory = private_bytes(pid) if job.memory and job.commands else 0
        return JobStatus(sum(map(_size, files)), step, memory, steps)

    def signal(self, pid: int, number: int) -> None:
        """Send a signal to the processes of a job's session."""
        with suppress(ProcessLookupError):
            os.killpg(pid, number)

    def stopped(self, mark: str, pid: int) -> tuple[int, ...]:
        """Return the ranks of a job that are stopped, as by SIGSTOP."""
        return stopped_ranks(mark, pid)

    def stop_ranks(self, mark: str, pid: int) -> None:
        """Stop the ranks of a job where they are."""
        stop_ranks(mark, pid)

    def stacks(self, mark: str, pid: int) -> dict[int, Stack]:
        """Abort the ranks of a job, and return the stacks that they dump."""
        return stacks(mark, pid, self._jobs[pid].job.directory)

    def kill(self, mark: str, pid: int | None = None) -> int:
        """End every process with the mark, and a job's whole process tree; return the number of ended processes."""
        # A process that was started ahead has a mark of its own.
        ended = end_all(self._jobs[pid].job.mark if pid in self._jobs else mark, wrapper=pid)
        if pid in self._jobs:
            self._daemons[pid] = ended.daemons
        return ended.number

    def reap(self, pid: int) -> JobEnd:
        """Return how a job ended, after its telemetry is complete."""
        started = self._jobs[pid]
        code = 0 if started.process is None else self._reaped(pid, started.process)
        del self._jobs[pid]
        started.files.close()
        started.pipes.close()
        if pid in self._removed:
            self._removed.remove(pid)
        else:
            _complete_folder(started, failed=code != 0)
        return JobEnd(code, kernel_oom_kills() - started.oom_kills, self._daemons.pop(pid, ()))

    def _reaped(self, pid: int, process: "subprocess.Popen[bytes]") -> int:
        """Wait for our wrapper, and return the exit code of its program."""
        # The program may have stopped its whole group.
        process.send_signal(signal.SIGCONT)
        own = process.wait()
        code = self._code(pid, process)
        self._codes.pop(pid, None)
        return own if code is None else code

    def _observe(self, job: Job) -> int:
        oom_kills, at, number = kernel_oom_kills(), time.time(), next(self._numbers)
        with ExitStack() as files:
            if job.telemetry is not None:
                nvml = files.enter_context(open_nvml())
                files.enter_context(
                    Telemetry(job.telemetry, None, find=lambda: marked_pids(job.mark), nvml=nvml)
                )
            self._jobs[number] = _StartedJob(job, None, files.pop_all(), at, oom_kills)
        return number

    def _starting(self, job: Job, report: int) -> tuple[tuple[str, ...], dict[str, str]]:
        bounds = (str(os.getpid()), str(job.memory or 0), str(report))
        if len(job.commands) == 1:
            (command,) = job.commands
            words = (*_PYTHON, str(_EXEC_WRAPPER), *bounds, *command.words)
            environment = _without(os.environ, command.without) | allocation_variables(command.words)
            return words, environment | dict(command.variables)
        # Absolute, because the process that reads it runs in the run's folder.
        ranks = job.directory.resolve() / f"ranks{job.log.stem.removeprefix('train')}.json"
        self.put(ranks, to_json([_described(command) for command in job.commands]).encode())
        return (
            *_PYTHON,
            str(_EXEC_WRAPPER),
            *bounds,
            *_PYTHON,
            str(_RANKS),
            str(ranks),
            str(_EXEC_WRAPPER),
        ), dict(os.environ)


def read_tail(path: Path) -> bytes:
    """Return the end of a file; empty for a missing one."""
    # A named pipe in its place would block, and a device has no end.
    if not path.is_file():
        return b""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - TAIL_BYTES))
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return b""


LONGEST_STEP = 18
"""The largest number of digits of a step."""

_LONGEST_FORM = 200
"""Bytes before a possible setting by which two of its lines are compared."""


def last_step(tail: bytes) -> int | None:
    """Return the last step in the end of a log: a built-in worker's, else any program's step, else its batch."""
    return _last_of(tail)[0]


def _last_of(tail: bytes) -> tuple[int | None, int | None]:
    """Return the last step in the end of a log, and the number of steps if it is printed as ``step 3/60``."""
    own = re.findall(rb"\bstep (\d+)/(\d+)", tail)
    others = [] if own else _counted(_ANY_STEP, tail) or _counted(_ANY_BATCH, tail)
    step, steps = own[-1] if own else (others[-1] if others else b"", b"")

    def number(digits: bytes) -> int | None:
        # Python refuses to convert thousands of digits, which are no number of a step.
        return int(digits) if digits and len(digits) <= LONGEST_STEP else None

    return number(step), number(steps)


def _counted(pattern: re.Pattern[bytes], tail: bytes) -> list[bytes]:
    """Return the numbers that count: a possible setting does if a line of the same form had another number before."""
    found, first = [], dict[bytes, bytes]()
    for match in pattern.finditer(tail):
        number = match[match.lastindex or 0]
        if match["setting"] is not None:
            least = max(0, match.start() - _LONGEST_FORM)
            start = max(least, *(tail.rfind(end, least, match.start()) + 1 for end in (b"\n", b"\r")))
            form = re.sub(rb"\d+|[ \t]+", b"0", tail[start : match.end()])
            if first.setdefault(form, number) == number:
                continue
        found.append(number)
    return found


def _ended(process: "subprocess.Popen[bytes]") -> int | None:
    """Return the exit code of an ended child in ``Popen``'s convention, without reaping it; None while it runs."""
    try:
        state = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        # SIGCHLD is ignored (inherited from our parent), so the kernel has no exit code.
        return process.poll()
    if state is None:
        return None
    return state.si_status if state.si_code == os.CLD_EXITED else -state.si_status


def _starts_by_srun(job: Job) -> bool:
    return any(allocation_variables(command.words) for command in job.commands)


def _described(command: Command) -> dict[str, object]:
    return {
        "rank": command.rank,
        "words": command.words,
        "variables": dict(command.variables),
        "without": command.without,
    }


def _without(base: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    return {name: value for name, value in base.items() if name not in names}


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _keep_spawn_errors(job: Job, since: float) -> None:
    """Move the error files of ``torch.multiprocessing.spawn`` from the temporary folder to the job's folder.

    PyTorch shows the error of the first failed rank that it notices, and leaves those of the others in unread files.
    A file belongs to the job if it is recent enough and mentions the job's program.
    """
    paths = {word for command in job.commands for word in command.words if os.sep in word}
    variables = {**os.environ, **job.commands[0].variables}
    folder = Path(variables.get("TMPDIR") or tempfile.gettempdir())
    for number, text in enumerate(_spawn_errors(folder, since, paths)):
        with suppress(OSError):
            write_run_file(job.directory / SPAWN_ERROR.format(number), text.encode(errors="replace"))


def _spawn_errors(folder: Path, since: float, paths: set[str]) -> Iterator[str]:
    for path in sorted(folder.glob(_SPAWN_FILES)):
        with suppress(OSError):
            found = path.stat()
            # File timestamps can lag by some milliseconds.
            if found.st_uid != os.getuid() or found.st_mtime < since - 0.1:
                continue
            text = _pickled_text(path.read_bytes())
            if any(f'File "{script}"' in text for script in paths):
                path.unlink()
                yield text


def _complete_folder(started: _StartedJob, *, failed: bool) -> None:
    """Make the folder of an ended job one that can be read, and store the errors of spawned ranks there."""
    if started.job.telemetry is not None:
        restore_folder(started.job.directory)
        remove_obstacles(started.job.directory, started.job.signs)
    if failed:
        _keep_spawn_errors(started.job, started.at)


def _pickled_text(data: bytes) -> str:
    """Return the string in a pickle without unpickling it, which would execute code."""
    import pickletools  # takes a tenth of the start of a command, and few runs fail in a spawned rank

    with suppress(ValueError):
        return next((str(value) for op, value, _ in pickletools.genops(data) if op.name in _STRINGS), "")
    return ""


def rank_codes(folder: Path) -> dict[int, int]:
    """Return the exit codes of the ended ranks that ``ranks.py`` started, by rank."""
    codes: dict[int, int] = {}
    for path in sorted(folder.glob("ranks*.ended.json")):
        with suppress(OSError, ValueError):
            codes |= {int(rank): int(code) for rank, code in json.loads(path.read_text("utf-8")).items()}
    return codes


def _variables_of(job: Job) -> dict[str, str]:
    """Return the variables of a job's processes: the mark, and the path of the events for ``trainmark.measure``."""
    events = {EVENTS_VARIABLE: str(job.signs[0])} if job.signs else {}
    return {MARK: job.mark, **events}
