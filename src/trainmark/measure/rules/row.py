"""The row that ``trainmark parse`` prints for one log: fixed keys and finite numbers."""

from typing import Any

from trainmark.logs.model import ParsedLog, Problem, Severity, Status
from trainmark.measure.rules.model import RuleResult
from trainmark.measure.rules.utilisation import mfu_of

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
