"""The agent: a process on a host that serves the ``Host`` interface to one controller.

    python -m trainmark.node.agent

An engine starts it. It communicates over its standard input and output only, opens no port, and cleans up: when the
channel is closed, or the controller was silent for ``SILENCE_LIMIT_S``, every process that it started is ended.
"""

import os
import queue
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn

from pydantic import TypeAdapter

from trainmark.errors import TrainmarkError
from trainmark.files import default_home
from trainmark.node.archives import pack_folder
from trainmark.node.connection import HEARTBEAT_S, HELLO, SILENCE_LIMIT_S, NoMessageError, Sender, receive
from trainmark.node.jobs import Job
from trainmark.node.local import LocalHost
from trainmark.node.machine import keep_allocation
from trainmark.node.network import find_interface
from trainmark.node.reserving import same_holder
from trainmark.node.stacks import Stack
from trainmark.schema.manifest import FrameworkVersions
from trainmark.schema.plan import NodeResources
from trainmark.version import __version__

REPORT_INTERVAL_S = 0.25
"""Interval between reports of the jobs' state, in seconds."""

TAKE_OVER_INTERVAL_S = 0.1
"""Interval between attempts to take over a lost agent's reservation, in seconds; shorter than other campaigns use."""

CLEANUP_LIMIT_S = 90.0
"""Time limit for the clean-up, in seconds; then the agent exits, and the kernel ends its jobs with it."""

_WITH_BODY = ("put", "put_folder")
_Inbox = queue.SimpleQueue[tuple[dict[str, Any], IO[bytes]] | None]
_JOB = TypeAdapter(Job)
_STACKS = TypeAdapter(dict[int, Stack])
_MACHINE = TypeAdapter(NodeResources)


class _Agent:
    """Serves one controller; a slow request does not delay the others."""

    def __init__(self, name: str, output: IO[bytes]) -> None:
        self._host = LocalHost(name)
        self._sender, self._reported_at = Sender(output), time.monotonic()
        self.last_heard = time.monotonic()
        self.disconnected = False
        self._marks: dict[int, str] = {}
        self._reported: dict[int, object] = {}
        self._resources = ExitStack()
        self._is_reserved = False
        self._locks: dict[str, ExitStack] = {}
        self._pool = ThreadPoolExecutor(8)

    def send(self, message: Mapping[str, Any], body: bytes | IO[bytes] = b"") -> None:
        self._sender.send(message, body)

    def handle(self, message: dict[str, Any], body: IO[bytes]) -> None:
        """Serve a request, here or in a thread."""
        call = message.pop("call")
        if call in ("start", "reap", "time"):
            # In the main thread: the kernel ends a child with its starting thread, and a clock reading must not wait.
            self._respond(call, message, body)
        else:
            self._pool.submit(self._respond, call, message, body)

    def tick(self) -> None:
        """Report changes of the jobs' state, and send a heartbeat now and then."""
        if time.monotonic() - self._reported_at > HEARTBEAT_S:
            self._reported_at = time.monotonic()
            self.send({"beat": 1})
        for pid in list(self._marks):
            code = self._host.wait(pid, 0)
            status = self._host.job_status(pid)
            state = (code, status.written, status.step, status.private_bytes, status.steps)
            if state != self._reported.get(pid):
                self._reported[pid] = state
                names = ("code", "written", "step", "private_bytes", "steps")
                self.send({"job": pid, **dict(zip(names, state, strict=True))})

    def end(self) -> None:
        """End everything that was started, and remove temporary files."""
        for pid, mark in list(self._marks.items()):
            with suppress(TrainmarkError, OSError):
                self._host.kill(mark, pid)
                self._host.reap(pid)
        self._resources.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _respond(self, call: str, message: dict[str, Any], body: IO[bytes]) -> None:
        number = message.pop("id")
        content: bytes | IO[bytes] = b""
        try:
            with body:
                value = getattr(self, f"do_{call}")(
                    **message, **({"body": body} if call in _WITH_BODY else {})
                )
            answer, content = value if isinstance(value, tuple) else (value, b"")
            response: dict[str, Any] = {"value": answer}
        except OSError as error:
            response = {"os": [error.errno, error.strerror or str(error), str(error.filename or "")]}
        except TrainmarkError as error:
            response = {"error": str(error)}
        except Exception as error:
            response = {"error": f"{type(error).__name__}: {error}"}
        with suppress(OSError), nullcontext() if isinstance(content, bytes) else content:
            self.send({"id": number, **response}, content)

    def do_machine(self) -> object:
        return _MACHINE.dump_python(self._host.machine(), mode="json")

    def do_reserve(self, by: str) -> str | None:
        holder = self._host.reserve(by)
        self._is_reserved = self._is_reserved or holder is None
        if holder is not None and same_holder(holder, by) and not self._is_reserved:
            # The connection to an earlier agent was lost; when that agent exits, its reservation would end too.
            threading.Thread(target=self._take_over, args=(by,), daemon=True).start()
        return holder

    def _take_over(self, by: str) -> None:
        while self._host.reserve(by) is not None:
            time.sleep(TAKE_OVER_INTERVAL_S)
        self._is_reserved = True

    def do_time(self) -> float:
        return time.time()

    def do_interface(self, address: str) -> str | None:
        return find_interface(address)

    def do_facts(self, framework: Any, lock: str | None, git_dir: str | None) -> object:
        versions = None if framework is None else FrameworkVersions.model_validate(framework)
        node = self._host.facts(versions, lock, None if git_dir is None else Path(git_dir))
        return node.model_dump(mode="json")

    def do_has_free_ports(self, first: int, count: int) -> bool:
        return self._host.has_free_ports(first, count)

    def do_which(self, command: str) -> str | None:
        return self._host.which(command)

    def do_has(self, path: str) -> bool:
        return self._host.has(Path(path))

    def do_read(self, path: str) -> tuple[bool, bytes]:
        content = self._host.read(Path(path))
        return content is not None, content or b""

    def do_digests(self, path: str) -> object:
        return dict(self._host.digests(Path(path)))

    def do_put(self, path: str, body: IO[bytes]) -> None:
        self._host.put(Path(path), body.read())

    def do_get(self, folder: str, without: list[str]) -> tuple[None, IO[bytes]]:
        return None, pack_folder(Path(folder), without)

    def do_put_folder(self, path: str, body: IO[bytes]) -> None:
        self._host.put_folder(Path(path), body)

    def do_remove(self, path: str, without: list[str]) -> None:
        self._host.remove(Path(path), tuple(without))

    def do_remove_empty(self, folders: list[str]) -> None:
        self._host.remove_empty([Path(folder) for folder in folders])

    def do_lock(self, path: str) -> str:
        lock = ExitStack()
        lock.enter_context(self._host.locked(Path(path)))
        self._locks[path] = lock
        self._resources.callback(lock.close)
        return path

    def do_unlock(self, path: str) -> None:
        self._locks.pop(path).close()

    def do_scratch(self) -> str:
        folder = tempfile.mkdtemp(prefix="trainmark-")
        self._resources.callback(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def do_start(self, job: Any) -> int:
        job_spec = _JOB.validate_python(job)
        pid = self._host.start(job_spec)
        self._marks[pid] = job_spec.mark
        return pid

    def do_signal(self, pid: int, number: int) -> None:
        self._host.signal(pid, number)

    def do_stopped(self, mark: str, pid: int) -> list[int]:
        return list(self._host.stopped(mark, pid))

    def do_stop_ranks(self, mark: str, pid: int) -> None:
        self._host.stop_ranks(mark, pid)

    def do_stacks(self, mark: str, pid: int) -> object:
        return _STACKS.dump_python(self._host.stacks(mark, pid), mode="json")

    def do_kill(self, mark: str, pid: int | None) -> int:
        return self._host.kill(mark, pid)

    def do_reap(self, pid: int) -> list[object]:
        self._marks.pop(pid, None)
        self._reported.pop(pid, None)
        ended = self._host.reap(pid)
        return [ended.code, ended.oom_kills, ended.daemons]


def serve(name: str, source: IO[bytes], output: IO[bytes]) -> None:
    """Serve the controller until it is gone, then end everything."""
    agent = _Agent(name, output)
    where = {"version": __version__, "python": sys.executable, "package": str(Path(__file__).parents[1])}
    output.write(b"\n" + HELLO + b"\n")
    agent.send(
        {
            "hello": {
                **where,
                "home": str(default_home(os.environ)),
                "pid": os.getpid(),
                "problem": _startup_problem(),
            }
        }
    )
    inbox: _Inbox = queue.SimpleQueue()
    threading.Thread(target=_exit_when_stuck, args=(agent,), daemon=True).start()
    threading.Thread(target=_read_all, args=(source, inbox, agent), daemon=True).start()
    try:
        while time.monotonic() - agent.last_heard < SILENCE_LIMIT_S:
            with suppress(queue.Empty):
                request = inbox.get(timeout=REPORT_INTERVAL_S)
                if request is None:
                    return
                if request[0].get("call") != "ping":
                    agent.handle(*request)
            agent.tick()
    except (OSError, KeyboardInterrupt):
        # The controller is gone, so nothing can be reported.
        return
    finally:
        agent.end()


def _startup_problem() -> str | None:
    """Return why this host cannot run anything, or None."""
    try:
        with tempfile.TemporaryFile() as file:
            file.write(bytes(4096))
    except OSError as error:
        return f"no temporary file can be written on it: is its disk full? ({error.strerror})"
    return None


def _read_all(source: IO[bytes], inbox: "_Inbox", agent: _Agent) -> None:
    def last_heard() -> None:
        # Recorded when a message is read, not when it is served: a busy agent is not an abandoned one.
        agent.last_heard = time.monotonic()

    with suppress(OSError, NoMessageError):
        for request in receive(source, last_heard):
            inbox.put(request)
    agent.disconnected = True
    inbox.put(None)


def _exit_when_stuck(agent: _Agent) -> None:
    """Exit some time after the controller is gone, in case the main thread hangs."""
    while not agent.disconnected and time.monotonic() - agent.last_heard < SILENCE_LIMIT_S:
        time.sleep(REPORT_INTERVAL_S)
    time.sleep(CLEANUP_LIMIT_S)
    os._exit(1)


def _unset_launcher_variables() -> None:
    """Remove rank variables set by mpirun or srun so that our child processes do not join that job."""
    theirs: tuple[str, ...] = ()
    if "OMPI_COMM_WORLD_RANK" in os.environ:
        theirs = ("OMPI_", "PMIX_", "PRTE_")
    elif "SLURM_PROCID" in os.environ:
        theirs = ("SLURM_", "SLURMD_", "PMIX_", "PMI_", "PMI2_")
    # SLURM_JOB_ID is removed too: with it, mpirun and JAX would read ranks from the other variables of Slurm. A command
    # that is srun gets it back.
    preserved = ("SLURM_CONF", "SLURM_TMPDIR")
    allocation = os.environ.get("SLURM_JOB_ID")
    for name in [name for name in os.environ if name.startswith(theirs or "\0") and name not in preserved]:
        del os.environ[name]
    keep_allocation(allocation if theirs else None)


def main() -> NoReturn:
    """Serve the controller at the other end of standard input and output."""
    _unset_launcher_variables()

    def leave(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, leave)
    # Output of libraries must not be mixed with our messages.
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    source = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    serve(sys.argv[1] if len(sys.argv) > 1 else "localhost", source, output)
    sys.stdout.flush()
    # Not sys.exit, which would wait for threads, and one may wait for a process that cannot be ended.
    os._exit(0)


if __name__ == "__main__":
    main()
