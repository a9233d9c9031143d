"""The agent: started on a host by an engine, it does there what ``Host`` says, and ends everything when it is left.

    python -m trainmark.node.agent

It speaks over its standard input and output alone, listens on nothing and leaves nothing behind: when the channel is
closed, or the controller has not been heard for ``PATIENCE_S``, every process that it started is ended.
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

from trainmark import __file__ as package
from trainmark import __version__
from trainmark.errors import TrainmarkError
from trainmark.home import default_home
from trainmark.node.archives import pack_folder
from trainmark.node.channel import BEAT_S, HELLO, PATIENCE_S, NoMessageError, Sender, receive
from trainmark.node.host import Job
from trainmark.node.local import LocalHost
from trainmark.node.network import find_interface
from trainmark.node.reserving import same_holder
from trainmark.node.stacks import Stack
from trainmark.schema.manifest import FrameworkVersions
from trainmark.schema.plan import NodeResources

TICK_S = 0.25
"""How often the state of the jobs is told, seconds."""

TAKE_OVER_S = 0.1
"""How often it is tried to hold what an agent before us holds, seconds: sooner than another campaign would."""

LAST_RESORT_S = 90.0
"""How long ending everything may take, seconds, before the agent ends in the middle of it: its jobs end with it."""

_WITH_BODY = ("put", "put_folder")
_Inbox = queue.SimpleQueue[tuple[dict[str, Any], IO[bytes]] | None]
_JOB = TypeAdapter(Job)
_STACKS = TypeAdapter(dict[int, Stack])
_MACHINE = TypeAdapter(NodeResources)


class _Agent:
    """Answers one controller; a request that takes its time does not keep the others waiting."""

    def __init__(self, name: str, output: IO[bytes]) -> None:
        self._host = LocalHost(name)
        self._sender, self._told_at = Sender(output), time.monotonic()
        self.heard = time.monotonic()
        self.left = False
        self._marks: dict[int, str] = {}
        self._told: dict[int, object] = {}
        self._kept = ExitStack()
        self._holds = False
        self._locks: dict[str, ExitStack] = {}
        self._pool = ThreadPoolExecutor(8)

    def tell(self, message: Mapping[str, Any], body: bytes | IO[bytes] = b"") -> None:
        self._sender.send(message, body)

    def hear(self, message: dict[str, Any], body: IO[bytes]) -> None:
        """Do what a message asks for, now or in a thread."""
        call = message.pop("call")
        if call in ("start", "reap", "time"):
            # Here, in the main thread: the kernel ends a child with the thread that started it. And the time at once.
            self._answer(call, message, body)
        else:
            self._pool.submit(self._answer, call, message, body)

    def tick(self) -> None:
        """Tell what has changed of the jobs, and now and then that we are here."""
        if time.monotonic() - self._told_at > BEAT_S:
            self._told_at = time.monotonic()
            self.tell({"beat": 1})
        for pid in list(self._marks):
            code = self._host.wait(pid, 0)
            look = self._host.job_status(pid)
            state = (code, look.written, look.step, look.private_bytes)
            if state != self._told.get(pid):
                self._told[pid] = state
                names = ("code", "written", "step", "private_bytes")
                self.tell({"job": pid, **dict(zip(names, state, strict=True))})

    def end(self) -> None:
        """End all that was started, and remove what was made for the moment."""
        for pid, mark in list(self._marks.items()):
            with suppress(TrainmarkError, OSError):
                self._host.kill(mark, pid)
                self._host.reap(pid)
        self._kept.close()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _answer(self, call: str, message: dict[str, Any], body: IO[bytes]) -> None:
        number = message.pop("id")
        content: bytes | IO[bytes] = b""
        try:
            with body:
                value = getattr(self, f"do_{call}")(
                    **message, **({"body": body} if call in _WITH_BODY else {})
                )
            answer, content = value if isinstance(value, tuple) else (value, b"")
            said: dict[str, Any] = {"value": answer}
        except OSError as error:
            said = {"os": [error.errno, error.strerror or str(error), str(error.filename or "")]}
        except TrainmarkError as error:
            said = {"error": str(error)}
        except Exception as error:
            said = {"error": f"{type(error).__name__}: {error}"}
        with suppress(OSError), nullcontext() if isinstance(content, bytes) else content:
            self.tell({"id": number, **said}, content)

    def do_machine(self) -> object:
        return _MACHINE.dump_python(self._host.machine(), mode="json")

    def do_reserve(self, by: str) -> str | None:
        holder = self._host.reserve(by)
        self._holds = self._holds or holder is None
        if holder is not None and same_holder(holder, by) and not self._holds:
            # The agent before us was lost and has not ended yet: nobody would hold it from then on.
            threading.Thread(target=self._take_over, args=(by,), daemon=True).start()
        return holder

    def _take_over(self, by: str) -> None:
        while self._host.reserve(by) is not None:
            time.sleep(TAKE_OVER_S)
        self._holds = True

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
        held = ExitStack()
        held.enter_context(self._host.locked(Path(path)))
        self._locks[path] = held
        self._kept.callback(held.close)
        return path

    def do_unlock(self, path: str) -> None:
        self._locks.pop(path).close()

    def do_scratch(self) -> str:
        folder = tempfile.mkdtemp(prefix="trainmark-")
        self._kept.callback(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def do_start(self, job: Any) -> int:
        asked = _JOB.validate_python(job)
        pid = self._host.start(asked)
        self._marks[pid] = asked.mark
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

    def do_reap(self, pid: int) -> list[int]:
        self._marks.pop(pid, None)
        self._told.pop(pid, None)
        ended = self._host.reap(pid)
        return [ended.code, ended.oom_kills]


def serve(name: str, source: IO[bytes], output: IO[bytes]) -> None:
    """Answer the controller until it is gone, then end everything."""
    agent = _Agent(name, output)
    where = {"version": __version__, "python": sys.executable, "package": str(Path(package).parent)}
    output.write(b"\n" + HELLO + b"\n")
    agent.tell(
        {"hello": {**where, "home": str(default_home(os.environ)), "pid": os.getpid(), "trouble": _trouble()}}
    )
    inbox: _Inbox = queue.SimpleQueue()
    threading.Thread(target=_leave_at_last, args=(agent,), daemon=True).start()
    threading.Thread(target=_read_all, args=(source, inbox, agent), daemon=True).start()
    try:
        while time.monotonic() - agent.heard < PATIENCE_S:
            with suppress(queue.Empty):
                told = inbox.get(timeout=TICK_S)
                if told is None:
                    return
                if told[0].get("call") != "ping":
                    agent.hear(*told)
            agent.tick()
    except (OSError, KeyboardInterrupt):
        # Nobody is there to be told.
        return
    finally:
        agent.end()


def _trouble() -> str | None:
    """Return why nothing can be run here, whatever it is; None when there is no such reason."""
    try:
        with tempfile.TemporaryFile() as file:
            file.write(bytes(4096))
    except OSError as error:
        return f"no temporary file can be written there: is its disk full? ({error.strerror})"
    return None


def _read_all(source: IO[bytes], inbox: "_Inbox", agent: _Agent) -> None:
    def heard() -> None:
        # Here and not where it is acted upon: whoever is busy for long has not been left.
        agent.heard = time.monotonic()

    with suppress(OSError, NoMessageError):
        for told in receive(source, heard):
            inbox.put(told)
    agent.left = True
    inbox.put(None)


def _leave_at_last(agent: _Agent) -> None:
    """End this process some time after it was left, where its main thread hangs: nobody else would."""
    while not agent.left and time.monotonic() - agent.heard < PATIENCE_S:
        time.sleep(TICK_S)
    time.sleep(LAST_RESORT_S)
    os._exit(1)


def _forget_our_place() -> None:
    """Drop what mpirun or srun, which may have started us, says of our place: what we start is no rank of theirs."""
    theirs: tuple[str, ...] = ()
    if "OMPI_COMM_WORLD_RANK" in os.environ:
        theirs = ("OMPI_", "PMIX_", "PRTE_")
    elif "SLURM_PROCID" in os.environ:
        theirs = ("SLURM_", "SLURMD_", "PMIX_", "PMI_", "PMI2_")
    # Not the job's number: where mpirun and JAX find one, they ask the rest of Slurm's variables for the ranks' places.
    kept = ("SLURM_CONF", "SLURM_TMPDIR")
    for name in [name for name in os.environ if name.startswith(theirs or "\0") and name not in kept]:
        del os.environ[name]


def main() -> NoReturn:
    """Serve whoever holds the other ends of our standard input and output."""
    _forget_our_place()

    def leave(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, leave)
    # What a library prints must not come between our messages.
    output = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    source = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    serve(sys.argv[1] if len(sys.argv) > 1 else "localhost", source, output)
    sys.stdout.flush()
    # A thread that waits for a process that cannot be ended would keep us.
    os._exit(0)


if __name__ == "__main__":
    main()
