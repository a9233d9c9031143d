"""Create seeded clicks with few frequent categories, like real logs."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainmark.dataset.clicks.manifest import (
    RECORD,
    SPEC_NAME,
    ClickManifest,
    ClickSpec,
    describe,
    read_manifest,
    sizes_of,
)
from trainmark.dataset.manifest import write_manifest
from trainmark.dataset.processes import ProgressListener
from trainmark.dataset.resume_state import DatasetState, find_state
from trainmark.dataset.staging import publish_files, staged_creation
from trainmark.dataset.work import ProgressCounter
from trainmark.tasks.recommendation.axes import Form
from trainmark.worker.core.feed import TRAIN
from trainmark.worker.tasks.recommendation.architectures import DENSE
from trainmark.worker.tasks.recommendation.records import CLICKED, COLUMNS, drawn

CHUNK = 1 << 16
"""Samples per stream of random numbers, and per write."""


def state(directory: Path, spec: ClickSpec) -> DatasetState:
    """Return the state of this data set in the folder; raise ``InputError`` if the folder contains anything else."""
    return find_state(directory, spec, SPEC_NAME, read_manifest, describe, "no clicks")


def make_clicks(directory: Path, spec: ClickSpec, progress: ProgressListener | None = None) -> ClickManifest:
    """Create the data set unless it exists; resume an interrupted creation after its last complete chunk.

    Raises ``InputError`` if the folder contains anything else, ``TrainmarkError`` if writing fails or another process
    creates the data set.
    """
    if state(directory, spec) is DatasetState.COMPLETE:
        found = read_manifest(directory)
        assert found is not None
        return found
    done = ProgressCounter("samples", spec.samples, progress)
    with staged_creation(directory, spec, SPEC_NAME, done) as work:
        _write(work / TRAIN, directory / TRAIN, spec, done)
        sums = publish_files(work, directory, [TRAIN])
        made = ClickManifest(spec=spec, form=Form.RAW, column_sizes=sizes_of(spec), sums_sha256=sums)
        write_manifest(directory, made)
    return made


def _write(path: Path, moved: Path, spec: ClickSpec, done: ProgressCounter) -> None:
    if moved.is_file() and not path.exists():
        # An interrupted call has already moved the file into place.
        moved.replace(path)
    written = path.stat().st_size // (CHUNK * RECORD) if path.exists() else 0
    with path.open("ab") as file:
        file.truncate(min(written * CHUNK, spec.samples) * RECORD)
        done.add(min(written * CHUNK, spec.samples))
        for start in range(written * CHUNK, spec.samples, CHUNK):
            words = records(spec, start // CHUNK, min(CHUNK, spec.samples - start))
            file.write(words.tobytes())
            done.add(len(words))


def records(spec: ClickSpec, chunk: int, count: int) -> NDArray[np.uint32]:
    """Return the samples of a chunk as (count, 40) words, from the chunk's own random stream."""
    random = np.random.default_rng([spec.seed, chunk])
    words = np.empty((count, len(COLUMNS)), "<u4")
    words[:, 0] = random.random(count) < CLICKED
    words[:, 1 : 1 + DENSE] = random.random((count, DENSE), np.float32).astype("<f4").view("<u4")
    words[:, 1 + DENSE :] = drawn(random, count, sizes_of(spec))
    return words
