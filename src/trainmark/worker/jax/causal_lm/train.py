"""A rank's training of a language model in JAX: what is built before the first step, and what is seen of it."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

import jax
import numpy as np

from ...core.feed import Feed
from ...core.optimizers import Moments
from ...core.place import Place
from ...tasks.causal_lm.architectures import ARCHITECTURES, is_norm
from ...tasks.causal_lm.facts import Seen
from ...tasks.causal_lm.observing import Observation, product_seen
from ...tasks.causal_lm.settings import LanguageSettings
from ...tasks.causal_lm.tokens import open_feed
from ...tasks.causal_lm.training import LanguageTraining
from ..ranks import Group
from ..state import adamw
from ..training import JaxTraining, Machine, choose_machine, meet_ranks
from .model import attention_kernel, init, make_loss


def open_training(settings: LanguageSettings, place: Place) -> JaxLanguageTraining:
    """Return the training, ready for its first step."""
    machine = choose_machine(settings, place)
    group = meet_ranks(settings, place, machine)

    def to_batch(tokens: Any) -> Tuple[Any]:
        return (group.part(tokens.astype(np.int32)),)

    feed = open_feed(settings, place, to_batch)
    return JaxLanguageTraining(settings, group, machine, to_batch, feed)


class JaxLanguageTraining(JaxTraining, LanguageTraining):
    """A language model, its loss, and what was seen of it while the step was traced."""

    settings: LanguageSettings

    def __init__(
        self,
        settings: LanguageSettings,
        group: Group,
        machine: Machine,
        to_batch: Callable[[Any], Tuple[Any]],
        feed: Optional[Feed],
    ) -> None:
        """Make the state on the device, and fetch the first batch."""
        platform, precision = machine
        super().__init__(settings, group, precision, to_batch, feed)
        self.parts = settings.accumulation
        self._traced: List[Tuple[str, str, Tuple[int, ...]]] = []
        model, kernel = ARCHITECTURES[settings.model], attention_kernel(platform, precision)
        self.take_over(
            lambda: (init(settings.model, settings.seed, precision.weights), {}),
            make_loss(model, precision, kernel, self._trace),
            adamw(settings.recipe, lambda params: {name: not is_norm(name) for name in params}),
        )

    def _trace(self, _name: str, weight: Any, result: Any) -> None:
        if not self._traced:
            self._traced.append((str(result.dtype), str(weight.dtype), tuple(result.shape)))

    def seen(self) -> Seen:
        """Return what was traced of the first product; for a compiled step, that is what the program says."""
        compute, weights, (part, length, _) = self._traced[0]
        rows = self.batch[0].addressable_data(0).shape[0]
        tf32 = jax.config.jax_default_matmul_precision == "tensorfloat32"
        return Seen(
            compute_dtype=compute,
            weight_dtype=weights,
            batch_per_device=rows,
            tf32_matmul=tf32,
            tf32_convolution=tf32,
            sequence_length=length,
            accumulation=rows // part,
            others={"compile_cache_hits": self._clock.cache_hits},
        )

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
        return {
            name: np.asarray(own[name], np.float32) for name in ARCHITECTURES[self.settings.model].shapes()
        }

    def read_moments(self) -> Moments:
        """Return what AdamW keeps."""
        adam = self.state.opt_state[0]
        steps = int(self.ranks.own_whole(adam.count))
        return Moments(steps, self._read(adam.mu), self._read(adam.nu))

    def own_pass(self) -> Optional[Observation]:
        """Pass the batch forward and backward; what several ranks hold together is not taken apart here."""
        return self.observe() if self.ranks.alone else None

    def observe(self) -> Observation:
        """Pass the whole batch forward and backward by the function that the step differentiates, as one program."""

        def collecting(params: Any, batch: Any) -> Any:
            results: Dict[str, Any] = {}
            loss, (logits, _) = self._loss_of(
                params, {}, batch, lambda name, _weight, result: results.setdefault(name, result)
            )
            return loss, (logits, results)

        passes = jax.jit(jax.value_and_grad(collecting, has_aux=True))
        (loss, (logits, results)), gradients = passes(self.state.params, self.batch)
        model = ARCHITECTURES[self.settings.model]
        products = [
            product_seen(name, inputs, outputs, False, np.asarray(results[name], np.float32))
            for name, (outputs, inputs) in model.products().items()
        ]
        return Observation(np.asarray(logits), float(loss), self._read(gradients), products)
