"""The base of every framework's training of masked language modelling."""

from __future__ import annotations

from ..causal_lm.training import LanguageTraining
from . import TASK
from .settings import MaskedSettings


class MaskedTraining(LanguageTraining):
    """One rank. Its batch is what ``MaskedLM.synthetic`` returns; names and shapes of weights are ``Bert.shapes``.

    ``seen`` returns the ``Seen`` of ``facts.py``; the logits of an ``Observation`` are the words', (batch, predictions,
    vocabulary). With dropout two passes of a batch differ, so ``own_pass`` has nothing to show.
    """

    task = TASK
    settings: MaskedSettings
