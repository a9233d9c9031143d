"""Gradients of JAX's models in amp-bf16 against those in FP32: run by a Python that has JAX; prints JSON.

For each model, by parameter: the norm of the difference as a part of the norm in FP32.
"""

import importlib
import json
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "trainmark" / "worker"))
importlib.import_module("start")

BATCH, LENGTH, PREDICTIONS, CLICKS = 64, 128, 20, 1024


def part(name: str) -> Any:
    return importlib.import_module(f"trainmark_worker.{name}")


def main() -> None:
    jax: Any = importlib.import_module("jax")
    np: Any = importlib.import_module("numpy")
    precisions = part("core.precision").PRECISIONS
    random = np.random.default_rng(0)

    def whole(high: int, *shape: int) -> Any:
        return random.integers(high, size=shape).astype(np.int32)

    def trained(training: Any, description: Any, precision: str, settings: Any) -> Any:
        """Return what a class of trainings reads of one in a precision, which nobody observes."""
        return SimpleNamespace(
            description=description,
            precision=precisions[precision],
            draw=training.draw,
            GENERATOR=training.GENERATOR,
            kernel="xla",
            settings=SimpleNamespace(seed=1, recipe=SimpleNamespace(dropout=0.0), **settings),
            _trace=lambda *_: None,
        )

    bert = part("tasks.masked_lm.architectures").ARCHITECTURES["bert_tiny"]
    gpt = part("tasks.causal_lm.architectures").ARCHITECTURES["gpt2_tiny"]
    llama = part("tasks.causal_lm.architectures").ARCHITECTURES["llama_tiny"]
    clicks = part("tasks.recommendation.architectures").ARCHITECTURES["wide_deep_tiny"].with_tables(1000, 16)
    masked, causal, rows = (
        part(f"models.jax_{name}") for name in ("masked_lm", "causal_lm", "recommendation")
    )

    def key(**named: str) -> Any:
        return {masked.KEY: jax.random.key_data(jax.random.key(0, **named))}

    length = min(LENGTH, gpt.positions)
    sequences = (
        whole(bert.vocabulary, BATCH, LENGTH),
        whole(2, BATCH, LENGTH),
        np.full(BATCH, LENGTH, np.int32),
        np.sort(random.random((BATCH, LENGTH)).argsort(axis=1)[:, :PREDICTIONS]).astype(np.int32),
        whole(bert.vocabulary, BATCH, PREDICTIONS),
        np.full((BATCH, PREDICTIONS), 1 / (BATCH * PREDICTIONS), np.float32),
        whole(2, BATCH),
    )
    dense = random.random((CLICKS, 13), np.float32)
    # No clicks: gradients of one sign, which no other value of a ReLU turns.
    clicked = (dense, whole(1000, CLICKS, 26), whole(1000, CLICKS, 2), np.zeros(CLICKS, np.float32))
    models: Any = {
        "bert": (
            masked.JaxMaskedTraining,
            bert,
            {"padded": False},
            key(impl=masked.RANDOM),
            sequences,
        ),
        "gpt": (
            causal.JaxLanguageTraining,
            gpt,
            {},
            {},
            (whole(gpt.vocabulary, BATCH, length + 1),),
        ),
        "llama": (
            causal.JaxLanguageTraining,
            llama,
            {},
            {},
            (whole(llama.vocabulary, BATCH, length + 1),),
        ),
        "wide_deep": (rows.JaxClickTraining, clicks, {}, key(), clicked),
    }
    told = {}
    for model, (training, description, settings, kept, batch) in models.items():
        half, full = (trained(training, description, name, settings) for name in ("amp-bf16", "fp32"))
        params, _ = training.fresh(full)
        found, real = (
            jax.jit(jax.grad(partial(training.loss_of, own), has_aux=True))(params, kept, batch)[0]
            for own in (half, full)
        )
        told[model] = {
            name: float(np.linalg.norm(found[name] - real[name]) / max(np.linalg.norm(real[name]), 1e-30))
            for name in params
        }
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
