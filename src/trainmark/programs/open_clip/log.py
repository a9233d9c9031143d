"""OpenCLIP (``open_clip_train/train.py``).

    2024-03-31,13:11:52 | INFO | Train Epoch: 0 [ 102400/10968539 (1%)] Data (t): 0.125 Batch (t): 0.913, 1121.5/s,
    140.2/s/gpu LR: 0.000005 Logit Scale: 14.286 …

The first rate is that of all devices in the last step before the line; the time before it is the mean of the steps
since the previous line. The counter in brackets counts samples of all devices, which give the rate of all steps with
the time stamps.
"""

import re

from trainmark.logs.format import Format, LogContext, config_lines, parse_setting, unknown_end
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Meaning, Scope
from trainmark.schema.precision import Precision

_CONFIG = re.compile(rb"\| INFO \| +(\w+): ([^\n]+)")
_PRECISIONS = {
    "amp": Precision.AMP_FP16,
    "amp_bf16": Precision.AMP_BF16,
    "amp_bfloat16": Precision.AMP_BF16,
    "bf16": Precision.BF16,
    "fp16": Precision.FP16,
    "pure_bf16": Precision.BF16,
    "pure_fp16": Precision.FP16,
    "fp32": Precision.FP32,
}


def parameters(context: LogContext) -> dict[str, str]:
    """Return the printed arguments."""
    return config_lines(context, _CONFIG)


def facts(context: LogContext) -> Facts:
    """Read the printed arguments; the batch is that of one device."""
    words = parameters(context)
    return Facts(
        model=words.get("model"),
        precision=_PRECISIONS.get(words.get("precision", "")),
        gpus=parse_setting(words, "world_size"),
        batch_per_device=parse_setting(words, "batch_size"),
        accumulation=parse_setting(words, "accum_freq"),
        hardware=read_hardware(context.text),
    )


FORMAT = Format(
    name="open-clip",
    title="OpenCLIP",
    framework="pytorch",
    unit="samples/s",
    scope=Scope.GLOBAL,
    meaning=Meaning.SAMPLED,
    records=(
        re.compile(
            rb"(?P<stamp>\d{4}-\d\d-\d\d,\d\d:\d\d:\d\d) \| INFO \| Train Epoch: (?P<epoch>\d+) "
            rb"\[ *(?P<step>\d+)/\d+ \([^)\n]*\)\][^\n]*? Batch \(t\): [\d.]+(?:, (?P<rate>[\d.]+)/s|\s)"
        ),
    ),
    mark=re.compile(rb"\| INFO \| (?:Train Epoch: \d+ \[|Start epoch \d+)"),
    parameters=parameters,
    facts=facts,
    end_state=unknown_end,
    counts_samples=True,
    header=re.compile(rb"\| INFO \| Params:|Running with a single process|Running in distributed mode"),
)
