"""The axes of recommendation, and the data sets of clicks that a suite can create."""

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from trainmark.schema.frozen import Count, Frozen
from trainmark.tasks.declaration import TaskAxes


class TableGradients(StrEnum):
    """The rows of a table's gradient: all of them, or those that the batch looked up."""

    DENSE = "dense"
    SPARSE = "sparse"


class ClickAxes(TaskAxes):
    """The axes; ``vocabulary``: rows of both tables (DLRM: of all 26); ``embedding_width``: that of the deep ones.

    The defaults are DLPerf's number of rows, and the default width of the program that it measures. With 7 layers, this
    combination is not in its tables: there, 7 layers have a width of 32, and 2 layers a width of 16. DLRM's width is
    MLPerf's, 128. With sparse ``table_gradients``, Adam does not change rows that were not looked up, which is another
    training; with plain SGD both trainings are the same.
    """

    vocabulary: Count = 2_322_444
    embedding_width: Count = 16
    table_gradients: TableGradients = TableGradients.DENSE

    def id_words(self, compiler: str) -> tuple[str, ...]:
        """Return the compiler, ``2322444rows`` and ``emb16``; ``sparse`` for sparse gradients."""
        sparse = self.table_gradients is TableGradients.SPARSE
        rows = f"{self.vocabulary}rows", f"emb{self.embedding_width}"
        return compiler, *rows, *([self.table_gradients.value] if sparse else [])


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
