"""The ``compiler`` axis in Paddle: a layer run operator by operator, or as one program."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Optional, Tuple

import paddle
from paddle import nn

from ..core.choices import one_of
from ..core.outcomes import UNSUPPORTED, RunError

NONE = "none"
BACKENDS: Dict[str, Optional[str]] = {NONE: None, "to_static": None, "to_static-cinn": "CINN"}


def check_compiler(name: str) -> None:
    """Raise ``RunError`` if this Paddle has no such compiler.

    ``to_static`` takes CINN as a backend from any build, and leaves it out without a word where it is not there.
    """
    one_of("PaddlePaddle", "compiler", name, BACKENDS)
    if BACKENDS[name] == "CINN" and not paddle.is_compiled_with_cinn():
        raise RunError(UNSUPPORTED, f"{name}: this PaddlePaddle is built without the compiler CINN")


def compile_learner(learner: nn.Layer, name: str, specification: List[Any]) -> None:
    """Let the learner run as one program of static shapes from its first call on; nothing is compiled yet.

    ``specification`` has an ``InputSpec`` for each input. ``full_graph``: all of it, or an error; never a part that
    falls back to Python unnoticed.
    """
    if name != NONE:
        paddle.jit.to_static(learner, input_spec=specification, backend=BACKENDS[name], full_graph=True)


def trace(learner: nn.Layer, batch: Tuple[Any, ...]) -> float:
    """Compile the learner for the batch, as its first call would; return the seconds that it took."""
    program: Any = learner.forward
    started = time.perf_counter()
    program.get_concrete_program(*batch)
    return time.perf_counter() - started


def programs(learner: nn.Layer) -> int:
    """Return how many programs were compiled so far: none for a learner that runs operator by operator."""
    return len(getattr(learner.forward, "program_cache", ()))


@contextmanager
def operator_by_operator() -> Iterator[None]:
    """Let what is compiled run as it is written meanwhile; its program is kept."""
    paddle.jit.enable_to_static(False)
    try:
        yield
    finally:
        paddle.jit.enable_to_static(True)
