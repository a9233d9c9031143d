"""Create seeded sequences with hidden words in the format of BERT's published pre-processing.

A sequence is [CLS], a part, [SEP], another part, [SEP], and padding. 15 % of the tokens, up to the maximum number of
predictions, are hidden: eight in ten become [MASK], one another word, one stays (google-research/bert,
create_pretraining_data.py). Words follow Zipf's law.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainmark.dataset.example import encode_lists
from trainmark.dataset.manifest import write_manifest
from trainmark.dataset.masked.manifest import (
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
from trainmark.dataset.resume_state import DatasetState, find_state
from trainmark.dataset.staging import publish_files, staged_creation
from trainmark.dataset.tfrecord import frame
from trainmark.dataset.work import ProgressCounter

SPEC_NAME = "spec.json"
HIDDEN = 0.15


def state(directory: Path, spec: MaskedSpec) -> DatasetState:
    """Return the state of this data set in the folder; raise ``InputError`` if the folder contains anything else."""
    return find_state(directory, spec, SPEC_NAME, read_manifest, describe, "none")


def make_masked(
    directory: Path, spec: MaskedSpec, progress: ProgressListener | None = None
) -> MaskedManifest:
    """Create the data set unless it exists; resume an interrupted creation after its last complete file.

    Raises ``InputError`` if the folder contains anything else, ``TrainmarkError`` if writing fails or another process
    creates the data set.
    """
    if state(directory, spec) is DatasetState.COMPLETE:
        found = read_manifest(directory)
        assert found is not None
        return found
    done = ProgressCounter("sequences", spec.sequences, progress)
    with staged_creation(directory, spec, SPEC_NAME, done) as work:
        for shard, (name, count) in enumerate(spec.files.items()):
            if not any((folder / name).is_file() for folder in (work, directory)):
                _write(work / name, spec, shard, count)
            done.add(count)
        made = MaskedManifest(spec=spec, sums_sha256=publish_files(work, directory, spec.files))
        write_manifest(directory, made)
    return made


def _write(path: Path, spec: MaskedSpec, shard: int, count: int) -> None:
    """Write a file atomically, from the shard's own random stream."""
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
    """Return the features of one sequence; ``shares`` are the cumulative frequencies of the words."""

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
    positions = np.sort(random.choice(candidates, count, replace=False))
    hidden, kinds = tokens[positions].copy(), random.random(count)
    tokens[positions] = np.where(kinds < 0.8, MASK, np.where(kinds < 0.9, words(count), hidden))

    def filled(values: Any, size: int) -> list[int]:
        return [*map(int, values), *[0] * (size - len(values))]

    return {
        "input_ids": filled(tokens, full),
        "input_mask": filled(np.ones(length), full),
        "segment_ids": filled(np.arange(length) > first + 1, full),
        "masked_lm_positions": filled(positions, slots),
        "masked_lm_ids": filled(hidden, slots),
        "masked_lm_weights": [1.0] * count + [0.0] * (slots - count),
        "next_sentence_labels": [int(random.integers(2))],
    }
