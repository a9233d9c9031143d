"""``results.json`` on disk: written in one piece, read with one line of complaint."""

from pathlib import Path

from pydantic import ValidationError

import trainmark.tasks  # noqa: F401 (the cases of a document are read by their tasks)
from trainmark.errors import InputError
from trainmark.files import write_atomically
from trainmark.words.results import SCHEMA, Results


def write_results(path: Path, results: Results) -> None:
    """Write ``results.json`` in one piece."""
    write_atomically(path, results.model_dump_json(indent=1) + "\n")


def read_results(path: Path) -> Results:
    """Read ``results.json``; raise ``InputError`` when it is not there or not of this schema."""
    try:
        return Results.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path}: not there; is it the --out directory of a trainmark run?") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{path}: not a {SCHEMA} document: {place}: {first['msg']}") from None
