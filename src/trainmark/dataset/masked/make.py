"""Makes seeded sequences with hidden words, as BERT's published pre-processing writes them.

A sequence is [CLS], a part, [SEP], another part, [SEP], and padding. Fifteen of a hundred tokens, but no more than
there is room for, are hidden: eight in ten by [MASK], one by another word, one not at all (google-research/bert,
create_pretraining_data.py). Words come by Zipf's law.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.dataset.example import encode_lists
from trainmark.dataset.making import making, move_into_place
from trainmark.dataset.manifest import write_manifest
from trainmark.dataset.masked.made import (
    CLS,
    FIRST_WORD,
    MASK,
    SEP,
    MaskedManifest,
    MaskedSpec,
    describe,
    read_manifest,
)
from trainmark.dataset.processes import ProgressListener
from trainmark.dataset.resume_state import State, state_in
from trainmark.dataset.tfrecord import frame
from trainmark.dataset.work import Counter

SPEC_NAME = "spec.json"
HIDDEN = 0.15


def state(directory: Path, spec: MaskedSpec) -> State:
    """Return what lies there; raise ``InputError`` for anything but this data set, whole or unfinished."""
    return state_in(directory, spec, SPEC_NAME, read_manifest, describe, "none")


def make_masked(
    directory: Path, spec: MaskedSpec, progress: ProgressListener | None = None
) -> MaskedManifest:
    """Make the data set unless it is there; whole files of an interrupted making are kept.

    Raises ``InputError`` for a folder with anything else in it, ``TrainmarkError`` when it cannot be written or
    another process makes it.
    """
    if state(directory, spec) is State.COMPLETE:
        found = read_manifest(directory)
        assert found is not None
        return found
    done = Counter("sequences", spec.sequences, progress)
    with making(directory, spec, SPEC_NAME, done) as work:
        for shard, (name, count) in enumerate(spec.files.items()):
            if not any((folder / name).is_file() for folder in (work, directory)):
                _write(work / name, spec, shard, count)
            done.add(count)
        made = MaskedManifest(spec=spec, sums_sha256=move_into_place(work, directory, spec.files))
        write_manifest(directory, made)
    return made


def _write(path: Path, spec: MaskedSpec, shard: int, count: int) -> None:
    """Write a file, which has its name once it is whole; each has a stream of random numbers of its own."""
    random = np.random.default_rng([spec.seed, shard])
    shares = np.cumsum(1 / np.arange(1, spec.vocabulary - FIRST_WORD + 1))
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        for _ in range(count):
            file.write(frame(encode_lists(sequence(random, shares, spec))))
    part.replace(path)


def sequence(
    random: np.random.Generator, shares: NDArray[np.float64], spec: MaskedSpec
) -> dict[str, list[int] | list[float]]:
    """Return the features of one sequence; ``shares`` are the frequencies of the words, summed up."""

    def words(count: int) -> Any:
        drawn = np.searchsorted(shares, random.random(count) * shares[-1], side="right")
        return FIRST_WORD + drawn.clip(max=len(shares) - 1)

    full, slots = spec.sequence_length, spec.predictions
    length = int(random.integers(8, full)) if random.random() * 100 < spec.short else full
    first = int(random.integers(1, length - 3))
    tokens = words(length)
    tokens[[0, first + 1, length - 1]] = CLS, SEP, SEP
    candidates = np.setdiff1d(np.arange(length), [0, first + 1, length - 1])
    count = min(slots, max(1, round(length * HIDDEN)), len(candidates))
    places = np.sort(random.choice(candidates, count, replace=False))
    hidden, kinds = tokens[places].copy(), random.random(count)
    tokens[places] = np.where(kinds < 0.8, MASK, np.where(kinds < 0.9, words(count), hidden))

    def filled(values: Any, size: int) -> list[int]:
        return [*map(int, values), *[0] * (size - len(values))]

    return {
        "input_ids": filled(tokens, full),
        "input_mask": filled(np.ones(length), full),
        "segment_ids": filled(np.arange(length) > first + 1, full),
        "masked_lm_positions": filled(places, slots),
        "masked_lm_ids": filled(hidden, slots),
        "masked_lm_weights": [1.0] * count + [0.0] * (slots - count),
        "next_sentence_labels": [int(random.integers(2))],
    }
