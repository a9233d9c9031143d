"""A rank's training by masked language modelling in PaddlePaddle."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import paddle

from ...core.place import Place
from ...tasks.masked_lm.architectures import decays
from ...tasks.masked_lm.facts import Seen
from ...tasks.masked_lm.records import RecordFiles, counting
from ...tasks.masked_lm.settings import MaskedSettings
from ...tasks.masked_lm.task import WEIGHTS
from ...tasks.masked_lm.training import MaskedTraining
from ..causal_lm.train import PaddleLanguageTraining
from ..loading import DataLoaderFeed
from ..training import choose_machine, meet_ranks
from .model import BertModel


def open_training(settings: MaskedSettings, place: Place) -> PaddleMaskedTraining:
    """Return the training, ready for its first step."""
    device, precision = choose_machine(settings, place)
    group = meet_ranks(settings, place, device)
    feed = None
    if not settings.synthetic:
        files = RecordFiles(settings.data, settings)
        feed = counting(
            lambda made: DataLoaderFeed(files.sequences, files.rows, settings, place, made), tuple
        )
    return PaddleMaskedTraining(settings, group, device, precision, feed)


class PaddleMaskedTraining(PaddleLanguageTraining, MaskedTraining):
    """BERT, trained as a language model is."""

    settings: MaskedSettings

    def build(self) -> BertModel:
        """Return the model with fresh weights."""
        model = BertModel(self.settings.model, self.settings.recipe.dropout, self.settings.padded)
        # Ranks drop different places: what is drawn from here on is dropout's alone.
        paddle.seed(self.settings.seed + 1 + self.ranks.place.rank)
        self._predicted: Optional[int] = None
        self._words_hook = model.words.transform.register_forward_post_hook(self._see_words)
        return model

    def prepared(self, parts: int) -> Tuple[Any, ...]:
        """Return the batch with its weights as ``MaskedTraining`` says."""
        batch = list(self.batch)
        batch[WEIGHTS] = batch[WEIGHTS] / self.ranks.mean(batch[WEIGHTS].sum() / parts)
        return tuple(batch)

    def decays(self, name: str) -> bool:
        """Return whether a parameter decays, by its shared name."""
        return decays(name)

    def _see_words(self, _layer: Any, _given: Any, output: Any) -> None:
        self._predicted = output.shape[1]

    def seen(self) -> Seen:
        """Return what the hooks saw; a compiled program called them once, while it was made."""
        self._words_hook.remove()
        return Seen(**{**vars(super().seen()), "predictions": self._predicted})

    def own_pass(self) -> Any:
        """Return nothing with dropout: another pass drops other values."""
        return None if self.settings.recipe.dropout else super().own_pass()
