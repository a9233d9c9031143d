"""The step of ResNet-50 v1.5 that a user of JAX writes, for a contest: Flax's modules, optax, one jitted step."""

import argparse
import functools
import time
from collections.abc import Callable
from typing import Any

from contest import Step

STAGES = (3, 4, 6, 3)
MATMULS = {"fp32": "highest", "tf32": "tensorfloat32"}


def flax(own: argparse.Namespace) -> Step:
    """Return steps with weights in FP32 and layers in the precision asked for; FP16 with Flax's ``DynamicScale``."""
    import flax
    import jax
    import jax.numpy as jnp
    import optax
    from flax.training.dynamic_scale import DynamicScale

    if own.precision in MATMULS:
        jax.config.update("jax_default_matmul_precision", MATMULS[own.precision])
    kind = {"amp-fp16": jnp.float16, "amp-bf16": jnp.bfloat16}.get(own.precision, jnp.float32)
    network = _network(kind)
    keys = jax.random.split(jax.random.key(0), 3)
    images = jax.random.normal(keys[0], (own.batch, own.image_size, own.image_size, 3), kind)
    labels = jax.random.randint(keys[1], (own.batch,), 0, 1000)
    made = jax.jit(network.init)(keys[2], images[:1])
    decayed = optax.add_decayed_weights(1e-4, lambda tree: jax.tree.map(lambda leaf: leaf.ndim > 1, tree))
    optimizer = optax.chain(decayed, optax.sgd(1e-3, momentum=0.875))
    weights, statistics = made["params"], made["batch_stats"]
    scale = DynamicScale() if kind == jnp.float16 else None
    state = (weights, statistics, jax.jit(optimizer.init)(weights), scale)

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state: Any, images: Any, labels: Any) -> tuple[Any, Any]:
        weights, statistics, moments, scale = state

        def loss_of(weights: Any) -> tuple[Any, Any]:
            variables = {"params": weights, "batch_stats": statistics}
            logits, new = network.apply(variables, images, mutable=["batch_stats"])
            targets = optax.smooth_labels(jax.nn.one_hot(labels, 1000), 0.1)
            loss = optax.softmax_cross_entropy(logits.astype(jnp.float32), targets).mean()
            return loss, new["batch_stats"]

        if scale is None:
            (loss, statistics), gradients = jax.value_and_grad(loss_of, has_aux=True)(weights)
            finite = True
        else:
            graded = scale.value_and_grad(loss_of, has_aux=True)(weights)
            scale, finite, (loss, statistics), gradients = graded
        changes, later = optimizer.update(gradients, moments, weights)
        moved = optax.apply_updates(weights, changes)
        if scale is not None:
            moved, later = jax.tree.map(
                lambda new, old: jnp.where(finite, new, old), (moved, later), (weights, moments)
            )
        return (moved, statistics, later, scale), loss

    def block(steps: int) -> float:
        nonlocal state
        jax.block_until_ready(state)
        started = time.perf_counter()
        for _ in range(steps):
            state, _ = step(state, images, labels)
        jax.block_until_ready(state)
        return time.perf_counter() - started

    return Step(
        block,
        sum(leaf.size for leaf in jax.tree.leaves(weights)),
        {"flax": flax.__version__, "jax": jax.__version__, "device": jax.devices()[0].device_kind},
        lambda: (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0),
    )


def _network(kind: Any) -> Any:
    from flax import linen as nn

    convolution: Callable[..., Any] = functools.partial(nn.Conv, use_bias=False, dtype=kind)
    norm: Callable[..., Any] = functools.partial(
        nn.BatchNorm, use_running_average=False, momentum=0.9, epsilon=1e-5, dtype=kind
    )

    class Block(nn.Module):  # type: ignore[misc]
        """Three convolutions and a shortcut; the second one has the stride."""

        filters: int
        stride: int

        @nn.compact  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            strides = (self.stride, self.stride)
            y = nn.relu(norm()(convolution(self.filters, (1, 1))(x)))
            y = nn.relu(norm()(convolution(self.filters, (3, 3), strides, padding=1)(y)))
            y = norm(scale_init=nn.initializers.zeros)(convolution(4 * self.filters, (1, 1))(y))
            if x.shape != y.shape:
                x = norm()(convolution(4 * self.filters, (1, 1), strides)(x))
            return nn.relu(x + y)

    class Network(nn.Module):  # type: ignore[misc]
        """The stem, the four stages and the classifier."""

        @nn.compact  # type: ignore[untyped-decorator]
        def __call__(self, x: Any) -> Any:
            x = nn.relu(norm()(convolution(64, (7, 7), (2, 2), padding=3)(x)))
            x = nn.max_pool(x, (3, 3), (2, 2), padding=((1, 1), (1, 1)))
            for stage, count in enumerate(STAGES):
                for place in range(count):
                    x = Block(64 * 2**stage, 2 if stage and not place else 1)(x)
            return nn.Dense(1000, dtype=kind)(x.mean(axis=(1, 2)))

    return Network()
