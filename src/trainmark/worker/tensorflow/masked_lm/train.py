"""A rank's training by masked language modelling in TensorFlow."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import keras
import tensorflow as tf

from ...core.place import Place
from ...tasks.masked_lm.architectures import decays
from ...tasks.masked_lm.facts import Seen
from ...tasks.masked_lm.records import RecordFiles, counting
from ...tasks.masked_lm.settings import MaskedSettings
from ...tasks.masked_lm.task import WEIGHTS
from ...tasks.masked_lm.training import MaskedTraining
from ...tasks.products import Observation
from ..causal_lm.train import TensorFlowLanguageTraining
from ..loading import open_native
from ..ranks import Group
from ..training import batches_of, choose_machine
from .model import BertModel


def open_training(settings: MaskedSettings, place: Place) -> TensorFlowMaskedTraining:
    """Return the training, ready for its first step."""
    machine = choose_machine(settings, place)
    group = Group(place, machine.device)
    keras.utils.set_random_seed(settings.seed)
    to_batch, feed = batches_of(machine.device), None
    if not settings.synthetic:
        files = RecordFiles(settings.data, settings)
        feed = counting(
            lambda made: open_native(files.sequences, files.rows, settings, place, made),
            lambda batch: to_batch(*batch),
        )
    return TensorFlowMaskedTraining(settings, group, machine, to_batch, feed)


class TensorFlowMaskedTraining(TensorFlowLanguageTraining, MaskedTraining):
    """BERT, trained as a language model is."""

    settings: MaskedSettings

    def build(self, compute: str) -> BertModel:
        """Return the model with fresh weights."""
        model = BertModel(self.settings.model, compute, self.settings.recipe.dropout, self.settings.padded)
        # Ranks drop different places: what is drawn from here on is dropout's alone.
        tf.random.set_seed(self.settings.seed + 1 + self.ranks.place.rank)
        return model

    def prepared(self, batch: Tuple[Any, ...], parts: int, alone: bool) -> Tuple[Any, ...]:
        """Return the batch with its weights as ``MaskedTraining`` says."""
        weights = batch[WEIGHTS]
        total = tf.reduce_sum(weights) / parts
        if not alone and self.ranks.place.world_size > 1:
            (total,) = self.ranks.total([total / self.ranks.place.world_size], 0)
        return (*batch[:WEIGHTS], weights / total, *batch[WEIGHTS + 1 :])

    def decays(self, name: str) -> bool:
        """Return whether a parameter decays, by its shared name."""
        return decays(name)

    def seen(self) -> Seen:
        """Return what was seen in the first step; in a graph, while it was traced."""
        return Seen(**{**vars(super().seen()), "predictions": self.first["words.transform"][1][1]})

    def own_pass(self) -> Optional[Observation]:
        """Return nothing with dropout: another pass drops other values."""
        return None if self.settings.recipe.dropout else super().own_pass()
