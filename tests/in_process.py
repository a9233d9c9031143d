"""A host that runs the tests' small Python programs in this process: no interpreter is started, nothing is waited for.

A built-in worker of one rank is a process forked from one that has imported its framework (``preloading.py``).
Everything else (git, containers, programs that hang or are killed) runs as on ``LocalHost``, in processes.
"""

import contextlib
import io
import itertools
import os
import shutil
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from frameworks import framework_python
from preloading import PRELOADS, preloaded
from trainmark import worker
from trainmark.environment import installed_packages
from trainmark.environment.resolving import ProbedEnvironment, probe_environment
from trainmark.node import Host, Job, JobEnd, JobStatus, LocalHost
from trainmark.node.jobs import CommandRunner
from trainmark.node.machine import collect, open_nvml, read_git
from trainmark.node.telemetry import Telemetry
from trainmark.schema.manifest import FrameworkVersions, GitFacts, Node
from trainmark.schema.plan import Command, NodeResources

NEEDS_A_PROCESS = (
    "hangs", "chatters", "silent", "killed", "takes-memory", "daemon", "clean-child", "fills-disk", "rank-1-dies",
    "meets-at-", "steps-of-",
)  # fmt: skip
"""Beginnings of the behaviours of ``fake_training.py`` that need a process of their own."""

WORKER = str(Path(worker.__file__).with_name("start.py"))
MISTAKEN_WORKER = str(Path(__file__).parent / "programs" / "mutated_worker.py")
"""The program of a worker that makes the mistake that its first word names."""

_numbers = itertools.count(1 << 30)
"""Numbers of jobs: above every process id."""

_one_at_a_time = threading.Lock()
"""The working directory, the variables and the standard streams belong to the whole process."""


class InProcessHost(LocalHost):
    """This machine, where a job of a small Python program, or a worker of one rank, has ended when it was started."""

    def __init__(self, *arguments: Any, processes: bool = True, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._processes = processes
        self._ended: dict[int, tuple[Job, int]] = {}

    def machine(self) -> NodeResources:
        return self._machine or _machine(os.environ.get("PATH", ""))

    def facts(
        self, framework: FrameworkVersions | None, environment_lock: str | None, git_dir: Path | None
    ) -> Node:
        git = None if git_dir is None else _git(git_dir)
        (node,) = collect(framework, environment_lock=environment_lock, git=git).nodes
        return node

    def start(self, job: Job) -> int:
        framework = _framework_of_worker(job)
        if framework is None and not _can_run_here(job):
            assert self._processes, f"mark this test `process`: it starts {job.commands}"
            return super().start(job)
        (command,) = job.commands
        job.directory.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as telemetry, job.log.open("wb", buffering=0) as log:
            log.write(job.heading)
            if job.telemetry is not None:
                nvml = telemetry.enter_context(open_nvml())
                telemetry.enter_context(Telemetry(job.telemetry, None, nvml=nvml))
            with job.errors.open("wb", buffering=0) if job.errors else contextlib.nullcontext(log) as errors:
                if framework is None:
                    code = _run(command, job.directory, log, errors)
                else:
                    code = preloaded(framework).run(
                        list(command.words[1:]),
                        _variables(command),
                        job.working_directory,
                        log.fileno(),
                        errors.fileno(),
                    )
        number = next(_numbers)
        self._ended[number] = (job, code)
        return number

    def start_ahead(self, job: Job, log: Path) -> None:
        pass

    def wait(self, pid: int, timeout_s: float) -> int | None:
        return self._ended[pid][1] if pid in self._ended else super().wait(pid, timeout_s)

    def job_status(self, pid: int) -> JobStatus:
        return JobStatus(0, None, 0) if pid in self._ended else super().job_status(pid)

    def kill(self, mark: str, pid: int | None = None) -> int:
        return 0 if pid in self._ended else super().kill(mark, pid)

    def reap(self, pid: int) -> JobEnd:
        return JobEnd(self._ended.pop(pid)[1], 0) if pid in self._ended else super().reap(pid)


@cache
def _machine(_path: str) -> NodeResources:
    return LocalHost().machine()


@cache
def _git(directory: Path) -> GitFacts | None:
    return read_git(directory, LocalHost())


def git_read_once(directory: Path, _host: Host) -> GitFacts | None:
    """Return ``read_git`` of a folder of this machine, cached."""
    return _git(directory)


_probed: dict[str, ProbedEnvironment] = {}


def probed_once(name: str, framework: str, home: Path, runner: CommandRunner) -> ProbedEnvironment:
    """Return ``probe_environment``, cached for this interpreter on this machine."""
    if name != sys.executable or type(runner.host) not in (LocalHost, InProcessHost):
        return probe_environment(name, framework, home, runner)
    if framework not in _probed:
        _probed[framework] = probe_environment(name, framework, home, runner)
    return _probed[framework]


_installed: dict[object, dict[str, str]] = {}


def installed_once(python: Path, variables: Mapping[str, str], timeout_s: float = 300) -> dict[str, str]:
    """Return ``installed_packages``, cached until the packages of the interpreter change."""
    folders = sorted(python.parent.parent.glob("lib*/python3*/*-packages"))
    found = tuple((folder, folder.stat().st_mtime_ns) for folder in folders)
    python_path = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
    key = (python, found, tuple(sorted({**python_path, **variables}.items())))
    if key not in _installed:
        _installed[key] = installed_packages(python, variables, timeout_s)
    return _installed[key]


def _framework_of_worker(job: Job) -> str | None:
    """Return the framework whose worker is the job's one rank; None for other programs, and where memory is limited."""
    (command, *others) = job.commands
    if others or job.memory is not None or command.words[1:2] not in ((WORKER,), (MISTAKEN_WORKER,)):
        return None
    made = Path(command.words[0]).parents[1].resolve()
    environments = {
        name: Path(framework_python(name) or "/nowhere/bin/python").parents[1] for name in PRELOADS
    }
    return next((name for name, folder in environments.items() if folder.resolve() == made), None)


def _variables(command: Command) -> dict[str, str]:
    """Return the variables with which a command starts."""
    inherited = {name: value for name, value in os.environ.items() if name not in command.without}
    return {**inherited, **command.variables}


def _can_run_here(job: Job) -> bool:
    if len(job.commands) != 1 or job.memory is not None:
        return False
    python, *words = job.commands[0].words
    if any("\0" in word for word in words):
        return False
    if python == "git":
        return shutil.which("git") is not None
    if python != sys.executable or not words or not (words[0].endswith(".py") or words[0] == "-m"):
        return False
    return not any(word.startswith(f"--behaviour={name}") for word in words for name in NEEDS_A_PROCESS)


def _run(command: Command, folder: Path, output: io.RawIOBase, errors: io.RawIOBase) -> int:
    """Run a Python program as its own interpreter would, or a git that is waited for; return its exit code."""
    if command.words[0] == "git":
        return subprocess.run(
            command.words,
            cwd=folder,
            env=_variables(command),
            stdin=subprocess.DEVNULL,
            stdout=output.fileno(),
            stderr=errors.fileno(),
            check=False,
        ).returncode
    _, script, *words = command.words
    if script == "-m":
        module = words.pop(0)
        found = find_spec(module)
        if found is not None and found.submodule_search_locations:
            found = find_spec(f"{module}.__main__")
        assert found is not None
        script = str(found.origin)
    with (
        _one_at_a_time,
        _as_a_program(script, words, folder, command),
        _streams(output, errors),
        warnings.catch_warnings(),
    ):
        # An interpreter ignores what pytest makes an error of, such as a file that is not closed.
        warnings.simplefilter("ignore")
        try:
            code = compile(Path(script).read_bytes(), script, "exec")
            exec(code, {"__name__": "__main__", "__file__": script, "__builtins__": __builtins__})
        except SystemExit as end:
            if end.code is None or isinstance(end.code, int):
                return end.code or 0
            sys.stderr.write(f"{end.code}\n")
            return 1
        except Exception as error:
            traceback.print_exception(type(error), error, _below_us(error.__traceback__))
            return 1
        return 0


def _below_us(trace: TracebackType | None) -> TracebackType | None:
    return trace.tb_next if trace is not None and trace.tb_next is not None else trace


@contextlib.contextmanager
def _as_a_program(script: str, words: list[str], folder: Path, command: Command) -> Iterator[None]:
    variables = _variables(command)
    before = (sys.argv, sys.path, sys.dont_write_bytecode, dict(os.environ), Path.cwd(), set(sys.modules))
    # Two versions of a module, of the same size and second, would share their compiled file.
    sys.argv, sys.path, sys.dont_write_bytecode = (
        [script, *words],
        [str(Path(script).parent), *sys.path],
        True,
    )
    os.environ.clear()
    os.environ.update(variables)
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before[4])
        os.environ.clear()
        os.environ.update(before[3])
        sys.argv, sys.path, sys.dont_write_bytecode = before[:3]
        for name in set(sys.modules) - before[5]:
            if str(getattr(sys.modules[name], "__file__", "") or "").startswith(str(Path(script).parent)):
                del sys.modules[name]


@contextlib.contextmanager
def _streams(output: io.RawIOBase, errors: io.RawIOBase) -> Iterator[None]:
    # A program's own file descriptors are not touched: what it prints goes through these two.
    with (
        os.fdopen(os.dup(output.fileno()), "w", encoding="utf-8") as out,
        os.fdopen(os.dup(errors.fileno()), "w", encoding="utf-8") as err,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        yield
