"""The measurement of one run: from its events, or from another program's log and the arrival of its records."""

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

from trainmark.campaign.rank_files import rank_files
from trainmark.campaign.result_measurement import measure_result
from trainmark.campaign.suspicion import contradictions, missing_facts, stated_work_doubts
from trainmark.errors import InputError
from trainmark.logs import Facts, ParsedLog, Problem, Severity, Status
from trainmark.logs.events import RunEvents
from trainmark.logs.format import Format
from trainmark.logs.guess.families import Guess
from trainmark.logs.guess.not_guessed import find_other_batches, find_untimed
from trainmark.logs.guess.reading import (
    IN_EXPLAIN,
    propose_for,
    proposed_format,
    read_guessed,
)
from trainmark.logs.model import PARTIAL_BATCHES, Column, Floats
from trainmark.logs.plausibility import with_timing_by, with_varying_work
from trainmark.logs.records import STAMP_PATTERN, are_buffered, pieces, read_arrivals, record_times, stamped
from trainmark.measure import NotMeasurable, measure_events
from trainmark.measure.rules import Rule, RuleKind, RuleResult, find_rule, judge_records, measure_log
from trainmark.measure.rules.catalog import TOLERANCE, explain_factor
from trainmark.measure.steadiness import log_suspicions
from trainmark.measure.untimed import by_wall_clock
from trainmark.node import read_tail
from trainmark.node.telemetry import ARRIVAL_INTERVAL_S
from trainmark.printable import last_line, printable_line
from trainmark.programs import find_format, format_of, read_log, read_stream
from trainmark.programs.reading import described_format, may_be_guessed, read_by_format, read_stream_by_format
from trainmark.schema.case import Case
from trainmark.schema.measurement import About, Measurement, StepTimes, Suspicion
from trainmark.schema.names import ARRIVALS, EPOCHS_UNIT, LOG, STEPS_UNIT
from trainmark.schema.outcome import TIME_LIMIT, Outcome, OutcomeRecord
from trainmark.schema.suite import Launcher
from trainmark.workload import Card, hides_output, work_of_step
from trainmark.workload.card import AUTO_FORMAT, OWN_FORMAT

BUFFERED = "buffered-output"
"""The code of the doubt that records arrived in bursts, so that the window in wall time is unknown."""


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """A finished run to be measured: its case and card, its folder, and the command of each node that started it.

    ``warmup_steps`` are those that the suite states for programs of other projects; None if it states none.
    """

    case: Case
    card: Card
    folder: Path
    commands: Sequence[str] = ()
    warmup_steps: int | None = None


def measured(
    run: LoggedRun, events: RunEvents, record: OutcomeRecord
) -> tuple[Outcome, str | None, Measurement | None]:
    """Return the outcome of a run and its measurement; a run without a measurement is invalid, with the reason.

    So is one whose log cannot be read as its card describes it, such as by patterns that take too long. If its log ends
    with an error, out of memory for example, that is the outcome, although the program caught it and exited with code
    0. The reason says if processes went on after the program; that of a timeout says how to end a program on purpose,
    if its log has a number until then.
    """
    outcome, reason, measurement = _measured_end(run, events, record)
    if outcome is not Outcome.INVALID or record.exit_code != 0 or run.card.log_format == OWN_FORMAT:
        return outcome, reason, measurement
    if (caught := _caught_error(run)) is not None:
        return *caught, None
    return outcome, f"{_left(record)}{reason}" if record.strays else reason, None


def _left(record: OutcomeRecord) -> str:
    """Return the beginning of the reason of a run whose program left, while other processes of it went on."""
    one = record.strays == 1
    processes = "one process of it" if one else f"{record.strays} processes of it"
    return (
        f"the program left with exit code 0 while {processes} went on in the background, until trainmark ended "
        f"{'it' if one else 'them'}: if {'that is' if one else 'those are'} the training, let the program stay in the "
        "foreground (no '&', nohup, setsid or daemon option; 'wait' at the end of a script); otherwise: "
    )


_ERRORS = {Status.OOM: (Outcome.OOM, "out-of-memory"), Status.FAILED: (Outcome.FAILED, "failed")}
"""The outcome of a run by the status of its log, and the code of the problem with the log's line."""


def _caught_error(run: LoggedRun) -> tuple[Outcome, str] | None:
    """Return the outcome of a run without a measurement whose log ends with an error; None if it does not."""
    try:
        read = read_run_log(run.card, run.folder, run.commands).parsed
    except InputError:
        return None
    if read.status not in _ERRORS:
        return None
    outcome, code = _ERRORS[read.status]
    line = next((problem.message for problem in read.problems if problem.code == code), read.status.value)
    return outcome, f"{line}; the program went on and exited with code 0"


def _measured_end(
    run: LoggedRun, events: RunEvents, record: OutcomeRecord
) -> tuple[Outcome, str | None, Measurement | None]:
    if (
        record.outcome is Outcome.TIMEOUT
        and run.card.stop_after is None
        and not has_own_window(run.card, events)
    ):
        return record.outcome, _with_way_out(run, events, record), None
    if record.outcome is not Outcome.OK:
        return record.outcome, record.reason, None
    try:
        return record.outcome, record.reason, measure_run(run, events)
    except (NotMeasurable, InputError) as error:
        # A run with an outcome and a reason was ended on purpose: most likely before the program printed enough.
        early = f"{record.reason}, too early for a number (give it more time): " if record.reason else ""
        return Outcome.INVALID, f"{early}{error}", None


def _with_way_out(run: LoggedRun, events: RunEvents, record: OutcomeRecord) -> str | None:
    """Return the reason of a timeout, with what to do if the program was at work and its log has a number."""
    if TIME_LIMIT not in (record.reason or ""):
        return record.reason
    try:
        found = measure_run(run, events)
    except (NotMeasurable, InputError):
        return record.reason
    return (
        f"{record.reason}; its log has {found.measured_steps} records to measure: if the program has no end of its "
        "own, end it on purpose (--steps, --epochs or --seconds; stop_after in a card)"
    )


def measure_run(run: LoggedRun, events: RunEvents) -> Measurement:
    """Return the measurement of a finished run; raise ``NotMeasurable``, with the reason, if its files give none."""
    if has_own_window(run.card, events):
        return measure_events(events)
    if run.card.result is not None:
        return measure_result(run.card, run.card.result, run.folder)
    return _measure_log(run)


_ARRIVALS_ADVICE = (
    "The lines show no rate and no step time that trainmark recognises, so they are timed by their arrival; "
    "--format with a description of the log is more reliable (docs/how-to/describe-a-log.md)"
)


def has_own_window(card: Card, events: RunEvents) -> bool:
    """Return whether a run is measured by its events: by its card, or because a measured command wrote some."""
    return card.log_format == OWN_FORMAT or (card.log_format == AUTO_FORMAT and bool(events.summary))


@dataclass(frozen=True, slots=True)
class RunLog:
    """The log of a program's run as read: its format, and its lines by the moment at which they arrived.

    ``is_stamped``: the lines print no times and are read with their arrival before them. ``with_result`` is the same
    log with nothing but the program's own result, where its steps are read by their arrival.
    """

    parsed: ParsedLog
    known: Format | None
    arrived: list[tuple[float, bytes]]
    guess: Guess | None = None
    is_stamped: bool = False
    with_result: "RunLog | None" = None

    @property
    def is_by_arrival(self) -> bool:
        """Return whether the arrival of the lines is the only time of the steps."""
        return self.is_stamped or self.with_result is not None

    def with_facts(self, given: Facts) -> "RunLog":
        """Return the same log by the same format, read with further facts."""
        if self.known is None:
            return self
        text = io.BytesIO(b"".join(piece for _, piece in self.arrived))
        if self.guess is not None:
            advice = _ARRIVALS_ADVICE if self.is_stamped else IN_EXPLAIN
            parsed = read_guessed(self.parsed, text, given, self.guess, advice) or self.parsed
        else:
            parsed = read_stream_by_format(text, self.parsed.log, self.known, given)
        return replace(self, parsed=parsed)

    def read_alike(self, log: Path, arrivals: Path) -> ParsedLog:
        """Return another log of the same run, read by the same format."""
        if not self.is_stamped:
            return read_by_format(log, self.known, None)
        text = b"".join(piece for _, piece in stamped(pieces(log, read_arrivals(arrivals))))
        return read_stream_by_format(io.BytesIO(text), str(log), self.known, None)

    @property
    def counted_unit(self) -> str:
        """Return the unit of the rate if nothing states the work of a step: a record may be of a whole epoch."""
        return EPOCHS_UNIT if self.guess is not None and self.guess.counts_epochs else STEPS_UNIT

    def times(self) -> Floats | None:
        """Return the arrival of each record in Unix time; None if it is not known."""
        return None if self.known is None else record_times(self.arrived, self.parsed, self.known)


def read_run_log(card: Card, folder: Path, commands: Sequence[str] = ()) -> RunLog:
    """Return the log in a run's folder, read by the format that its card names or describes, or by any with ``auto``.

    A whole command line (``commands``, one for each node) is the log's first line, as ``set -x`` prints it, so that
    its switches are facts. A log of no known format is read by a guess; if its lines have no times, with those of their
    arrival. Where the ranks write logs of their own (``rank_files``), and the program prints nothing else, it is that
    of rank 0.
    """
    found = _by_arrival(_read_log_at(card, folder / LOG, read_arrivals(folder / ARRIVALS), commands))
    if found.parsed.records.count or card.launcher is not Launcher.COMMAND:
        return found
    own = next((file.path for file in rank_files(folder) if file.rank(1) == 0), None)
    if own is None:
        return found
    of_rank = _read_log_at(card, own, [], commands)
    return of_rank if of_rank.parsed.records.count else found


_OF_OTHER_WORK = "evaluation-included"
"""The code of the doubt about a program's own result that also holds for the time between its steps."""


def _by_arrival(found: RunLog) -> RunLog:
    """Return the log with its steps by their arrival, where it has only a result and its format says how."""
    known = None if found.known is None else found.known.by_arrival
    if known is None or found.parsed.records.count or len(found.arrived) < 2:
        return found
    if any(problem.code == _OF_OTHER_WORK for problem in found.parsed.problems):
        return found
    text = io.BytesIO(b"".join(piece for _, piece in found.arrived))
    parsed = read_stream_by_format(text, found.parsed.log, known, None)
    return replace(found, parsed=parsed, known=known, with_result=found) if parsed.records.count else found


def _read_log_at(card: Card, log: Path, arrivals: list[tuple[float, int]], commands: Sequence[str]) -> RunLog:
    """Return the log at a path; ``arrivals`` are the noted times and sizes, empty if unknown."""
    arrived = pieces(log, arrivals)
    if card.launcher is not Launcher.COMMAND:
        return RunLog(*_read_file(card, log), arrived)
    shown = b"".join(f"+ {text}\n".encode(errors="replace") for text in commands[:1])
    arrived = [(arrived[0][0] if arrived else 0.0, shown), *arrived]
    text = b"".join(piece for _, piece in arrived)
    name = str(log)
    is_unknown = lacks_pace = False
    if isinstance(card.log_format, str) and card.log_format == AUTO_FORMAT:
        parsed = read_stream(io.BytesIO(text), name)
        known = format_of(parsed.format)
        is_unknown, lacks_pace = may_be_guessed(parsed), _has_no_pace(parsed)
    else:
        known = _stated_format(card)
        parsed = read_stream_by_format(io.BytesIO(text), name, known, None)
    if is_unknown and (guess := _with_means(propose_for(text), arrived)) is not None:
        guessed = read_guessed(parsed, io.BytesIO(text), None, guess)
        if guessed is not None:
            return RunLog(guessed, proposed_format(guess), arrived, guess)
    if lacks_pace and len(arrived) > 2:
        with_stamps = stamped(arrived)
        text = b"".join(piece for _, piece in with_stamps)
        if (guess := propose_for(text)) is not None:
            guessed = read_guessed(parsed, io.BytesIO(text), None, guess, _ARRIVALS_ADVICE)
            if guessed is not None:
                return RunLog(guessed, proposed_format(guess), with_stamps, guess, is_stamped=True)
    return RunLog(parsed, known, arrived)


def _with_means(guess: Guess | None, arrived: list[tuple[float, bytes]]) -> Guess | None:
    """Return a guess with the printed figures as means since the start, if the arrival of the lines shows that."""
    if guess is None or len(arrived) < 3 or not _prints_a_figure(guess):
        return guess
    by_arrival = propose_for(b"".join(piece for _, piece in stamped(arrived)))
    if by_arrival is None or _prints_a_figure(by_arrival):
        return guess
    if not all(isinstance(each, str) for each in by_arrival.document["records"]):
        return guess
    records = [pattern.replace(STAMP_PATTERN, "") for pattern in by_arrival.document["records"]]
    return replace(by_arrival, document={**by_arrival.document, "records": records})


def _prints_a_figure(guess: Guess) -> bool:
    """Return whether a guess takes a printed speed or time for that of a line alone."""
    patterns = guess.document["records"]
    return any(isinstance(each, str) and field in each for each in patterns for field in _FIGURES)


_FIGURES = ("{rate", "{steps_per_s", "{step_time_")


def _has_no_pace(parsed: ParsedLog) -> bool:
    """Return whether a log has neither results nor two records: an unknown one, or Keras' before an epoch ends."""
    return parsed.records.count < 2 and not parsed.figures and parsed.own_run is None


def _stated_format(card: Card) -> Format:
    """Return the format that a card names or describes."""
    if isinstance(card.log_format, str):
        return find_format(card.log_format)
    return described_format(card.log_format, f"the card of {card.name}", card.name)


def _read_file(card: Card, log: Path) -> tuple[ParsedLog, Format | None]:
    """Return a log as it is, and the format by which it was read."""
    if not isinstance(card.log_format, str):
        known = _stated_format(card)
        return read_by_format(log, known, None), known
    parsed = read_log(log, guess=card.log_format == AUTO_FORMAT)
    return parsed, format_of(parsed.format)


@dataclass(frozen=True, slots=True)
class ArrivalClock:
    """The arrival of the records in Unix time (None: unknown), and whether the program's output was buffered."""

    times: Floats | None = None
    buffered: bool = False

    def window(self, skipped: int, used: int) -> tuple[float, float] | None:
        """Return from which to which arrival the used records reach: from the last one that is left out."""
        if self.times is None or self.buffered or used < 1:
            return None
        first, last = max(0, skipped - 1), min(skipped + used, len(self.times)) - 1
        began, ended = float(self.times[first]), float(self.times[last])
        # All of a short program's records may arrive together.
        return (began, ended) if ended > began else None


_FEWEST_ARRIVALS = 10
"""The least number of measured steps by their arrival; of fewer, the program's own result is the number."""


def _measure_log(run: LoggedRun) -> Measurement:
    """Measure another program's log by the card's rule; facts that the log lacks come from the case."""
    first = read_run_log(run.card, run.folder, run.commands)
    if first.with_result is None:
        return _measurement_of(run, first)
    try:
        measured = _measurement_of(run, first)
    except NotMeasurable:
        measured = None
    if measured is not None and (measured.measured_steps < _FEWEST_ARRIVALS or _is_gappy(measured)):
        measured = None
    if measured is not None and not _lacks_work(measured, work_of_step(run.case, run.card)):
        return measured
    try:
        return _measurement_of(run, first.with_result)
    except NotMeasurable:
        if measured is None:
            raise
        return measured


def _is_gappy(measured: Measurement) -> bool:
    """Return whether steps have no line of their own: a bar is not drawn for each of many fast steps."""
    return any(one.code in ("records-missing", BUFFERED) for one in measured.suspicions)


def _lacks_work(measured: Measurement, stated: int | None) -> bool:
    """Return whether the work of a step is neither stated nor printed, or is not the same in each."""
    is_unknown = stated is None and measured.unit == STEPS_UNIT
    return is_unknown or any(one.code == PARTIAL_BATCHES for one in measured.suspicions)


def _measurement_of(run: LoggedRun, first: RunLog) -> Measurement:
    """Return the measurement of a run by its log as read."""
    case, card, log, alone = run.case, run.card, run.folder / LOG, first.parsed
    found = first.with_facts(missing_facts(alone.facts, case))
    read, times = found.parsed, found.times()
    clock = ArrivalClock() if times is None else ArrivalClock(times, are_buffered(times, ARRIVAL_INTERVAL_S))
    _require_format(card, read, log, found)
    work = work_of_step(case, card)
    printed = read.facts.global_batch
    timed = _with_arrivals(_with_work(work, read), clock, is_stamped=found.is_stamped)
    read, result = _measured(run, work, timed, found.counted_unit)
    in_bursts = found.is_stamped and clock.buffered and result.rule == RuleKind.WINDOW
    if in_bursts and (skip := _end_of_arrival(clock, result.skipped)) > result.skipped:
        later = replace(run, card=card.model_copy(update={"skip": skip}))
        read, result = _measured(later, work, timed, found.counted_unit)
    if found.counted_unit != EPOCHS_UNIT and not _validates_often(found):
        pauses = len(_PAUSING.findall(b"".join(piece for _, piece in found.arrived)))
        result = by_wall_clock(read, result, pauses)
    problems = (*read.problems, *result.problems)
    if found.is_stamped and clock.buffered:
        problems = tuple(one for one in problems if one.code not in _OF_TIMES)
    allowed = (Status.OK, Status.GUESSED) if card.log_format == AUTO_FORMAT else (Status.OK,)
    if result.value is None or result.status not in allowed:
        # The rule's own problem comes first: it is the one that stops it.
        doubts = (one for one in (*result.problems, *read.problems) if one.severity is Severity.DOUBT)
        reasons = "; ".join(dict.fromkeys(one.message for one in doubts)) or result.status.value
        raise NotMeasurable(f"{log.name} gives no number by the rule '{result.rule}': {reasons}")
    window = clock.window(result.skipped, result.used)
    return Measurement(
        unit=read.unit or card.counted_in,
        rule=result.rule,
        throughput=result.value,
        printed_throughput=result.printed,
        paused_s=result.paused_s or None,
        samples=None,
        window_s=None if window is None else window[1] - window[0],
        window_at=None if window is None else window[0],
        measured_steps=result.used,
        warmup_steps=result.skipped,
        first_step_s=_first_step(read),
        compile_s=None,
        step_times=_step_times(read, clock, result),
        data_wait=_data_wait(read, result),
        peak_memory_bytes=(),
        final_loss=None,
        witnessed=_witnessed(alone),
        # Stamps of an arrival have more digits than it is known to.
        steadiness=judge_records(
            replace(read, clock_resolution_s=ARRIVAL_INTERVAL_S) if found.is_stamped else read, result.skipped
        ),
        suspicions=(
            *log_suspicions(problems),
            *_buffering(clock),
            *(_short_window(window) if found.is_by_arrival and read.uses_clock else ()),
            *stated_work_doubts(card.unit, work, printed, read.unit, timed.unit),
            *contradictions(case, card, run.commands, alone, read, log),
        ),
    )


_VALIDATES = rb"val(?:id\w*)?|eval\w*|test(?:ing)?"
_VALIDATION = re.compile(rb"(?im)^.*?(?<![a-z])(?:" + _VALIDATES + rb")(?![a-z]).*$")
_SAVES = rb"checkpoint\w*|ckpts?|sav(?:e[ds]?|ing)"
_PAUSING = re.compile(
    rb"(?im)(?:^(?!\+ ).*?(?<![a-z])(?:" + _VALIDATES + rb"|" + _SAVES + rb")(?![a-z]).*\n?)+"
)
"""Neighbouring lines about a validation or a checkpoint, but for the command."""


def _validates_often(found: RunLog) -> bool:
    """Return whether every second line of a step, or more, has a line about a validation.

    Its time is then between the steps that the program times, and is no part of training.
    """
    text = b"".join(piece for _, piece in found.arrived[1:])
    return 2 * len(_VALIDATION.findall(text)) >= found.parsed.records.count


def _measured_by_work(
    run: LoggedRun, work: int | None, read: ParsedLog
) -> tuple[ParsedLog, RuleResult] | None:
    """Return a log and its number by the stated work of a step and the time of the steps; None without both.

    What the card states comes before the rate and the unit that a guess assumes; of a known format it counts only in
    another unit than the log's, as tokens where samples are printed. A printed rate of the same unit that differs is a
    doubt.
    """
    card = run.card
    in_another_unit = card.unit is not None and read.unit not in (None, card.unit)
    if work is None or not (read.status is Status.GUESSED or in_another_unit):
        return None
    facts = replace(read.facts, global_batch=work) if in_another_unit else read.facts
    by_work = replace(
        read, unit=card.unit or read.unit, facts=facts, records=replace(read.records, rate=None)
    )
    result = measure_log(by_work, _rule_of(run, by_work))
    if result.value is None:
        return None
    if read.records.rate is None or by_work.unit != read.unit:
        return by_work, result
    printed = measure_log(read, _rule_of(run, read)).value
    if printed is None or abs(printed / result.value - 1) <= TOLERANCE:
        return by_work, result
    reason = explain_factor(read, printed / result.value)
    sentence = (
        f"the number is {result.value:.6g} by the stated work of a step ({work:,}), but by the printed rate it is "
        f"{printed:.6g}{': ' + reason if reason else ''}"
    )
    problems = (*result.problems, Problem("witnesses-disagree", sentence))
    return by_work, replace(result, problems=problems)


def _measured(
    run: LoggedRun, work: int | None, read: ParsedLog, counted_unit: str
) -> tuple[ParsedLog, RuleResult]:
    """Return the log and its number by the stated work of a step, or by the card's rule.

    It is in ``counted_unit`` if nothing states the work of a step.
    """
    if (by_work := _measured_by_work(run, work, read)) is not None:
        return by_work
    rule = _rule_of(run, read)
    result = measure_log(read, rule)
    if result.value is None and rule is not None and run.card.rule is None and run.card.skip is None:
        # A program that prints only its results has no records to leave out.
        rule, result = None, measure_log(read, None)
    if result.value is not None or work is not None or read.global_batch is not None:
        return read, result
    in_steps = replace(read, unit=counted_unit, facts=replace(read.facts, global_batch=1))
    return in_steps, measure_log(in_steps, rule)


def _rule_of(run: LoggedRun, read: ParsedLog) -> Rule | None:
    """Return the card's rule; None for the window with the format's own warm-up, or the program's own summary.

    The suite's warm-up counts steps, of which a record may cover several; it applies to the window, unless the card
    states the records to skip.
    """
    card = run.card
    if card.skip is not None:
        return find_rule(card.rule or RuleKind.WINDOW, card.skip)
    if run.warmup_steps is not None and card.rule in (None, RuleKind.WINDOW):
        return find_rule(RuleKind.WINDOW, -(-run.warmup_steps // max(1, read.step_interval)))
    return find_rule(card.rule) if card.rule else None


def _witnessed(alone: ParsedLog) -> dict[str, str]:
    """Return the facts that the log states itself, as words."""
    facts = {"format": alone.format, "framework": alone.framework}
    facts |= {field.name: getattr(alone.facts, field.name) for field in fields(alone.facts)}
    return {name: str(value) for name, value in facts.items() if value is not None}


def _require_format(card: Card, read: ParsedLog, log: Path, found: RunLog) -> None:
    name = card.format_name
    if read.format is None and hides_output(card.command):
        raise NotMeasurable(
            f"{log.name} has no records: torchrun writes the ranks' output into files (--redirects); let it write them "
            "into the run's folder, where they are read (--log-dir {run}/node{node}), or print them too (--tee 3)"
        )
    if read.format is None and name == AUTO_FORMAT:
        untimed = None if len(found.arrived) > _AT_ONCE else find_untimed(log.read_bytes())
        if untimed is not None:
            raise NotMeasurable(
                f"{log.name} is {read.status.value}: lines such as '{untimed}' count steps, but all arrived at once, "
                "so their times are unknown: let the program flush its output after each line (print(…, flush=True); "
                "PYTHONUNBUFFERED=1 is set; for others stdbuf -oL)"
            )
        if read.status is not Status.UNKNOWN and read.problems:
            raise NotMeasurable(f"{log.name} is {read.status.value}: {read.problems[0].message}")
        if (changing := find_other_batches(log.read_bytes())) is not None:
            raise NotMeasurable(
                f"{log.name} is {read.status.value}: lines such as '{changing}' are of different batches, so the time "
                "of a step is no rate: let the program print its rate, or its samples so far (samples seen: 640)"
            )
        last = last_line_of(log)
        raise NotMeasurable(
            f"{log.name} is {read.status.value}: no line of it repeats with an increasing counter{last}; "
            f"if it does train, {_MEASURE_ITSELF if last == _SILENT else _DESCRIBE_LINES}"
        )
    if read.format is None:
        raise NotMeasurable(
            f"{log.name} is {read.status.value}: not a log of the card's format '{name}'{last_line_of(log)}"
        )
    if read.format != name != AUTO_FORMAT:
        raise NotMeasurable(f"{log.name} has the format '{read.format}', but the card states '{name}'")


_AT_ONCE = 2
"""The most parts of a log that arrived at once: the command, and all output."""
_SILENT = "; the program printed nothing"
_DESCRIBE_LINES = (
    "describe its lines (docs/how-to/describe-a-log.md) and give --format, or let it count its own steps by "
    "trainmark.measure (docs/tutorials/measure-your-script.md)"
)
_MEASURE_ITSELF = (
    "let it print a line per step, or use trainmark.measure (docs/tutorials/measure-your-script.md)"
)


def last_line_of(log: Path) -> str:
    """Return the last line of a log as the end of a sentence: a program that refuses often ends with code 0."""
    last = last_line(read_tail(log).decode(errors="replace"))
    return f"; its last line: {printable_line(last)[:200]}" if last else _SILENT


def _with_work(work: int | None, read: ParsedLog) -> ParsedLog:
    """Return the log with the work of a step that the card states, if the log does not print it."""
    if work is None or read.facts.global_batch is not None:
        return read
    return replace(read, facts=replace(read.facts, global_batch=work))


def _with_arrivals(read: ParsedLog, clock: ArrivalClock, *, is_stamped: bool) -> ParsedLog:
    """Return the log with the arrival of its records as their clock, which is finer than a stamp in seconds.

    The problems of its timing are then those of this clock, also if it was read with it (``is_stamped``).
    """
    if is_stamped:
        return with_timing_by(read, ARRIVAL_INTERVAL_S)
    fine = read.records.clock_s is not None and read.clock_resolution_s < 1
    if clock.times is None or clock.buffered or fine or read.restarts:
        return read
    records = replace(read.records, clock_s=Column.of(clock.times))
    timed = replace(read, records=records, clock_resolution_s=2 * ARRIVAL_INTERVAL_S)
    return with_timing_by(with_varying_work(timed), ARRIVAL_INTERVAL_S)


def _end_of_arrival(clock: ArrivalClock, skipped: int) -> int:
    """Return the number of records to leave out, with all that arrived with the last of the first ``skipped``.

    Those were computed before that moment: in a window that begins there they are work without time.
    """
    times = clock.times
    if times is None or not 0 < skipped <= len(times):
        return skipped
    end = int(np.count_nonzero(times <= times[skipped - 1]))
    return end if skipped <= end < len(times) else skipped


_OF_TIMES = frozenset({"stall", "too-fast", "pace-changes"})
"""The doubts about the times between records, which a buffered output does not show."""


_MOST_OF_A_LOOK = 0.01
"""The largest share of a window by arrival that the interval of the looks at the log may be, without a doubt."""


def _short_window(window: tuple[float, float] | None) -> Iterator[Suspicion]:
    """Yield the doubt about a window by the arrival of its lines that is too short for the looks at the log."""
    if window is None or (share := ARRIVAL_INTERVAL_S / (window[1] - window[0])) <= _MOST_OF_A_LOOK:
        return
    sentence = (
        f"the window of {window[1] - window[0]:.3g} s is accurate only to {share:.1%}, because the arrival of lines is "
        f"noted every {1000 * ARRIVAL_INTERVAL_S:g} ms: let the program train for longer"
    )
    yield Suspicion(code="short-window", sentence=sentence, about=About.WINDOW)


def _buffering(clock: ArrivalClock) -> tuple[Suspicion, ...]:
    if not clock.buffered:
        return ()
    sentence = (
        "the program's records arrived in bursts: its output is buffered, so the times of its steps are unknown "
        "(PYTHONUNBUFFERED=1 is set; other programs need their own way, such as stdbuf -oL)"
    )
    return (Suspicion(code=BUFFERED, sentence=sentence, about=About.WINDOW),)


def _first_step(read: ParsedLog) -> float | None:
    """Return the first step's seconds, if the log prints every step's."""
    times = read.records.step_time_s
    if times is None or read.step_interval != 1 or not len(times):
        return None
    first = float(times.array(0, 1)[0])
    return first if np.isfinite(first) and first > 0 else None


_LOOKS_PER_STEP = 5
"""The least number of looks at a log in a step whose time is taken from the arrival of its line."""


def _step_times(read: ParsedLog, clock: ArrivalClock, result: RuleResult) -> StepTimes | None:
    """Return the distribution of the measured steps' times, if the log prints each step or its records arrived so.

    None if the clock is too coarse for these steps: several arrive at one look, or are printed as zero.
    """
    if read.step_interval != 1:
        return None
    printed = read.records.step_time_s
    if printed is not None:
        times = printed.array(result.skipped, result.skipped + result.used)
    elif clock.times is not None and not clock.buffered:
        times = np.diff(clock.times)[max(0, result.skipped - 1) : result.skipped + result.used - 1]
        if not len(times) or times.mean() < _LOOKS_PER_STEP * ARRIVAL_INTERVAL_S:
            return None
    else:
        return None
    times = times[np.isfinite(times)]
    if len(times) < 2 or not times.min() > 0:
        return None
    least, p50, p90, p99, most = (float(value) for value in np.percentile(times, (0, 50, 90, 99, 100)))
    return StepTimes(mean=float(times.mean()), minimum=least, p50=p50, p90=p90, p99=p99, maximum=most)


def _data_wait(read: ParsedLog, result: RuleResult) -> float | None:
    """Return the share of the measured steps in which the program waited for its data, where it prints both."""
    waits, times = read.records.data_time_s, read.records.step_time_s
    if waits is None or times is None:
        return None
    stop = result.skipped + result.used
    waited, passed = (np.nansum(column.array(result.skipped, stop)) for column in (waits, times))
    return float(waited / passed) if passed > 0 and waited <= passed else None
