"""The axes of recommendation."""

from enum import StrEnum

from trainmark.schema.case import Count
from trainmark.schema.task_catalogue import TaskAxes


class TableGradients(StrEnum):
    """The rows of a table's gradient: all of them, or those that the batch looked up."""

    DENSE = "dense"
    SPARSE = "sparse"


class ClickAxes(TaskAxes):
    """``vocabulary``: the rows of both tables, of DLRM's 26 together; ``embedding_width``: of the deep ones.

    The defaults are DLPerf's rows and the default width of the program that it measures. Together with 7 layers they
    are no row of its tables: there 7 layers go with a width of 32, and a width of 16 with 2 layers. DLRM's width is
    MLPerf's, 128. With ``table_gradients`` sparse, Adam leaves alone the rows that were not looked up: another
    training; of plain SGD it is the same one.
    """

    vocabulary: Count = 2_322_444
    embedding_width: Count = 16
    table_gradients: TableGradients = TableGradients.DENSE

    def id_words(self, compiler: str) -> tuple[str, ...]:
        """Return the compiler, ``2322444rows`` and ``emb16``; ``sparse`` where the gradients are."""
        sparse = self.table_gradients is TableGradients.SPARSE
        rows = f"{self.vocabulary}rows", f"emb{self.embedding_width}"
        return compiler, *rows, *([self.table_gradients.value] if sparse else [])
