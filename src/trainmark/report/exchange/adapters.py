"""Rows for the exchange formats, from a suite's results, from logs, or from a DLPerf directory."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from trainmark.errors import InputError
from trainmark.logs.facts import TF32_UNKNOWN, read_hints
from trainmark.logs.model import ParsedLog
from trainmark.measure.pooling import machine_kinds
from trainmark.measure.rules.model import RuleResult
from trainmark.measure.rules.tree import PlacementRow
from trainmark.report.context import by_unit
from trainmark.report.exchange.rows import SpeedRow
from trainmark.schema.case import Case, axes_of
from trainmark.schema.measurement import NoInterval
from trainmark.schema.names import LOG
from trainmark.schema.outcome import Outcome
from trainmark.schema.precision import Precision
from trainmark.schema.results import CaseResult, Results, StoredManifest, pooled, sound
from trainmark.suite.loading import dlperf_name
from trainmark.tasks import published_name

_OWN_FIELDS = frozenset({"model", "precision", "batch_per_device", "nodes", "devices_per_node"})


def rows_from_results(results: Results) -> tuple[SpeedRow, ...]:
    """Return one row per run of a suite, whatever its outcome; only an ``ok`` run has a speed.

    A run disturbed by its machine gives no row if its case has undisturbed runs: it is not part of the case's number
    either. Cases without a started run give no row. ``variant`` holds the axes that vary within the suite and have no
    separate field in a row.
    """
    cases = [result.case for result in results.cases]
    every = axes_of(*dict.fromkeys(case.task for case in cases)) if cases else ()
    axes = [axis for axis in every if axis not in _OWN_FIELDS and _differs(axis, cases)]
    units = {
        result.id: unit if any(other.unit for other in found) else None
        for unit, found in by_unit(results.cases).items()
        for result in found
    }
    return tuple(
        row
        for result in results.cases
        for row in _case_rows(result, axes, units[result.id], results.manifests)
    )


def why_no_rows(results: Results) -> str:
    """Return why results without a single row have none, as a clause."""
    without = (Outcome.UNSUPPORTED, Outcome.SKIPPED)
    if all(run.outcome in without for case in results.cases for run in case.runs):
        return "no run of these cases was started"
    return "no case with a run states its batch per device, which a row needs"


def _differs(axis: str, cases: Sequence[Case]) -> bool:
    return len({_word(case, axis) for case in cases}) > 1


def _word(case: Case, axis: str) -> str:
    return str(case.value(axis)) if axis in case.axes else "-"


def _case_rows(
    result: CaseResult, axes: Sequence[str], unit: str | None, manifests: Mapping[str, StoredManifest]
) -> Iterator[SpeedRow]:
    case = result.case
    counted = {run.repeat for run in pooled(result.runs)}
    undisturbed = {run.repeat for run in sound(result.runs)}
    for run in result.runs:
        if run.measurement is not None and run.repeat not in counted:
            continue
        if run.outcome in (Outcome.UNSUPPORTED, Outcome.SKIPPED) or isinstance(case.batch_per_device, str):
            continue
        measured = run.measurement if run.outcome is Outcome.OK else None
        yield SpeedRow(
            log=run.log or f"{run.directory}/{LOG}",
            model=published_name(case.model),
            precision=case.precision.published,
            batch_per_device=case.batch_per_device,
            devices=case.world_size,
            nodes=case.nodes,
            speed=measured.throughput if measured else None,
            unit=measured.unit if measured else unit,
            repeat=run.repeat,
            spoiled=measured is not None and run.repeat not in undisturbed,
            inspected=run.spoiled or not run.unchecked,
            variant=tuple((axis, _word(case, axis)) for axis in axes),
            hardware=machine_kinds(run, manifests),
            one_machine=(
                result.estimate is None or result.estimate.no_interval is not NoInterval.MACHINES_DIFFER
            ),
        )


def row_from_log(parsed: ParsedLog, result: RuleResult, repeat: int = 1) -> SpeedRow:
    """Return the row of one log; ``result`` is the result of a rule for it, with or without a value.

    Raises ``InputError`` if the log lacks a fact for a row's names: model, precision, batch or devices.
    """
    facts = parsed.facts
    precision = facts.precision
    if precision is None and any(problem.code == TF32_UNKNOWN for problem in parsed.problems):
        # Other projects use the name fp32 for any single precision, TF32 included.
        precision = Precision.FP32
    if facts.model is None or precision is None or facts.batch_per_device is None or facts.gpus is None:
        needed = ("model", "precision", "batch_per_device", "gpus")
        missing = [name for name in needed if getattr(replace(facts, precision=precision), name) is None]
        raise InputError(
            f"{parsed.log}: the log does not state its {', '.join(missing)}; add the flag for it"
        )
    return SpeedRow(
        log=parsed.log,
        model=published_name(facts.model),
        precision=precision.published,
        batch_per_device=facts.batch_per_device,
        devices=facts.gpus,
        nodes=facts.nodes or 1,
        speed=result.value,
        unit=parsed.unit,
        repeat=repeat,
        hardware=frozenset({facts.hardware} - {None}),
    )


def numbered(rows: Iterable[SpeedRow]) -> list[SpeedRow]:
    """Return ``rows`` of logs with their repeats: the number in a log's name, else the next one of its case."""
    observed: Counter[SpeedRow] = Counter()
    found = []
    for row in rows:
        case = replace(row, log="", speed=None, unit=None, hardware=frozenset())
        observed[case] += 1
        found.append(replace(row, repeat=read_hints(row.log).repeat or observed[case]))
    return found


def rows_from_tree(placements: Iterable[PlacementRow]) -> list[SpeedRow]:
    """Return one row per repeat of a DLPerf directory; a repeat without a speed has none."""
    found = []
    for placement in placements:
        group = placement.group
        outcomes = [(repeat, None) for repeat, _ in placement.outcomes]
        for repeat, speed in sorted([*placement.speeds, *outcomes], key=lambda pair: pair[0]):
            row = SpeedRow(
                log=dlperf_name(
                    placement.placement, group.model, group.batch_per_device, group.variant, repeat
                ),
                model=published_name(group.model),
                precision=group.variant or "unknown",
                batch_per_device=group.batch_per_device,
                devices=placement.gpus,
                nodes=placement.nodes,
                speed=speed,
                unit=placement.unit,
                repeat=repeat,
                hardware=placement.hardware,
            )
            found.append(row)
    return found
