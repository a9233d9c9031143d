"""The channel to one agent: requests that wait for their answers, and what is told of its jobs unasked."""

import re
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from trainmark.node.channel import BEAT_S, HELLO, PATIENCE_S, Sender, receive
from trainmark.node.host import HostError, HostGoneError, HostOSError

HELLO_S = 60.0
"""How long an agent may take to say that it is there, seconds: importing trainmark from a slow disk takes its time."""

ANSWER_S = 600.0
"""How long a host that lives may take over one request, seconds."""

_MOST_CHATTER = 64 * 1024
_RULE = re.compile("-{20,}")


class Connection:
    """One agent's channel: requests that wait for their answers, and what was told of the jobs."""

    def __init__(self, name: str, words: Sequence[str]) -> None:
        self._name, self._words = name, tuple(words)
        self._news = threading.Condition()
        self._answers: dict[int, tuple[dict[str, Any], IO[bytes]]] = {}
        self._number = 0
        self._gone: str | None = None
        self._stopped = False
        self._heard = time.monotonic()
        self.jobs: dict[int, dict[str, Any]] = {}
        self.hello: dict[str, Any] | None = None
        try:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Ctrl-C is ours to act upon: the agent ends what it started when we let it go.
                start_new_session=True,
            )
        except OSError as error:
            raise HostGoneError(f"{name}: cannot be reached: {words[0]}: {error.strerror}") from None
        assert self._process.stdin is not None
        self._sender = Sender(self._process.stdin)
        self._said = _Tail(self._process.stderr)
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        threading.Thread(target=self._ping, daemon=True).start()
        try:
            self._wait_for(lambda: self.hello is not None, HELLO_S, "did not start an agent")
        except HostGoneError:
            self.close()
            raise

    def call(
        self, call: str, body: bytes | IO[bytes] = b"", timeout_s: float = ANSWER_S, **message: Any
    ) -> tuple[Any, IO[bytes]]:
        """Return the answer to a request; raise what it raised there, or ``HostGoneError``."""
        with self._news:
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
        """Return a job's exit code once it was told, None while it goes on."""

        def ended() -> bool:
            return self.jobs.get(pid, {}).get("code") is not None

        with self._news:
            self._news.wait_for(lambda: ended() or self._gone is not None, timeout_s)
            if not ended():
                self._require()
            code = self.jobs.get(pid, {}).get("code")
        return None if code is None else int(code)

    def require(self) -> None:
        """Raise ``HostGoneError`` when the agent is gone."""
        with self._news:
            self._require()

    def close(self) -> None:
        """Let the agent go, which ends what it started."""
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
        self._said.thread.join(10)

    def _require(self) -> None:
        if self._gone is not None:
            raise HostGoneError(f"{self._name}: {self._gone}")

    def _wait_for(self, there: Any, timeout_s: float, what: str) -> None:
        with self._news:
            self._news.wait_for(lambda: there() or self._gone is not None, timeout_s)
            if there():
                return
            self._require()
        raise HostGoneError(f"{self._name}: it {what} within {timeout_s:g} s")

    def _send(self, message: Mapping[str, Any], body: bytes | IO[bytes] = b"") -> None:
        try:
            self._sender.send(message, body)
        except (OSError, ValueError):
            # The reader knows better why.
            with self._news:
                self._news.wait_for(lambda: self._gone is not None, 5)
            self._lose("the connection to it was lost")
        self.require()

    def _lose(self, why: str) -> None:
        with self._news:
            if self._gone is None:
                self._gone = why
            self._news.notify_all()

    def _listen(self) -> None:
        source = self._process.stdout
        assert source is not None
        try:
            chatter = 0
            while (line := source.readline(_MOST_CHATTER)).rstrip() != HELLO:
                chatter += len(line)
                if not line or chatter > _MOST_CHATTER:
                    break
            for message, body in receive(source, self._hear):
                with self._news:
                    if "hello" in message:
                        self.hello = message["hello"]
                    elif "job" in message:
                        self.jobs[message["job"]] = message
                    elif "id" in message:
                        self._answers[message["id"]] = message, body
                    self._news.notify_all()
            self._lose(self._why())
        except Exception as error:
            # Whatever a host says, whoever waits for it must know that nothing more will come.
            self._lose(str(error))
        finally:
            source.close()

    def _hear(self) -> None:
        self._heard = time.monotonic()

    def _why(self) -> str:
        """Return why the channel ended, in the words of what held it open."""
        engine = Path(self._words[0]).name
        with suppress(subprocess.TimeoutExpired):
            code = self._process.wait(5)
            self._said.thread.join(1)
            words = self._said.last(2)
            said = f": {words}" if words else ""
            lost = (
                "the connection to it was lost"
                if self.hello is not None
                else "no agent could be started on it"
            )
            return f"{lost} ({engine} ended with code {code}{said})"
        return "the connection to it was lost"

    def _ping(self) -> None:
        while not self._stopped and self._gone is None:
            time.sleep(BEAT_S)
            if self.hello is None:
                continue
            silent = time.monotonic() - self._heard
            if silent > PATIENCE_S:
                self._lose(f"nothing was heard from it for {silent:.0f} s")
                # Whoever is still writing to it would wait for ever.
                self._process.kill()
                return
            with suppress(OSError, ValueError):
                self._sender.send_if_free({"call": "ping"})


class _Tail:
    """The last lines that a process wrote to its standard error, read as it goes: a full pipe would stop it.

    Of what OpenMPI writes between two rules, which ends with the causes of such an error in general, the first
    sentence is one line, with the paragraph after it where it ends in a colon: there a file and a host are named.
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self._lines: list[str] = []
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def last(self, count: int) -> str:
        """Return the last lines that say something: what went wrong, and what an engine adds to it."""
        return "; ".join(self._lines[-count:])

    def _read(self) -> None:
        between, told, paragraph = False, False, ""
        with self._file:
            for raw in self._file:
                line = raw.decode(errors="replace").strip()
                if _RULE.fullmatch(line):
                    self._keep(paragraph)
                    between, told, paragraph = not between, False, ""
                elif not between:
                    self._keep(line)
                elif told:
                    continue
                elif line:
                    paragraph = f"{paragraph} {line}".strip()
                    told = line.endswith(".")
                else:
                    told = bool(paragraph) and not paragraph.endswith(":")
            self._keep(paragraph)

    def _keep(self, line: str) -> None:
        if line:
            self._lines = [*self._lines[-9:], line]
