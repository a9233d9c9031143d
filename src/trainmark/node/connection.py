"""Connection to one agent: requests that wait for their answers, and status reports of its jobs."""

import re
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from trainmark.node.channel import HEARTBEAT_S, HELLO, SILENCE_LIMIT_S, Sender, receive
from trainmark.node.jobs import HostError, HostGoneError, HostOSError

START_LIMIT_S = 60.0
"""Time limit for an agent's first message, in seconds; importing trainmark from a slow disk takes long."""

ANSWER_LIMIT_S = 600.0
"""Time limit for one request to a responsive host, in seconds."""

_MAX_PREAMBLE = 64 * 1024
_RULE = re.compile("-{20,}")


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
            lost = (
                "the connection to it was lost"
                if self.hello is not None
                else "no agent could be started on it"
            )
            return f"{lost} ({engine} ended with code {code}{stderr_text})"
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
        if line:
            self._lines = [*self._lines[-9:], line]
