"""Audits of published values: which rule reproduces a value from its log, if any.

The publishers' rules for the log's format are tried first, then the conventional ones. No window is searched for, and
every verdict has the probability that a random value with as many digits would have been reproduced.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, InvalidOperation
from enum import StrEnum
from pathlib import Path

from trainmark.errors import InputError, nearest
from trainmark.logs.model import MOST_OF_A_NOTE, Facts, ParsedLog, Severity, Status
from trainmark.logs.plausibility import stalls
from trainmark.measure.rules.catalog import conventional_rules, rules_for
from trainmark.measure.rules.model import RuleKind, RuleResult
from trainmark.measure.rules.stretches import span_of_stretches
from trainmark.measure.rules.units import Dimension, Unit, convert, is_plain, parse_unit
from trainmark.programs import read_log
from trainmark.tasks import same_unit

_COLUMNS = ("log", "published", "gpus", "batch", "unit")
_REQUIRED = ("log", "published")
_NEAR = Decimal("0.05")
_CHANCE_REPORTED = 0.01
_GROUP = 3
"""Digits between two thousands separators."""
_ROUNDED = (ROUND_HALF_UP, ROUND_HALF_EVEN)


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
class Claim:
    """One row of a table: ``published`` as printed, to keep its digits."""

    log: str
    published: str
    gpus: int | None = None
    batch: int | None = None
    unit: str | None = None


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


def read_claims(table: Path) -> list[Claim]:
    """Read a CSV with the columns ``log,published[,gpus,batch,unit]``; other columns are ignored.

    Raises ``InputError`` naming file and line.
    """
    try:
        with table.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            names = [name.strip() for name in reader.fieldnames or []]
            reader.fieldnames = names
            for name in _REQUIRED:
                if name not in names:
                    hint = nearest(name, names)
                    raise InputError(f"{table}:1: no column '{name}'{hint} (columns: {','.join(_COLUMNS)})")
            return [
                _claim(row, table, reader.line_num)
                for row in reader
                if any(_cell(row, name) for name in names)
            ]
    except OSError as error:
        raise InputError(f"{table}: {error.strerror or error}") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{table}: is not a CSV file in UTF-8: {error}") from None


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
    usual = [rule.compute(readable) for rule in rules_for(log.format)]
    known = {result.rule for result in usual}
    conventional = [rule.compute(readable) for rule in conventional_rules() if rule.name not in known]
    tried = Tried([r for r in usual if r.value is not None], [r for r in conventional if r.value is not None])
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
        reasons = "; ".join(dict.fromkeys(p.message for result in usual for p in result.problems))
        note = "; ".join([*_notes(claim, log), reasons])
        return AuditFinding(claim, AuditVerdict.UNREADABLE, note=note)
    chance = chance_of_a_match(tried, published)
    matching = tried.matching(published)
    if not matching:
        return _not_reproduced(claim, published, readable, tried, chance, _notes(claim, log, tried.all[0]))
    best = matching[0]
    assert best.value is not None
    notes = _notes(claim, log, best)
    if claim.unit and log.unit and not same_unit(claim.unit, log.unit):
        sentence = f"{best.rule} gives these digits, but in another unit"
        note = "; ".join([sentence, *notes])
        return AuditFinding(
            claim,
            AuditVerdict.UNEXPLAINED,
            None,
            best.value,
            _deviation(published, best),
            chance,
            note,
        )
    if best not in tried.usual:
        notes.insert(
            0, f"{best.rule} is a conventional rule: no publisher is known to use it for logs of this format"
        )
    others = [result.rule for result in matching[1:]]
    if others:
        notes.append(f"the same digits follow from {', '.join(others)}")
    if chance > _CHANCE_REPORTED:
        digits = len(published.as_tuple().digits)
        notes.append(
            f"weak evidence: with only {digits} digits, a random value within 5 % would match one of the "
            f"{len(tried.all)} rules in {chance:.1%} of cases"
        )
    notes += [p.message for p in best.problems if p.severity is Severity.DOUBT]
    notes += _ignored_stalls(best, tried, log)
    if not _printed(best.value, published, *_ROUNDED):
        notes.append("the published digits are truncated, not rounded")
    return AuditFinding(
        claim,
        AuditVerdict.REPRODUCED,
        best.rule,
        best.value,
        _deviation(published, best),
        chance,
        "; ".join(notes),
    )


def _notes(claim: Claim, log: ParsedLog, result: RuleResult | None = None) -> list[str]:
    """Return how the table contradicts the log, and the log's doubts about the records that ``result`` uses."""
    doubts = "; ".join(_doubts(log, result.skipped if result else 0))
    return [*_contradictions(claim, log), *([doubts] if doubts else [])]


def _doubts(log: ParsedLog, left_out: int = 0) -> Iterator[str]:
    found = log.problems_after(left_out)
    return (problem.message for problem in found if problem.severity is Severity.DOUBT)


def try_rules(log: ParsedLog) -> "Tried":
    """Return the results of all rules that give a number for ``log``, those of its format's publishers first."""
    usual = [rule.compute(log) for rule in rules_for(log.format)]
    known = {result.rule for result in usual}
    conventional = [rule.compute(log) for rule in conventional_rules() if rule.name not in known]
    return Tried(
        *([result for result in group if result.value is not None] for group in (usual, conventional))
    )


@dataclass(frozen=True, slots=True)
class Tried:
    """The rules' results: the publishers' and trainmark's, then the conventional ones, which match only rounded."""

    usual: list[RuleResult]
    conventional: list[RuleResult]

    @property
    def all(self) -> list[RuleResult]:
        """All results, in the order in which their rules are tried."""
        return [*self.usual, *self.conventional]

    def matching(self, published: Decimal) -> list[RuleResult]:
        """Return the results that equal ``published`` when printed with as many digits."""
        return [
            *(r for r in self.usual if r.value and _printed(r.value, published, *_cuts(r))),
            *(r for r in self.conventional if r.value and _printed(r.value, published, *_ROUNDED)),
        ]


_MARKS = {",": ".", ".": ","}


def readings_of(text: str) -> tuple[Decimal, ...]:
    """Return the possible values of a printed figure with its digits: ``21,259.81``, ``21.259,81``, ``222,75``.

    Words and blanks have none; a single comma before three digits is read as thousands first, then as decimals.
    """
    compact = re.sub(r"\s", "", text)
    last = max(compact.rfind(","), compact.rfind("."))
    mark = compact[last] if last >= 0 else ","
    whole, decimals = compact[:last], compact[last + 1 :]
    thousands = compact.replace(mark, "")
    lone = mark == "," and compact.count(",") == 1
    if _MARKS[mark] in whole or (lone and (len(decimals) != _GROUP or not whole.strip("0"))):
        words = [f"{whole.replace(_MARKS[mark], '')}.{decimals}"]
    elif lone:
        words = [thousands, f"{whole}.{decimals}"]
    elif compact.count(mark) > 1:
        words = [thousands]
    else:
        words = [compact]
    values = (_figure(word) for word in words)
    return tuple(value for value in values if value is not None)


def parse_published(text: str) -> Decimal | None:
    """Return the first reading of a printed figure with its digits; ``None`` for words and blanks."""
    return next(iter(readings_of(text)), None)


def _figure(word: str) -> Decimal | None:
    try:
        value = Decimal(word)
    except InvalidOperation:
        return None
    return value if value.is_finite() and value > 0 else None


def reproduces(value: float, published: Decimal) -> bool:
    """Return whether ``value`` printed with the digits of ``published``, rounded or truncated, is ``published``."""
    return _printed(value, published, *_ROUNDED, ROUND_DOWN)


def _printed(value: float, published: Decimal, *modes: str) -> bool:
    return published in _prints(value, _grain(published), *modes)


def _prints(value: float, grain: Decimal, *modes: str) -> set[Decimal]:
    # Twelve digits, so that the order of a float sum does not matter; no log prints more.
    exact = Decimal(f"{value:.12g}")
    return {exact.quantize(grain, mode) for mode in modes}


def _cuts(result: RuleResult) -> tuple[str, ...]:
    """Return the roundings that a publisher may have used for a rule's result; trainmark's own rule only rounds."""
    return _ROUNDED if result.rule == RuleKind.WINDOW else (*_ROUNDED, ROUND_DOWN)


def _grain(published: Decimal) -> Decimal:
    return Decimal(1).scaleb(min(int(published.as_tuple().exponent), 0))


def chance_of_a_match(tried: Tried, published: Decimal) -> float:
    """Return the share of all figures within ±5 % of ``published``, with as many digits, that match some rule."""
    grain = _grain(published)
    given: set[Decimal] = set()
    for result in tried.all:
        if result.value is not None:
            modes = _cuts(result) if result in tried.usual else _ROUNDED
            given |= _prints(result.value, grain, *modes)
    near = sum(1 for figure in given if abs(figure - published) <= published * _NEAR)
    figures = 2 * (published * _NEAR // grain) + 1
    return min(1.0, near / float(figures))


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
    explanation = _possible_source(published, log, tried, claim)
    first = f"no rule reproduces it (the value shown is by {usual.rule})"
    is_other = bool(claim.unit and log.unit and not same_unit(claim.unit, log.unit))
    without = AuditVerdict.INCOMPARABLE if is_other else AuditVerdict.CONTRADICTED
    verdict = AuditVerdict.UNEXPLAINED if explanation else without
    second = explanation or "no part of the log and no known mix-up of devices, batch or unit gives it either"
    note = "; ".join([first, second, *notes])
    return AuditFinding(claim, verdict, None, usual.value, _deviation(published, usual), chance, note)


def _possible_source(published: Decimal, log: ParsedLog, tried: Tried, claim: Claim) -> str | None:
    """Return a sentence on what may have given ``published``, a part of the log or a mix-up; ``None`` if nothing."""
    span = span_of_stretches(log)
    value = float(published)
    if span and span.low <= value <= span.high:
        return (
            f"parts of the log of at least {span.records} records give {span.low:.6g} to {span.high:.6g}: "
            "the value is in that range, but it is unknown which part was used"
        )
    for result in tried.all:
        if result.value and (what := _rounded_then_multiplied(result.value, published, log)):
            return f"{result.rule} gives it if {what}"
    for factor, what in _mix_ups(log, claim):
        for result in tried.all:
            if result.value and reproduces(result.value * factor, published):
                return f"{result.rule} gives it if {what}"
        if span and span.low * factor <= value <= span.high * factor:
            return f"parts of the log give {span.low * factor:.6g} to {span.high * factor:.6g} if {what}"
    return None


def _rounded_then_multiplied(value: float, published: Decimal, log: ParsedLog) -> str | None:
    """Return a sentence if ``published`` is the rounded rate of a device, or node, times their number."""
    for count, what in ((log.facts.gpus, "devices"), (log.facts.nodes, "nodes")):
        if count is None or count < 2:
            continue
        for digits in range(4):
            part = Decimal(f"{value / count:.12g}").quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
            if part > 0 and part * count == published:
                return f"the rate of one of {count} {what} was rounded to {part} and then multiplied"
    return None


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


def _mix_ups(log: ParsedLog, claim: Claim) -> Iterator[tuple[float, str]]:
    """Yield the factor and the description of each mix-up of devices, nodes, batch or unit."""
    gpus, nodes, batch = log.facts.gpus, log.facts.nodes, log.facts.batch_per_device
    if gpus and gpus > 1:
        yield 1 / gpus, f"it is the rate of one of {gpus} devices"
        yield float(gpus), f"it was multiplied by the {gpus} devices twice"
    if nodes and nodes > 1:
        yield 1 / nodes, f"it is the rate of one of {nodes} nodes"
        yield float(nodes), f"it was multiplied by the {nodes} nodes twice"
    if claim.gpus and gpus and claim.gpus != gpus:
        yield claim.gpus / gpus, f"it is scaled to the table's {claim.gpus} devices from the log's {gpus}"
    if claim.batch and batch and claim.batch != batch:
        yield claim.batch / batch, f"it uses the table's batch of {claim.batch} instead of the log's {batch}"
    if batch and batch > 1:
        yield 1 / batch, "it counts batches and not samples"
    if log.accumulates and log.facts.accumulation and log.facts.accumulation > 1:
        yield (
            1 / log.facts.accumulation,
            f"only one of {log.facts.accumulation} micro-batches per step was counted",
        )
    yield 60.0, "it is per minute and not per second"
    yield 3600.0, "it is per hour and not per second"
    yield 1000.0, "it counts in thousandths"
    yield 1e-3, "it counts in thousands"


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
    if claim.unit and log.unit and not same_unit(claim.unit, log.unit):
        notes.append(f"the table says {claim.unit}, the log counts {log.unit}")
    return notes


def _claim(row: dict[str, str], table: Path, line: int) -> Claim:
    log = _cell(row, "log")
    if not log:
        raise InputError(f"{table}:{line}: the column 'log' is empty")
    return Claim(
        log=log,
        published=_cell(row, "published"),
        gpus=_count(row, "gpus", table, line),
        batch=_count(row, "batch", table, line),
        unit=_cell(row, "unit") or None,
    )


def _cell(row: dict[str, str], name: str) -> str:
    value = row.get(name)
    return value.strip() if isinstance(value, str) else ""


def _count(row: dict[str, str], name: str, table: Path, line: int) -> int | None:
    word = _cell(row, name)
    if not word:
        return None
    if not word.isdecimal() or int(word) < 1:
        raise InputError(f"{table}:{line}: {name} is '{word}'; expected a whole number above 0")
    return int(word)
