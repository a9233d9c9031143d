"""Trains a tiny network for one step with JAX, Flax and Optax; exits 0 if the loss is finite and became smaller."""

import json
import math
import sys
from typing import Any

import jax
import jax.numpy as jnp
import optax
from flax import linen as nn


def main() -> int:
    """Print ``TRAINMARK {"device": …, "loss_before": …, "loss_after": …}`` and return the exit code."""
    norm = nn.BatchNorm(use_running_average=False)
    model = nn.Sequential(
        [nn.Conv(8, (3, 3), strides=2), norm, nn.relu, lambda x: x.mean((1, 2)), nn.Dense(4)]
    )
    optimizer = optax.sgd(0.1)
    inputs = jax.random.normal(jax.random.key(0), (8, 16, 16, 3))
    labels = jnp.arange(8) % 4
    variables = model.init(jax.random.key(1), inputs)
    params, statistics = variables["params"], variables["batch_stats"]

    def loss_of(params: Any) -> Any:
        given = {"params": params, "batch_stats": statistics}
        logits, _ = model.apply(given, inputs, mutable=["batch_stats"])
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    def step(params: Any) -> Any:
        loss, gradients = jax.value_and_grad(loss_of)(params)
        updates, _ = optimizer.update(gradients, optimizer.init(params))
        return optax.apply_updates(params, updates), loss

    compiled = jax.jit(step)
    params, first = compiled(params)
    _, second = compiled(params)
    before, after = float(first), float(second)
    device = "cuda" if jax.default_backend() == "gpu" else jax.default_backend()
    answer = {"device": device, "loss_before": before, "loss_after": after}
    sys.stdout.write("\nTRAINMARK " + json.dumps(answer) + "\n")
    return 0 if math.isfinite(after) and after < before else 1


sys.exit(main())
