"""A rank's training by masked language modelling in JAX."""

from __future__ import annotations

from typing import Any, Callable, Optional, Tuple

import jax

from ...core.feed import Feed
from ...core.place import Place
from ...tasks.masked_lm.architectures import ARCHITECTURES, decays
from ...tasks.masked_lm.facts import Seen
from ...tasks.masked_lm.records import RecordFiles, counting
from ...tasks.masked_lm.settings import MaskedSettings
from ...tasks.masked_lm.task import WEIGHTS
from ...tasks.masked_lm.training import MaskedTraining
from ...tasks.products import Observation
from ..causal_lm.model import attention_kernel
from ..causal_lm.train import JaxLanguageTraining
from ..training import Machine, batches_of, choose_machine, meet_ranks
from .model import KEY, RANDOM, Form, init, make_loss


def open_training(settings: MaskedSettings, place: Place) -> JaxMaskedTraining:
    """Return the training, ready for its first step."""
    machine = choose_machine(settings, place)
    group = meet_ranks(settings, place, machine)
    to_batch = batches_of(group)
    feed: Optional[Feed] = None
    if not settings.synthetic:
        from ..loading import open_native

        files = RecordFiles(settings.data, settings)
        feed = counting(
            lambda made: open_native(files.sequences, files.rows, settings, place, made),
            lambda batch: to_batch(*batch),
        )
    return JaxMaskedTraining(settings, group, machine, to_batch, feed)


class JaxMaskedTraining(JaxLanguageTraining, MaskedTraining):
    """BERT, trained as a language model is; the key of its dropout is kept beside the parameters."""

    settings: MaskedSettings

    @property
    def description(self) -> Any:
        """Return the description of the model."""
        return ARCHITECTURES[self.settings.model]

    def prepared(self, batch: Any, parts: int, axis: Optional[str]) -> Any:
        """Return the batch with its weights as ``MaskedTraining`` says."""
        own = batch[WEIGHTS].sum() / parts
        mean = own if axis is None else jax.lax.pmean(own, axis)
        return (*batch[:WEIGHTS], batch[WEIGHTS] / mean, *batch[WEIGHTS + 1 :])

    def fresh(self) -> Tuple[Any, Any]:
        """Return fresh parameters, and the key of the first pass."""
        params = init(self.description, self.settings.seed, self._precision.weights)
        return params, {KEY: jax.random.key_data(jax.random.key(self.settings.seed, impl=RANDOM))}

    def of_ranks(self, kept: Any, world_size: int) -> Any:
        """Return a key of its own for each rank, so that they drop different places."""
        key = jax.random.wrap_key_data(kept[KEY], impl=RANDOM)
        return {KEY: jax.random.key_data(jax.random.split(key, world_size))}

    def make_loss(self, machine: Machine) -> Callable[..., Any]:
        """Return the loss as ``make_step`` takes it."""
        form = Form(attention_kernel(*machine), self.settings.recipe.dropout, self.settings.padded)
        return make_loss(self.description, machine.precision, form, self._trace)

    def decays(self, name: str) -> bool:
        """Return whether a parameter decays, by its shared name."""
        return decays(name)

    def seen(self) -> Seen:
        """Return what was traced."""
        return Seen(**{**vars(super().seen()), "predictions": self.traced["words.transform"][2][1]})

    def own_pass(self) -> Optional[Observation]:
        """Return nothing with dropout: another pass drops other values."""
        return None if self.settings.recipe.dropout else super().own_pass()
