"""Makes seeded clicks, few of whose categories are frequent, as those of real logs are."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trainmark.dataset.clicks.made import (
    RECORD,
    SPEC_NAME,
    ClickManifest,
    ClickSpec,
    describe,
    read_manifest,
    sizes_of,
)
from trainmark.dataset.making import making, move_into_place
from trainmark.dataset.manifest import write_manifest
from trainmark.dataset.processes import ProgressListener
from trainmark.dataset.resume_state import State, state_in
from trainmark.dataset.work import Counter
from trainmark.tasks.recommendation.data import Form
from trainmark.worker.tasks.recommendation.architectures import DENSE
from trainmark.worker.tasks.recommendation.clicks import CLICKED, drawn
from trainmark.worker.tasks.recommendation.records import COLUMNS, TRAIN

CHUNK = 1 << 16
"""Samples that are drawn from one stream of random numbers, and written at once."""


def state(directory: Path, spec: ClickSpec) -> State:
    """Return what lies there; raise ``InputError`` for anything but this data set, whole or unfinished."""
    return state_in(directory, spec, SPEC_NAME, read_manifest, describe, "no clicks")


def make_clicks(directory: Path, spec: ClickSpec, progress: ProgressListener | None = None) -> ClickManifest:
    """Make the data set unless it is there; whole chunks of an interrupted making are kept.

    Raises ``InputError`` for a folder with anything else in it, ``TrainmarkError`` when it cannot be written or
    another process makes it.
    """
    if state(directory, spec) is State.COMPLETE:
        found = read_manifest(directory)
        assert found is not None
        return found
    done = Counter("samples", spec.samples, progress)
    with making(directory, spec, SPEC_NAME, done) as work:
        _write(work / TRAIN, directory / TRAIN, spec, done)
        sums = move_into_place(work, directory, [TRAIN])
        made = ClickManifest(spec=spec, form=Form.RAW, column_sizes=sizes_of(spec), sums_sha256=sums)
        write_manifest(directory, made)
    return made


def _write(path: Path, moved: Path, spec: ClickSpec, done: Counter) -> None:
    if moved.is_file() and not path.exists():
        # Moved into place by a call that was interrupted after that.
        moved.replace(path)
    have = path.stat().st_size // (CHUNK * RECORD) if path.exists() else 0
    with path.open("ab") as file:
        file.truncate(min(have * CHUNK, spec.samples) * RECORD)
        done.add(min(have * CHUNK, spec.samples))
        for start in range(have * CHUNK, spec.samples, CHUNK):
            words = records(spec, start // CHUNK, min(CHUNK, spec.samples - start))
            file.write(words.tobytes())
            done.add(len(words))


def records(spec: ClickSpec, chunk: int, count: int) -> NDArray[np.uint32]:
    """Return the samples of a chunk, (count, 40) words, from a stream of random numbers of its own."""
    random = np.random.default_rng([spec.seed, chunk])
    words = np.empty((count, len(COLUMNS)), "<u4")
    words[:, 0] = random.random(count) < CLICKED
    words[:, 1 : 1 + DENSE] = random.random((count, DENSE), np.float32).astype("<f4").view("<u4")
    words[:, 1 + DENSE :] = drawn(random, count, sizes_of(spec))
    return words
