"""The values that somebody gives for a made data set: those that cannot be used are told by name."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import ValidationError

from trainmark.errors import InputError, nearest
from trainmark.schema.frozen import Frozen

Spec = TypeVar("Spec", bound=Frozen)


def spec_of(model: type[Spec], values: Mapping[str, Any], where: str) -> Spec:
    """Return the spec that ``values`` describe; unusable ones raise ``InputError``, which begins with ``where``."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        said = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            said = f"is not a key of a made data set{nearest(key, model.model_fields)}"
        raise InputError(": ".join(part for part in (where, key, said) if part)) from None
