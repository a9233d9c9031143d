"""The base of every framework's training of masked language modelling, and the records that it reads.

Records are TFRecords of Examples with the features of google-research/bert (create_pretraining_data.py), which NVIDIA's
programs write too, and are read by number. CRCs are not held against the data here: `trainmark data verify` does that.
"""

import mmap
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...core.facts import ObservedConfig
from ...core.feed import Feed, Numbered
from ...core.outcomes import FAILED, INVALID, RunError
from ...core.place import Place
from ..causal_lm import training as causal_lm
from . import TASK
from .architectures import ARCHITECTURES
from .task import LENGTHS, WITHOUT_PADDING, MaskedSettings

HEAD, TAIL = 12, 4  # bytes before a record's data (length and its CRC), and after it
FLOATS, INTEGERS = 2, 3  # the fields of a Feature (tensorflow/core/example/feature.proto)


class RecordFiles:
    """Files of records, mapped into memory."""

    def __init__(self, source: str, settings: MaskedSettings) -> None:
        """Find the records of a file, or of a folder's ``*.tfrecord``; raise ``RunError`` if missing, empty or cut."""
        self._given, self._settings = (source, settings), settings
        path = Path(source)
        paths = sorted(path.glob("*.tfrecord")) if path.is_dir() else [path]
        # Of each record its file's path and map, its number there, its place and its size.
        self._places: list[tuple[Path, Any, int, int, int]] = []
        if not paths:
            raise RunError(FAILED, f"{source} has no *.tfrecord")
        for file in paths:
            try:
                with file.open("rb") as opened:
                    mapped = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
            except (OSError, ValueError) as error:
                raise RunError(FAILED, f"cannot read {file}: {error}") from error
            places = enumerate(_records(mapped, file))
            self._places += [(file, mapped, number, at, size) for number, (at, size) in places]
        self.sequences = len(self._places)

    def rows(self, numbers: Any) -> tuple[Any, ...]:
        """Return sequences as the task's batch has them; raise ``RunError`` that names a record of other settings."""
        rows = [self._row(int(number)) for number in numbers]
        return tuple(np.stack(column) for column in zip(*rows))

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Let another process map the files itself."""
        return RecordFiles, self._given

    def _row(self, number: int) -> tuple[Any, ...]:
        file, mapped, within, start, size = self._places[number]
        where = f"record {within} of {file}"
        own, vocabulary = self._settings, ARCHITECTURES[self._settings.model].vocabulary
        try:
            features = parse(mapped[start : start + size])
            tokens, mask, segments = (features[name] for name in ("input_ids", "input_mask", "segment_ids"))
            slots = [features[f"masked_lm_{name}"] for name in ("positions", "ids", "weights")]
            follows = features["next_sentence_labels"]
        except KeyError as error:
            raise RunError(FAILED, f"{where} has no {error.args[0]}") from error
        except (ValueError, IndexError, struct.error) as error:
            raise RunError(FAILED, f"{where} is not an Example: {error}") from error
        places, words, weights = slots
        length = int(mask.sum())
        problems = {
            f"has {len(tokens)} tokens, but {own.sequence_length} were requested": (
                {len(tokens), len(mask), len(segments)} != {own.sequence_length}
            ),
            f"has room for {len(places)} hidden words, but {own.predictions} were requested": (
                {len(slot) for slot in slots} != {own.predictions}
            ),
            "has padding between its tokens": not 0 < length <= len(mask) or not mask[:length].all(),
            f"has a token outside of the model's vocabulary of {vocabulary}": (
                any(len(ids) and not 0 <= ids.min() <= ids.max() < vocabulary for ids in (tokens, words))
            ),
            "has a segment that is neither 0 nor 1": (
                len(segments) and not 0 <= segments.min() <= segments.max() <= 1
            ),
            "hides words of padding": (places[weights > 0] >= length).any() or (places < 0).any(),
            "says neither 0 nor 1 of the next sentence": len(follows) != 1 or follows[0] not in (0, 1),
        }
        for problem, is_wrong in problems.items():
            if is_wrong:
                raise RunError(FAILED, f"{where} {problem}")
        return tokens, segments, np.int64(length), places, words, weights.astype(np.float32), follows[0]


def _records(mapped: Any, file: Path) -> Iterator[tuple[int, int]]:
    """Yield where the data of each record lies, and its size."""
    at, end = 0, len(mapped)
    while at < end:
        size = struct.unpack_from("<Q", mapped, at)[0] if at + HEAD <= end else end
        if at + HEAD + size + TAIL > end:
            raise RunError(FAILED, f"{file} is cut in the record at byte {at}")
        yield at + HEAD, size
        at += HEAD + size + TAIL


def parse(data: bytes) -> dict[str, Any]:
    """Return the numbers of each feature of an Example; raises ``ValueError`` or ``IndexError`` for what is none."""
    found: dict[str, Any] = {}
    for features in _fields(data):
        for entry in _fields(features[1]):
            pair = dict(_fields(entry[1]))
            for number, content in _fields(pair.get(2, b"")):
                packed = b"".join(values for _, values in _fields(content))
                if number == FLOATS:
                    found[pair[1].decode()] = np.frombuffer(packed, "<f4")
                elif number == INTEGERS:
                    found[pair[1].decode()] = _integers(packed)
    return found


def _integers(packed: bytes) -> Any:
    """Return the whole numbers of base 128, all at once: a loop over each byte would be most of the reading."""
    array = np.frombuffer(packed, np.uint8)
    ends = np.flatnonzero(array < 0x80)
    if len(ends) == len(array):
        return array.astype(np.int64)
    if not len(ends) or ends[-1] != len(array) - 1:
        raise ValueError("a list of whole numbers is cut off")
    starts = np.concatenate([[0], ends[:-1] + 1])
    shifts = np.arange(len(array)) - np.repeat(starts, ends - starts + 1)
    return np.add.reduceat((array & 0x7F).astype(np.int64) << 7 * shifts, starts)


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the numbers and contents of a message's fields, all of which have a length."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        if tag & 7 != 2:
            raise ValueError(f"a field of wire type {tag & 7}")
        size, at = _varint(message, at)
        if at + size > len(message):
            raise ValueError(f"a field of {size} bytes is cut off")
        yield tag >> 3, message[at : at + size]
        at += size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


class MaskedTraining(causal_lm.LanguageTraining):
    """One rank. Its batch is what ``MaskedLM.synthetic`` returns; names and shapes of weights are ``Bert.shapes``.

    The words' loss is ``sum(weights * losses) / sum(weights)`` over the batches of all ranks: before a batch is cut
    into parts, its weights are divided by the mean of their sums over parts and ranks, so that the mean of what the
    parts and ranks give is that quotient. A model that gets weights so divided adds ``weights * losses`` up.

    The observed ``predictions`` are the words of a sequence that were classified; the logits of an ``Observation`` are
    theirs, (batch, predictions, vocabulary).
    """

    task = TASK
    settings: MaskedSettings
    watched_products = ("words.transform",)

    def open_loader(self, settings: Any, place: Place) -> Feed | None:
        """Return a feed that counts the tokens of each batch."""
        files = RecordFiles(settings.data, settings)
        counts: list[int] = []

        def ready(batch: Any) -> Any:
            counts.append(int(batch[LENGTHS].sum()))
            return self.from_loader(batch)

        feed = self.open_numbers(Numbered(files.sequences, files.rows, ready), settings, place)
        feed.counted = counts
        return feed

    def observed_config(self) -> ObservedConfig:
        found = super().observed_config()  # type: ignore[safe-super]  # a backend's class follows
        (words,) = self.watched_products
        return replace(found, axes={**found.axes, "predictions": self.first[words][1][1]})

    def counted(self, first: int, last: int) -> dict[str, int]:
        """Return the tokens of these steps that were no padding, of sequences that are read."""
        read = self.feed.counted
        return {} if read is None else {WITHOUT_PADDING: sum(read[first:last])}

    def actual(self) -> dict[str, Any]:
        """Return what the first step used; the tokens that are counted must be those that are no padding."""
        found = super().actual()
        if not self.settings.padded:
            return found
        batch = self.read_batch()
        assert batch is not None
        there, read = int(batch[LENGTHS].sum()), self.feed.counted
        work = self.task.work(self.settings, self.settings.batch_per_device)
        counts = read[-1] if read else work[WITHOUT_PADDING]
        if there != counts:
            reason = f"{counts} tokens of a batch are counted as non-padding, but it has {there}"
            raise RunError(INVALID, reason)
        return {**found, WITHOUT_PADDING: there}
