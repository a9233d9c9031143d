"""The row that ``trainmark parse`` prints for one log: fixed keys, finite numbers, and the model FLOPs utilisation."""

from typing import TYPE_CHECKING, Any

from trainmark.logs.model import ParsedLog, Problem, Severity, Status, same_device
from trainmark.measure.rules.model import RuleResult

if TYPE_CHECKING:
    from trainmark.measure.device_peaks import Peak


KEYS = (
    "log",
    "format",
    "framework",
    "model",
    "precision",
    "nodes",
    "gpus",
    "batch_per_device",
    "unit",
    "records",
    "skipped",
    "rule",
    "throughput",
    "status",
    "problems",
    "global_batch",
    "mfu",
    "tflops_per_device",
    "needs",
    "witnesses",
)
_CLOSE = 0.015
"""An implied peak is a device's if they differ by no more than this share: MFU is printed with few digits."""
_SPARSE = 2.0
"""Data sheets print twice the dense figure, for structured sparsity; FP8 is twice BF16 on the same devices."""
_FORMATS = (
    ("bf16_tflops", "BF16"),
    ("fp16_tflops", "FP16"),
    ("tf32_tflops", "TF32"),
    ("fp32_tflops", "FP32"),
)


def reading_row(log: ParsedLog, result: RuleResult) -> dict[str, Any]:
    """Return the row of one log: exactly ``KEYS``.

    ``throughput`` is a number if and only if ``status`` is ok or guessed.
    """
    facts = log.facts
    values = (
        log.log,
        log.format,
        log.framework,
        facts.model,
        facts.precision,
        facts.nodes,
        facts.gpus,
        facts.batch_per_device,
        log.unit,
        log.records.count,
        result.skipped,
        result.rule,
        result.value,
        reading_status(log, result),
        [_problem(problem) for problem in reading_problems(log, result)],
        log.global_batch,
        mfu_of(log),
        log.figures.get("tflops"),
        list(result.needs),
        [{"name": one.name, "value": one.value, "how": one.how} for one in result.witnesses],
    )
    return dict(zip(KEYS, values, strict=True))


def reading_status(log: ParsedLog, result: RuleResult) -> Status:
    """Return the log's status, or the rule's if the log's is ok or guessed."""
    return result.status if log.status in (Status.OK, Status.GUESSED) else log.status


def reading_problems(log: ParsedLog, result: RuleResult) -> tuple[Problem, ...]:
    """Return the problems of the log and of the rule, each once; none about records that the number leaves out."""
    left_out = result.skipped if result.value is not None else 0
    return tuple(dict.fromkeys((*log.problems_after(left_out), *result.problems)))


def is_doubtful(log: ParsedLog, result: RuleResult) -> bool:
    """Return whether the number is missing or in doubt; the exit code is then 1."""
    doubts = any(problem.severity is Severity.DOUBT for problem in reading_problems(log, result))
    return result.value is None or doubts


def _problem(problem: Problem) -> dict[str, str]:
    return {"code": problem.code, "message": problem.message, "severity": problem.severity}


def mfu_of(log: ParsedLog) -> float | None:
    """Return the utilisation that the program printed last, as a share; None if it printed none."""
    percent = log.figures.get("mfu")
    return log.figures.get("mfu_share") if percent is None else round(percent / 100, 6)


def utilisation_problems(log: ParsedLog) -> list[Problem]:
    """Return the problems of a printed MFU, and the device whose peak it was computed with."""
    mfu, tflops = mfu_of(log), log.figures.get("tflops")
    if mfu is None or mfu <= 0:
        return _impossible_tflops(tflops, log.facts.hardware) if tflops and log.facts.hardware else []
    implied = tflops / mfu if tflops else None
    if mfu > 1:
        sentence = f"an MFU of {mfu:.0%} is impossible"
        if implied:
            whose = _listing(_named(implied))
            sentence += f": the program divided {tflops:.6g} TFLOP/s by a peak of {implied:.4g}{whose}"
        return [Problem("impossible-mfu", f"{sentence}; the throughput is not affected", Severity.DOUBT)]
    if implied is None:
        return []
    own = _own_peak(log.facts.hardware) if log.facts.hardware else None
    if own is None or not (named := _named(implied)):
        return []
    mine = [text for peak, text in _formats(own) if _is_close(implied, peak)]
    if mine:
        return [Problem("mfu-peak", f"the MFU is a share of {implied:.4g} TFLOP/s, {mine[0]}", Severity.NOTE)]
    peak = own.bf16_tflops or own.fp16_tflops
    right = f", {tflops / peak:.1%} of {peak:g}" if peak and tflops else ""
    sentence = (
        f"the MFU of {mfu:.1%} is a share of {implied:.4g} TFLOP/s{_listing(named)}, and the log's device is "
        f"{own.device}{right}; the throughput is not affected"
    )
    return [Problem("mfu-of-another-peak", sentence, Severity.DOUBT)]


def _impossible_tflops(tflops: float, hardware: str) -> list[Problem]:
    """Return a doubt if a device computes more than any of its peaks."""
    own = _own_peak(hardware)
    highest = max(_formats(own), default=None) if own is not None else None
    if highest is None or tflops <= highest[0] * (1 + _CLOSE):
        return []
    sentence = (
        f"{tflops:.6g} TFLOP/s on one device are impossible: {highest[1]} is {highest[0]:g}; the time, the batch, the "
        "number of devices or the count of operations is wrong"
    )
    return [Problem("impossible-tflops", sentence, Severity.DOUBT)]


def _own_peak(hardware: str) -> "Peak | None":
    """Return the peaks of a device as a log names it (``NVIDIA H100 80GB``); None unless all that fit are equal."""
    from trainmark.measure.device_peaks import find_peak, load_peaks

    if (exact := find_peak(hardware)) is not None:
        return exact
    fitting = [
        peak
        for peak in load_peaks()
        if any(same_device((hardware, name)) for name in (peak.device, *peak.aliases) if name)
    ]
    return fitting[0] if len({peak.bf16_tflops or peak.fp16_tflops for peak in fitting}) == 1 else None


def _formats(peak: "Peak") -> list[tuple[float, str]]:
    """Return the peaks of one device with their names: dense, and twice of it."""
    dense = [(value, word) for key, word in _FORMATS if (value := getattr(peak, key)) is not None]
    return [
        *((value, f"the {word} peak of {peak.device}") for value, word in dense),
        *(
            (_SPARSE * value, f"twice the {word} peak of {peak.device} (sparsity or FP8)")
            for value, word in dense
        ),
    ]


def _named(implied: float) -> list[str]:
    """Return whose peak a figure is, the closest kind only."""
    from trainmark.measure.device_peaks import load_peaks

    found = [text for peak in load_peaks() for value, text in _formats(peak) if _is_close(implied, value)]
    return [text for text in found if text.startswith("the ")] or found


def _listing(whose: list[str]) -> str:
    return f", {whose[0]}" if whose else ", which is no known device's"


def _is_close(value: float, peak: float) -> bool:
    return abs(value / peak - 1) <= _CLOSE
