"""Data sets of sequences with hidden words that a suite can create."""

from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field, model_validator

from trainmark.schema.case import Count
from trainmark.schema.frozen import Frozen
from trainmark.tasks.masked_lm.axes import with_usual_predictions


class Form(StrEnum):
    """The forms of masked sequences on disk: TFRecords with the features of BERT's published pre-processing."""

    MASKED = "masked-tfrecord"


GIVEN = ("hdf5", "ofrecord")
"""Forms that must already exist: HDF5 as NVIDIA's pre-processing writes it, and OneFlow's OFRecord."""


class MakeMasked(Frozen):
    """A data set that trainmark creates if it is missing; see ``trainmark data make-masked``."""

    sequences: Count
    sequence_length: Count = 128
    predictions: Count = 20
    vocabulary: Count = 30_522
    short: Annotated[int, Field(strict=True, ge=0, le=100)] = 10
    shards: Count = 4
    seed: Annotated[int, Field(strict=True, ge=0)] = 0

    @model_validator(mode="before")
    @classmethod
    def _hide(cls, given: Any) -> Any:
        return with_usual_predictions(given)
