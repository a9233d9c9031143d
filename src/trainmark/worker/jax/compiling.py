"""The ``compiler`` axis in JAX, and what JAX itself counts about compiling.

``none`` calls the step as it is written: each operation is sent to the device by itself, as a program of its own that
is compiled at its first use. ``xla`` makes the whole step one program.
"""

from __future__ import annotations

from typing import Any

import jax

from ..core.choices import one_of

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


def check_compiler(name: str) -> None:
    """Raise ``RunError`` if there is no such compiler."""
    one_of("JAX", "compiler", name, COMPILERS)
