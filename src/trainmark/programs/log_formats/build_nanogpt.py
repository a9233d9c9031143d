"""build-nanogpt (``train_gpt2.py``), nanochat (``scripts/base_train.py``) and llm.c (``train_gpt2.cu``).

    step    10 | loss: 6.981234 | lr 6.0000e-04 | norm: 0.2900 | dt: 338.59ms | tok/sec: 1548432.10
    step 00010/21400 (0.05%) | loss: 8.1 | grad norm: 0.1 | lrm: 1.00 | dt: 440.12ms | tok/sec: 1,190,000 | mfu: 48.0 …

    step   10/18865 | loss 8.716 (+0.00z)| norm 4.5 (+0.00z)| lr 1.29e-05 | 230.11 ms | 58.0% bf16 MFU | 2278384 tok/s

``tok/sec`` covers all devices and one step; each step has its line. llm.c's ``tok/s`` is a moving mean. In
build-nanogpt the time of a step includes the evaluation before it. Until October 2025 nanochat's ``tok/sec`` covered
one micro-batch; this is detected by comparing rate x time with the tokens per step printed at the start."""

import re
from collections.abc import Iterator
from statistics import median

from trainmark.logs.format import Format, LogContext, search_integer, unknown_end
from trainmark.logs.hardware import read_hardware
from trainmark.logs.model import Facts, Problem, Scope
from trainmark.logs.synthetic import SampleRun, lines_of


def facts(context: LogContext) -> Facts:
    """Read the number of processes, if it is printed."""
    world = search_integer(rb"(?:World size|world_size|DDP world size)[=:] ?(\d+)", context.text)
    return Facts(
        model="gpt2",
        gpus=world,
        global_batch=search_integer(_TOTAL, context.text),
        hardware=read_hardware(context.text),
    )


def doubts(context: LogContext) -> tuple[Problem, ...]:
    """Check rate x time of a step against the tokens per step (nanochat's rate covered a micro-batch)."""
    total = search_integer(_TOTAL, context.text)
    printed = [(float(ms) / 1000, float(rate.replace(b",", b""))) for ms, rate in _STEP.findall(context.tail)]
    tokens = [seconds * rate for seconds, rate in printed]
    if not total or not tokens or abs(median(tokens) / total - 1) <= _OFF:
        return ()
    sentence = (
        f"a step has {median(tokens):.4g} tokens by its time and rate, but {total} by the settings at the start of "
        "the log: the rate is that of a micro-batch or of another batch"
    )
    return (Problem("rates-contradict-batch", sentence),)


_OFF = 0.05
_TOTAL = rb"(?i:total (?:desired )?batch size):? ([\d,]+)\s"
_STEP = re.compile(rb"\| dt: (\d+(?:\.\d+)?)ms \| tok/sec: (\d[\d,]*(?:\.\d+)?)\s")


FORMAT = Format(
    name="build-nanogpt",
    title="build-nanogpt",
    framework="pytorch",
    unit="tokens/s",
    scope=Scope.GLOBAL,
    records=(
        re.compile(
            rb"step:? +(?P<step>\d+)[ /][^\n]*\| dt: [\d.]+ms \| tok/sec: "
            rb"(?:(?:(?P<rate_millions>\d+),)?(?P<rate_thousands>\d+),)?(?P<rate>[\d.]+)\s"
        ),
        re.compile(rb"step +(?P<step>\d+)/\d+ \| [^\n]*[\d.]+ ms \|[^\n]*[| ](?P<rate>\d+) tok/s[)\s]"),
    ),
    mark=re.compile(rb" ms \|[^\n]* \d+ tok/s\s|\| dt: [\d.]+ms \| tok/sec: "),
    facts=facts,
    doubts=doubts,
    end_state=unknown_end,
    figures={"mfu": re.compile(rb"tok/sec: [\d,.]+ \| mfu: ([\d.]+) ")},
    header=re.compile(rb"step:? +0*[01][ /]"),
)


def sample(run: SampleRun) -> Iterator[str]:
    """Yield the log lines of ``run``."""
    for line in lines_of(run):
        yield (
            f"step {line.step - 1:5d} | loss: 6.981234 | lr 6.0000e-04 | norm: 0.2900 | "
            f"dt: {line.step_time_s * 1000:.2f}ms | tok/sec: {line.rate:.2f}"
        )
