"""One run's measurement, by the reader that its card names: our own events, or another program's log."""

from pathlib import Path

from trainmark.execution import LOG
from trainmark.logs import Facts, Severity, Status
from trainmark.logs.events import RunEvents
from trainmark.measure import (
    About,
    Measurement,
    NotMeasurable,
    Steadiness,
    Suspicion,
    measure_events,
)
from trainmark.measure.rules import find_rule, measure_log
from trainmark.programs import read_log
from trainmark.suite import Case
from trainmark.workload import Card

OWN_FORMAT = "trainmark"


def measure_run(case: Case, card: Card, folder: Path, events: RunEvents) -> Measurement:
    """Return the measurement of a finished run of ``case`` in ``folder``.

    Raises ``NotMeasurable``, with the reason, when what the run left is no measurement.
    """
    return measure_events(events) if card.log_format == OWN_FORMAT else _measure_log(case, card, folder / LOG)


def _measure_log(case: Case, card: Card, log: Path) -> Measurement:
    """Measure another program's log by the card's rule, told what the case knows and the log may not say."""
    batch = case.batch_per_device if isinstance(case.batch_per_device, int) else None
    read = read_log(log, Facts(nodes=case.nodes, gpus=case.world_size, batch_per_device=batch))
    if read.format is None:
        raise NotMeasurable(
            f"{log.name} is {read.status.value}: no log of the card's format '{card.log_format}'"
        )
    if read.format != card.log_format:
        raise NotMeasurable(f"{log.name} is of format '{read.format}', and the card says '{card.log_format}'")
    result = measure_log(read, find_rule(card.rule) if card.rule else None)
    problems = (*read.problems, *result.problems)
    if result.value is None or result.status is not Status.OK:
        reasons = "; ".join(problem.message for problem in problems) or result.status.value
        raise NotMeasurable(f"{log.name} gives no number by the rule '{result.rule}': {reasons}")
    return Measurement(
        unit=read.unit or card.counted_in,
        rule=result.rule,
        throughput=result.value,
        samples=None,
        window_s=None,
        measured_steps=result.used,
        warmup_steps=result.skipped,
        first_step_s=None,
        compile_s=None,
        step_times=None,
        data_wait=None,
        peak_memory_bytes=(),
        final_loss=None,
        steadiness=Steadiness(steady=None, settled_after=None, bias=None),
        suspicions=tuple(
            Suspicion(code=problem.code, sentence=problem.message, about=About.WORK)
            for problem in problems
            if problem.severity is Severity.DOUBT
        ),
    )
