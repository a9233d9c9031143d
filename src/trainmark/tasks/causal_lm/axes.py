"""The axes of causal language modelling, and the data sets of tokens that a suite can create."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from trainmark.schema.frozen import Count, Frozen
from trainmark.tasks.declaration import TaskAxes


class Parallel(StrEnum):
    """The share of the model that a rank has: all of it, or a part of each weight."""

    DDP = "ddp"
    FSDP2 = "fsdp2"


class ActivationCheckpointing(StrEnum):
    """The part of a block's activations that the backward pass computes again."""

    NONE = "none"
    SELECTIVE = "selective"
    FULL = "full"


class Packing(StrEnum):
    """The content of a sequence: a cut of one stream of tokens, or whole documents that do not see each other."""

    NONE = "none"
    DOCUMENTS = "documents"


class LanguageAxes(TaskAxes):
    """The axes; ``sequence_length`` is in tokens, and a device's batch is passed in ``accumulation`` parts."""

    sequence_length: Count = 1024
    accumulation: Count = 1
    parallel: Parallel = Parallel.DDP
    activation_checkpointing: ActivationCheckpointing = ActivationCheckpointing.NONE
    packing: Packing = Packing.NONE

    def id_words(self, compiler: str) -> tuple[str, ...]:
        """Return the compiler, ``1024tok``, and ``acc4``, ``fsdp2``, ``acfull``, ``packed`` if they are no defaults."""
        checkpointing = self.activation_checkpointing
        return (
            compiler,
            f"{self.sequence_length}tok",
            *([f"acc{self.accumulation}"] if self.accumulation > 1 else []),
            *([self.parallel.value] if self.parallel is not Parallel.DDP else []),
            *([f"ac{checkpointing.value}"] if checkpointing is not ActivationCheckpointing.NONE else []),
            *(["packed"] if self.packing is Packing.DOCUMENTS else []),
        )


class Form(StrEnum):
    """The forms of tokens on disk: consecutive little-endian integers of 2 or 4 bytes."""

    TOKENS = "tokens"


GIVEN = ("megatron",)
"""Forms that must already exist: Megatron-LM's ``.bin`` and ``.idx``, with the vocabulary in the same folder."""


class MakeTokens(Frozen):
    """A data set that trainmark creates if it is missing; see ``trainmark data make-tokens``.

    ``validation`` is the number of validation tokens (default: a twentieth of ``tokens``).
    """

    tokens: Count
    vocabulary: Count = 50257
    seed: Annotated[int, Field(strict=True, ge=0)] = 0
    validation: Annotated[int, Field(strict=True, ge=0)] | None = None
