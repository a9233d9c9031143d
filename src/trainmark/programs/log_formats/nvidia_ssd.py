"""NVIDIA DeepLearningExamples, PyTorch SSD (``PyTorch/Detection/SSD``) in its benchmark mode.

    Done benchmarking. Total images: 57000	total time: 88.202	Average images/sec: 646.242	Median images/sec: 646.354
    Training performance = 646.353759765625 FPS

The figures cover all devices after the benchmark's own warm-up. Without that mode the program prints only losses.
"""

import re
from collections.abc import Iterator

from trainmark.logs.format import (
    Format,
    LogContext,
    ends_with,
    namespace_arguments,
    parse_setting,
    search_integer,
)
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Problem, Scope
from trainmark.logs.precision import precision_from_switch
from trainmark.logs.synthetic import SampleRun, overall_rate
from trainmark.schema.precision import Precision


def facts(context: LogContext) -> Facts:
    """Read the printed Namespace; its ``batch_size`` is that of one device."""
    words, text = namespace_arguments(context), context.text
    return Facts(
        model="ssd",
        precision=precision_from_switch(words.get("amp", words.get("fp16")), Precision.AMP_FP16),
        gpus=parse_setting(words, "N_gpu") or search_integer(rb"\bN_gpu[=: ]+(\d+)", text),
        batch_per_device=parse_setting(words, "batch_size"),
        hardware=read_hardware(text),
    )


def doubts(context: LogContext) -> tuple[Problem, ...]:
    """Check the rate against the images and the time on the same line."""
    found = _DONE.findall(context.tail)
    if not found:
        return ()
    images, seconds, rate = map(float, found[-1])
    if abs(images - rate * seconds) <= _OFF * images:
        return ()
    sentence = f"{images:.0f} images in {seconds:.6g} s do not give the printed {rate:.6g} images/s"
    return (Problem("rate-contradicts-time", sentence),)


_OFF = 0.02
_DONE = re.compile(
    rb"Total images: (\d+)\s+total time: (\d+(?:\.\d+)?)\s+Average images/sec: (\d+(?:\.\d+)?)\s+Median "
)


FORMAT = Format(
    name="nvidia-ssd",
    title="NVIDIA SSD",
    framework="pytorch",
    unit="images/s",
    scope=Scope.GLOBAL,
    records=(),
    mark=re.compile(rb"Done benchmarking\. Total images: |Training performance = [\d.]+ FPS"),
    parameters=namespace_arguments,
    facts=facts,
    doubts=doubts,
    end_state=ends_with(re.compile(rb"Done benchmarking\. ")),
    figures={"summary": re.compile(rb"Average images/sec: ([\d.]+)\s+Median ")},
    without_records="the program prints its rate only at the end of its benchmark",
    header=re.compile(rb"Namespace\(|loading annotations|index"),
    fp16=Precision.AMP_FP16,
)


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield f"Namespace(N_gpu={run.gpus}, amp={run.amp}, batch_size={run.batch_per_device})"
    images, seconds = len(run.step_times_s) * run.global_batch, sum(run.step_times_s)
    yield (
        f"Done benchmarking. Total images: {images}\ttotal time: {seconds:.3f}\t"
        f"Average images/sec: {overall_rate(run):.3f}\tMedian images/sec: {overall_rate(run):.3f}"
    )
