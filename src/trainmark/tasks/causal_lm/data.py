"""Data sets of tokens that a suite can create."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from trainmark.schema.case import Count
from trainmark.schema.frozen import Frozen


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
