"""Data sets of clicks, as a suite can have them made."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from trainmark.schema.case import Count
from trainmark.schema.frozen import Frozen


class Form(StrEnum):
    """The forms of clicks on disk: records of 40 words, Examples in TFRecord files, columns of Parquet."""

    RAW = "raw"
    TFRECORD = "tfrecord"
    PARQUET = "parquet"


GIVEN = ("ofrecord", "nvtabular")
"""Forms that can only be given: OneFlow's OFRecord, and NVTabular's Parquet with its lists of files."""


class MakeClicks(Frozen):
    """A data set that trainmark makes itself when it is not there: see ``trainmark data make-clicks``."""

    samples: Count
    vocabulary: Annotated[int, Field(strict=True, ge=26)] = 2_322_444
    seed: Annotated[int, Field(strict=True, ge=0)] = 0
