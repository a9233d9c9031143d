"""A training in JAX whose parameters are one dictionary by the shared names, and whose products name themselves."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

import jax
import numpy as np

from ..core.optimizers import Moments
from ..core.settings import AdamRecipe
from ..tasks.products import Observation, product_seen
from .state import moments_of
from .training import JaxTraining


class NamedTraining(JaxTraining):
    """Weights, moments and gradients by name, of a loss that tells a function of its last argument each product."""

    @property
    def description(self) -> Any:
        """Return the description of the model, which has the ``shapes`` of its weights and its ``products``."""
        raise NotImplementedError

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Take over the parameters."""
        kept = self.state.params
        params = {name: np.asarray(weights[name]).astype(kept[name].dtype) for name in kept}
        self.state = self.state.replace(params=self.ranks.whole(params))

    def read_weights(self) -> Dict[str, Any]:
        """Return the parameters."""
        return self._read(self.state.params)

    def _read(self, tree: Any) -> Dict[str, Any]:
        own = self.ranks.own_whole(tree)
        return {name: np.asarray(own[name], np.float32) for name in self.description.shapes()}

    def read_moments(self) -> Optional[Moments]:
        """Return what the optimizer keeps; SGD keeps nothing."""
        if not isinstance(self.settings.recipe, AdamRecipe):
            return None
        adam = moments_of(self.state.opt_state)
        return Moments(int(self.ranks.own_whole(adam.count)), self._read(adam.mu), self._read(adam.nu))

    def observe(self) -> Observation:
        """Pass the whole batch forward and backward by the function that the step differentiates, as one program."""

        def collecting(params: Any, kept: Any, batch: Any) -> Any:
            results: Dict[str, Any] = {}
            loss, (logits, _) = self._loss_of(
                params,
                kept,
                self.prepared(batch, 1, None),
                lambda name, _weight, result: results.setdefault(name, result),
            )
            return loss, (logits, results)

        passes = jax.jit(jax.value_and_grad(collecting, has_aux=True))
        state = self.state
        (loss, (logits, results)), gradients = passes(state.params, state.batch_stats, self.batch)
        products = []
        for name in self.description.products():
            outputs, inputs = state.params[f"{name}.weight"].shape
            biased = f"{name}.bias" in state.params
            values = np.asarray(results[name], np.float32)
            products.append(product_seen(name, inputs, outputs, biased, values))
        return Observation(np.asarray(logits), float(loss), self._read(gradients), products)
