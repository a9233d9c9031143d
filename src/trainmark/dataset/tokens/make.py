"""Makes seeded tokens whose frequencies fall by Zipf's law, as words' do."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainmark.dataset.making import making, move_into_place
from trainmark.dataset.manifest import write_manifest
from trainmark.dataset.processes import ProgressListener
from trainmark.dataset.resume_state import State, state_in
from trainmark.dataset.tokens.made import (
    TRAIN,
    VALIDATION,
    TokenManifest,
    TokenSpec,
    describe,
    read_manifest,
)
from trainmark.dataset.work import Counter

CHUNK = 1 << 20
"""Tokens that are drawn from one stream of random numbers, and written at once."""

SPEC_NAME = "spec.json"


def state(directory: Path, spec: TokenSpec) -> State:
    """Return what lies there; raise ``InputError`` for anything but this data set, whole or unfinished."""
    return state_in(directory, spec, SPEC_NAME, read_manifest, describe, "no tokens")


def make_tokens(directory: Path, spec: TokenSpec, progress: ProgressListener | None = None) -> TokenManifest:
    """Make the data set unless it is there; whole chunks of an interrupted making are kept.

    Raises ``InputError`` for a folder with anything else in it, ``TrainmarkError`` when it cannot be written or
    another process makes it.
    """
    if state(directory, spec) is State.COMPLETE:
        found = read_manifest(directory)
        assert found is not None
        return found
    done = Counter("tokens", spec.tokens + spec.validation, progress)
    with making(directory, spec, SPEC_NAME, done) as work:
        for name, count in spec.files.items():
            _write(work / name, spec, name, count, done)
        sums = move_into_place(work, directory, spec.files)
        made = TokenManifest(spec=spec, type=spec.type_name, vocabulary=spec.vocabulary, sums_sha256=sums)
        write_manifest(directory, made)
    return made


def _write(path: Path, spec: TokenSpec, name: str, count: int, done: Counter) -> None:
    if (path.parents[1] / name).is_file() and not path.exists():
        # Moved into place by a call that was interrupted after that.
        (path.parents[1] / name).replace(path)
    size = np.dtype(spec.type_name).itemsize
    have = path.stat().st_size // (CHUNK * size) if path.exists() else 0
    with path.open("ab") as file:
        file.truncate(min(have * CHUNK, count) * size)
        done.add(min(have * CHUNK, count))
        for chunk in chunks(spec, name, count, have):
            file.write(chunk.astype(np.dtype(spec.type_name).newbyteorder("<")).tobytes())
            done.add(len(chunk))


def chunks(spec: TokenSpec, name: str, count: int, first: int = 0) -> Iterator[NDArray[np.int64]]:
    """Yield the tokens of a file from chunk ``first`` on, each chunk from a stream of its own.

    Token r comes with a frequency in proportion to 1 / (r + 1): Zipf's law, and the order in which tokenizers number
    what they have merged.
    """
    shares = np.cumsum(1 / np.arange(1, spec.vocabulary + 1))
    starts = [*range(first * CHUNK, count, CHUNK), count]
    for number, (start, end) in enumerate(pairwise(starts), start=first):
        random = np.random.default_rng([spec.seed, [TRAIN, VALIDATION].index(name), number])
        yield np.searchsorted(shares, random.random(end - start) * shares[-1], side="right").clip(
            max=spec.vocabulary - 1
        )
