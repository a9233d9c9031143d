"""The settings of runs of language models: their flags, and the recipes of GPT-2 and of Llama."""

import argparse
from dataclasses import dataclass

from ...core.settings import ADAMW, AdamRecipe, Settings, count, norm, positive
from .packing import DOCUMENTS, NO_PACKING


@dataclass(frozen=True)
class LanguageSettings(Settings):
    """``sequence_length``: tokens of a sample that are passed; ``accumulation``: parts of a batch, passed in turn.

    The batch of a rank is ``accumulation`` equal parts, each passed forward and backward by itself; the weights move
    once, by the mean of all.
    """

    sequence_length: int
    accumulation: int
    recipe: AdamRecipe

    @property
    def part(self) -> int:
        """Return the sequences that are passed at once."""
        return self.batch_per_device // self.accumulation


def add_language_flags(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the flags that both tasks have, and return their group; a task sets its own defaults."""
    text = parser.add_argument_group("text")
    add = text.add_argument
    add("--sequence-length", type=positive, metavar="N", help="tokens of a sample")
    parts = "parts of a batch, passed one after another before the weights move"
    add("--accumulation", type=positive, default=1, metavar="N", help=parts)
    add("--second-momentum", type=float, help="of the optimizer (beta 2)")
    add("--epsilon", type=float, help="of the optimizer")
    length = "of all gradients together, made so long where they are longer; 0: as they are"
    add("--clip-norm", type=norm, metavar="LENGTH", help=length)
    updates = "steps over which the rate rises from 0, regardless of the warm-up epochs"
    add("--warmup-updates", type=count, metavar="N", help=updates)
    epoch = "length of an epoch of synthetic data"
    add("--epoch-sequences", type=positive, metavar="N", dest="epoch_samples", help=epoch)
    return text


# The fields of a recipe of Adam's family that one of SGD lacks.
ADAM_FIELDS = ("second_momentum", "epsilon", "clip_norm", "warmup_updates")
# An epoch of made-up data is as long as OpenWebText's nine billion tokens in sequences of 1024.
EPOCH_SEQUENCES = 8_823_000
# Where it is another than GPT-2's: that of torchtitan's configurations of Llama 3 (``llama3_8b.toml``).
LLAMA_RECIPE = {"learning_rate": 3e-4, "weight_decay": 0.1, "clip_norm": 1.0, "warmup_updates": 200}
# ``ddp``: each rank has the whole model. ``fsdp2``: the ranks share weights, gradients and the optimizer's state.
DDP, FSDP2 = "ddp", "fsdp2"
# ``selective`` recomputes everything but attention and every second product; ``full`` recomputes whole blocks.
NO_CHECKPOINTING, SELECTIVE, FULL = "none", "selective", "full"


@dataclass(frozen=True)
class CausalSettings(LanguageSettings):
    """``parallel``: the ranks' share of the model; ``activation_checkpointing``: the part that is recomputed.

    ``packing``: whether sequences are cut from one stream of tokens, or packed with whole documents.
    """

    parallel: str
    activation_checkpointing: str
    packing: str

    @property
    def packed(self) -> bool:
        """Return whether sequences are packed with documents."""
        return self.packing == DOCUMENTS

    @property
    def isolated(self) -> bool:
        """Return whether parts of a sequence must not see each other."""
        return self.packed


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags, and make the recipe that of nanoGPT's bench.py."""
    add = add_language_flags(parser).add_argument
    of = "ddp: each rank has the whole model; fsdp2: the ranks share weights, gradients and optimizer state"
    add("--parallel", choices=(DDP, FSDP2), default=DDP, help=of)
    again = "the part of each block that the backward pass computes again"
    kinds = (NO_CHECKPOINTING, SELECTIVE, FULL)
    add("--activation-checkpointing", choices=kinds, default=NO_CHECKPOINTING, help=again)
    packed = "documents: documents of unlike lengths in each sequence, which do not attend to each other"
    add("--packing", choices=(NO_PACKING, DOCUMENTS), default=NO_PACKING, help=packed)
    parser.set_defaults(sequence_length=1024, epoch_samples=EPOCH_SEQUENCES)
    parser.set_defaults(optimizer=ADAMW, momentum=0.9, second_momentum=0.95, epsilon=1e-8)
    parser.set_defaults(weight_decay=0.01, clip_norm=None)
    parser.set_defaults(schedule="constant", epochs=1, warmup_epochs=0, warmup_updates=0)
