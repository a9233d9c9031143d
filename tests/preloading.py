"""Processes that need not import a framework, or trainmark itself: forked from one that has.

What is run so is the program itself with its flags, variables, output, signals and end, and only the seconds of the
import are saved. That it also starts as a user starts it is shown once for each framework (``test_conformance.py``).
"""

import array
import atexit
import contextlib
import io
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any
from unittest.mock import patch

from frameworks import framework_python

PRELOADED = Path(__file__).parent / "programs" / "preloaded.py"
WORKER = Path(__file__).parents[1] / "src" / "trainmark" / "worker"

SHORT_PROBES = f"""
import sys
sys.path.insert(0, {str(WORKER)!r})
import start
from trainmark_worker.core import probes
probes.SIZES, probes.VALUES = {{"cpu": (256,)}}, {{"cpu": 2**18}}
"""
"""A run measures its device's peaks by some hundred GFLOP and a GB of sums, more than a small model's training takes.

Workers that are started as a user starts them measure with all of it (``test_conformance.py``).
"""


@dataclass(frozen=True)
class Preload:
    """What a worker imports of its framework, and the variables that it sets before that.

    ``before`` is Python that each copy runs before its program.
    """

    modules: tuple[str, ...]
    variables: Mapping[str, str]
    before: str = SHORT_PROBES


PRELOADS: Mapping[str, Preload] = {
    # An optimiser imports the compiler, which is most of what a short run takes.
    "pytorch": Preload(("torch", "torch._dynamo", "numpy"), {}),
    "tensorflow": Preload(
        ("tensorflow", "keras"), {"TF_CPP_MIN_LOG_LEVEL": "2", "KERAS_BACKEND": "tensorflow"}
    ),
    "mxnet": Preload(("mxnet",), {}),
    "paddle": Preload(("paddle",), {}),
    "jax": Preload(
        ("jax", "flax.linen", "flax.training.dynamic_scale", "optax"),
        # A program runs for a few short steps: what its code wins is less than what the search for it takes.
        {
            "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
        },
    ),
    "mindspore": Preload(("mindspore",), {"DNNL_MAX_CPU_ISA": "AVX2", "GLOG_v": "3"}),
}


class Forked:
    """A process forked from a preloaded one: its number, and its exit code as soon as it has ended."""

    def __init__(self) -> None:
        self.pid = 0
        self.returncode: int | None = None
        self.over = threading.Event()

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self.over.wait(timeout):
            raise subprocess.TimeoutExpired("a preloaded process", timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Copy(Forked):
    """A process forked from a preloaded one, with the part of Popen's interface that the tests use."""

    def __init__(self, stdout: int, stderr: int) -> None:
        super().__init__()
        self.stdout: IO[str] = os.fdopen(stdout, encoding="utf-8", errors="replace")
        self.stderr: IO[str] = os.fdopen(stderr, encoding="utf-8", errors="replace")
        self._read: dict[str, str] = {}
        self._readers = [
            threading.Thread(target=self._read_all, args=(name, pipe), daemon=True)
            for name, pipe in (("stdout", self.stdout), ("stderr", self.stderr))
        ]

    def _read_all(self, name: str, pipe: IO[str]) -> None:
        # Closed by the test itself, after it has killed what it had started.
        with contextlib.suppress(ValueError):
            self._read[name] = pipe.read()

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Wait until the process has ended and nobody holds its pipes any more; return what stood in them."""
        deadline = None if timeout is None else time.monotonic() + timeout
        for reader in self._readers:
            with contextlib.suppress(RuntimeError):
                reader.start()
        for reader in self._readers:
            reader.join(None if deadline is None else max(deadline - time.monotonic(), 0))
            if reader.is_alive():
                raise subprocess.TimeoutExpired("a preloaded process", timeout or 0)
        self.wait(None if deadline is None else max(deadline - time.monotonic(), 0) + 1)
        self.stdout.close()
        self.stderr.close()
        return self._read["stdout"], self._read["stderr"]

    def __enter__(self) -> "Copy":
        return self

    def __exit__(self, *_: object) -> None:
        self.stdout.close()
        self.stderr.close()
        self.wait()


@cache
def compiled_before() -> Mapping[str, str]:
    """Return the variables by which processes share what XLA has compiled: it takes most of the time of a short run."""
    folder = TemporaryDirectory(prefix="trainmark-tests-")
    atexit.register(folder.cleanup)
    return {"JAX_COMPILATION_CACHE_DIR": folder.name, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}


class Preloaded:
    """A Python that has imported what takes long, and is copied for each program."""

    def __init__(self, python: str, preload: Preload) -> None:
        self._variables, self._before = {**preload.variables, **compiled_before()}, preload.before
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._process = subprocess.Popen(
            [python, str(PRELOADED), *preload.modules],
            stdin=theirs.fileno(),
            # OpenMP reads it while a framework is loaded, and all tests but those that start anew have one thread.
            env={**os.environ, **self._variables, "OMP_NUM_THREADS": "1"},
            start_new_session=True,
        )
        theirs.close()
        self._copies: dict[int, Forked] = {}
        self._early: dict[int, int] = {}
        self._started: list[int] = []
        self._news = threading.Condition()
        self._order = threading.Lock()
        threading.Thread(target=self._listen, daemon=True).start()

    def start(self, words: list[str], variables: Mapping[str, str], folder: Path, code: str = "") -> Copy:
        """Start a program by its path and words, or a piece of Python."""
        out, their_out = os.pipe()
        err, their_err = os.pipe()
        order: dict[str, Any] = {
            "words": words,
            "environment": {**os.environ, **self._variables, **variables},
            "folder": str(folder),
        }
        if code:
            order["code"] = code
        copy = Copy(out, err)
        try:
            self._order_a_copy(copy, order, their_out, their_err)
        except BaseException:
            copy.stdout.close()
            copy.stderr.close()
            raise
        finally:
            os.close(their_out)
            os.close(their_err)
        return copy

    def run(
        self, words: list[str], environment: Mapping[str, str], folder: Path, out: int, errors: int
    ) -> int:
        """Run a program to its end with exactly these variables and what the framework wants; return its exit code."""
        order = {
            "words": words,
            "environment": {**environment, **self._variables},
            "folder": str(folder),
        }
        forked = Forked()
        self._order_a_copy(forked, order, out, errors)
        return forked.wait()

    def _order_a_copy(self, copy: Forked, order: Mapping[str, Any], out: int, errors: int) -> None:
        ends = array.array("i", [out, errors])
        whole = json.dumps({**order, "before": self._before})
        with self._order:
            self._channel.sendmsg([whole.encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, ends)])
            with self._news:
                assert self._news.wait_for(lambda: self._started or self._process.poll() is not None, 120)
                assert self._started, f"the preloaded process has ended with {self._process.returncode}"
                copy.pid = self._started.pop()
                self._copies[copy.pid] = copy
                if copy.pid in self._early:
                    self._end(copy.pid, self._early.pop(copy.pid))

    def _listen(self) -> None:
        with contextlib.suppress(ConnectionResetError):
            while news := self._channel.recv(1 << 16):
                self._hear(json.loads(news))
        # It has ended, and whoever waits for news of a copy would wait for as long as he may.
        self._process.wait()
        self._channel.close()
        with self._news:
            for pid in tuple(self._copies):
                self._end(pid, -signal.SIGKILL)
            self._news.notify_all()

    def _hear(self, news: Mapping[str, int]) -> None:
        with self._news:
            if "started" in news:
                self._started.append(news["started"])
            elif news["ended"] in self._copies:
                self._end(news["ended"], news["code"])
            else:
                self._early[news["ended"]] = news["code"]
            self._news.notify_all()

    def _end(self, pid: int, code: int) -> None:
        copy = self._copies.pop(pid)
        copy.returncode = code
        copy.over.set()


@cache
def preloaded(framework: str) -> Preloaded:
    """Return the one preloaded process of a framework; it ends with the tests' own process."""
    return Preloaded(framework_python(framework), PRELOADS[framework])


TRAINMARK = Preload(
    (
        "trainmark.cli.main",
        "trainmark.cli.data",
        "trainmark.cli.parse",
        "trainmark.logs.read",
        "trainmark.programs.reading",
        "trainmark.cli.audit",
        "trainmark.cli.run",
        "trainmark.campaign.campaign",
        "trainmark.dataset.images.make",
        "trainmark.report.writing",
        "trainmark.store.database",
    ),
    {},
    before="",
)


@cache
def _preloaded_trainmark() -> Preloaded:
    return Preloaded(sys.executable, TRAINMARK)


def start_trainmark(*words: str | Path, variables: Mapping[str, str] | None = None) -> Copy:
    """Start ``trainmark WORDS`` in a session of its own."""
    with usual_signals():
        copies = _preloaded_trainmark()
    code = "import sys\nfrom trainmark.cli.main import main\nsys.exit(main())"
    return copies.start(["trainmark", *map(str, words)], variables or {}, Path.cwd(), code)


def call_trainmark(
    *words: str | Path, variables: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run ``trainmark WORDS`` to its end, in this process."""
    from trainmark.cli.main import main

    named = [str(word) for word in words]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="surrogateescape") for _ in range(2))
    with (
        patch.dict(os.environ, variables or {}),
        patch("sys.argv", ["trainmark", *named]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main(named)
    for stream in (out, err):
        stream.flush()
        stream.seek(0)
    return subprocess.CompletedProcess(["trainmark", *named], code, out.read(), err.read())


@contextlib.contextmanager
def usual_signals() -> Iterator[None]:
    """Let the signals that stop us do so, though ``nohup`` or a script's background job has them ignored."""
    usual: dict[signal.Signals, Any] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
