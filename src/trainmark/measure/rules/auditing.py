"""Audits of published values: which rule reproduces a value from its log, if any.

The publishers' rules for the log's format are tried first, then the conventional ones. No window is searched for, and
every verdict has the probability that a random value with as many digits would have been reproduced.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum
from pathlib import Path

from trainmark.logs.model import MOST_OF_A_NOTE, Facts, ParsedLog, Severity, Status
from trainmark.logs.plausibility import stalls
from trainmark.measure.rules.catalog import rules_for
from trainmark.measure.rules.claims import Claim, readings_of
from trainmark.measure.rules.matching import (
    ROUNDED,
    Tried,
    chance_of_a_match,
    is_printed,
    reproduces,
    try_rules,
)
from trainmark.measure.rules.mix_ups import possible_source
from trainmark.measure.rules.model import RuleKind, RuleResult
from trainmark.measure.rules.units import Dimension, Unit, convert, is_plain, parse_unit
from trainmark.programs import read_log
from trainmark.tasks import same_unit

_CHANCE_REPORTED = 0.01


class AuditVerdict(StrEnum):
    """The verdict of an audit on one published value."""

    REPRODUCED = "reproduced"
    UNEXPLAINED = "unexplained"
    """No known rule gives it, but a part of the log, or a known mix-up of devices, batch or unit, could."""
    INCOMPARABLE = "incomparable"
    """The published unit counts something that the log does not let it be converted to."""
    CONTRADICTED = "contradicted"
    """No rule, no part of the log and no known mix-up can give it."""
    UNREADABLE = "unreadable"


_BEST_FIRST = (
    AuditVerdict.REPRODUCED,
    AuditVerdict.UNEXPLAINED,
    AuditVerdict.INCOMPARABLE,
    AuditVerdict.CONTRADICTED,
    AuditVerdict.UNREADABLE,
)


@dataclass(frozen=True, slots=True)
class AuditFinding:
    """The verdict on a claim.

    ``rule`` is the rule that reproduces the value; if it is ``None``, ``value`` is by the publisher's own rule for this
    format. ``deviation`` is published / value - 1. ``chance`` is the probability that a value with as many digits,
    drawn from ±5 % around the published one, is reproduced by one of the rules tried; ``None`` if no figure was
    compared. ``facts`` are from the log.
    """

    claim: Claim
    verdict: AuditVerdict
    rule: str | None = None
    value: float | None = None
    deviation: float | None = None
    chance: float | None = None
    note: str = ""
    facts: Facts | None = None


def audit(claims: Iterable[Claim], logs: Path) -> Iterator[AuditFinding]:
    """Yield the finding on each claim; logs are read relative to ``logs``, each once for neighbouring rows."""
    last: tuple[str, ParsedLog] | None = None
    for claim in claims:
        if last is None or last[0] != claim.log:
            last = (claim.log, read_log(logs / claim.log))
        yield replace(judge(claim, last[1]), facts=last[1].facts)


def judge(claim: Claim, log: ParsedLog) -> AuditFinding:
    """Return the verdict on ``claim``, given its log as read without flags.

    If a figure is ambiguous (``222,752``), the reading with the best verdict is used.
    """
    readings = readings_of(claim.published)
    if not readings:
        return _judge_outcome(claim, log)
    findings = [_judge(claim, log, published) for published in readings]
    best = min(findings, key=lambda finding: _BEST_FIRST.index(finding.verdict))
    if len(readings) > 1:
        words = " or ".join(f"{reading:f}" for reading in readings)
        chosen = readings[findings.index(best)]
        best = replace(
            best, note="; ".join([f"'{claim.published}' may be {words}: read as {chosen:f}", best.note])
        )
    return best


def _judge(claim: Claim, log: ParsedLog, published: Decimal) -> AuditFinding:
    if log.format is None or not (log.records.count or log.figures):
        note = "; ".join(_doubts(log)) or f"the log is {log.status}"
        return AuditFinding(claim, AuditVerdict.UNREADABLE, note=note)
    # The published value may come from a failed run's records: the verdict decides, not the log's status.
    readable = replace(_assume(log, claim), status=Status.OK)
    tried = try_rules(readable)
    unit = parse_unit(claim.unit) if claim.unit else None
    # Equal digits in another unit are more than a coincidence: the usual way says so.
    if (
        unit is not None
        and not is_plain(unit, readable)
        and not _equal_digits(tried, published, unit, readable)
    ):
        notes = _notes(claim, log, tried.all[0] if tried.all else None)
        return _judge_in_unit(claim, readable, published, tried, unit, notes)
    if not tried.all:
        results = [rule.compute(readable) for rule in rules_for(log.format)]
        reasons = "; ".join(dict.fromkeys(p.message for result in results for p in result.problems))
        note = "; ".join([*_notes(claim, log), reasons])
        return AuditFinding(claim, AuditVerdict.UNREADABLE, note=note)
    chance = chance_of_a_match(tried, published)
    if not (matching := tried.matching(published)):
        return _not_reproduced(claim, published, readable, tried, chance, _notes(claim, log, tried.all[0]))
    best, notes = matching[0], _notes(claim, log, matching[0])
    assert best.value is not None
    verdict, rule = AuditVerdict.REPRODUCED, best.rule if _is_same_unit(claim, log) else None
    if rule is None:
        verdict = AuditVerdict.UNEXPLAINED
        notes.insert(0, f"{best.rule} gives these digits, but in another unit")
    else:
        notes = [*_notes_before(best, tried), *notes, *_notes_after(matching, published, tried, log, chance)]
    deviation = _deviation(published, best)
    return AuditFinding(claim, verdict, rule, best.value, deviation, chance, "; ".join(notes))


def _is_same_unit(claim: Claim, log: ParsedLog) -> bool:
    if not (claim.unit and log.unit) or same_unit(claim.unit, log.unit):
        return True
    unit = parse_unit(claim.unit)
    return unit is not None and is_plain(unit, log)


def _is_converted(claim: Claim, log: ParsedLog) -> bool:
    """Return whether the log's number can be had in the claim's unit."""
    unit = parse_unit(claim.unit) if claim.unit else None
    return unit is not None and not isinstance(convert(1.0, unit, _assume(log, claim)), str)


def _notes_before(best: RuleResult, tried: Tried) -> Iterator[str]:
    if best not in tried.usual:
        yield f"{best.rule} is a conventional rule: no publisher is known to use it for logs of this format"


def _notes_after(
    matching: Sequence[RuleResult], published: Decimal, tried: Tried, log: ParsedLog, chance: float
) -> Iterator[str]:
    """Yield what weakens a match: other rules, few digits, the doubts of the first rule's result, stalls, rounding."""
    best, *others = matching
    if others:
        yield f"the same digits follow from {', '.join(result.rule for result in others)}"
    if chance > _CHANCE_REPORTED:
        digits = len(published.as_tuple().digits)
        yield (
            f"weak evidence: with only {digits} digits, a random value within 5 % would match one of the "
            f"{len(tried.all)} rules in {chance:.1%} of cases"
        )
    yield from (problem.message for problem in best.problems if problem.severity is Severity.DOUBT)
    yield from _ignored_stalls(best, tried, log)
    if best.value is not None and not is_printed(best.value, published, *ROUNDED):
        yield "the published digits are truncated, not rounded"


def _notes(claim: Claim, log: ParsedLog, result: RuleResult | None = None) -> list[str]:
    """Return how the table contradicts the log, and the log's doubts about the records that ``result`` uses."""
    doubts = "; ".join(_doubts(log, result.skipped if result else 0))
    return [*_contradictions(claim, log), *([doubts] if doubts else [])]


def _doubts(log: ParsedLog, left_out: int = 0) -> Iterator[str]:
    found = log.problems_after(left_out)
    return (problem.message for problem in found if problem.severity is Severity.DOUBT)


def summarise_findings(findings: Iterable[AuditFinding]) -> list[str]:
    """Return the lines of an audit's summary: verdicts, rules, and whether a table mixes rules."""
    findings = list(findings)
    verdicts = Counter(finding.verdict for finding in findings)
    rules = Counter(finding.rule for finding in findings if finding.rule)
    values = "1 value" if len(findings) == 1 else f"{len(findings)} values"
    lines = [f"{values}: " + ", ".join(f"{verdicts[v]} {v}" for v in AuditVerdict)]
    lines += [f"  {count} by {rule}" for rule, count in rules.most_common()]
    if len(rules) > 1:
        lines.append(
            f"the table mixes values of {len(rules)} different rules, so they are not comparable with each other"
        )
    return lines


def _equal_digits(tried: Tried, published: Decimal, unit: Unit, log: ParsedLog) -> bool:
    """Return whether a rule gives the digits of a value whose unit counts other items than the log."""
    return bool(tried.matching(published)) and isinstance(convert(1.0, unit, log), str)


def _judge_in_unit(
    claim: Claim, log: ParsedLog, published: Decimal, tried: Tried, unit: Unit, notes: list[str]
) -> AuditFinding:
    """Return the verdict on a claim in another unit than the log's: each rule's result is converted to it."""
    one = convert(1.0, unit, log)
    if isinstance(one, str):
        return AuditFinding(claim, AuditVerdict.INCOMPARABLE, note="; ".join([one, *notes]))
    # TFLOP/s and MFU are the program's own figures, whatever the throughput is.
    values = [("figure", one)] if unit.dimension in (Dimension.TFLOPS, Dimension.MFU) else []
    if not values:
        converted = ((r.rule, convert(r.value, unit, log)) for r in tried.all if r.value is not None)
        values = [(rule, value) for rule, value in converted if not isinstance(value, str)]
    if not values:
        note = "; ".join([*notes, "the log gives no number"])
        return AuditFinding(claim, AuditVerdict.UNREADABLE, note=note)
    verdict, sentence = AuditVerdict.REPRODUCED, f"the log's number in {claim.unit}"
    matching = next(((rule, value) for rule, value in values if reproduces(value, published)), None)
    if matching is None:
        verdict = AuditVerdict.UNEXPLAINED
        sentence = f"no rule gives these digits in {claim.unit} (the value shown is by {values[0][0]})"
    value = (matching or values[0])[1]
    off = float(published) / value - 1
    rule = matching[0] if matching else None
    return AuditFinding(claim, verdict, rule, value, off, note="; ".join([sentence, *notes]))


def _not_reproduced(
    claim: Claim, published: Decimal, log: ParsedLog, tried: Tried, chance: float, notes: list[str]
) -> AuditFinding:
    usual = tried.all[0]
    closest = min(tried.all, key=lambda result: abs(_deviation(published, result)))
    if closest.rule != usual.rule:
        notes.append(
            f"the closest rule is {closest.rule}: {closest.value:.10g} ({_deviation(published, closest):+.2%})"
        )
    assert usual.value is not None
    explanation = possible_source(published, log, tried, claim)
    first = f"no rule reproduces it (the value shown is by {usual.rule})"
    without = AuditVerdict.CONTRADICTED if _is_same_unit(claim, log) else AuditVerdict.INCOMPARABLE
    verdict = AuditVerdict.UNEXPLAINED if explanation else without
    second = explanation or "no part of the log and no known mix-up of devices, batch or unit gives it either"
    note = "; ".join([first, second, *notes])
    return AuditFinding(claim, verdict, None, usual.value, _deviation(published, usual), chance, note)


def _ignored_stalls(best: RuleResult, tried: Tried, log: ParsedLog) -> Iterator[str]:
    """Yield a sentence if the rule that reproduces a value ignores the time that stalls took."""
    held = stalls(log)
    window = next((r for r in tried.all if r.rule == RuleKind.WINDOW), None)
    if held is None or window is None or not best.value or not window.value:
        return
    if held.factor > 1 + MOST_OF_A_NOTE and best.value > window.value * (1 + MOST_OF_A_NOTE):
        yield (
            f"{best.rule} ignores stalls, which took {held.share:.0%} of the window: samples over time is "
            f"{window.value:.6g}"
        )


def _judge_outcome(claim: Claim, log: ParsedLog) -> AuditFinding:
    word = claim.published.strip()
    if word.lower() in ("oom", "out of memory"):
        verdict = AuditVerdict.REPRODUCED if log.status is Status.OOM else AuditVerdict.CONTRADICTED
        return AuditFinding(claim, verdict, note=f"the log's outcome is {log.status}")
    return AuditFinding(
        claim, AuditVerdict.UNREADABLE, note=f"'{word}' is not a number" if word else "no value is published"
    )


def _deviation(published: Decimal, result: RuleResult) -> float:
    assert result.value is not None
    return float(published) / result.value - 1


def _assume(log: ParsedLog, claim: Claim) -> ParsedLog:
    facts = log.facts
    filled: Facts = replace(
        facts,
        gpus=facts.gpus if facts.gpus is not None else claim.gpus,
        batch_per_device=facts.batch_per_device if facts.batch_per_device is not None else claim.batch,
    )
    return replace(log, facts=filled)


def _contradictions(claim: Claim, log: ParsedLog) -> list[str]:
    facts, notes = log.facts, []
    if claim.gpus is not None and facts.gpus is not None and claim.gpus != facts.gpus:
        notes.append(f"the table says {claim.gpus} devices, the log says {facts.gpus}")
    if (
        claim.batch is not None
        and facts.batch_per_device is not None
        and claim.batch != facts.batch_per_device
    ):
        notes.append(f"the table says batch {claim.batch} per device, the log says {facts.batch_per_device}")
    if not _is_same_unit(claim, log) and not _is_converted(claim, log):
        notes.append(f"the table says {claim.unit}, the log counts {log.unit}")
    return notes
