"""The ``compiler`` axis in TensorFlow: eager, the graph of tf.function, and XLA."""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple

import tensorflow as tf

from ..core.choices import one_of

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _xla(function: Callable[..., Any]) -> Callable[..., Any]:
    return tf.function(function, jit_compile=True, autograph=False)


def _graph(function: Callable[..., Any]) -> Callable[..., Any]:
    return tf.function(function, autograph=False)


class Compiler(NamedTuple):
    """How a step is compiled: as a whole, and its two parts before and after the ranks' sum of gradients.

    XLA has no collectives between processes, so it gets the parts, and a graph holds them together. ``pack_bytes`` is
    how much of the gradients the ranks sum in one operation; 0 is all of them.
    """

    mode: str
    whole: Wrapper
    part: Wrapper
    pack_bytes: int

    def traces(self, whole: Any) -> int:
        """Return how many graphs were made of the step so far: none of an eager one."""
        return 0 if self.whole is _as_it_is else int(whole.experimental_get_tracing_count())


# As PyTorch's DistributedDataParallel does: the last layers' gradients go out while the first ones' are computed. XLA's
# program gives all of them at its end, and eager TensorFlow sums each by itself.
PACK_BYTES = 25 << 20

COMPILERS: Dict[str, Compiler] = {
    "none": Compiler("eager", _as_it_is, _as_it_is, 0),
    "graph": Compiler("tf.function", _graph, _as_it_is, PACK_BYTES),
    "xla": Compiler("tf.function(jit_compile=True)", _graph, _xla, 0),
}


def choose_compiler(name: str) -> Compiler:
    """Return the compiler; raise ``RunError`` if there is none of this name."""
    one_of("TensorFlow", "compiler", name, COMPILERS)
    return COMPILERS[name]
