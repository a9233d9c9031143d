"""Imports a framework once, and runs one program after another in copies of itself: ``preloaded.py MODULE…``.

Importing a framework takes seconds, and the tests run hundreds of short trainings. Each of them is a process of its
own, as started anew: forked while there is one thread and nothing has been computed, with its own environment, pipes,
process group and end. What is asked for comes as JSON over the socket that is descriptor 0, with the ends of the pipes
for output and errors; the answers are lines ``{"started": pid}`` and ``{"ended": pid, "code": code}``.
"""

import array
import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import threading
import traceback
from pathlib import Path
from select import select
from typing import Any, Dict, List, Optional, Tuple

LARGEST = 1 << 20
"""Bytes that one order may have."""


def receive(channel: socket.socket) -> Optional[Tuple[Dict[str, Any], List[int]]]:
    """Return an order and the two descriptors that came with it; nothing when the other side has gone."""
    data, ancillary, _, _ = channel.recvmsg(LARGEST, socket.CMSG_SPACE(2 * array.array("i").itemsize))
    descriptors = array.array("i")
    for _, _, content in ancillary:
        descriptors.frombytes(content)
    return (json.loads(data), list(descriptors)) if data else None


def become(order: Dict[str, Any], descriptors: List[int]) -> None:
    """Turn this copy into the process that was asked for; the code is that of its end."""
    os.setsid()
    null = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((null, *descriptors)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.chdir(order["folder"])
    os.environ.clear()
    os.environ.update(order["environment"])
    exec(compile(order["before"], "<before>", "exec"), {})
    sys.argv[:] = order["words"]
    if "code" in order:
        exec(compile(order["code"], "<code>", "exec"), {"__name__": "__main__"})
    else:
        sys.path[0] = os.path.dirname(sys.argv[0])  # noqa: PTH120
        runpy.run_path(sys.argv[0], run_name="__main__")


def code_of(order: Dict[str, Any], descriptors: List[int]) -> int:
    """Become the process that was asked for, and return its exit code when its program has ended."""
    try:
        become(order, descriptors)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        sys.stderr.write(f"{ended.code}\n")
        return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def leave(code: int) -> None:
    """End as an interpreter does: threads are waited for, handlers run, buffers are written out.

    Only the modules are not taken apart, which touches all that was imported: 0.2 s of PyTorch's.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)


def serve(channel: socket.socket) -> None:
    """Fork a copy for each order, and tell how each one ended, until the other side has gone."""
    woken, wake = os.pipe()
    for end in (woken, wake):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake)
    while True:
        ready, _, _ = select([channel.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            tell_of_the_ended(channel)
        if channel.fileno() in ready:
            received = receive(channel)
            if received is None:
                return
            pid = os.fork()
            if pid == 0:
                signal.set_wakeup_fd(-1)
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                channel.close()
                os.close(woken)
                os.close(wake)
                leave(code_of(*received))
            for descriptor in received[1]:
                os.close(descriptor)
            channel.sendall(json.dumps({"started": pid}).encode() + b"\n")


def tell_of_the_ended(channel: socket.socket) -> None:
    """Send the code of each copy that has ended; a negative one is the signal that killed it."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        channel.sendall(json.dumps({"ended": pid, "code": code}).encode() + b"\n")


if __name__ == "__main__":
    for module in sys.argv[1:]:
        importlib.import_module(module)
    threads = list(Path("/proc/self/task").iterdir())
    assert len(threads) == 1, (
        f"importing {sys.argv[1:]} started {len(threads) - 1} threads: no copy of this is whole"
    )
    # What is imported stays: no copy has to look through it for unreachable objects.
    gc.collect()
    gc.freeze()
    serve(socket.socket(fileno=os.dup(0)))
