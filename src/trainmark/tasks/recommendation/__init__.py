"""Recommendation: predicting clicks from batches of samples with dense and categorical fields."""

from typing import TYPE_CHECKING

from trainmark.tasks.declaration import AxisLabel, Model, Task
from trainmark.tasks.recommendation.axes import GIVEN, ClickAxes, Form, MakeClicks

if TYPE_CHECKING:
    from trainmark.tasks.equal_work import EqualWork

__all__ = ["TASK", "ClickAxes"]


def _equal_work() -> "EqualWork":
    from trainmark.tasks.recommendation.equal_work import ClickEqualWork

    return ClickEqualWork()


TASK = Task(
    name="recommendation",
    en="recommendation",
    zh="推荐",
    axes=ClickAxes,
    counters=("samples",),
    models={
        "wide_deep": Model(short="wdl", published="wide_deep"),
        "wide_deep_tiny": Model(short="wdltiny", published="wide_deep_tiny"),
        "dlrm": Model(short="dlrm", published="dlrm", axes={"embedding_width": 128}),
        "dlrm_tiny": Model(short="dlrmtiny", published="dlrm_tiny"),
    },
    labels={
        "vocabulary": AxisLabel("vocabulary", "词表大小", value="{} rows", short="{}rows"),
        "embedding_width": AxisLabel("embedding width", "嵌入宽度", short="emb{}"),
        "table_gradients": AxisLabel("table gradients", "表梯度", short="{} gradients"),
    },
    # With SGD both give the same update; certificates check dense gradients.
    fixed_axes=("table_gradients",),
    data_kind="clicks",
    make=MakeClicks,
    forms=(*Form, *GIVEN),
    equal_work=_equal_work,
)
