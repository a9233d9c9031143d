"""DeepSpeed's ``ThroughputTimer`` (``deepspeed/utils/timer.py``) and DeepSpeed-Chat's third step.

    [2023-04-18 03:36:02,683] [INFO] [timer.py:199:stop] epoch=0/micro_step=10/global_step=10,
    RunningAvgSamplesPerSec=265.3, CurrSamplesPerSec=265.4, MemAllocated=4.34GB, …
    |E2E latency=3.17s |Gather latency=0.00s (0.00%) |… |CurSamplesPerSec=10.09 |AvgSamplesPerSec=9.87
    steps: 10 loss: 2.3000 iter time (s): 0.500 samples/sec: 64.000
    step:    10 /  5000 loss: 2.3000 iter time (s): 0.500 samples/sec: 64.000 eta: 41m

Both rates cover all devices. The first is the average over all steps but the first two, the second that of the last
step (until 2022 only ``SamplesPerSec``, the average, was printed). They time a step from its forward pass to its
update, without waiting for data between steps. Until 0.8 it could be the rate of micro-batches (issue 2498). The
third step of DeepSpeed-Chat trains two models; its own line times both and takes precedence. The last two lines are the
pipeline engine's, the mean of the steps since the previous line; diffusion-pipe's engine prints the second.
"""

import re
from collections.abc import Iterator

from trainmark.logs.format import Format, LogContext, ends_with, parse_setting, search_integer
from trainmark.logs.model import Facts, Meaning, Problem, Scope, Severity, read_hardware
from trainmark.logs.synthetic import SampleRun, lines_of
from trainmark.schema.precision import Precision

_CONFIG = re.compile(rb"\] +(\w+) \.{2,} ?([^\n]+)|print\] +(\w+)  ([^\n]+)")
_STAMP = rb"\[(?P<stamp>\d{4}-\d\d-\d\d [\d:,]+)\] \[INFO\] \[timer\.py:\d+:stop\] "


def parameters(context: LogContext) -> dict[str, str]:
    """Return the configuration, as printed between dots."""
    # Dots fill the line up to a column, so a long name has none.
    lines = reversed(_CONFIG.findall(context.text))  # the first value of a name wins
    found = {key or long: value or last for key, value, long, last in lines}
    return {key.decode(): value.decode("utf-8", "replace").strip() for key, value in found.items()}


def facts(context: LogContext) -> Facts:
    """Read the configuration; the batch of one step is global."""
    words = parameters(context)
    return Facts(
        precision=_precision(words),
        gpus=parse_setting(words, "world_size")
        or search_integer(rb"\[launch\.py:\d+:main\] dist_world_size=(\d+)", context.text),
        batch_per_device=parse_setting(words, "train_micro_batch_size_per_gpu"),
        accumulation=parse_setting(words, "gradient_accumulation_steps"),
        global_batch=parse_setting(words, "train_batch_size"),
        hardware=read_hardware(context.text),
    )


def _precision(words: dict[str, str]) -> Precision | None:
    halves = {"bfloat16_enabled": Precision.BF16, "fp16_enabled": Precision.FP16}
    for key, precision in halves.items():
        if words.get(key) == "True":
            return precision
    return Precision.FP32 if words.get("fp16_enabled") == "False" else None


def doubts(context: LogContext) -> tuple[Problem, ...]:
    """Return what the timer leaves out or miscounts, and whether each of two engines has its own timer."""
    text = context.text
    if b"E2E latency=" in text:
        return ()
    if re.search(rb"PPO Epoch|ppo_ep: |Actor Loss|act_loss: ", text):
        sentence = "two models are trained in turn and each engine times its own steps: no rate covers both"
        return (Problem("several-engines", sentence),)
    if not (timed := _TIMED.search(context.tail)):
        return ()
    sentence = "the program's timer leaves out the time between steps: the rate excludes waiting for data"
    found = [Problem("data-left-out", sentence, Severity.NOTE)]
    # A log whose start is missing has a doubt already.
    if not timed[1] and facts(context).global_batch is None and _HEADER.search(text):
        sentence = (
            "before version 0.8 the rate could be that of micro-batches (deepspeed issue 2498), and without the "
            "printed configuration it cannot be checked against the time stamps"
        )
        found.append(Problem("unit-unclear", sentence))
    return tuple(found)


_HEADER = re.compile(rb"DeepSpeed info: version|cmd = deepspeed|\[runner\.py|DeepSpeedEngine configuration")
_TIMED = re.compile(rb"\[timer\.py:\d+:stop\] (epoch=\d+/micro_step=)?")

FORMAT = Format(
    name="deepspeed",
    title="DeepSpeed",
    framework="pytorch",
    unit="samples/s",
    scope=Scope.GLOBAL,
    meaning=Meaning.SAMPLED,
    records=(
        re.compile(
            _STAMP + rb"epoch=\d+/micro_step=\d+/global_step=(?P<step>\d+), "
            rb"RunningAvgSamplesPerSec=(?P<average_rate>[^\s,]+), CurrSamplesPerSec=(?P<rate>[^\s,]+),"
        ),
        re.compile(
            _STAMP + rb"\d+/(?P<step>\d+), "
            rb"RunningAvgSamplesPerSec=(?P<average_rate>[^\s,]+), CurrSamplesPerSec=(?P<rate>[^\s,]+),"
        ),
        re.compile(_STAMP + rb"\d+/(?P<step>\d+), SamplesPerSec=(?P<average_rate>[^\s,]+),"),
        re.compile(rb"E2E latency=(?P<step_time_s>[\d.]+)s [^\n]*\|CurSamplesPerSec=(?P<rate>[\d.]+) \|"),
        re.compile(
            rb"steps?: +(?P<step>\d+) (?:/ +\d+ )?loss: [^\n]*?iter time \(s\): (?P<step_time_s>[\d.]+) "
            # GPT-NeoX prints Megatron-LM's line after it.
            rb"samples/sec: (?P<rate>[\d.]+)\s(?!(?:[^\n]*\n){0,8}?[^\n]*\| learning rate)"
        ),
    ),
    overall=3,
    mark=re.compile(
        rb"SamplesPerSec=|iter time \(s\): [\d.]+ samples/sec: |\[deepspeed\] |DeepSpeed info: version"
    ),
    parameters=parameters,
    facts=facts,
    doubts=doubts,
    end_state=ends_with(re.compile(rb"exits successfully")),
    averages_from=2,
    header=_HEADER,
)


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    stamp = f"[{run.start:%Y-%m-%d %H:%M:%S},000] [INFO]"
    yield f"{stamp} [logging.py:96:log_dist] [Rank 0] DeepSpeed info: version=0.14.0"
    settings = {
        "fp16_enabled": run.amp,
        "gradient_accumulation_steps": 1,
        "train_batch_size": run.global_batch,
        "train_micro_batch_size_per_gpu": run.batch_per_device,
        "world_size": run.gpus,
    }
    for name, value in settings.items():
        yield f"{stamp} [config.py:1000:print]   {name} {'.' * (30 - len(name))} {value}"
    first = sum(run.step_times_s[:2])
    for line in lines_of(run):
        if line.step <= 2:
            continue
        average = (line.step - 2) * run.global_batch / (line.elapsed_s - first)
        yield (
            f"[{line.clock:%Y-%m-%d %H:%M:%S},{line.clock.microsecond // 1000:03d}] [INFO] [timer.py:260:stop] "
            f"epoch=0/micro_step={line.step}/global_step={line.step}, RunningAvgSamplesPerSec={average}, "
            f"CurrSamplesPerSec={run.global_batch / line.last_step_time_s}, MemAllocated=4.34GB, "
            "MaxMemAllocated=12.81GB"
        )
    yield f"{stamp} [launch.py:460:main] Process 10392 exits successfully."
