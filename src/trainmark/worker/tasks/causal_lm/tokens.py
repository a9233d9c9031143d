"""Packed tokens without a framework: the file, and which rank gets which sequences of it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...core.outcomes import FAILED, RunError
from ...core.place import Place
from .architectures import ARCHITECTURES
from .settings import LanguageSettings

TRAIN, MANIFEST = "train.bin", "dataset.json"


class TokenFile:
    """A file of tokens, mapped into memory; ``dataset.json`` beside it says their type, else they are of 2 bytes."""

    def __init__(self, source: str, vocabulary: int, length: int) -> None:
        """Open ``source`` (the file, or its folder) for sequences of ``length`` tokens and the one after them.

        Raises ``RunError`` (failed) for a file that is not there, empty, cut, too short or of a larger vocabulary.
        """
        import numpy as np

        self._given = source, vocabulary, length
        path = Path(source)
        self._path = path / TRAIN if path.is_dir() else path
        self._vocabulary, self._length = vocabulary, length
        made = read_manifest(self._path.with_name(MANIFEST))
        kind = np.dtype(made.get("type", "uint16")).newbyteorder("<")
        try:
            size = self._path.stat().st_size
        except OSError as error:
            raise RunError(FAILED, f"cannot read {self._path}: {error.strerror}") from error
        wanted = made.get("spec", {}).get("tokens")
        if size % kind.itemsize or (wanted is not None and size != wanted * kind.itemsize):
            of = "" if wanted is None else f" of {wanted * kind.itemsize}"
            raise RunError(FAILED, f"{self._path} is cut: it has {size}{of} bytes, {kind.itemsize} a token")
        tokens = size // kind.itemsize
        if tokens < length + 1:
            raise RunError(
                FAILED,
                f"{self._path} has {tokens} tokens, too few for one sequence of {length} and the token after it",
            )
        if made.get("vocabulary", 0) > vocabulary:
            raise RunError(
                FAILED,
                f"{self._path} has a vocabulary of {made['vocabulary']}, the model one of {vocabulary}",
            )
        self._tokens = np.memmap(self._path, kind, "r")
        self.sequences = (tokens - 1) // length

    def rows(self, numbers: Any) -> Any:
        """Return the sequences of these numbers, (len(numbers), length + 1) in int64.

        Raises ``RunError`` (failed) for a token outside of the model's vocabulary, naming where it is.
        """
        import numpy as np

        rows = np.empty((len(numbers), self._length + 1), np.int64)
        for row, number in zip(rows, numbers):
            start = int(number) * self._length
            row[:] = self._tokens[start : start + self._length + 1]
        if rows.max() >= self._vocabulary:
            place, within = np.unravel_index(int(rows.argmax()), rows.shape)
            raise RunError(
                FAILED,
                f"token {int(numbers[place]) * self._length + int(within)} of {self._path} is {rows.max()}, "
                f"outside of the model's vocabulary of {self._vocabulary}",
            )
        return rows

    def batch(self, numbers: Any) -> tuple[Any, ...]:
        """Return the sequences of these numbers, as the task's batch has them."""
        return (self.rows(numbers),)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        """Let another process map the file itself: what is pickled of a map is the whole file."""
        return TokenFile, self._given


def read_manifest(path: Path) -> Any:
    """Return what a data set's manifest says; nothing where there is none."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise RunError(FAILED, f"{path} cannot be read: {error}") from error


def shard_batches(sequences: int, batch: int, place: Place, seed: int) -> Iterator[Any]:
    """Yield the numbers of the sequences of one rank's batches, without end.

    Each epoch is a new order of all sequences, drawn from the seed alone. Step k of all ranks uses the next global
    batch of the endless row of epochs, and each rank the part that its number gives it.
    """
    import numpy as np

    def order(epoch: int) -> Any:
        return np.random.RandomState([seed % 2**32, epoch]).permutation(sequences)

    start, epochs = place.rank * batch, {0: order(0)}
    while True:
        positions = np.arange(start, start + batch)
        numbers = np.empty(batch, np.int64)
        for epoch in range(int(positions[0]) // sequences, int(positions[-1]) // sequences + 1):
            if epoch not in epochs:
                epochs = {retained: epochs[retained] for retained in epochs if retained == epoch - 1}
                epochs[epoch] = order(epoch)
            within = positions // sequences == epoch
            numbers[within] = epochs[epoch][positions[within] % sequences]
        yield numbers
        start += batch * place.world_size


def token_file(settings: LanguageSettings) -> TokenFile:
    """Return the file that the settings name, for their model and length."""
    return TokenFile(settings.data, ARCHITECTURES[settings.model].vocabulary, settings.sequence_length)
