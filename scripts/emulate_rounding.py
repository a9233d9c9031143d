"""PyTorch's worker, whose first observed step is repeated with every operation rounded: ``OUT.json FLAG...``.

It runs in PyTorch's environment, started by ``golden_observations.py``. For each number of significant bits, all
float inputs and outputs of every operation of the forward and the backward pass are rounded at random, up or down, so
that their mean is right (stochastic rounding); sums within an operation are in FP32, and the loss is too. The file gets
the relative distance between these passes and the exact one, as a root mean square over ``SEEDS`` passes.
"""

import importlib
import json
import math
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src" / "trainmark" / "worker"))
importlib.import_module("start")

BITS = (8, 11)
"""Significant bits: 8 of BF16, 11 of FP16 and TF32. The range is FP32's: the loss of FP16 is scaled."""

SEEDS = 3

FLOOR = 1e-3
"""Gradients below this part of the joint norm are compared with it, as in ``equivalence/conventions.py``."""

IN_FP32 = ("_log_softmax", "logsumexp", "nll_loss", "binary_cross_entropy", "cross_entropy")
"""The operations of the loss, by the beginnings of their names."""


def rounding_mode(bits: int, seed: int) -> Any:
    """Return the context in which every operation of PyTorch is rounded to ``bits`` significant bits."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map

    generator = torch.Generator().manual_seed(seed)
    dropped = 1 << (24 - bits)

    def rounded(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value.dtype is not torch.float32 or value.numel() <= 1:
            return value
        noise = torch.randint(0, dropped, value.shape, generator=generator, dtype=torch.int32)
        return ((value.contiguous().view(torch.int32) + noise) & -dropped).view(torch.float32)

    class Rounding(TorchDispatchMode):  # type: ignore[misc]  # torch is not in this environment
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            name = func.overloadpacket.__name__
            if name.endswith("_") or name.startswith(IN_FP32):
                return func(*args, **(kwargs or {}))
            return tree_map(rounded, func(*tree_map(rounded, args), **(kwargs or {})))

    return Rounding()


def arrays_of(observed: Any, outputs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the arrays of an observation by subject and name."""
    layers = outputs or {layer.name: layer.values for layer in observed.operations}
    return {
        "activations": dict(layers),
        "logits": {"": observed.logits},
        "loss": {"": observed.loss},
        "gradients": dict(observed.gradients),
    }


def directions(gradients: Mapping[str, Any], recipe: Any) -> dict[str, Any]:
    """Return the directions of the first update by the recipe's rule."""
    optimizers = importlib.import_module("trainmark_worker.core.optimizers")
    factor, rule = optimizers.clipping(gradients, recipe), optimizers.Directions(recipe)
    return {name: rule.next(name, array, factor).get("a", array) for name, array in gradients.items()}


def norm(array: Any) -> float:
    """Return the norm of an array, in FP64."""
    import numpy as np

    values = np.asarray(array, np.float64).ravel()
    return float(np.sqrt(values @ values))


def distances(exact: Mapping[str, Any], other: Mapping[str, Any], floor: float) -> dict[str, float]:
    """Return the relative distance of each array, and of all together under the name ``all``."""
    import numpy as np

    wholes = {name: norm(array) for name, array in exact.items()}
    parts = {
        name: norm(np.asarray(other[name], np.float64) - np.asarray(array, np.float64))
        for name, array in exact.items()
    }
    whole = math.hypot(*wholes.values())
    found = {name: part / (max(wholes[name], floor * whole) or 1.0) for name, part in parts.items()}
    return {**found, "all": math.hypot(*parts.values()) / (whole or 1.0)}


def measure(observe: Callable[[], Any], recipe: Any) -> dict[str, Any]:
    """Return the distances from the exact observation by significant bits, subject and name."""
    products: Any = importlib.import_module("trainmark_worker.tasks.products")
    sketch = products.sketch
    outputs: dict[str, Any] = {}

    def capturing(name: str, array: Any) -> Any:
        outputs[name] = array
        return sketch(name, array)

    def pass_once() -> dict[str, dict[str, Any]]:
        outputs.clear()
        arrays = arrays_of(observe(), outputs)
        return {**arrays, "updates": directions(arrays["gradients"], recipe)}

    products.sketch = capturing
    exact = pass_once()
    found: dict[str, Any] = {}
    for bits in BITS:
        passes = []
        for seed in range(SEEDS):
            with rounding_mode(bits, seed):
                rounded = pass_once()
            passes.append(
                {
                    subject: distances(
                        arrays, rounded[subject], FLOOR if subject in ("gradients", "updates") else 0
                    )
                    for subject, arrays in exact.items()
                }
            )
        found[str(bits)] = {
            subject: {
                name: float(f"{math.sqrt(sum(one[subject][name] ** 2 for one in passes) / SEEDS):.2g}")
                for name in passes[0][subject]
            }
            for subject in exact
        }
    return found


def main(out: str, flags: list[str]) -> int:
    """Run the worker so changed, and return its exit code."""
    program: Any = importlib.import_module("trainmark_worker.core.program")
    imported = program.import_trainer

    def changed(*words: Any) -> Any:
        trainer = imported(*words)
        opened = trainer.open_training

        def open_training(*given: Any) -> Any:
            training = opened(*given)
            observe = training.observe

            def observe_first() -> NoReturn:
                training.observe = observe
                found = measure(observe, training.settings.recipe)
                Path(out).write_text(json.dumps(found), encoding="utf-8")
                # The steps themselves are of no use here.
                sys.stdout.flush()
                os._exit(0)

            training.observe = observe_first
            return training

        trainer.open_training = open_training
        return trainer

    program.import_trainer = changed
    return int(program.main(flags))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
