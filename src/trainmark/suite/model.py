"""A suite: what to measure, as its YAML file says it, and as its matrix expands to cases."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PositiveFloat,
    PositiveInt,
    Tag,
)

from trainmark.suite.case import Case, Count, Word
from trainmark.suite.naming import NamingScheme
from trainmark.suite.protocol import Protocol, ProtocolName

_SIZE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([kMGT]i?)?B?\s*$")
_UNITS = {None: 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_UNITS |= {f"{prefix}i": 2 ** (10 * power) for power, prefix in enumerate("kMGT", start=1)}


def _bytes(value: Any) -> Any:
    """Read ``8 GiB`` and its like as bytes; anything else is left to the type check."""
    if isinstance(value, str) and (match := _SIZE.match(value)):
        return int(float(match[1]) * _UNITS[match[2]])
    return value


class Limits(BaseModel):
    """What one run may take before it is stopped: seconds in all, seconds of silence, bytes of host memory."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    timeout_s: PositiveFloat = 3600.0
    stall_timeout_s: PositiveFloat = 900.0
    memory: Annotated[PositiveInt | None, BeforeValidator(_bytes)] = None


class MakeImages(BaseModel):
    """A data set that trainmark makes itself when it is not there: see ``trainmark data make``.

    ``validation`` is the number of validation pictures, 0 for none; None is the number that goes with ``images``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    images: Count
    classes: Count = 10
    seed: Annotated[int, Field(strict=True, ge=0)] = 0
    width: Count = 500
    height: Count = 375
    validation: Annotated[int, Field(strict=True, ge=0)] | None = None


class RecordForm(StrEnum):
    """The forms other than an image folder in which a data set can lie; see ``trainmark data convert``.

    OneFlow's ``ofrecord`` can only be given: nothing of ours makes it.
    """

    TFRECORD = "tfrecord"
    RECORDIO = "recordio"
    OFRECORD = "ofrecord"


class Dataset(BaseModel):
    """Where a data set lies (relative to the suite's file), and how to make it if it may be made.

    ``path`` is its image folder; ``formats`` are the folders where the same pictures lie in another form. A form that a
    program takes and that is not there is converted from the image folder, OFRecord excepted.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: str | None = None
    make: MakeImages | None = None
    formats: Mapping[RecordForm, str] = Field(default_factory=dict)


EACH_ITS_OWN = "auto"
"""The environment that is each framework's own."""

_ONE, _EACH = "str", "dict[str,str]"


def _how_given(value: Any) -> str:
    return _EACH if isinstance(value, Mapping) else _ONE


Environments = Annotated[
    Annotated[str, Tag(_ONE)] | Annotated[Mapping[Word, str], Tag(_EACH)], Discriminator(_how_given)
]
"""One environment for every case, or one for each framework."""


class Suite(BaseModel):
    """A suite as resolved: cases in the order in which they run, and all that their runs need.

    ``environment`` is ``auto`` (each framework's own, made by ``trainmark env create``), ``system`` (the Python that
    runs trainmark), ``docker`` or ``apptainer`` (the card's image), or the path of a Python interpreter, with a
    slash in it; or such a word or path by framework, ``auto`` for those that are not named.

    ``cards`` are files of further workload cards. ``equivalence`` asks for the certificate that several
    frameworks do equal work. Paths are relative to the suite's file. ``cases`` is the expanded matrix.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Word
    description: str = ""
    environment: Environments = EACH_ITS_OWN
    protocol: Protocol = Field(default_factory=lambda: Protocol.model_validate(ProtocolName.ADAPTIVE.value))
    limits: Limits = Limits()
    cards: tuple[str, ...] = ()
    datasets: Mapping[Word, Dataset] = Field(default_factory=dict)
    naming: NamingScheme = NamingScheme.CASE
    equivalence: bool = True
    cases: tuple[Case, ...]

    def environment_of(self, framework: str) -> str:
        """Return the word or path that says where a framework's cases run."""
        if isinstance(self.environment, str):
            return self.environment
        return self.environment.get(framework, EACH_ITS_OWN)
