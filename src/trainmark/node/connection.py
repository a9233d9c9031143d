"""Connection to the agent of a host: the command that starts it, the protocol, and requests with their answers.

The standard input and output of the agent's command are the channel. A message is a JSON header line followed by a body
of `bytes` bytes. A body of more than ``PART_BYTES`` is sent in parts before its message, so that other messages need
not wait for all of it, and a slow connection does not appear silent.
"""

import io
import json
import re
import shlex
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from trainmark.errors import TrainmarkError
from trainmark.node.archives import SPOOL_BYTES
from trainmark.node.jobs import HostError, HostGoneError, HostOSError
from trainmark.schema.hosts import EngineName, HostEntry, SshSettings


def agent_command(entry: HostEntry, engine: EngineName, ssh: SshSettings, python: Path) -> tuple[str, ...]:
    """Return the command that starts an agent on a host; ``python`` is the interpreter on that host."""
    agent = (str(python), "-m", "trainmark.node.agent", entry.name)
    variables = tuple(f"{name}={value}" for name, value in entry.variables.items())
    there = ("env", *variables, *agent) if variables else agent
    match engine:
        case EngineName.SSH:
            return (*_ssh(entry, ssh), entry.reached_at, shlex.join(("exec", *there)))
        case EngineName.SLURM:
            # Overlap with other job steps; one task on one node; unbuffered output.
            step = (
                "--overlap",
                "--nodes=1",
                "--ntasks=1",
                "--export=ALL",
                "--unbuffered",
                "--kill-on-bad-exit=0",
            )
            return ("srun", *step, f"--nodelist={entry.name}", *there)
        case EngineName.MPI:
            # mpirun passes our standard input to rank 0. No binding, because jobs would inherit it from the agent.
            one = ("--allow-run-as-root", "-np", "1", "--bind-to", "none", "-H", f"{entry.reached_at}:1")
            return ("mpirun", *one, *there)


def _ssh(entry: HostEntry, settings: SshSettings) -> tuple[str, ...]:
    """Return ``ssh`` with options: never prompt, and detect a lost host within a minute."""
    # ssh uses the first value of an option, so the user's options take precedence.
    words = ["ssh", *settings.options, "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15"]
    # No shared connection: it would outlive ours, and the next one would find it dead.
    words += ["-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3", "-o", "ControlPath=none"]
    if settings.config is not None:
        words += ["-F", str(settings.config)]
    if entry.user is not None:
        words += ["-l", entry.user]
    if entry.port is not None:
        words += ["-p", str(entry.port)]
    return tuple(words)


HELLO = b"trainmark-agent"
"""The line before the agent's first message; output of a login shell may precede it."""

HEARTBEAT_S = 5.0
"""Interval between the heartbeats of each side, in seconds."""

SILENCE_LIMIT_S = 30.0
"""Seconds of silence after which the other side counts as gone; shorter interruptions of a link are tolerated."""

PART_BYTES = 1 << 20

_LONGEST_LINE = 64 << 20


_INSTALL = (
    "install trainmark there, or set 'python' in the hosts file to the interpreter that has it "
    "(in an allocation: --hosts FILE --engine slurm)"
)
_REMEDIES = {
    # A shell's codes for a command that it cannot execute or find.
    "ended with code 126": _INSTALL,
    "ended with code 127": _INSTALL,
    "Host key verification failed": "find out why its key differs; if the host was installed again, replace its old "
    "key (ssh-keygen -R HOST, then ssh HOST once)",
    "Permission denied": "let 'ssh HOST true' work without a password: install the public key there, or set 'user' in "
    "the hosts file",
    "Could not resolve hostname": "correct its name, or set 'address' in the hosts file",
    "is its disk full": "free some space there (df -h /tmp /var/tmp)",
    "No such file or directory": _INSTALL,
    "could not access or execute an executable": _INSTALL,
    "No module named": _INSTALL,
    "Connection refused": "start sshd there, or correct 'port' or 'address' in the hosts file",
    "it has trainmark": "install the same version on both",
}
"""What to do about a host that has no agent, by a part of the reason."""


def remedy_of(problem: str) -> str:
    """Return what to do about a host that has no agent or does not answer."""
    usual = "check that it is up and reachable, and has the same version of trainmark"
    return next((remedy for part, remedy in _REMEDIES.items() if part in problem), usual)


def with_remedy(problem: str) -> str:
    """Return the reason why a host has no agent, and what to do about it."""
    return f"{problem}; {remedy_of(problem)}"


class NoMessageError(TrainmarkError):
    """Data on a channel that is not a message of the protocol."""


class Sender:
    """The sending end of a channel, used by several threads."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._free = file, threading.Lock()

    def send(self, message: Mapping[str, Any], body: bytes | IO[bytes] = b"") -> None:
        """Send a message; one with a long body needs an ``id``. Raises ``OSError`` when the channel is closed."""
        if isinstance(body, bytes) and len(body) <= PART_BYTES:
            self._write(message, body)
            return
        source = io.BytesIO(body) if isinstance(body, bytes) else body
        while part := source.read(PART_BYTES):
            self._write({"part": message["id"]}, part)
        self._write({**message, "joined": True}, b"")

    def send_if_free(self, message: Mapping[str, Any]) -> None:
        """Send a message unless another one blocks the channel for ``BEAT_S``."""
        if self._free.acquire(timeout=HEARTBEAT_S):
            self._free.release()
            self._write(message, b"")

    def close(self) -> bool:
        """Close the channel; return False if a blocked message prevents it."""
        if not self._free.acquire(timeout=HEARTBEAT_S):
            return False
        try:
            self._file.close()
        finally:
            self._free.release()
        return True

    def _write(self, message: Mapping[str, Any], body: bytes) -> None:
        line = json.dumps({**message, "bytes": len(body)}, separators=(",", ":"))
        with self._free:
            self._file.write(line.encode() + b"\n" + body)
            self._file.flush()


def receive(file: IO[bytes], heard: Callable[[], None]) -> Iterator[tuple[dict[str, Any], IO[bytes]]]:
    """Yield the messages of a channel with their bodies until it ends; ``heard`` is called for every received part.

    Raises ``NoMessageError`` for data that is not a message.
    """
    parts: dict[Any, IO[bytes]] = {}
    while (one := _one(file)) is not None:
        heard()
        message, body = one
        if "part" in message:
            if message["part"] not in parts:
                parts[message["part"]] = tempfile.SpooledTemporaryFile(SPOOL_BYTES)  # noqa: SIM115 (the reader closes it)
            parts[message["part"]].write(body)
        elif message.pop("joined", False):
            whole = parts.pop(message.get("id"), None) or io.BytesIO()
            whole.seek(0)
            yield message, whole
        else:
            yield message, io.BytesIO(body)


def _one(file: IO[bytes]) -> tuple[dict[str, Any], bytes] | None:
    line = file.readline(_LONGEST_LINE)
    if not line:
        return None
    try:
        message = json.loads(line)
        size = message.pop("bytes")
        if not 0 <= size <= PART_BYTES:
            raise ValueError(size)
    except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
        raise NoMessageError(
            f"it sent {line[:80]!r}, which is not a message of trainmark's protocol"
        ) from None
    body = file.read(size)
    return None if len(body) < size else (message, body)


START_LIMIT_S = 60.0
"""Time limit for an agent's first message, in seconds; importing trainmark from a slow disk takes long."""

ANSWER_LIMIT_S = 600.0
"""Time limit for one request to a responsive host, in seconds."""

_MAX_PREAMBLE = 64 * 1024
_RULE = re.compile("-{20,}")
_STEP_END = re.compile(r"srun: error: \S+: tasks? \d+: Exited with exit code \d+")


class Connection:
    """A connection to an agent; ``jobs`` is the last reported state of each job."""

    def __init__(self, name: str, words: Sequence[str]) -> None:
        self._name, self._words = name, tuple(words)
        self._changed = threading.Condition()
        self._answers: dict[int, tuple[dict[str, Any], IO[bytes]]] = {}
        self._number = 0
        self._gone: str | None = None
        self._stopped = False
        self._last_contact = time.monotonic()
        self.jobs: dict[int, dict[str, Any]] = {}
        self.hello: dict[str, Any] | None = None
        try:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Ctrl-C is handled by the controller: the agent ends its jobs when the connection is closed.
                start_new_session=True,
            )
        except OSError as error:
            raise HostGoneError(f"{name}: cannot be reached: {words[0]}: {error.strerror}") from None
        assert self._process.stdin is not None
        self._sender = Sender(self._process.stdin)
        self._stderr = _Tail(self._process.stderr)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        threading.Thread(target=self._ping, daemon=True).start()
        try:
            self._wait_for(lambda: self.hello is not None, START_LIMIT_S, "did not start an agent")
        except HostGoneError:
            self.close()
            raise

    def call(
        self, call: str, body: bytes | IO[bytes] = b"", timeout_s: float = ANSWER_LIMIT_S, **message: Any
    ) -> tuple[Any, IO[bytes]]:
        """Return the answer to a request; raise the error that it raised on the host, or ``HostGoneError``."""
        with self._changed:
            self._number += 1
            number = self._number
        self._send({"call": call, "id": number, **message}, body)
        self._wait_for(lambda: number in self._answers, timeout_s, f"gave no answer to '{call}'")
        answer, content = self._answers.pop(number)
        if "os" in answer:
            number_there, reason, path = answer["os"]
            raise HostOSError(number_there, reason, f"{self._name}:{path}")
        if "value" not in answer:
            raise HostError(f"{self._name}: {answer.get('error', 'its agent gave no answer')}")
        return answer["value"], content

    def code(self, pid: int, timeout_s: float) -> int | None:
        """Return a job's exit code as soon as it is reported, or None if the job runs longer."""

        def ended() -> bool:
            return self.jobs.get(pid, {}).get("code") is not None

        with self._changed:
            self._changed.wait_for(lambda: ended() or self._gone is not None, timeout_s)
            if not ended():
                self._raise_if_gone()
            code = self.jobs.get(pid, {}).get("code")
        return None if code is None else int(code)

    def raise_if_gone(self) -> None:
        """Raise ``HostGoneError`` if the agent is gone."""
        with self._changed:
            self._raise_if_gone()

    def close(self) -> None:
        """Disconnect the agent, which then ends its jobs."""
        self._stopped = True
        with suppress(OSError):
            if not self._sender.close():
                self._process.kill()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._listener.join(10)
        self._stderr.thread.join(10)

    def _raise_if_gone(self) -> None:
        if self._gone is not None:
            raise HostGoneError(f"{self._name}: {self._gone}")

    def _wait_for(self, condition: Any, timeout_s: float, what: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: condition() or self._gone is not None, timeout_s)
            if condition():
                return
            self._raise_if_gone()
        raise HostGoneError(f"{self._name}: it {what} within {timeout_s:g} s")

    def _send(self, message: Mapping[str, Any], body: bytes | IO[bytes] = b"") -> None:
        try:
            self._sender.send(message, body)
        except (OSError, ValueError):
            # The listening thread knows the precise reason.
            with self._changed:
                self._changed.wait_for(lambda: self._gone is not None, 5)
            self._mark_gone("the connection to it was lost")
        self.raise_if_gone()

    def _mark_gone(self, why: str) -> None:
        with self._changed:
            if self._gone is None:
                self._gone = why
            self._changed.notify_all()

    def _listen(self) -> None:
        source = self._process.stdout
        assert source is not None
        try:
            preamble = 0
            while (line := source.readline(_MAX_PREAMBLE)).rstrip() != HELLO:
                preamble += len(line)
                if not line or preamble > _MAX_PREAMBLE:
                    break
            for message, body in receive(source, self._record_contact):
                with self._changed:
                    if "hello" in message:
                        self.hello = message["hello"]
                    elif "job" in message:
                        self.jobs[message["job"]] = message
                    elif "id" in message:
                        self._answers[message["id"]] = message, body
                    self._changed.notify_all()
            self._mark_gone(self._gone_reason())
        except Exception as error:
            # Whatever the error, waiting callers must learn that no more answers will come.
            self._mark_gone(str(error))
        finally:
            source.close()

    def _record_contact(self) -> None:
        self._last_contact = time.monotonic()

    def _gone_reason(self) -> str:
        """Return why the channel ended, with the last error lines of the engine's process."""
        engine = Path(self._words[0]).name
        with suppress(subprocess.TimeoutExpired):
            code = self._process.wait(5)
            self._stderr.thread.join(1)
            words = self._stderr.last_lines(2)
            stderr_text = f": {words}" if words else ""
            ended = f"({engine} ended with code {code}{stderr_text})"
            if self.hello is None:
                return with_remedy(f"no agent could be started on it {ended}")
            return f"the connection to it was lost {ended}"
        return "the connection to it was lost"

    def _ping(self) -> None:
        while not self._stopped and self._gone is None:
            time.sleep(HEARTBEAT_S)
            if self.hello is None:
                continue
            silent = time.monotonic() - self._last_contact
            if silent > SILENCE_LIMIT_S:
                self._mark_gone(f"no message from it for {silent:.0f} s")
                # A thread that still writes to it would block forever.
                self._process.kill()
                return
            with suppress(OSError, ValueError):
                self._sender.send_if_free({"call": "ping"})


class _Tail:
    """The last lines of a process's standard error, read continuously because a full pipe would block the process.

    Of an OpenMPI message between two rules only the first sentence is stored, as one line; general advice follows it.
    If the first paragraph ends in a colon, the next one, which names a file and a host, is stored too.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self._lines: list[str] = []
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def last_lines(self, count: int) -> str:
        """Return the last non-empty lines, joined."""
        return "; ".join(self._lines[-count:])

    def _read(self) -> None:
        in_message, complete, paragraph = False, False, ""
        with self._file:
            for raw in self._file:
                line = raw.decode(errors="replace").strip()
                if _RULE.fullmatch(line):
                    self._append(paragraph)
                    in_message, complete, paragraph = not in_message, False, ""
                elif not in_message:
                    self._append(line)
                elif complete:
                    continue
                elif line:
                    paragraph = f"{paragraph} {line}".strip()
                    complete = line.endswith(".")
                else:
                    complete = bool(paragraph) and not paragraph.endswith(":")
            self._append(paragraph)

    def _append(self, line: str) -> None:
        if line and not _STEP_END.fullmatch(line):
            self._lines = [*self._lines[-9:], line]
