"""Causal language modelling: predicting the next token at every place of a batch of token sequences."""

from typing import TYPE_CHECKING

from trainmark.tasks.causal_lm.axes import GIVEN, Form, LanguageAxes, MakeTokens
from trainmark.tasks.declaration import AxisLabel, Model, Task

if TYPE_CHECKING:
    from trainmark.tasks.equal_work import EqualWork

__all__ = ["TASK", "LanguageAxes"]


def _equal_work() -> "EqualWork":
    from trainmark.tasks.causal_lm.equal_work import LanguageEqualWork

    return LanguageEqualWork()


TASK = Task(
    name="causal-lm",
    en="causal language modelling",
    zh="因果语言模型",
    axes=LanguageAxes,
    counters=("tokens", "sequences", "useful_tokens"),
    models={
        "gpt2_124m": Model(short="gpt2", published="GPT2-124M"),
        "gpt2_tiny": Model(short="gpt2tiny", published="GPT2-tiny"),
        "llama3.2_1b": Model(short="llama1b", published="Llama-3.2-1B"),
        "llama3.2_3b": Model(short="llama3b", published="Llama-3.2-3B"),
        "llama_tiny": Model(short="llamatiny", published="Llama-tiny"),
    },
    labels={
        "sequence_length": AxisLabel("sequence length", "序列长度", value="{} tokens", short="{}tok"),
        "accumulation": AxisLabel("accumulation", "梯度累积", short="acc{}"),
        "parallel": AxisLabel("parallel", "并行方式"),
        "activation_checkpointing": AxisLabel("activation checkpointing", "激活重计算", short="ac{}"),
        "packing": AxisLabel("packing", "打包", short="packing {}"),
    },
    data_kind="tokens",
    fixed_axes=("packing",),
    make=MakeTokens,
    forms=(*Form, *GIVEN),
    equal_work=_equal_work,
)
