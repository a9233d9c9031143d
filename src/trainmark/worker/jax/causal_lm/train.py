"""A rank's training of a language model in JAX: what is built before the first step, and what is seen of it."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Tuple

import jax
import numpy as np

from ...core.feed import Feed
from ...core.optimizers import Moments
from ...core.place import Place
from ...tasks.causal_lm.architectures import ARCHITECTURES, is_norm
from ...tasks.causal_lm.facts import STREAM, Seen
from ...tasks.causal_lm.observing import Observation, product_seen
from ...tasks.causal_lm.tokens import open_feed
from ...tasks.causal_lm.training import LanguageTraining
from ...tasks.language import LanguageSettings
from ..ranks import Group
from ..state import adaptive, moments_of
from ..training import JaxTraining, Machine, choose_machine, meet_ranks
from .model import attention_kernel, init, make_loss

ToBatch = Callable[..., Tuple[Any, ...]]


def open_training(settings: LanguageSettings, place: Place) -> JaxLanguageTraining:
    """Return the training, ready for its first step."""
    machine = choose_machine(settings, place)
    group = meet_ranks(settings, place, machine)
    to_batch = batches_of(group)
    return JaxLanguageTraining(settings, group, machine, to_batch, open_feed(settings, place, to_batch))


def batches_of(group: Group) -> ToBatch:
    """Return what makes global batches of this rank's arrays; whole numbers get 4 bytes."""

    def narrow(array: Any) -> Any:
        return array.astype(np.int32) if array.dtype.kind == "i" else array

    return lambda *arrays: tuple(group.part(narrow(array)) for array in arrays)


class JaxLanguageTraining(JaxTraining, LanguageTraining):
    """A language model, its loss, and what was seen of it while the step was traced."""

    settings: LanguageSettings

    def __init__(
        self,
        settings: LanguageSettings,
        group: Group,
        machine: Machine,
        to_batch: ToBatch,
        feed: Optional[Feed],
    ) -> None:
        """Make the state on the device, and fetch the first batch."""
        super().__init__(settings, group, machine.precision, to_batch, feed)
        self.parts = settings.accumulation
        self.traced: Dict[str, Tuple[str, str, Tuple[int, ...]]] = {}
        """Of each product the types of its result and its weight, and the result's shape."""
        self.take_over(
            self.fresh,
            self.make_loss(machine),
            adaptive(settings.recipe, lambda params: {name: self.decays(name) for name in params}),
        )

    @property
    def description(self) -> Any:
        """Return the description of the model."""
        return ARCHITECTURES[self.settings.model]

    def fresh(self) -> Tuple[Any, Any]:
        """Return fresh parameters, and nothing that is kept beside them."""
        return init(self.description, self.settings.seed, self._precision.weights), {}

    def make_loss(self, machine: Machine) -> Callable[..., Any]:
        """Return the loss as ``make_step`` takes it."""
        kernel = attention_kernel(*machine)
        return make_loss(self.description, machine.precision, kernel, self._trace)

    def decays(self, name: str) -> bool:
        """Return whether a parameter decays, by its shared name."""
        return not is_norm(name)

    def _trace(self, name: str, weight: Any, result: Any) -> None:
        self.traced.setdefault(name, (str(result.dtype), str(weight.dtype), tuple(result.shape)))

    def seen(self) -> Seen:
        """Return what was traced of the first product; for a compiled step, that is what the program says."""
        compute, weights, (part, length, _) = next(iter(self.traced.values()))
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
            others={STREAM: self.traced[STREAM][0], "compile_cache_hits": self._clock.cache_hits},
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
        return {name: np.asarray(own[name], np.float32) for name in self.description.shapes()}

    def read_moments(self) -> Moments:
        """Return what the optimizer keeps."""
        adam = moments_of(self.state.opt_state)
        return Moments(self.steps_taken(), self._read(adam.mu), self._read(adam.nu))

    def steps_taken(self) -> int:
        """Return how many steps the optimizer has counted: those that overflowed are not among them."""
        return int(self.ranks.own_whole(moments_of(self.state.opt_state).count))

    def own_pass(self) -> Optional[Observation]:
        """Pass the batch forward and backward; what several ranks hold together is not taken apart here."""
        return self.observe() if self.ranks.alone else None

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
        results.pop(STREAM)
        for name, result in results.items():
            outputs, inputs = state.params[f"{name}.weight"].shape
            biased = f"{name}.bias" in state.params
            products.append(product_seen(name, inputs, outputs, biased, np.asarray(result, np.float32)))
        order = list(self.description.products())
        products.sort(key=lambda product: order.index(product.name))
        return Observation(np.asarray(logits), float(loss), self._read(gradients), products)
