"""Data sets of tokens, as a suite can have them made."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from trainmark.schema.case import Count
from trainmark.schema.frozen import Frozen


class Form(StrEnum):
    """The forms of tokens on disk: consecutive little-endian integers of 2 or 4 bytes."""

    TOKENS = "tokens"


GIVEN = ("megatron",)
"""Forms that can only be given: Megatron-LM's ``.bin`` and ``.idx``, with the vocabulary beside them."""


class MakeTokens(Frozen):
    """A data set that trainmark makes itself when it is not there: see ``trainmark data make-tokens``.

    ``validation`` is the number of validation tokens; None is a twentieth of ``tokens``.
    """

    tokens: Count
    vocabulary: Count = 50257
    seed: Annotated[int, Field(strict=True, ge=0)] = 0
    validation: Annotated[int, Field(strict=True, ge=0)] | None = None
