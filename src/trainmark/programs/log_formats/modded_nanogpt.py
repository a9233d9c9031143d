"""modded-nanogpt (``train_gpt.py``), whose log begins with the program's own source.

    step:20/5100 train_loss:6.9812 train_time:2311ms step_avg:231.10ms
    step:21/1770 train_time:2542ms step_avg:121.05ms

``train_time`` excludes evaluation and, until 2024, the first ten steps. The tokens of one step come from the source at
the log's start; if it does not have them, or the batch grows on a schedule, there is no rate.
"""

import re
from collections.abc import Iterator
from math import prod

from trainmark.logs.format import Format, LogContext, ends_with, search_word
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Scope
from trainmark.logs.synthetic import SampleRun, lines_of

_PRODUCT = rb" ?(?:: ?int)? ?= ?(\d+(?: ?\* ?\d+)*)\s"


def facts(context: LogContext) -> Facts:
    """Read the global tokens per step from the source, and the device from the table of ``nvidia-smi``."""
    return Facts(
        model="gpt2",
        global_batch=_tokens(context.head),
        batch_per_device=_tokens_of_device(context.head),
        hardware=read_hardware(context.text),
    )


def _tokens(source: bytes) -> int | None:
    if re.search(rb"batch_size_schedule|train_bs_schedule|get_bs\(|TRAINING_STAGES", source):
        return None
    # batch_size = 8*64*1024 # batch size in tokens
    if found := re.search(rb"\n    batch_size" + _PRODUCT + rb"*# batch size in tokens", source):
        return prod(int(factor) for factor in found[1].split(b"*"))
    batch, length = _product(rb"\n    batch_size", source), _product(rb"\n    sequence_length", source)
    if batch and length:
        return batch * length
    length = _product(rb"\n    train_seq_len", source)
    if length and re.search(rb"assert world_size == 8|8 // world_size", source):
        return 8 * length
    return None


def _tokens_of_device(source: bytes) -> int | None:
    """Return the tokens of one device, of a source that multiplies them with the number of devices."""
    if not re.search(rb"train_files, world_size \* args\.seq_len\b", source):
        return None
    return _product(rb"\n    seq_len", source)


def _product(name: bytes, source: bytes) -> int | None:
    word = search_word(name + _PRODUCT, source)
    return prod(int(factor) for factor in word.split("*")) if word else None


FORMAT = Format(
    name="modded-nanogpt",
    title="modded-nanogpt",
    framework="pytorch",
    unit="tokens/s",
    scope=Scope.GLOBAL,
    records=(
        re.compile(
            rb"step:(?P<step>\d+)/\d+ (?:train_loss:\S+ )?train_time:(?P<clock_ms>[\d.]+)ms step_avg:[\d.na]+ms\s"
        ),
    ),
    mark=re.compile(rb"step:\d+/\d+ (?:train_loss:\S+ |val_loss:\S+ )?train_time:"),
    facts=facts,
    # The source at the start of the log has the first words of the last line.
    end_state=ends_with(re.compile(rb"^peak memory [^\n{]*\d MiB|step:(\d+)/\1 ", re.MULTILINE)),
    header=re.compile(rb"class Hyperparameters|^import os"),
)


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    yield "class Hyperparameters:"
    yield f"    batch_size : int = {run.gpus}*{run.batch_per_device} # batch size, in sequences, across all devices"
    yield "    sequence_length : int = 1 # sequence length, in tokens"
    yield "    num_iterations : int = 5100"
    total = len(run.step_times_s)
    for line in lines_of(run):
        mean = line.elapsed_s / line.step
        yield (
            f"step:{line.step}/{total} train_loss:6.9812 train_time:{line.elapsed_s * 1000:.0f}ms "
            f"step_avg:{mean * 1000:.2f}ms"
        )
    yield "peak memory consumption: 33798 MiB"
