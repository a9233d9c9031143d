"""Data sets of clicks that a suite can create."""

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
"""Forms that must already exist: OneFlow's OFRecord, and NVTabular's Parquet with its lists of files."""


class MakeClicks(Frozen):
    """A data set that trainmark creates if it is missing; see ``trainmark data make-clicks``."""

    samples: Count
    vocabulary: Annotated[int, Field(strict=True, ge=26)] = 2_322_444
    seed: Annotated[int, Field(strict=True, ge=0)] = 0
