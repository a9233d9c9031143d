"""Pairs of trainings of language models with a known cause: what ``explain`` ranks first.

    python benchmarks/language_pairs.py

``language_pairs.yaml`` has the pairs with their sources. The sides that are logs are written in the program's form, and
read like any other log. Printed are, for each pair, the known cause, what is ranked first, and how much of the gap it
is said to account for; a share that is certain to be all of the gap needs evidence for this pair, and is counted.
"""

import math
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from trainmark.insight import ExplainedRun, Explanation, explain, load_effects, run_from_log
from trainmark.insight.sides import run_of_figure, side_of_figure, side_of_run
from trainmark.reference import find_reference, load_references

RECORDS = 40
NONE = "none"
PAIRS = Path(__file__).with_suffix(".yaml")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two sides, the axis that is known to be the cause of their gap (``none``: nothing that they record), its source.

    ``also`` are axes that may be named first as well, because they change together with the cause.
    """

    name: str
    cause: str
    also: tuple[str, ...]
    known: str
    source: str
    filled: str | None
    here: Mapping[str, Any]
    there: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Score:
    """What was ranked first for a pair (``none``: no difference), and whether it is the known cause.

    ``share`` is that of the first difference (low, high), None without one. ``certain`` is true if all of the gap is
    attributed with certainty to one difference.
    """

    pair: Pair
    explanation: Explanation
    first: str
    is_right: bool
    share: tuple[float, float] | None
    certain: bool


def load_pairs() -> tuple[Pair, ...]:
    """Return the pairs of ``language_pairs.yaml``."""
    return tuple(
        Pair(
            name=entry["id"],
            cause=entry["cause"],
            also=tuple(entry.get("also", ())),
            known=entry["known"],
            source=entry["source"],
            filled=entry.get("filled"),
            here=entry["here"],
            there=entry["there"],
        )
        for entry in yaml.safe_load(PAIRS.read_text())["pairs"]
    )


def score(pair: Pair, folder: Path) -> Score:
    """Explain a pair, whose logs are written into ``folder``, and compare with the known cause."""
    here = _side(pair.here, folder / f"{pair.name}-here.log")
    figure = pair.there.get("figure")
    there = (
        side_of_run(_side(pair.there, folder / f"{pair.name}-there.log"))
        if figure is None
        else side_of_figure(find_reference(figure))
    )
    explanation = explain(here, there, load_effects(), load_references())
    first = explanation.differences[0] if explanation.differences else None
    name = NONE if first is None else str(first.axis)
    shares = [found.share for found in explanation.differences if found.share is not None]
    return Score(
        pair=pair,
        explanation=explanation,
        first=name,
        is_right=name in (pair.cause, *pair.also),
        share=None if first is None else first.share,
        certain=any(low > 0.995 for low, _ in shares),
    )


def _side(side: Mapping[str, Any], log: Path) -> ExplainedRun:
    if "figure" in side:
        return run_of_figure(find_reference(side["figure"]))
    log.write_text("".join(f"{line}\n" for line in _WRITERS[side["program"]](side)))
    return run_from_log(log)


def _values(side: Mapping[str, Any]) -> Iterator[tuple[int, float]]:
    values: Sequence[float] = side["values"]
    yield from ((number, values[number % len(values)]) for number in range(1, RECORDS + 1))


def _megatron(side: Mapping[str, Any]) -> Iterator[str]:
    settings = side["settings"]
    parallel = math.prod(
        settings.get(name, 1) for name in ("tensor_model_parallel_size", "pipeline_model_parallel_size")
    )
    yield (
        f"using world size: {side['gpus']}, data-parallel size: {side['gpus'] // parallel}, context-parallel size: 1 "
        f"tensor-model-parallel size: {settings['tensor_model_parallel_size']}, pipeline-model-parallel size: "
        f"{settings['pipeline_model_parallel_size']}"
    )
    if "params_dtype" in settings:
        yield f"using {settings['params_dtype']} for parameters ..."
    yield "------------------------ arguments ------------------------"
    yield from (f"  {name} {'.' * (48 - len(name))} {settings[name]}" for name in sorted(settings))
    yield f"  world_size {'.' * 38} {side['gpus']}"
    yield "-------------------- end of arguments ---------------------"
    batch = settings["global_batch_size"]
    for number, milliseconds in _values(side):
        yield (
            f" iteration {number:8d}/{RECORDS:8d} | consumed samples: {batch * number:12d} | elapsed time per "
            f"iteration (ms): {milliseconds:.1f} | learning rate: 1.000E-04 | global batch size: {batch:5d} | "
            "lm loss: 6.5E+00 | loss scale: 1.0 | grad norm: 1.578 | number of skipped iterations:   0 |"
        )


def _torchtitan(side: Mapping[str, Any]) -> Iterator[str]:
    head = "[rank0]:[titan] 2025-01-07 10:00:00,000 - root - INFO - "
    length, local, gpus = side["sequence_length"], side["local_batch"], side["gpus"]
    yield f"{head}Starting job: {side['model']} training"
    yield f"{head}Building 1-D device mesh with ['dp_shard'], [{gpus}]"
    yield f"{head}CUDA capacity: {side['device']}"
    yield f"{head}Building {side['model']} with TransformerModelArgs(dim=4096, n_layers=32, n_heads=32)"
    if side.get("float8"):
        yield f"{head}Float8 training active"
        yield f"{head}Swapped to Float8Linear layers with enable_fsdp_float8_all_gather=True"
    if side.get("checkpointing"):
        yield f"{head}Applied {side['checkpointing']} activation checkpointing to the model"
    if side.get("compile"):
        yield f"{head}Compiling each TransformerBlock with torch.compile"
    yield f"{head}Applied FSDP to the model"
    yield (
        f"{head}Trainer is initialized with local batch size {local}, global batch size {local * gpus}, gradient "
        f"accumulation steps 1, sequence length {length}, total steps {RECORDS * 10} (warmup 2)"
    )
    seconds = 0.0
    for number, rate in _values(side):
        seconds += 10 * local * length / rate
        clock = (
            f"2025-01-07 {10 + int(seconds) // 3600:02}:{int(seconds) // 60 % 60:02}:{int(seconds) % 60:02}"
        )
        yield (
            f"[rank0]:[titan] {clock},{int(seconds % 1 * 1000):03} - root - INFO - step: {number * 10:2}  "
            f"loss:  8.1309  grad_norm:  1.2345  memory: 47.60GiB(60.12%)  tps: {rate:,.0f}"
        )


def _nanogpt(side: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"Overriding: {name} = {value}" for name, value in side["settings"].items())
    if "device" in side:
        yield f"device: {side['device']}"
    yield f"tokens per iteration will be: {side['tokens']:,}"
    if side.get("slow_attention"):
        yield "WARNING: using slow attention. Flash Attention requires PyTorch >= 2.0"
    yield "number of parameters: 0.80M"
    if side["settings"]["compile"]:
        yield "compiling the model... (takes a ~minute)"
    for number, milliseconds in _values(side):
        yield f"iter {number}: loss 3.8774, time {milliseconds:.2f}ms, mfu 0.05%"


def _nanochat(side: Mapping[str, Any]) -> Iterator[str]:
    yield f"GPU: {side['device']} | Peak FLOPS (BF16): 3.12e+14"
    if side["flash"]:
        yield "✓ Using Flash Attention 3: efficient, new and awesome."
    else:
        yield "WARNING: Flash Attention 3 not available, using PyTorch SDPA fallback"
    tokens = side["tokens"]
    yield f"Total batch size {tokens:,} => gradient accumulation steps: 1"
    for number, rate in _values(side):
        yield (
            f"step {number:05d}/21400 ({100 * number / 21400:.2f}%) | loss: 7.477000 | lrm: 1.00 | "
            f"dt: {1000 * tokens / rate:.2f}ms | tok/sec: {rate:,.0f} | mfu: 44.10 | total time: 0.00m"
        )


_WRITERS = {"megatron": _megatron, "torchtitan": _torchtitan, "nanogpt": _nanogpt, "nanochat": _nanochat}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        scores = [score(pair, Path(folder)) for pair in load_pairs()]
    print("| pair | B / A | known cause | ranked first | share | |\n| --- | ---: | --- | --- | --- | --- |")
    for one in scores:
        ratio = one.explanation.ratio
        share = "" if one.share is None else f"{one.share[0]:.0%} to {one.share[1]:.0%}"
        print(
            f"| [{one.pair.name}]({one.pair.source}) | {'?' if ratio is None else f'{ratio:.3f}'} | {one.pair.cause} | "
            f"{one.first} | {share} | {'right' if one.is_right else 'wrong'}{', certain' if one.certain else ''} |"
        )
    right = sum(one.is_right for one in scores)
    sys.stdout.write(
        f"{right} of {len(scores)} right; {sum(one.certain for one in scores)} with a certain 100 %\n"
    )


if __name__ == "__main__":
    main()
