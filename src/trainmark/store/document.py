"""Reading ``results.json``: checked, with one-line errors."""

from pathlib import Path

from pydantic import ValidationError

from trainmark.errors import InputError, plain_message
from trainmark.schema.results import SCHEMA, Results
from trainmark.store.consistency import contradiction
from trainmark.store.sources import no_results


def read_results(path: Path) -> Results:
    """Read ``results.json``; raise ``InputError`` if it is missing, not of this schema, or contradicts itself."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise no_results(path) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    return parse_results(content, str(path))


def is_newer(schema: object) -> bool:
    """Return whether the name of a schema is that of a later version of the results' schema."""
    name, _, version = str(schema).rpartition("/")
    ours, _, our_version = SCHEMA.rpartition("/")
    return name == ours and version.isdecimal() and int(version) > int(our_version)


def parse_results(content: bytes, path: str) -> Results:
    """Read a results document; raise ``InputError``, which names it as ``path``, as ``read_results`` does."""
    try:
        results = Results.model_validate_json(content)
    except ValidationError as error:
        first = error.errors()[0]
        if first["loc"] == ("schema_name",) and is_newer(first["input"]):
            raise InputError(
                f"{path}: a {first['input']} document of a newer trainmark; this one reads {SCHEMA}: update trainmark"
            ) from None
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{path}: not a {SCHEMA} document: {place}: {plain_message(first['msg'])}") from None
    if (found := contradiction(results)) is not None:
        raise InputError(f"{path}: {found}")
    return results
