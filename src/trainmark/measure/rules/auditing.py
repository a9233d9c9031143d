"""Does a published value follow from its log? Tries the publishers' rules for that format, then the conventional ones.

No window is searched for. Every verdict says how likely a random value of so many digits would have been reproduced.
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
from trainmark.programs import read_log
from trainmark.tasks import same_unit

_COLUMNS = ("log", "published", "gpus", "batch", "unit")
_REQUIRED = ("log", "published")
_NEAR = Decimal("0.05")
_CHANCE_TOLD = 0.01
_GROUP = 3
"""Digits between two marks of thousands."""
_ROUNDED = (ROUND_HALF_UP, ROUND_HALF_EVEN)


class AuditVerdict(StrEnum):
    """What an audit finds of one published value."""

    REPRODUCED = "reproduced"
    UNEXPLAINED = "unexplained"
    """No known rule gives it, but some stretch of the log, or a known mix-up of devices, batch or unit, could."""
    CONTRADICTED = "contradicted"
    """No rule, no stretch of the log and no known mix-up can give it."""
    UNREADABLE = "unreadable"


_TELLING = (
    AuditVerdict.REPRODUCED,
    AuditVerdict.UNEXPLAINED,
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

    ``rule`` is the rule that reproduces the value, ``None`` when none does; ``value`` is then what the
    publisher's own rule for this format gives. ``deviation`` is published / value - 1. ``chance`` is how likely a value
    drawn from ±5 % around, with as many digits, is reproduced by one of the rules that were tried; none where no
    figure was compared. ``facts`` are the log's own.
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
    """Read a CSV with the columns ``log,published[,gpus,batch,unit]``; others are left alone.

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
        raise InputError(f"{table}: is no CSV in UTF-8: {error}") from None


def audit(claims: Iterable[Claim], logs: Path) -> Iterator[AuditFinding]:
    """Yield the finding on each claim; logs are read relative to ``logs``, each once for neighbouring rows."""
    last: tuple[str, ParsedLog] | None = None
    for claim in claims:
        if last is None or last[0] != claim.log:
            last = (claim.log, read_log(logs / claim.log))
        yield replace(judge(claim, last[1]), facts=last[1].facts)


def judge(claim: Claim, log: ParsedLog) -> AuditFinding:
    """Return the verdict on ``claim``, given its log as read without flags.

    Where the printed figure can be read in two ways (``222,752``) that which a rule gives is meant, or else the first
    that the log could give.
    """
    readings = readings_of(claim.published)
    if not readings:
        return _judge_outcome(claim, log)
    findings = [_judge(claim, log, published) for published in readings]
    best = min(findings, key=lambda finding: _TELLING.index(finding.verdict))
    if len(readings) > 1:
        words = " or ".join(f"{reading:f}" for reading in readings)
        chosen = readings[findings.index(best)]
        best = replace(
            best, note="; ".join([f"'{claim.published}' is {words}: read as {chosen:f}", best.note])
        )
    return best


def _judge(claim: Claim, log: ParsedLog, published: Decimal) -> AuditFinding:
    said = "; ".join(problem.message for problem in log.problems if problem.severity is Severity.DOUBT)
    if log.format is None or not (log.records.count or log.figures):
        return AuditFinding(claim, AuditVerdict.UNREADABLE, note=said or f"the log is {log.status}")
    notes = [*_contradictions(claim, log), *([said] if said else [])]
    # A failed run's records may still be what was published: that is for the verdict to say, not to assume.
    readable = replace(_assume(log, claim), status=Status.OK)
    usual = [rule.compute(readable) for rule in rules_for(log.format)]
    known = {result.rule for result in usual}
    conventional = [rule.compute(readable) for rule in conventional_rules() if rule.name not in known]
    tried = Tried([r for r in usual if r.value is not None], [r for r in conventional if r.value is not None])
    if not tried.all:
        reasons = "; ".join(dict.fromkeys(p.message for result in usual for p in result.problems))
        return AuditFinding(claim, AuditVerdict.UNREADABLE, note="; ".join([*notes, reasons]))
    chance = chance_of_a_match(tried, published)
    matching = tried.matching(published)
    if not matching:
        return _not_reproduced(claim, published, readable, tried, chance, notes)
    best = matching[0]
    assert best.value is not None
    if claim.unit and log.unit and not same_unit(claim.unit, log.unit):
        sentence = f"{best.rule} gives these digits, but of another amount"
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
            0, f"{best.rule} is a conventional rule: nobody is known to publish logs of this format by it"
        )
    others = [result.rule for result in matching[1:]]
    if others:
        notes.append(f"{', '.join(others)} gives the same digits")
    if chance > _CHANCE_TOLD:
        digits = len(published.as_tuple().digits)
        notes.append(
            f"it could be chance: with {digits} digits, one of the {len(tried.all)} rules agrees with a figure taken "
            f"at random near by in {chance:.1%} of cases: weak evidence"
        )
    notes += [p.message for p in best.problems if p.severity is Severity.DOUBT]
    notes += _unseen_stalls(best, tried, log)
    if not _printed(best.value, published, *_ROUNDED):
        notes.append("the published digits are cut off, not rounded")
    return AuditFinding(
        claim,
        AuditVerdict.REPRODUCED,
        best.rule,
        best.value,
        _deviation(published, best),
        chance,
        "; ".join(notes),
    )


def try_rules(log: ParsedLog) -> "Tried":
    """Return what each rule makes of ``log``, those of its format's publishers first; without those that refuse."""
    usual = [rule.compute(log) for rule in rules_for(log.format)]
    known = {result.rule for result in usual}
    conventional = [rule.compute(log) for rule in conventional_rules() if rule.name not in known]
    return Tried(
        *([result for result in group if result.value is not None] for group in (usual, conventional))
    )


@dataclass(frozen=True, slots=True)
class Tried:
    """What rules gave: the publishers' and ours, then the conventional ones, which count only with rounded digits."""

    usual: list[RuleResult]
    conventional: list[RuleResult]

    @property
    def all(self) -> list[RuleResult]:
        """All of them, in the order in which they are tried."""
        return [*self.usual, *self.conventional]

    def matching(self, published: Decimal) -> list[RuleResult]:
        """Return the results that are ``published`` when printed with its digits."""
        return [
            *(r for r in self.usual if r.value and _printed(r.value, published, *_cuts(r))),
            *(r for r in self.conventional if r.value and _printed(r.value, published, *_ROUNDED)),
        ]


_MARKS = {",": ".", ".": ","}


def readings_of(text: str) -> tuple[Decimal, ...]:
    """Return what a printed figure can mean, its digits kept: ``21,259.81``, ``21 259.81``, ``21.259,81``, ``222,75``.

    Nothing for words and blanks; of a lone comma before three digits, thousands first and then its decimals.
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
    """Return a printed figure with its digits kept, as it is read first; ``None`` for words and blanks."""
    return next(iter(readings_of(text)), None)


def _figure(word: str) -> Decimal | None:
    try:
        value = Decimal(word)
    except InvalidOperation:
        return None
    return value if value.is_finite() and value > 0 else None


def reproduces(value: float, published: Decimal) -> bool:
    """Say whether ``value`` printed with the digits of ``published``, rounded or cut off, is ``published``."""
    return _printed(value, published, *_ROUNDED, ROUND_DOWN)


def _printed(value: float, published: Decimal, *modes: str) -> bool:
    return published in _prints(value, _grain(published), *modes)


def _prints(value: float, grain: Decimal, *modes: str) -> set[Decimal]:
    # Twelve digits: a sum of floats in another order must not decide, and no log prints more.
    exact = Decimal(f"{value:.12g}")
    return {exact.quantize(grain, mode) for mode in modes}


def _cuts(result: RuleResult) -> tuple[str, ...]:
    """Return how a publisher may have printed what a rule gives; nobody publishes by ours, and none cuts its digits."""
    return _ROUNDED if result.rule == RuleKind.WINDOW else (*_ROUNDED, ROUND_DOWN)


def _grain(published: Decimal) -> Decimal:
    return Decimal(1).scaleb(min(int(published.as_tuple().exponent), 0))


def chance_of_a_match(tried: Tried, published: Decimal) -> float:
    """Return the share of the figures within ±5 % of ``published``, with as many digits, that a rule gives."""
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
    """Return lines that sum an audit up: verdicts, rules, and whether a table mixes rules."""
    findings = list(findings)
    verdicts = Counter(finding.verdict for finding in findings)
    rules = Counter(finding.rule for finding in findings if finding.rule)
    values = "1 value" if len(findings) == 1 else f"{len(findings)} values"
    lines = [f"{values}: " + ", ".join(f"{verdicts[v]} {v}" for v in AuditVerdict)]
    lines += [f"  {count} by {rule}" for rule, count in rules.most_common()]
    if len(rules) > 1:
        lines.append(
            f"the table's values were computed by {len(rules)} different rules: its columns are not alike"
        )
    return lines


def _not_reproduced(
    claim: Claim, published: Decimal, log: ParsedLog, tried: Tried, chance: float, notes: list[str]
) -> AuditFinding:
    usual = tried.all[0]
    closest = min(tried.all, key=lambda result: abs(_deviation(published, result)))
    if closest.rule != usual.rule:
        notes.append(
            f"nearest is {closest.rule}: {closest.value:.10g} ({_deviation(published, closest):+.2%})"
        )
    assert usual.value is not None
    could = _could_be(published, log, tried, claim)
    first = f"no rule gives it; the value is by {usual.rule}"
    verdict = AuditVerdict.UNEXPLAINED if could else AuditVerdict.CONTRADICTED
    said = could or "no stretch of the log and no known mix-up of devices, batch or unit gives it either"
    note = "; ".join([first, said, *notes])
    return AuditFinding(claim, verdict, None, usual.value, _deviation(published, usual), chance, note)


def _could_be(published: Decimal, log: ParsedLog, tried: Tried, claim: Claim) -> str | None:
    """Return what could have given ``published``: a stretch of the log, or a mix-up; ``None`` where nothing could."""
    span = span_of_stretches(log)
    value = float(published)
    if span and span.low <= value <= span.high:
        return (
            f"stretches of {span.records} records and more give {span.low:.6g} to {span.high:.6g}: "
            "it is inside, and which of them was taken is not known"
        )
    for factor, what in _mix_ups(log, claim):
        for result in tried.all:
            if result.value and reproduces(result.value * factor, published):
                return f"{result.rule} gives it if {what}"
        if span and span.low * factor <= value <= span.high * factor:
            return f"stretches of the log give {span.low * factor:.6g} to {span.high * factor:.6g} if {what}"
    return None


def _unseen_stalls(best: RuleResult, tried: Tried, log: ParsedLog) -> Iterator[str]:
    """Yield a sentence where the rule that reproduces a value does not see the time that stalls took."""
    held = stalls(log)
    window = next((r for r in tried.all if r.rule == RuleKind.WINDOW), None)
    if held is None or window is None or not best.value or not window.value:
        return
    if held.factor > 1 + MOST_OF_A_NOTE and best.value > window.value * (1 + MOST_OF_A_NOTE):
        yield (
            f"{best.rule} does not see what stalls held, {held.share:.0%} of the window: samples over time is "
            f"{window.value:.6g}"
        )


def _mix_ups(log: ParsedLog, claim: Claim) -> Iterator[tuple[float, str]]:
    """Yield by what a value is off when devices, nodes, batch or unit are mixed up, and how to say it."""
    gpus, nodes, batch = log.facts.gpus, log.facts.nodes, log.facts.batch_per_device
    if gpus and gpus > 1:
        yield 1 / gpus, f"it is of one of {gpus} devices"
        yield float(gpus), f"it was multiplied by the {gpus} devices once more"
    if nodes and nodes > 1:
        yield 1 / nodes, f"it is of one of {nodes} nodes"
        yield float(nodes), f"it was multiplied by the {nodes} nodes once more"
    if claim.gpus and gpus and claim.gpus != gpus:
        yield claim.gpus / gpus, f"it is scaled to the table's {claim.gpus} devices from the log's {gpus}"
    if claim.batch and batch and claim.batch != batch:
        yield claim.batch / batch, f"it counts the table's batch of {claim.batch} for the log's {batch}"
    if batch and batch > 1:
        yield 1 / batch, "it counts batches and not samples"
    if log.accumulates and log.facts.accumulation and log.facts.accumulation > 1:
        yield 1 / log.facts.accumulation, f"one of {log.facts.accumulation} micro-batches a step was counted"
    yield 60.0, "it is a minute's and not a second's"
    yield 3600.0, "it is an hour's and not a second's"
    yield 1000.0, "it counts in thousandths"
    yield 1e-3, "it counts in thousands"


def _judge_outcome(claim: Claim, log: ParsedLog) -> AuditFinding:
    word = claim.published.strip()
    if word.lower() in ("oom", "out of memory"):
        verdict = AuditVerdict.REPRODUCED if log.status is Status.OOM else AuditVerdict.CONTRADICTED
        return AuditFinding(claim, verdict, note=f"the log's outcome is {log.status}")
    return AuditFinding(
        claim, AuditVerdict.UNREADABLE, note=f"'{word}' is no figure" if word else "no figure is published"
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
        raise InputError(f"{table}:{line}: no log is named")
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
        raise InputError(f"{table}:{line}: {name} is '{word}'; a whole number above 0 is needed")
    return int(word)
