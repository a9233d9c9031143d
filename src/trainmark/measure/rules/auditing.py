"""Does a published value follow from its log? Tries the catalogue's rules for that format, and nothing else."""

import csv
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal, InvalidOperation
from enum import StrEnum
from pathlib import Path

from trainmark.errors import InputError, nearest
from trainmark.logs.model import Facts, ParsedLog, Severity, Status
from trainmark.measure.rules.catalog import rules_for
from trainmark.measure.rules.model import RuleResult
from trainmark.programs import read_log
from trainmark.tasks import same_unit

_COLUMNS = ("log", "published", "gpus", "batch", "unit")
_REQUIRED = ("log", "published")
_CHANCE_RANGE = 0.10
_CHANCE_TOLD = 0.01


class AuditVerdict(StrEnum):
    """What an audit finds of one published value."""

    REPRODUCED = "reproduced"
    CONTRADICTED = "contradicted"
    UNREADABLE = "unreadable"


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
    publisher's own rule for this format gives. ``deviation`` is published / value - 1.
    """

    claim: Claim
    verdict: AuditVerdict
    rule: str | None = None
    value: float | None = None
    deviation: float | None = None
    note: str = ""


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
        yield judge(claim, last[1])


def judge(claim: Claim, log: ParsedLog) -> AuditFinding:
    """Return the verdict on ``claim``, given its log as read without flags."""
    published = parse_published(claim.published)
    if published is None:
        return _judge_outcome(claim, log)
    said = "; ".join(problem.message for problem in log.problems if problem.severity is Severity.DOUBT)
    if log.format is None or not (log.records.count or log.figures):
        return AuditFinding(claim, AuditVerdict.UNREADABLE, note=said or f"the log is {log.status}")
    notes = [*_contradictions(claim, log), *([said] if said else [])]
    # A failed run's records may still be what was published: that is for the verdict to say, not to assume.
    readable = replace(_assume(log, claim), status=Status.OK)
    results = [rule.compute(readable) for rule in rules_for(log.format)]
    found = [result for result in results if result.value is not None]
    if not found:
        reasons = "; ".join(dict.fromkeys(p.message for result in results for p in result.problems))
        return AuditFinding(claim, AuditVerdict.UNREADABLE, note="; ".join([*notes, reasons]))
    matching = [result for result in found if _matches(result, published)]
    if not matching:
        return _contradicted(claim, published, found, notes)
    best = matching[0]
    others = [result.rule for result in matching[1:]]
    if others:
        notes.append(f"{', '.join(others)} gives the same digits")
    chance = chance_of_a_match(found, published)
    if chance > _CHANCE_TOLD:
        digits = len(published.as_tuple().digits)
        notes.append(
            f"with {digits} digits, one of the {len(found)} rules would agree with any figure near by in {chance:.0%}"
            " of cases: weak evidence"
        )
    notes += [p.message for p in best.problems if p.severity is Severity.DOUBT]
    assert best.value is not None
    if not _printed(best.value, published, ROUND_HALF_UP, ROUND_HALF_EVEN):
        notes.append("the published digits are cut off, not rounded")
    return AuditFinding(
        claim, AuditVerdict.REPRODUCED, best.rule, best.value, _deviation(published, best), "; ".join(notes)
    )


def parse_published(text: str) -> Decimal | None:
    """Return a printed figure with its digits kept (``21,259.81``, ``21 259.81``); ``None`` for words and blanks."""
    compact = text.strip().replace("\u202f", "").replace("\xa0", "").replace(" ", "").replace(",", "")
    try:
        value = Decimal(compact)
    except InvalidOperation:
        return None
    return value if value.is_finite() and value > 0 else None


def reproduces(value: float, published: Decimal) -> bool:
    """Say whether ``value`` printed with the digits of ``published``, rounded or cut off, is ``published``."""
    return _printed(value, published, ROUND_HALF_UP, ROUND_HALF_EVEN, ROUND_DOWN)


def _printed(value: float, published: Decimal, *modes: str) -> bool:
    grain = Decimal(1).scaleb(min(int(published.as_tuple().exponent), 0))
    # Twelve digits: a sum of floats in another order must not decide, and no log prints more.
    exact = Decimal(f"{value:.12g}")
    return any(exact.quantize(grain, mode) == published for mode in modes)


def chance_of_a_match(found: list[RuleResult], published: Decimal) -> float:
    """Return how likely a figure drawn evenly from ±5 % around ``published`` agrees with one of the rules.

    Rounding and cutting off together accept 1.5 units of the last digit for each distinct value.
    """
    grain = 10.0 ** min(int(published.as_tuple().exponent), 0)
    distinct = {round((result.value or 0) / grain) for result in found}
    return min(1.0, len(distinct) * 1.5 * grain / (_CHANCE_RANGE * float(published)))


def summarise_findings(findings: Iterable[AuditFinding]) -> list[str]:
    """Return lines that sum an audit up: verdicts, rules, and whether a table mixes rules."""
    findings = list(findings)
    verdicts = Counter(finding.verdict for finding in findings)
    rules = Counter(finding.rule for finding in findings if finding.rule)
    lines = [f"{len(findings)} values: " + ", ".join(f"{verdicts[v]} {v}" for v in AuditVerdict)]
    lines += [f"  {count} by {rule}" for rule, count in rules.most_common()]
    if len(rules) > 1:
        lines.append(
            f"the table's values were computed by {len(rules)} different rules: its columns are not alike"
        )
    return lines


def _contradicted(
    claim: Claim, published: Decimal, found: list[RuleResult], notes: list[str]
) -> AuditFinding:
    usual = found[0]
    closest = min(found, key=lambda result: abs(_deviation(published, result)))
    notes = [f"no rule gives it; the value is by {usual.rule}", *notes]
    if closest.rule != usual.rule:
        notes.append(
            f"nearest is {closest.rule}: {closest.value:.10g} ({_deviation(published, closest):+.2%})"
        )
    assert usual.value is not None
    return AuditFinding(
        claim, AuditVerdict.CONTRADICTED, None, usual.value, _deviation(published, usual), "; ".join(notes)
    )


def _judge_outcome(claim: Claim, log: ParsedLog) -> AuditFinding:
    word = claim.published.strip()
    if word.lower() in ("oom", "out of memory"):
        verdict = AuditVerdict.REPRODUCED if log.status is Status.OOM else AuditVerdict.CONTRADICTED
        return AuditFinding(claim, verdict, note=f"the log's outcome is {log.status}")
    return AuditFinding(
        claim, AuditVerdict.UNREADABLE, note=f"'{word}' is no figure" if word else "no figure is published"
    )


def _matches(result: RuleResult, published: Decimal) -> bool:
    return result.value is not None and reproduces(result.value, published)


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
