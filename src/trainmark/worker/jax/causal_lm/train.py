"""A rank's training of a language model in JAX: what is built before the first step, and what is seen of it."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

import jax

from ...core.feed import Feed
from ...core.place import Place
from ...tasks.causal_lm.architectures import ARCHITECTURES, is_norm
from ...tasks.causal_lm.facts import STREAM, Seen
from ...tasks.causal_lm.tokens import token_file
from ...tasks.causal_lm.training import LanguageTraining
from ...tasks.language import LanguageSettings
from ...tasks.products import Observation
from ..named import NamedTraining
from ..ranks import Group
from ..state import adaptive, moments_of
from ..training import Machine, batches_of, choose_machine, meet_ranks
from .model import attention_kernel, init, make_loss


def open_training(settings: LanguageSettings, place: Place) -> JaxLanguageTraining:
    """Return the training, ready for its first step."""
    machine = choose_machine(settings, place)
    group = meet_ranks(settings, place, machine)
    to_batch = batches_of(group)
    feed: Optional[Feed] = None
    if not settings.synthetic:
        from ..loading import open_native

        file = token_file(settings)
        feed = open_native(file.sequences, file.batch, settings, place, lambda batch: to_batch(*batch))
    return JaxLanguageTraining(settings, group, machine, to_batch, feed)


class JaxLanguageTraining(NamedTraining, LanguageTraining):
    """A language model, its loss, and what was seen of it while the step was traced."""

    settings: LanguageSettings

    def __init__(
        self,
        settings: LanguageSettings,
        group: Group,
        machine: Machine,
        to_batch: Callable[..., Tuple[Any, ...]],
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

    def steps_taken(self) -> int:
        """Return how many steps the optimizer has counted: those that overflowed are not among them."""
        return int(self.ranks.own_whole(moments_of(self.state.opt_state).count))

    def own_pass(self) -> Optional[Observation]:
        """Pass the batch forward and backward; what several ranks hold together is not taken apart here."""
        return self.observe() if self.ranks.alone else None
