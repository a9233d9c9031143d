"""What a run of causal language modelling has beside what every run has: the recipes of GPT-2 and of Llama."""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass

from ...core.settings import ADAMW, AdamRecipe, Settings
from ..language import LanguageSettings, add_language_flags, recipe_of

EPOCH_SEQUENCES = 8_823_000
"""An epoch of made-up data is as long as OpenWebText's nine billion tokens in sequences of 1024."""

LLAMA_RECIPE: Mapping[str, float] = {
    "learning_rate": 3e-4,
    "weight_decay": 0.1,
    "clip_norm": 1.0,
    "warmup_updates": 200,
}
"""Where it is another than GPT-2's: that of torchtitan's configurations of Llama 3 (``llama3_8b.toml``)."""


DDP, FSDP2 = "ddp", "fsdp2"
"""``ddp``: each rank has the whole model. ``fsdp2``: the ranks share weights, gradients and the optimizer's state."""

NO_CHECKPOINTING, SELECTIVE, FULL = "none", "selective", "full"
"""``selective`` recomputes everything but attention and every second product; ``full`` recomputes whole blocks."""


@dataclass(frozen=True)
class CausalSettings(LanguageSettings):
    """``parallel``: the ranks' share of the model; ``activation_checkpointing``: the part that is recomputed."""

    parallel: str
    activation_checkpointing: str


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags, and make the recipe that of nanoGPT's bench.py."""
    text = add_language_flags(parser)
    text.add_argument(
        "--parallel", choices=(DDP, FSDP2), default=DDP,
        help="ddp: each rank has the whole model; fsdp2: the ranks share weights, gradients and optimizer state",
    )  # fmt: skip
    text.add_argument(
        "--activation-checkpointing", choices=(NO_CHECKPOINTING, SELECTIVE, FULL), default=NO_CHECKPOINTING,
        help="the part of each block that the backward pass computes again",
    )  # fmt: skip
    parser.set_defaults(sequence_length=1024, epoch_samples=EPOCH_SEQUENCES)
    parser.set_defaults(momentum=0.9, second_momentum=0.95, epsilon=1e-8, weight_decay=0.01, clip_norm=None)
    parser.set_defaults(schedule="constant", epochs=1, warmup_epochs=0, warmup_updates=0)


def causal_settings(given: argparse.Namespace, common: Settings) -> CausalSettings:
    """Return the settings with those of the flags of ``add_flags``."""
    recipe = AdamRecipe(**vars(common.recipe), optimizer=ADAMW, **recipe_of(given))
    return CausalSettings(
        **{**vars(common), "recipe": recipe},
        sequence_length=given.sequence_length,
        accumulation=given.accumulation,
        parallel=given.parallel,
        activation_checkpointing=given.activation_checkpointing,
    )
