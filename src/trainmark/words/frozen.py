"""The base of every frozen document: nothing in it changes, and nothing unknown is in it."""

from pydantic import BaseModel, ConfigDict


class Frozen(BaseModel):
    """A document that is made once and only read from then on; an unknown field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")
