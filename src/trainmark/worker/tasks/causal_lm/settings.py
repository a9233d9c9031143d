"""The settings of runs of language models, and the recipes of GPT-2 and of Llama."""

from dataclasses import dataclass
from typing import Annotated

from ...core.settings import ADAMW, EPOCH, AdamRecipe, Flag, Settings, positive
from .packing import DOCUMENTS, NO_PACKING

PARTS = "parts of a batch, passed one after another before the weights move"


@dataclass(frozen=True)
class LanguageSettings(Settings):
    """``sequence_length``: tokens of a sample that are passed; ``accumulation``: parts of a batch, passed in turn.

    The batch of a rank is ``accumulation`` equal parts, each passed forward and backward by itself; the weights move
    once, by the mean of all.
    """

    epoch_samples: Annotated[int, Flag(EPOCH, positive, name="epoch_sequences")]
    sequence_length: Annotated[int, Flag("tokens of a sample", positive)]
    accumulation: Annotated[int, Flag(PARTS, positive, 1)]
    recipe: AdamRecipe

    @property
    def part(self) -> int:
        """Return the sequences that are passed at once."""
        return self.batch_per_device // self.accumulation


# An epoch of made-up data is as long as OpenWebText's nine billion tokens in sequences of 1024.
EPOCH_SEQUENCES = 8_823_000
# Those of nanoGPT's bench.py.
DEFAULTS = {
    "optimizer": ADAMW, "second_momentum": 0.95, "epsilon": 1e-8, "learning_rate": 1e-4, "weight_decay": 0.01,
    "sequence_length": 1024, "epoch_samples": EPOCH_SEQUENCES,
}  # fmt: skip
# Where it is another than GPT-2's: that of torchtitan's configurations of Llama 3 (``llama3_8b.toml``).
LLAMA_RECIPE = {"learning_rate": 3e-4, "weight_decay": 0.1, "clip_norm": 1.0, "warmup_updates": 200}
# ``ddp``: each rank has the whole model. ``fsdp2``: the ranks share weights, gradients and the optimizer's state.
DDP, FSDP2 = "ddp", "fsdp2"
# ``selective`` recomputes everything but attention and every second product; ``full`` recomputes whole blocks.
NO_CHECKPOINTING, SELECTIVE, FULL = "none", "selective", "full"
KINDS = (NO_CHECKPOINTING, SELECTIVE, FULL)

SHARE = "ddp: each rank has the whole model; fsdp2: the ranks share weights, gradients and optimizer state"
AGAIN = "the part of each block that the backward pass computes again"
PACKED = "documents: documents of unlike lengths in each sequence, which do not attend to each other"


@dataclass(frozen=True)
class CausalSettings(LanguageSettings):
    """The settings of a run of causal language modelling."""

    parallel: Annotated[str, Flag(SHARE, (DDP, FSDP2), DDP)]
    activation_checkpointing: Annotated[str, Flag(AGAIN, KINDS, NO_CHECKPOINTING)]
    packing: Annotated[str, Flag(PACKED, (NO_PACKING, DOCUMENTS), NO_PACKING)]

    @property
    def packed(self) -> bool:
        """Return whether sequences are packed with documents."""
        return self.packing == DOCUMENTS

    @property
    def isolated(self) -> bool:
        """Return whether parts of a sequence must not see each other."""
        return self.packed
