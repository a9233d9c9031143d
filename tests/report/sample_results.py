"""Results to report on, built through the models with figures of the original documents."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from trainmark.measure import estimate, speedup
from trainmark.schema.case import Case, case_of
from trainmark.schema.certificate import Certificate, Check, CheckedVariant, Pair, Party, Subject
from trainmark.schema.manifest import Manifest
from trainmark.schema.measurement import (
    About,
    Answer,
    Estimate,
    GateCheck,
    GateName,
    Level,
    Measurement,
    Parameters,
    Shape,
    Steadiness,
    StepTimes,
    Suspicion,
)
from trainmark.schema.outcome import Identity, Outcome
from trainmark.schema.ranks import AllReduce, RankTime, RankTimes
from trainmark.schema.results import CaseResult, EndedBy, Repeats, Results, RunResult
from trainmark.schema.suite import Protocol
from trainmark.tasks.image_classification import Layout

START = datetime(2026, 11, 3, 8, 0, tzinfo=UTC)
SPREAD = (1.0, 1.004, 0.995, 1.002, 0.998, 1.006, 0.991)
STEADY = Steadiness(steady=True, settled_after=0, bias=0.0)
NOT_STEADY = Steadiness(steady=False, settled_after=35, bias=0.043)
THROTTLED = Suspicion(
    code="clocks-throttled",
    sentence="the GPU's clock was throttled in 12 % of the samples",
    about=About.MACHINE,
)

NODE: Mapping[str, Any] = {
    "hostname": "node-a",
    "collected": "2026-01-02T03:04:05Z",
    "os": {"name": "Ubuntu 22.04.4 LTS", "kernel": "5.15.0", "machine": "x86_64"},
    "cpu": {"model": "Intel(R) Xeon(R) Gold 6148 CPU @ 2.40GHz", "cores": 40, "threads": 80},
    "memory": {},
    "accelerators": {
        "driver": "450.80.02",
        "gpus": [{"name": "Tesla V100-SXM2-32GB", "memory_bytes": 34089730048}] * 8,
    },
    "virtualisation": {},
    "container": None,
    "framework": {"framework": "pytorch", "version": "1.6.0", "python": "3.8.5", "cuda": "11.0"},
    "environment_lock": None,
    "git": None,
    "variables": {},
    "trainmark": "0.1.0",
}


def manifest(*nodes: Mapping[str, Any]) -> Manifest:
    """Return the manifest of nodes that differ in these facts from the usual one."""
    return Manifest.model_validate({"nodes": [{**NODE, **node} for node in nodes]})


MANIFEST = manifest({})


def measurement(throughput: float, case: Case, steps: int = 100, **changes: Any) -> Measurement:
    """Return a measurement of ``steps`` steps at ``throughput`` images/s."""
    samples = int(case.batch_per_device if case.batch_per_device != "max" else 144) * case.world_size * steps
    step = samples / throughput / steps
    values: dict[str, Any] = {
        "unit": "images/s",
        "rule": "window",
        "throughput": throughput,
        "samples": samples,
        "window_s": samples / throughput,
        "measured_steps": steps,
        "warmup_steps": 20,
        "first_step_s": 9.25,
        "compile_s": None,
        "step_times": StepTimes(
            mean=step, minimum=step * 0.98, p50=step, p90=step * 1.01, p99=step * 1.03, maximum=step * 1.1
        ),
        "data_wait": 0.031 if case.data != "synthetic" else None,
        "peak_memory_bytes": (12_884_901_888,) * case.world_size,
        "final_loss": 6.9,
        "steadiness": STEADY,
        "suspicions": (),
    }
    return Measurement(**{**values, **changes})


INSPECTED = GateCheck(gate=GateName.CPU_SHARED, answer=Answer.CLEAN, samples=37, seconds=3.7)
"""The answer of a gate that looked and found nothing."""


def run(
    case: Case, repeat: int, outcome: Outcome = Outcome.OK, throughput: float | None = None, **changes: Any
) -> RunResult:
    """Return one run of ``case``; with a throughput it is measured."""
    directory = f"runs/{case.id}/{repeat}"
    measured = None if throughput is None else measurement(throughput, case)
    values: dict[str, Any] = {
        "repeat": repeat,
        "outcome": outcome,
        "reason": None,
        "started_at": START + timedelta(minutes=repeat),
        "duration_s": 60.0 if measured is None else max(60.0, 10.0 + (measured.window_s or 0.0)),
        "directory": directory,
        "log": None,
        "commands": (
            f"OMP_NUM_THREADS=4 python train.py --precision {case.precision} --events {directory}/events.jsonl",
        ),
        "measurement": measured,
        "suspicions": (),
        "parameters": {}
        if throughput is None
        else {"optimizer": "sgd", "momentum": 0.875, "precision": case.precision.value},
        "telemetry": (),
        "manifest": "sha256:1",
        "identity": Identity(digest="sha256:1", parts=()),
        "gates": None if throughput is None else (INSPECTED,),
    }
    return RunResult(**{**values, **changes})


def ok_runs(case: Case, throughput: float, n: int) -> tuple[RunResult, ...]:
    """Return ``n`` measured runs around ``throughput``."""
    return tuple(run(case, i + 1, throughput=throughput * SPREAD[i]) for i in range(n))


def failed_run(case: Case, outcome: Outcome, reason: str, repeat: int = 1) -> RunResult:
    return run(case, repeat, outcome, reason=reason)


def results(cases: Sequence[tuple[Case, tuple[RunResult, ...]]], **changes: Any) -> Results:
    """Return the results of cases with their runs: estimates and speedups follow from the runs."""
    estimates = {
        case.id: estimate([r.measurement.throughput for r in runs if r.measurement]) for case, runs in cases
    }
    values: dict[str, Any] = {
        "trainmark_version": "0.1.0",
        "generated_at": START + timedelta(hours=2),
        "suite": "resnet50-v100",
        "description": "",
        "protocol": Protocol.model_validate("dlperf"),
        "command": "trainmark run suites/resnet50-v100.yaml --out out",
        "complete": True,
        "cases": tuple(_case(case, runs, estimates) for case, runs in cases),
        "manifests": {"sha256:1": MANIFEST},
    }
    return Results(**{**values, **changes})


def _case(case: Case, runs: tuple[RunResult, ...], estimates: Mapping[str, Estimate | None]) -> CaseResult:
    good = any(r.outcome is Outcome.OK for r in runs)
    one = case.model_copy(update={"nodes": 1, "devices_per_node": 1})
    baseline = one.id if one.id in estimates else None
    return CaseResult(
        id=case.id,
        case=case,
        outcome=Outcome.OK if good else runs[0].outcome if runs else Outcome.SKIPPED,
        reason=None if good else runs[0].reason if runs else "not run yet",
        estimate=estimates[case.id],
        speedup=speedup(case.id, case.world_size, estimates, baseline),
        runs=runs,
    )


def topology(devices: int) -> dict[str, int]:
    return {"nodes": max(1, devices // 8), "devices_per_node": min(devices, 8)}


def ngc_v100() -> Results:
    """The matrix of 1, 8, 32 devices x FP32/AMP x batch 128/256; figures of the PyTorch reports on V100."""
    published = {
        ("fp32", 128): (355.69, 2724.5, 10310.0),
        ("fp32", 256): (370.194, 2791.98, 10523.32),
        ("amp-fp16", 128): (780.48, 5610.2, None),
        ("amp-fp16", 256): (790.033, 5889.05, 21259.81),
    }
    cases = []
    for (precision, batch), figures in published.items():
        for devices, figure in zip((1, 8, 32), figures, strict=True):
            case = Case.model_validate(
                {"precision": precision, "batch_per_device": batch, **topology(devices)}
            )
            if figure is None:
                reason = "CUDA out of memory: tried to allocate 2.00 GiB on rank 3"
                runs = tuple(failed_run(case, Outcome.OOM, reason, repeat) for repeat in (1, 2))
            else:
                runs = ok_runs(case, figure, 5)
            if (precision, batch, devices) == ("amp-fp16", 256, 8):
                runs = (runs[0].model_copy(update={"suspicions": (THROTTLED,)}), *runs[1:])
            if (precision, batch, devices) == ("fp32", 128, 8):
                runs = (*runs[:4], failed_run(case, Outcome.TIMEOUT, "no output for 900 s", 5))
            cases.append((case, runs))
    return results(cases)


def two_sizes() -> Results:
    """FP32 on 1 and on 8 devices, three runs each."""
    figures = {1: 370.194, 8: 2791.98}
    cases = [
        (case_of(devices_per_node=n), ok_runs(case_of(devices_per_node=n), figure, 3))
        for n, figure in figures.items()
    ]
    return results(cases)


def two_frameworks() -> Results:
    """PyTorch beside TensorFlow over 1 to 32 devices at batch 160 and 128; one OOM, one missing case."""
    published: dict[int, dict[str, tuple[float | None, ...]]] = {
        160: {
            "tensorflow": (336.23, 585.5, 1142.71, 2626.03, None, 9869.94),
            "pytorch": (350.63, 614.82, 928.19, 1079.27, 2386.48, 5594.45),
        },
        128: {
            "tensorflow": (326.96, 590.94, 1164.24, 2513.72, 4752.52, 9407.87),
            "pytorch": (347.12, 604.11, 899.41, 1404.55, 2384.3, 5552.77),
        },
    }
    cases = []
    for batch, columns in published.items():
        for framework, figures in columns.items():
            for devices, figure in zip((1, 2, 4, 8, 16, 32), figures, strict=True):
                if (batch, framework, devices) == (128, "pytorch", 2):
                    continue
                case = Case.model_validate(
                    {"framework": framework, "batch_per_device": batch, **topology(devices)}
                )
                runs = (
                    ok_runs(case, figure, 3) if figure else (failed_run(case, Outcome.OOM, "out of memory"),)
                )
                cases.append((case, runs))
    return results(cases, suite="five-frameworks")


def only_failures() -> Results:
    """Nothing ended ok."""
    one, many = case_of(), case_of(devices_per_node=8)
    return results(
        [
            (
                one,
                (
                    failed_run(
                        one, Outcome.FAILED, "exit code 1: ModuleNotFoundError: No module named 'torch'"
                    ),
                ),
            ),
            (
                many,
                (failed_run(many, Outcome.UNSUPPORTED, "8 devices are asked for, and this machine has 0"),),
            ),
            (case_of(batch_per_device=64), ()),
        ],
        complete=False,
        manifests={},
    )


def unsupported(reason: str) -> Results:
    """Four cases that cannot run for one reason."""
    cases = [case_of(precision=p, batch_per_device=b) for p in ("fp32", "amp-fp16") for b in (128, 256)]
    return results([(case, (failed_run(case, Outcome.UNSUPPORTED, reason),)) for case in cases])


def one_case(n: int = 1) -> Results:
    """A single case with ``n`` runs."""
    case = case_of()
    return results([(case, ok_runs(case, 1404.55, n))])


def waited_for() -> Results:
    """A case whose runs were waited for: two that count, of which the second had a burst, and one that was spoiled."""
    found = one_case(2)
    (case,) = found.cases
    first, second = case.runs
    assert second.measurement is not None
    levels = tuple(Level(first=at, steps=10, off=off) for at, off in ((0, 0.0), (10, 0.5), (20, 0.0)))
    unsteady = second.measurement.steadiness.model_copy(
        update={"steady": False, "shape": Shape.BURST, "levels": levels}
    )
    measured = second.measurement.model_copy(update={"steadiness": unsteady})
    repeats = Repeats(ended_by=EndedBy.MAXIMUM, runs=2, spoiled=1, spent_s=12.5, target=0.01, half_width=None)
    runs = (first, second.model_copy(update={"measurement": measured}))
    return found.model_copy(
        update={
            "cases": (case.model_copy(update={"runs": runs, "repeats": repeats}),),
            "protocol": Protocol.model_validate("adaptive"),
        }
    )


def no_baseline() -> Results:
    """8 devices without the same case on one: the one-device case ran out of memory."""
    one, many = case_of(batch_per_device=512), case_of(batch_per_device=512, devices_per_node=8)
    return results(
        [(one, (failed_run(one, Outcome.OOM, "out of memory"),)), (many, ok_runs(many, 2791.98, 3))]
    )


def real_and_synthetic() -> Results:
    """Real data by two loaders against synthetic data, mixed precision, batch 224; the last loader was not steady."""
    figures = {
        ("synthetic", "native"): (1236.9, 9265.83),
        ("imagenet", "native"): (1233.2, 7886.64),
        ("imagenet", "dali-gpu"): (1202.23, 8578.02),
    }
    cases = []
    for (data, loader), pair in figures.items():
        for devices, figure in zip((1, 8), pair, strict=True):
            case = Case.model_validate(
                {
                    "precision": "amp-fp16",
                    "batch_per_device": 224,
                    "data": data,
                    "loader": loader,
                    **topology(devices),
                }
            )
            runs = ok_runs(case, figure, 6)
            if loader == "dali-gpu":
                late = measurement(figure, case, steadiness=NOT_STEADY)
                runs = (runs[0].model_copy(update={"measurement": late}), *runs[1:])
            cases.append((case, runs))
    return results(cases, suite="real-against-synthetic")


def many_workloads() -> Results:
    """Programs of five publishers in one suite: long names, many columns, and a reason of many words."""
    programs = {
        "trainmark": "pytorch", "ngc-pytorch-convnets": "pytorch", "tf-cnn-benchmarks": "tensorflow",
        "ngc-tensorflow-convnets": "tensorflow", "paddleclas-image-classification": "paddle",
    }  # fmt: skip
    reason = (
        "exit code 1: RuntimeError: CUDA error: device-side assert triggered; CUDA kernel errors might be "
        "asynchronously reported at some other API call, so the stacktrace below might be incorrect, see "
        "/home/benchmark/results/paddleclas-image-classification/runs/a-very-long-name-without-a-blank/1/train.log"
    )
    cases = []
    for i, (workload, framework) in enumerate(programs.items()):
        for precision in ("fp32", "amp-fp16", "amp-bf16"):
            for batch in (128, 256):
                case = case_of(
                    workload=workload,
                    framework=framework,
                    precision=precision,
                    batch_per_device=batch,
                    data="imagenet-2012-jpeg",
                    loader="dali-gpu" if i % 2 else "native",
                    options={"optimizer": "momentum", "mode": "benchmark"} if i == 1 else {},
                )
                runs = ok_runs(case, 7125.25 + 1000 * i, 1)
                if (i, precision) == (4, "amp-bf16"):
                    runs = (failed_run(case, Outcome.FAILED, reason),)
                cases.append((case, runs))
    return results(cases, suite="five-programs")


def precisions_of_two_frameworks() -> Results:
    """Three workloads in two frameworks and four precisions; one of the cells is out of memory."""
    models = {
        "resnet50_v1.5": (2500.0, "images/s"),
        "gpt2_124m": (180_000.0, "tokens/s"),
        "bert_base": (1900.0, "sequences/s"),
    }
    precisions = {"fp32": 1.0, "tf32": 2.4, "amp-fp16": 4.1, "amp-bf16": 4.2}
    cases = []
    for model, (rate, unit) in models.items():
        for framework, share in (("pytorch", 1.0), ("jax", 0.96)):
            for precision, factor in precisions.items():
                case = case_of(framework=framework, model=model, precision=precision, device="cuda")
                made = tuple(in_unit(each, unit) for each in ok_runs(case, rate * share * factor, 5))
                if (model, framework, precision) == ("gpt2_124m", "jax", "fp32"):
                    made = (failed_run(case, Outcome.OOM, "out of memory on GPU 0"),)
                cases.append((case, made))
    return results(cases, suite="precisions")


def foreign_program() -> Results:
    """A program of another project by its command line: a guessed format, two settings, and little that is known."""
    guessed = Suspicion(
        code="guessed",
        sentence="no known program prints these lines; assumed from their words: 'batches' counts steps; 'ms/batch' is "
        "the time of one step. trainmark parse --explain prints the format that is proposed",
        about=About.WORK,
    )
    cases = []
    for batch, rate in ((16, 212.0), (32, 141.0)):
        case = Case.model_validate(
            {
                "task": "program",
                "workload": "word_language_model",
                "framework": "unknown",
                "batch_per_device": batch,
            }
        )
        runs = (in_unit(made, "steps/s") for made in ok_runs(case, rate, 3))
        cases.append((case, tuple(made.model_copy(update={"suspicions": (guessed,)}) for made in runs)))
    return results(cases, suite="word_language_model")


def two_units() -> Results:
    """A suite of pictures and of sentences: PyTorch's network beside another program's language model."""
    figures: dict[tuple[str, str, str], tuple[float, float]] = {
        ("trainmark", "resnet50_v1.5", "images/s"): (370.194, 2791.98),
        ("ngc-bert", "bert_base", "sequences/s"): (52.31, 398.7),
    }
    cases = []
    for (workload, model, unit), pair in figures.items():
        for devices, figure in zip((1, 8), pair, strict=True):
            for data, share in (("synthetic", 1.0), ("corpus", 0.94)):
                case = case_of(workload=workload, model=model, data=data, **topology(devices))
                runs = tuple(in_unit(one, unit) for one in ok_runs(case, figure * share, 3))
                if (model, devices, data) == ("bert_base", 8, "corpus"):
                    runs = (failed_run(case, Outcome.OOM, "CUDA out of memory"),)
                cases.append((case, runs))
    return results(cases, suite="two-units")


def cluster() -> Results:
    """Nodes x devices on four V100 hosts, and one and two hosts of another kind, chosen by their labels."""
    figures: dict[str, dict[tuple[int, int], float]] = {
        "gpu=V100": {(1, 1): 355.69, (2, 1): 690.2, (4, 1): 1310.4, (4, 2): 2590.1},
        "gpu=A100": {(1, 1): 801.2, (2, 1): 1493.5},
    }
    cases, names = [], {"gpu=V100": "v100-{}", "gpu=A100": "a100-{}"}
    for where, by_size in figures.items():
        for (nodes, devices), figure in by_size.items():
            case = case_of(where=where, nodes=nodes, devices_per_node=devices)
            hosts = tuple(names[where].format(number + 1) for number in range(nodes))
            more = {"hosts": hosts, "manifest": f"sha256:{where}-{nodes}"}
            runs = (made.model_copy(update=more) for made in ok_runs(case, figure, 3))
            reported = (made.model_copy(update={"ranks": reported_ranks(made, devices)}) for made in runs)
            cases.append((case, tuple(reported)))
    a100 = {
        "gpus": [{"name": "NVIDIA A100-SXM4-40GB", "memory_bytes": 42_505_273_344}] * 8,
        "driver": "525.60.13",
    }
    kinds: dict[str, Mapping[str, Any]] = {"gpu=V100": {}, "gpu=A100": {"accelerators": a100}}
    manifests = {
        f"sha256:{where}-{nodes}": manifest(*[kind] * nodes)
        for where, kind in kinds.items()
        for nodes in dict.fromkeys(nodes for nodes, _ in figures[where])
    }
    return results(cases, suite="two-kinds-of-hosts", manifests=manifests)


def reported_ranks(made: RunResult, devices: int) -> RankTimes | None:
    """Return ranks of which the last is 1.3 times as slow as the others; None of one alone."""
    world = len(made.hosts) * devices
    if world == 1 or made.measurement is None or made.measurement.step_times is None:
        return None
    step, window = made.measurement.step_times.mean, made.measurement.window_s or 0.0
    passes = [step * (0.65 if rank == world - 1 else 0.5) for rank in range(world)]
    ranks = tuple(
        RankTime(
            rank=rank,
            node=rank // devices,
            host=made.hosts[rank // devices],
            began_s=0.0004 * rank,
            error_s=0.0002 if rank >= devices else 0.0,
            window_s=window,
            pass_s=passes[rank],
            wait_s=max(passes) - passes[rank],
        )
        for rank in range(world)
    )
    exchange = AllReduce(bytes=102_228_128, seconds=step * 0.2, share=0.2)
    return RankTimes(ranks=ranks, slowest=world - 1, slower_by=0.3, waits=0.15, all_reduce=exchange)


def in_unit(made: RunResult, unit: str) -> RunResult:
    """Return the run as one that counts its work in ``unit``."""
    assert made.measurement is not None
    return made.model_copy(update={"measurement": made.measurement.model_copy(update={"unit": unit})})


def hostile() -> Results:
    """Text with everything that Markdown, HTML, a terminal or a spreadsheet could take for its own."""
    case = case_of(options={"note": "</script><b>|`x`"})
    reason = "=cmd|'/c calc'!A1 <script>alert(1)</script> `code` | *bold* [link](javascript:x) \x1b[31mred\x1b[0m &amp;"
    runs = (
        *ok_runs(case, 100.0, 3),
        failed_run(case, Outcome.FAILED, reason, repeat=4),
    )
    doubt = Suspicion(code="x", sentence="<img src=x onerror=alert(1)> | `tick`", about=About.WORK)
    runs = (runs[0].model_copy(update={"suspicions": (doubt,)}), *runs[1:])
    node = {"cpu": {"model": "CPU | <i>x</i> `y`", "cores": 2}, "hostname": "```\nfence", "accelerators": {}}
    return results(
        [(case, runs)],
        suite="<script>alert('suite')</script> | `s` # *x*",
        description="# not a heading <u>x</u> | cell",
        command="trainmark run 'a```b</code>.yaml' | tee \x07",
        manifests={"sha256:1": manifest(node | {"framework": None})},
    )


def write_runs(directory: Path, of: Results, warmup: int = 20, steps: int = 120) -> None:
    """Write each run's ``train.log``, and a measured run's ``events.jsonl`` with plausible step times."""
    for case in of.cases:
        for made in case.runs:
            folder = directory / made.directory
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "train.log").write_text("what the program printed\n")
            if made.measurement is not None and made.measurement.step_times is not None:
                events = _events(made.measurement.step_times.mean, warmup, steps, made.repeat)
                (folder / "events.jsonl").write_text(events)


def _events(step_s: float, warmup: int, steps: int, repeat: int) -> str:
    lines = []
    for i in range(steps):
        settling = 9.25 if i == 0 else step_s * (1 + 0.8 * 0.7**i)
        wobble = 1 + 0.004 * ((i * 7 + repeat * 3) % 5 - 2) + (0.09 if (i + repeat) % 41 == 40 else 0)
        data = {"step_time_s": settling * wobble, "phase": "measured" if i >= warmup else "warmup"}
        lines.append("DLLL " + json.dumps({"step": [0, i + 1], "data": data}))
    return "\n".join(lines) + "\n"


def with_certificate(equal: bool = True) -> Results:
    """The two frameworks on GPUs, TensorFlow in its own layout and by its compiler, with their certificate."""
    compared = two_frameworks()
    variants: dict[str, dict[str, object]] = {
        "tensorflow": {"layout": Layout.NHWC, "compiler": "graph"},
        "pytorch": {},
    }
    cases = tuple(
        found.model_copy(
            update={
                "case": found.case.varied(**variants[found.case.framework]),
                "runs": tuple(on_device(run, "cuda") for run in found.runs),
            }
        )
        for found in compared.cases
    )
    return compared.model_copy(update={"cases": cases, "certificates": (certificate(equal),)})


def on_device(run: RunResult, device: str) -> RunResult:
    """Return the run with what its worker says it computed on, where it got as far as to say it."""
    reported = run.parameters.reported()
    return run.model_copy(
        update={"parameters": Parameters.of({**reported, "device": device} if reported else {})}
    )


def certificate(equal: bool) -> Certificate:
    """Return what the check of PyTorch 2.13 and TensorFlow 2.21 gave; unequal: with a padding on one side."""
    padding = Check(
        subject=Subject.GEOMETRY,
        deviation=0 if equal else 4,
        tolerance=0,
        where=None if equal else "stage2.block0.b",
        remark=None if equal else "padding ((0, 0), (0, 0)) instead of ((1, 1), (1, 1))",
    )
    return Certificate(
        trainmark_version="0.1.0",
        model="resnet50_v1.5",
        made_at=START,
        batch=8,
        axes={"image_size": 96},
        steps=3,
        parties=(
            party("pytorch", "2.13.0+cu130", "nchw"),
            party("tensorflow", "2.21.0", "nhwc", padding).model_copy(update={"variants": (variant(),)}),
        ),
        pairs=(pair(3.5e-07 if equal else 0.021),),
        absent={},
    )


def party(framework: str, version: str, layout: str, *checks: Check) -> Party:
    """Return a framework that trains as described, but for the checks given."""
    return Party(
        framework=framework,
        version=version,
        device="cuda",
        axes={"layout": layout},
        parameters=25_557_032,
        multiply_adds=752_715_776,
        learning_rates=(0.01, 0.02, 0.03),
        momentum=(0.875, 0.875),
        decaying=55,
        losses=(7.9246, 5.4597, 2.6974),
        checks=checks,
    )


def variant(loss: float = 1.7e-07) -> CheckedVariant:
    """Return TensorFlow's graph beside its eager step; the loss is off by so much."""
    found = {
        Subject.PARAMETERS: (0.0, 0.0),
        Subject.LOSS: (loss, 1e-5),
        Subject.UPDATE_NORM: (2.4e-06, 1e-3),
        Subject.UPDATES: (1.1e-03, 0.1),
        Subject.BATCH_MEANS: (3.0e-06, 1e-3),
        Subject.BATCH_VARIANCES: (2.8e-06, 1e-3),
    }
    checks = tuple(
        Check(subject=subject, deviation=deviation, tolerance=tolerance, where="step 2")
        for subject, (deviation, tolerance) in found.items()
    )
    return CheckedVariant(axes={"layout": "nhwc"}, compiler="graph", checks=checks)


def pair(activations: float) -> Pair:
    """Return PyTorch beside TensorFlow; the activations are off by so much."""
    found = {
        Subject.ACTIVATIONS: (activations, 1e-4, "stage2.block0.b"),
        Subject.LOGITS: (9.0e-07, 1e-4, "step 1"),
        Subject.LOSS: (8.8e-08, 1e-5, "step 2"),
        Subject.GRADIENT_NORM: (4.1e-06, 1e-3, "step 2"),
        Subject.GRADIENTS: (5.9e-03, 0.1, "stage3.block4.b.bn.bias, step 2"),
        Subject.UPDATE_NORM: (3.3e-06, 1e-3, "step 2"),
        Subject.UPDATES: (2.2e-03, 0.1, "stage3.block4.b.bn.bias, step 2"),
        Subject.BATCH_MEANS: (6.6e-06, 1e-3, "stage1.block2.a.bn.running_mean, step 2"),
        Subject.BATCH_VARIANCES: (3.2e-06, 1e-3, "stage1.block2.c.bn.running_var, step 2"),
    }
    checks = tuple(
        Check(subject=subject, deviation=deviation, tolerance=tolerance, where=where)
        for subject, (deviation, tolerance, where) in found.items()
    )
    return Pair(frameworks=("pytorch", "tensorflow"), checks=checks)
