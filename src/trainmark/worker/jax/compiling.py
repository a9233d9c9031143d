"""The ``compiler`` axis in JAX, and what JAX itself counts about compiling.

``none`` calls the step as it is written: each operation is sent to the device by itself, as a program of its own that
is compiled at its first use. ``xla`` makes the whole step one program.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple, Optional, Set

import jax

from ..core.choices import one_of
from ..core.outcomes import UNSUPPORTED, RunError

NONE = "none"
XLA = "xla"
COMPILERS = (NONE, XLA)


class CompileClock:
    """Sums up what ``jax.monitoring`` tells of this process: the programs that XLA compiled, and its seconds.

    Those of tracing the Python code are not in them.
    """

    def __init__(self) -> None:
        """Count from now on."""
        self.seconds = 0.0
        self.programs = 0
        self.cache_hits = 0
        jax.monitoring.register_event_duration_secs_listener(self._note_duration)
        jax.monitoring.register_event_listener(self._note_event)

    def _note_duration(self, event: str, seconds: float, **_facts: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            self.seconds += seconds
            self.programs += 1

    def _note_event(self, event: str, **_facts: Any) -> None:
        if event == "/jax/compilation_cache/cache_hits":
            self.cache_hits += 1


def check_compiler(name: str, world_size: int) -> None:
    """Raise ``RunError`` if there is no such compiler, or not for so many ranks."""
    one_of("JAX", "compiler", name, COMPILERS)
    if name == NONE and world_size > 1:
        raise RunError(
            UNSUPPORTED,
            "several ranks need the compiler xla: JAX's collectives are part of compiled programs",
        )


class CompiledConvolutions(NamedTuple):
    """The forward convolutions in the program that XLA made: their type, and the order of their results in memory.

    Where they are not all alike, the words are joined by ``+``.
    """

    dtype: str
    layout: str


def compiled_convolutions(program: str) -> Optional[CompiledConvolutions]:
    """Return what the text of an optimised HLO program says of its forward convolutions, or None if it says nothing.

    ``%x = bf16[8,16,16,64]{3,2,1,0} convolution(...), dim_labels=b01f_01io->b01f, ... op_name="..."``: the type; the
    dimensions, the fastest in memory first; which dimension is the batch (b), the channels (f) and the image's (0, 1);
    where in the Python code it comes from, with ``transpose`` in what belongs to the backward pass. On a GPU it is a
    call of cuDNN with the same words, whose result is a pair.
    """
    dtypes: Set[str] = set()
    layouts: Set[str] = set()
    for line in program.splitlines():
        labels = re.search(r"dim_labels=\w+->(\w+)", line)
        shape = re.search(r"= \(?(\w+)\[[\d,]*\]\{([\d,]+)", line)
        origin = re.search(r'op_name="([^"]*)"', line)
        if labels is None or shape is None or origin is None or "transpose(" in origin.group(1):
            continue
        slowest_first = [labels.group(1)[int(axis)] for axis in shape.group(2).split(",")][::-1]
        dtypes.add(shape.group(1))
        layouts.add("".join({"b": "n", "f": "c", "0": "h", "1": "w"}[label] for label in slowest_first))
    return CompiledConvolutions("+".join(sorted(dtypes)), "+".join(sorted(layouts))) if dtypes else None
