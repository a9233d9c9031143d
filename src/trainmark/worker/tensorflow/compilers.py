"""The ``compiler`` axis in TensorFlow: eager, the graph of tf.function, and XLA."""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple

import tensorflow as tf

from ..outcomes import UNSUPPORTED, RunError

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _xla(function: Callable[..., Any]) -> Callable[..., Any]:
    return tf.function(function, jit_compile=True, autograph=False)


def _graph(function: Callable[..., Any]) -> Callable[..., Any]:
    return tf.function(function, autograph=False)


class Compiler(NamedTuple):
    """How a step is compiled: as a whole, and its two parts before and after the ranks' sum of gradients.

    XLA has no collectives between processes, so it gets the parts, and a graph holds them together.
    """

    mode: str
    whole: Wrapper
    part: Wrapper


COMPILERS: Dict[str, Compiler] = {
    "none": Compiler("eager", _as_it_is, _as_it_is),
    "graph": Compiler("tf.function", _graph, _as_it_is),
    "xla": Compiler("tf.function(jit_compile=True)", _graph, _xla),
}


def choose_compiler(name: str) -> Compiler:
    """Return the compiler; raise ``RunError`` if there is none of this name."""
    if name not in COMPILERS:
        raise RunError(UNSUPPORTED, f"TensorFlow has no compiler {name!r}; it has {', '.join(COMPILERS)}")
    # The graph's optimizer would turn FP32 convolutions of a GPU to NCHW and FP16 ones to NHWC, whatever was asked.
    tf.config.optimizer.set_experimental_options({"layout_optimizer": False})
    return COMPILERS[name]
