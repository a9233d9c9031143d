"""NVIDIA NeMo (its Megatron-based trainings; ``nemo/lightning/pytorch/callbacks/progress_printer.py``).

    Training epoch 0, iteration 45/99 | lr: 6.897e-06 | global_batch_size: 128 | global_step: 45 |
    reduced_train_loss: 11.96 | train_step_timing in s: 6.08 | TFLOPS_per_GPU: 1.249e+03 | consumed_samples: 5888
    Epoch 0: :  15%|▏ | 45/300 [… v_num=, reduced_train_loss=11.0, global_step=44.00, consumed_samples=5760.0,
    train_step_timing in s=6.08]

The time is that of one iteration with the batch of all devices: the last one, if lines are further apart. The bar of
NeMo 1 has no batch: it is the configuration's ``global_batch_size``; of several (validation has its own) the one by
which ``consumed_samples`` rise. Its counters have three digits, so steps are read from the bar.
"""

import re
from collections.abc import Iterator

from trainmark.logs.format import Format, LogContext, ends_with, search_integer
from trainmark.logs.model import Facts, Meaning, Scope, read_hardware
from trainmark.logs.synthetic import SampleRun, lines_of
from trainmark.schema.precision import Precision


def facts(context: LogContext) -> Facts:
    """Read the configuration dump and the trainer's lines."""
    text = context.text
    nodes = search_integer(rb"\bnum_nodes: (\d+)", text)
    devices = search_integer(rb"\n *devices: (\d+)\n", text)
    started = search_integer(rb"Starting with (\d+) processes", text)
    precision = None
    if re.search(rb"precision: '?bf16(?:-mixed)?'?\s|Using bfloat16 Automatic|using bf16-mixed", text):
        precision = Precision.AMP_BF16
    elif re.search(rb"precision: '?16(?:-mixed)?'?\s|Using 16bit[^\n]*Automatic", text):
        precision = Precision.AMP_FP16
    return Facts(
        precision=precision,
        nodes=nodes,
        gpus=started or (nodes * devices if nodes and devices else None),
        global_batch=_global_batch(context),
        hardware=read_hardware(text),
    )


def _global_batch(context: LogContext) -> int | None:
    """Return the global batch: of several in the configuration the one by which consumed samples rise."""
    configured = {int(word) for word in re.findall(rb"\bglobal_batch_size[:=] ?(\d{1,9})\s", context.text)}
    counts = [(float(step), float(samples)) for step, samples in _CONSUMED.findall(context.tail)]
    steps, samples = (counts[-1][i] - counts[0][i] for i in (0, 1)) if counts else (0.0, 0.0)
    if steps <= 0:
        return configured.pop() if len(configured) == 1 else None
    # A counter is printed with three digits: the difference of two is less precise.
    batch = samples / steps
    slack = 0.02 + 0.01 * counts[-1][1] / max(samples, 1.0)
    near = [size for size in configured if abs(batch / size - 1) < slack]
    if near or configured:
        return min(near, key=lambda size: abs(batch - size), default=None)
    return round(batch) if abs(batch - round(batch)) < 1e-6 and counts[-1][1] < _EXACT else None


_CONSUMED = re.compile(
    rb"\bglobal_step=(\d+(?:\.\d+)?(?:e\+\d+)?), [^\n]*?consumed_samples=(\d+(?:\.\d+)?(?:e\+\d+)?)[,\]]"
)
_EXACT = 1000
"""Counters below this value are printed exactly."""


FORMAT = Format(
    name="nemo",
    title="NeMo",
    framework="pytorch",
    unit="samples/s",
    scope=Scope.GLOBAL,
    meaning=Meaning.SAMPLED,
    records=(
        re.compile(
            rb"Training epoch (?P<epoch>\d+), iteration \d+/\d+ \|[^\n]*? global_batch_size: (?P<batch>\d+) \| "
            rb"global_step: (?P<step>\d+) \|[^\n]*? train_step_timing in s: (?P<step_time_s>[\d.e+-]+) \|"
            rb"[^\n]*? consumed_samples: (?P<consumed>\d+)(?=\D)"
        ),
        re.compile(
            rb"Training epoch (?P<epoch>\d+), iteration \d+/\d+ \|[^\n]*? global_batch_size: (?P<batch>\d+) \| "
            rb"global_step: (?P<step>\d+) \|[^\n]*? train_step_timing in s: (?P<step_time_s>[\d.e+-]+)\s"
        ),
        re.compile(
            rb"Epoch (?P<epoch>\d+): [^\n]*?\| *(?P<step>\d+)/(?:\d+|\?) \[[^\n]*? global_step=[^\n]*? "
            rb"consumed_samples=(?P<consumed>[\d.e+-]+), [^\n]*?train_step_timing in s=(?P<step_time_s>[\d.e+-]+)[,\]]"
        ),
        re.compile(
            rb"Epoch (?P<epoch>\d+): [^\n]*?\| *(?P<step>\d+)/(?:\d+|\?) \[[^\n]*? global_step=[^\n]*?"
            rb"train_step_timing in s=(?P<step_time_s>[\d.e+-]+)[,\]]"
        ),
    ),
    mark=re.compile(rb"\[NeMo [IW] \d{4}|train_step_timing in s"),
    facts=facts,
    end_state=ends_with(re.compile(rb"`Trainer\.fit` stopped: ")),
    figures={"tflops": re.compile(rb"TFLOPS_per_GPU: ([\d.e+]+) ")},
    samples_of_step=True,
    warmup_steps=5,
    header=re.compile(rb"\[NeMo I|GPU available"),
)


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield f"[NeMo I {run.start:%Y-%m-%d %H:%M:%S} nemo_logger:145] Experiments will be logged"
    yield f"All distributed processes registered. Starting with {run.gpus} processes"
    if run.amp:
        yield "Using 16bit Automatic Mixed Precision (AMP)"
    total = len(run.step_times_s)
    for line in lines_of(run):
        yield (
            f"Training epoch 0, iteration {line.step - 1}/{total - 1} | lr: 6.897e-06 | "
            f"global_batch_size: {run.global_batch} | global_step: {line.step - 1} | reduced_train_loss: 11.96 | "
            f"train_step_timing in s: {line.last_step_time_s:.4g} | consumed_samples: {line.step * run.global_batch}"
        )
    yield "`Trainer.fit` stopped: `max_steps=100` reached."
