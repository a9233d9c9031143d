"""The axes of recommendation."""

from trainmark.words.case import Count, TaskAxes


class ClickAxes(TaskAxes):
    """``vocabulary``: the rows of both tables; ``embedding_width``: of the deep one.

    The defaults are DLPerf's rows and the default width of the program that it measures. Together with 7 layers they
    are no row of its tables: there 7 layers go with a width of 32, and a width of 16 with 2 layers.
    """

    vocabulary: Count = 2_322_444
    embedding_width: Count = 16

    def id_words(self, compiler: str) -> tuple[str, ...]:
        """Return the compiler, ``2322444rows`` and ``emb16``."""
        return compiler, f"{self.vocabulary}rows", f"emb{self.embedding_width}"
