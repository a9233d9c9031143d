"""Create seeded tokens whose frequencies follow Zipf's law, like words."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainmark.dataset.manifest import write_manifest
from trainmark.dataset.processes import ProgressListener
from trainmark.dataset.resume_state import DatasetState, find_state
from trainmark.dataset.staging import publish_files, staged_creation
from trainmark.dataset.tokens.manifest import (
    TRAIN,
    VALIDATION,
    TokenManifest,
    TokenSpec,
    describe,
    read_manifest,
)
from trainmark.dataset.work import ProgressCounter

CHUNK = 1 << 20
"""Tokens per stream of random numbers, and per write."""

SPEC_NAME = "spec.json"


def state(directory: Path, spec: TokenSpec) -> DatasetState:
    """Return the state of this data set in the folder; raise ``InputError`` if the folder contains anything else."""
    return find_state(directory, spec, SPEC_NAME, read_manifest, describe, "no tokens")


def make_tokens(directory: Path, spec: TokenSpec, progress: ProgressListener | None = None) -> TokenManifest:
    """Create the data set unless it exists; resume an interrupted creation after its last complete chunk.

    Raises ``InputError`` if the folder contains anything else, ``TrainmarkError`` if writing fails or another process
    creates the data set.
    """
    if state(directory, spec) is DatasetState.COMPLETE:
        found = read_manifest(directory)
        assert found is not None
        return found
    done = ProgressCounter("tokens", spec.tokens + spec.validation, progress)
    with staged_creation(directory, spec, SPEC_NAME, done) as work:
        for name, count in spec.files.items():
            _write(work / name, spec, name, count, done)
        sums = publish_files(work, directory, spec.files)
        made = TokenManifest(spec=spec, type=spec.type_name, vocabulary=spec.vocabulary, sums_sha256=sums)
        write_manifest(directory, made)
    return made


def _write(path: Path, spec: TokenSpec, name: str, count: int, done: ProgressCounter) -> None:
    if (path.parents[1] / name).is_file() and not path.exists():
        # An interrupted call has already moved the file into place.
        (path.parents[1] / name).replace(path)
    size = np.dtype(spec.type_name).itemsize
    written = path.stat().st_size // (CHUNK * size) if path.exists() else 0
    with path.open("ab") as file:
        file.truncate(min(written * CHUNK, count) * size)
        done.add(min(written * CHUNK, count))
        for chunk in chunks(spec, name, count, written):
            file.write(chunk.astype(np.dtype(spec.type_name).newbyteorder("<")).tobytes())
            done.add(len(chunk))


def chunks(spec: TokenSpec, name: str, count: int, first: int = 0) -> Iterator[NDArray[np.int64]]:
    """Yield the tokens of a file from chunk ``first`` on, each chunk from its own random stream.

    The frequency of token r is proportional to 1 / (r + 1) (Zipf's law), like tokens numbered by frequency.
    """
    shares = np.cumsum(1 / np.arange(1, spec.vocabulary + 1))
    starts = [*range(first * CHUNK, count, CHUNK), count]
    for number, (start, end) in enumerate(pairwise(starts), start=first):
        random = np.random.default_rng([spec.seed, [TRAIN, VALIDATION].index(name), number])
        yield np.searchsorted(shares, random.random(end - start) * shares[-1], side="right").clip(
            max=spec.vocabulary - 1
        )
