"""TensorFlow 2 official models (``TimeHistory`` of ``official/utils/misc/keras_utils.py``).

    I0605 12:11:40.123 140 keras_utils.py:145] TimeHistory: 30.5 seconds, 4196 examples/second between steps 0 and 500

The rate is global (the callback gets the global batch) and covers exactly the named steps. The first record includes
the graph's compilation. ``Run stats:`` ends the log.
"""

import re

from trainmark.logs.format import Format, LogContext, ends_with, search_integer, search_word
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Scope
from trainmark.schema.case import Precision


def facts(context: LogContext) -> Facts:
    """Read the flags, if printed; their batch is global."""
    text = context.text
    gpus = search_integer(rb"['\"]?num_gpus['\"]?[=: ]+(\d+)", text)
    batch = search_integer(rb"['\"]?(?:global_batch_size|batch_size)['\"]?[=: ]+(\d+)", text)
    dtype = search_word(rb"(?:['\"]?mixed_precision_dtype|['\"]?dtype)['\"]?[=: ]+['\"]?(\w+)", text)
    known = {
        "fp16": Precision.AMP_FP16,
        "float16": Precision.AMP_FP16,
        "mixed_float16": Precision.AMP_FP16,
        "bf16": Precision.AMP_BF16,
        "bfloat16": Precision.AMP_BF16,
        "fp32": Precision.FP32,
        "float32": Precision.FP32,
    }
    return Facts(
        precision=known.get(dtype or ""),
        gpus=gpus,
        batch_per_device=batch // gpus if batch and gpus and batch % gpus == 0 else None,
        hardware=read_hardware(text),
    )


FORMAT = Format(
    name="tensorflow-models",
    title="TensorFlow official models",
    framework="tensorflow",
    unit="example/s",
    scope=Scope.GLOBAL,
    records=(
        re.compile(
            rb"TimeHistory: (?P<seconds>\S+) seconds, (?P<rate>\S+) examples/second "
            rb"between steps \d+ and (?P<step>\d+)\s"
        ),
    ),
    mark=re.compile(rb"TimeHistory: "),
    facts=facts,
    end_state=ends_with(re.compile(rb"Run stats:")),
)
