"""Masked language modelling: predicting hidden words in a batch of token sequences."""

from typing import TYPE_CHECKING

from trainmark.tasks.declaration import AxisLabel, Model, Task
from trainmark.tasks.masked_lm.axes import GIVEN, Form, MakeMasked, MaskedAxes, Optimizer

if TYPE_CHECKING:
    from trainmark.tasks.equal_work import EqualWork

__all__ = ["TASK", "MaskedAxes", "Optimizer"]


def _equal_work() -> "EqualWork":
    from trainmark.tasks.masked_lm.equal_work import MaskedEqualWork

    return MaskedEqualWork()


TASK = Task(
    name="masked-lm",
    en="masked language modelling",
    zh="掩码语言模型",
    axes=MaskedAxes,
    counters=("sequences", "tokens", "tokens_without_padding"),
    models={
        "bert_base": Model(short="bert-base", published="BERT-base"),
        "bert_tiny": Model(short="bert-tiny", published="BERT-tiny"),
    },
    labels={
        "sequence_length": AxisLabel("sequence length", "序列长度", value="{} tokens", short="{}tok"),
        "predictions": AxisLabel("predictions", "预测词数", short="{}pred"),
        "padding": AxisLabel("padding", "填充", value="{} %", short="{}pad"),
        "optimizer": AxisLabel("optimizer", "优化器"),
        "accumulation": AxisLabel("accumulation", "梯度累积", short="acc{}"),
    },
    unit_aliases=frozenset({"sentence", "sample", "example", "seq"}),
    data_kind="masked",
    make=MakeMasked,
    forms=(*Form, *GIVEN),
    fixed_axes=("optimizer",),
    equal_work=_equal_work,
)
