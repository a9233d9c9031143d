"""Cause of an early end of a run (out of memory, another error, a signal), read from the end of its log."""

import re
from enum import StrEnum
from typing import NamedTuple

from trainmark.logs.literals import can_match

# Each begins with plain letters ("oss" of loss and Loss), which makes the search as fast as memory.
_NOT_FINITE = rb"[ \t:=]{0,12}(?:\[|tensor\()?[-+]?(?i:nan|inf|infinity)\b"
_LOSS = re.compile(rb"oss(?:_finite\": ?false|[\w.]*[\"']?" + _NOT_FINITE + rb")")
_COST = re.compile(rb"cost: \[[-+]?(?i:nan|inf)\b")

_OOM = re.compile(
    rb"CUDA out of memory|CUDA error: out of memory|OutOfMemoryError|RESOURCE_EXHAUSTED|ResourceExhaustedError"
    rb"|cudaMalloc failed: out of memory|CUDA_ERROR_OUT_OF_MEMORY|Out of memory error on GPU|ResourceExhausted:"
    rb"|CUDNN_STATUS_ALLOC_FAILED|std::bad_alloc|oom-kill|Cannot allocate memory|\bMemoryError\b|Killed process \d+"
    rb"|\"outcome\": ?\"oom\"|DefaultCPUAllocator: not enough memory|(?<!ran )out of memory"
)
_HARMLESS_OOM = re.compile(rb"not a failure|could be performance gains", re.IGNORECASE)
_FAILURE = re.compile(
    rb"Traceback \(most recent call last\)|Segmentation fault|core dumped|Fatal Python error|terminate called after"
    rb"|returned a non-zero exit code|exited on signal \d+|ChildFailedError|srun: error|ABORT NOW|FatalError:"
    rb"|\"outcome\": ?\"(?:failed|timeout|invalid)\"|NCCL error in|slurmstepd: error"
)
_ON_PURPOSE = re.compile(rb"KeyboardInterrupt|Terminating with signal 15|SIGTERM|SIGINT")


class FailureKind(StrEnum):
    """Cause of an early end of a run."""

    OOM = "oom"
    ERROR = "error"
    STOPPED = "stopped"


class RunFailure(NamedTuple):
    """The cause of an early end, and the log line that shows it."""

    kind: FailureKind
    line: str


def has_bad_loss(text: bytes) -> bool:
    """Return whether a line of ``text`` prints a loss that is NaN or infinite."""
    if b"oss_finite" not in text:
        # Searching for these words costs a tenth of the patterns: "inf" is nearly always part of INFO.
        words = text.lower()
        if b"nan" not in words and words.count(b"inf") == words.count(b"info"):
            return False
    return _LOSS.search(text) is not None or _COST.search(text) is not None


def find_failure(after_last_record: bytes) -> RunFailure | None:
    """Return the cause of an early end, from the text after the last record; ``None`` if none is printed.

    An allocator's warning that is "not a failure" (TensorFlow) does not count.
    """
    for match in _OOM.finditer(after_last_record) if can_match(_OOM, after_last_record) else ():
        line = _line(after_last_record, match.start())
        if not _HARMLESS_OOM.search(line):
            return RunFailure(FailureKind.OOM, _shown(line))
    stopped = _ON_PURPOSE.search(after_last_record)
    failure = None if stopped else _last_failure(after_last_record)
    if failure is not None:
        return RunFailure(FailureKind.ERROR, failure)
    return (
        RunFailure(FailureKind.STOPPED, _shown(_line(after_last_record, stopped.start())))
        if stopped
        else None
    )


def _last_failure(text: bytes) -> str | None:
    match = _FAILURE.search(text) if can_match(_FAILURE, text) else None
    if match is None:
        return None
    if match[0].startswith(b"Traceback"):
        # The error's own line is the first one that is not indented after the traceback.
        error = re.search(rb"\n(\w[\w.]*(?:Error|Exception|Interrupt|Exit)\b[^\n]*)", text[match.end() :])
        if error:
            return _shown(error[1])
    return _shown(_line(text, match.start()))


def _line(text: bytes, at: int) -> bytes:
    end = text.find(b"\n", at)
    return text[text.rfind(b"\n", 0, at) + 1 : end if end >= 0 else len(text)]


def _shown(line: bytes) -> str:
    return " ".join(line.decode("utf-8", "replace").split())[:160]
