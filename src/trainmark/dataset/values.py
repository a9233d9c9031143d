"""Parse the values of a data set to create, with error messages that name the key."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from trainmark.errors import InputError, nearest, plain_message
from trainmark.schema.frozen import Frozen

Spec = TypeVar("Spec", bound=Frozen)


def parse_spec(model: type[Spec], values: Mapping[str, Any], where: str) -> Spec:
    """Return the spec described by ``values``; raise ``InputError`` that begins with ``where`` for invalid ones."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        message = plain_message(first["msg"])
        if first["type"] == "extra_forbidden":
            message = f"is not a key of a made data set{nearest(key, model.model_fields)}"
        raise InputError(": ".join(part for part in (where, key, message) if part)) from None
