"""Learns from MXNet's engine how far it is, so that the host neither waits for each step nor runs away from it.

MXNet is asynchronous on a CPU too: an operator is handed to the engine, which runs it once the arrays that it reads
are there. The C interface takes functions of ours in the same way (``MXEnginePushSyncND`` of mxnet/c_api.h; Horovod's
operators are run by its sibling). One that reads all weights is run when the update of the step is done, in a thread
that the engine keeps for urgent work, and notes the time there. The next step does not wait for it.

A function that depends on a failed operator is never called: the engine only gives it up. But it calls the function's
*deleter* in either case. So the deleter is what the host waits for, in Python, where a lost rank can end the waiting.
"""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Callable, List, Optional, Sequence

from mxnet.base import _LIB, check_call

from ..core.outcomes import RunError
from ..core.window import HostMarks, Marks

_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
# FnProperty of mxnet/engine.h: run by the thread that computes, or by the one for urgent work.
_NORMAL, _PRIORITIZED = 0, 3


class _Context(ctypes.Structure):
    """``mxnet::Context``: the type of a device (1 is a CPU) and its number."""

    _fields_ = (("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32))


class Progress(Marks):
    """Marks on the engine, and waiting for what it was handed."""

    def __init__(self, slots: int, weights: Sequence[Any]) -> None:
        """Make room for ``slots`` marks; a step is done when all ``weights`` are written."""
        self._marks, self._weights = HostMarks(slots), weights
        self.marked = 0
        """The ticket of the last mark, to wait with."""
        self._pushed = 0
        self._over = 0
        self._problem: Optional[RunError] = None
        self._changed = threading.Condition()
        # The engine keeps bare pointers to these two.
        self._note = _FUNCTION(self._noted)
        self._give_up = _DELETER(self._given_up)

    def mark(self, slot: int) -> None:
        """Let the engine note the time in ``slot`` once all weights are written."""
        self.marked = self._push(slot + 1, self._weights)

    def ticket(self, *arrays: Any) -> int:
        """Return a ticket to wait with until the weights and ``arrays`` are written, or given up."""
        return self._push(0, [*self._weights, *arrays])

    def wait_to_read(self, ticket: int) -> None:
        """Wait for a ticket; raise what ``fail`` was called with, if that comes first."""
        with self._changed:
            self._changed.wait_for(lambda: self._over >= ticket or self._problem is not None)
            if self._problem is not None:
                raise self._problem

    def fail(self, problem: RunError) -> None:
        """Let everyone who waits, now or later, raise ``problem``. Called by another thread."""
        with self._changed:
            self._problem = self._problem or problem
            self._changed.notify_all()

    def seconds_between(self, earlier: int, later: int) -> float:
        """Return the seconds between two marks."""
        return self._marks.seconds_between(earlier, later)

    def _push(self, parameter: int, arrays: Sequence[Any]) -> int:
        push(self._note, self._give_up, parameter, arrays, _PRIORITIZED)
        self._pushed += 1
        return self._pushed

    def _noted(self, _context: Any, parameter: Optional[int]) -> None:
        if parameter:
            self._marks.mark(parameter - 1)

    def _given_up(self, _parameter: Optional[int]) -> None:
        with self._changed:
            self._over += 1
            self._changed.notify_all()


def in_engine(function: Callable[[], int]) -> int:
    """Return what ``function`` returns when a thread that computes calls it."""
    answer: List[int] = []
    done = threading.Event()
    note = _FUNCTION(lambda _context, _parameter: answer.append(function()))
    give_up = _DELETER(lambda _parameter: done.set())
    push(note, give_up, 0, (), _NORMAL)
    done.wait()
    return answer[0]


def push(function: Any, deleter: Any, parameter: int, arrays: Sequence[Any], kind: int) -> None:
    """Hand a C function to the engine, to be called with ``parameter`` once all ``arrays`` are written."""
    handles = (ctypes.c_void_p * len(arrays))(*[array.handle for array in arrays])
    check_call(
        _LIB.MXEnginePushSyncND(
            function,
            ctypes.c_void_p(parameter),
            deleter,
            ctypes.byref(_Context(1, 0)),
            handles,
            ctypes.c_int(len(arrays)),
            None,
            ctypes.c_int(0),
            ctypes.byref(ctypes.c_int(kind)),
            ctypes.c_int(0),
            b"trainmark",
        )
    )
