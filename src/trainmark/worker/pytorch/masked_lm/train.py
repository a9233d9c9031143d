"""A rank's training by masked language modelling in PyTorch."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import torch

from ...core.place import Place
from ...tasks.masked_lm.architectures import decays
from ...tasks.masked_lm.facts import Seen
from ...tasks.masked_lm.records import RecordFiles, counting
from ...tasks.masked_lm.settings import MaskedSettings
from ...tasks.masked_lm.task import WEIGHTS
from ...tasks.masked_lm.training import MaskedTraining
from ..causal_lm.train import PyTorchLanguageTraining
from ..compilers import NONE
from ..loading import open_native
from ..training import OutputsAlone, batches_of, choose_machine, moved
from .model import BertModel, build_model

EVEN = 8
"""Words that a GPU's product of 16 bits takes at once: 16 bytes."""


def open_training(settings: MaskedSettings, place: Place) -> PyTorchMaskedTraining:
    """Return the training, ready for its first step."""
    machine = choose_machine(settings, place)
    device = machine.device
    feed = None
    if not settings.synthetic:
        files = RecordFiles(settings.data, settings)
        feed = counting(
            lambda made: open_native(files.sequences, files.rows, settings, place, device, made),
            lambda tensors: moved(tensors, device),
        )
    return PyTorchMaskedTraining(settings, place, machine, batches_of(device), feed)


class PyTorchMaskedTraining(PyTorchLanguageTraining, MaskedTraining):
    """BERT, trained as a language model is."""

    settings: MaskedSettings

    def build(self) -> BertModel:
        """Return the model with fresh weights in FP32."""
        model = build_model(self.settings.model, self.settings.recipe.dropout, self.settings.padded)
        if self._device.type == "cuda":
            model.words.even = EVEN
        # Ranks drop different places: what is drawn from here on is dropout's alone.
        torch.manual_seed(self.settings.seed + 1 + self.ranks.place.rank)
        self._predicted: Optional[int] = None
        self._words_hook = model.words.transform.register_forward_hook(self._see_words)
        return model

    def decays(self, name: str) -> bool:
        """Return whether a parameter decays, by its shared name."""
        return decays(name)

    def prepared(self, parts: int) -> Tuple[Any, ...]:
        """Return the batch with its weights as ``MaskedTraining`` says."""
        batch = list(self.batch)
        weights = batch[WEIGHTS]
        own = weights.sum() / parts
        # Without padding all weights are 1, on every rank.
        mean = self.ranks.mean(own) if self.settings.padded and not self.by_itself else own
        batch[WEIGHTS] = weights / mean
        return tuple(batch)

    def _see_words(self, _product: Any, _given: Any, output: Any) -> None:
        self._predicted = output.shape[1]

    def seen(self) -> Seen:
        """Return what the hooks saw; they stay in a compiled model."""
        if self.settings.compiler == NONE:
            self._words_hook.remove()
        found = super().seen()
        return Seen(**{**vars(found), "predictions": self._predicted})

    def plain_pass(self) -> OutputsAlone:
        """Pass the parts of the batch as the step does; its loss is not verified by a formula."""
        return OutputsAlone(float(self._pass()))

    def own_pass(self) -> Any:
        """Return nothing of a compiled step with dropout: what a compiler draws, another pass cannot draw again."""
        dropping = bool(self.settings.recipe.dropout) and self.settings.compiler != NONE
        return None if dropping else super().own_pass()
