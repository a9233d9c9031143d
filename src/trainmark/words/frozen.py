"""The base of every document: data that does not change, and refuses a field that it does not know."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A document: frozen, and strict about its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")
