"""Documents packed into sequences: which place belongs to which document, what is predicted, and what attention does.

A sequence of a packed batch has ``length + 1`` places, like any other. ``documents`` (batch, length + 1) has the number
of each place's document, from 1 in each sequence; places of number 0 are padding. No document is cut, attention stays
within documents, positions begin at 0 in each, and no document predicts the first token of the next one.
"""

import math
from typing import Any

import numpy as np

# Sequences that are cut from one stream of tokens, and documents of unlike lengths that are packed into sequences.
NO_PACKING, DOCUMENTS = "none", "documents"
# The median of the lengths of synthetic documents, as a part of the sequence, and the deviation of their logarithm.
# Long documents are rare and have most of the tokens, as in texts of the web.
PART, SPREAD = 1 / 16, 1.0
# A document of one token predicts nothing; packing ends when so many documents fit into no sequence any more.
SHORTEST, MISSES = 2, 8

STREAM = 7  # distinguishes the random numbers of lengths from those of tokens


def pack(sequences: int, length: int, seed: int) -> list[list[int]]:
    """Return lengths of each sequence's synthetic documents, the same on every rank, each in the first with room."""
    random = np.random.default_rng([seed, STREAM])
    median = math.log(max(length * PART, SHORTEST))
    rooms, packed, missed = [length + 1] * sequences, [[] for _ in range(sequences)], 0  # type: ignore[var-annotated]
    while missed < MISSES:
        drawn = round(min(max(float(random.lognormal(median, SPREAD)), SHORTEST), length + 1))
        fitting = next((index for index, room in enumerate(rooms) if room >= drawn), None)
        if fitting is None:
            missed += 1
            continue
        packed[fitting].append(drawn)
        rooms[fitting] -= drawn
    return packed


def number(packed: list[list[int]], length: int) -> Any:
    """Return ``documents`` (sequences, length + 1) in int64 from the lengths in each sequence."""
    documents = np.zeros((len(packed), length + 1), np.int64)
    for row, lengths in zip(documents, packed):
        row[: sum(lengths)] = np.repeat(np.arange(1, len(lengths) + 1), lengths)
    return documents


def predicted(documents: Any) -> Any:
    """Return which predicted places (batch, length) are of the document of the one before (numpy, JAX or PyTorch)."""
    return (documents[:, 1:] == documents[:, :-1]) & (documents[:, 1:] > 0)


def attended(documents: Any) -> tuple[int, int]:
    """Return the tokens of documents that are passed of a batch (numpy), and the pairs of two in one document."""
    tokens = pairs = 0
    for row in documents[:, :-1]:
        counts = np.bincount(row)[1:]
        tokens += int(counts.sum())
        pairs += int((counts**2).sum())
    return tokens, pairs
