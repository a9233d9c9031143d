"""The first screen and the facts before any number; at the end, how the numbers were computed and can be reproduced.

The first screen has the most important cases with interval, ratio to a baseline and limit, and reasons for doubt.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trainmark.measure import ratio
from trainmark.measure.pooling import count_environments
from trainmark.report.blocks import (
    Bar,
    Block,
    Bullets,
    Cell,
    Code,
    Column,
    Paragraph,
    Section,
    Span,
    Table,
    cell,
    code,
    marked,
    plain,
)
from trainmark.report.context import (
    DEVICES,
    FRAMEWORK,
    MODEL,
    NOTHING,
    PRECISION,
    WORKLOAD,
    Aspect,
    Context,
    Mark,
    by_unit,
    marks,
)
from trainmark.report.language import days, decimals, interval, number, percent
from trainmark.report.sections.machine import energy_cell, framework, hardware, named, nodes
from trainmark.report.sections.throughput import equality
from trainmark.schema.case import UNKNOWN
from trainmark.schema.hosts import LOCALHOST
from trainmark.schema.manifest import Node
from trainmark.schema.names import RESULTS, SUITE
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import Bound, CaseResult, EqualityFinding
from trainmark.tasks import neutral_task

ANCHOR = "glance"

MOST_ROWS = 8
"""The number of cases that fit on the first screen; the tables have all."""

MOST_REASONS = 5
"""The number of reasons for doubt that fit on the first screen."""

_GROUPS = (
    (WORKLOAD, MODEL, FRAMEWORK, PRECISION, DEVICES),
    (WORKLOAD, MODEL, FRAMEWORK, PRECISION),
    (WORKLOAD, MODEL, FRAMEWORK),
    (MODEL, FRAMEWORK),
    (MODEL,),
)
"""The aspects of which each value has a row if not all cases fit, the finest first."""


@dataclass(frozen=True, slots=True)
class _Compared:
    """A case with the baseline of its model and unit."""

    case: CaseResult
    baseline: CaseResult


def glance_section(context: Context) -> Section:
    """Return the section: a table with bars if something was measured, and what to distrust."""
    say = context.say
    compared = _compared(context)
    blocks: list[Table | Bullets] = []
    if compared:
        blocks.append(_glance_table(context, compared))
    if context.findings.requirements:
        blocks.append(Bullets(tuple(map(plain, required_lines(context))), say("required_title")))
    blocks.append(Bullets(tuple(_distrust(context)), say("distrust_title")))
    return Section(ANCHOR, say("glance_title"), tuple(blocks))


def required_lines(context: Context) -> list[str]:
    """Return a line for each requirement of the suite, the unmet ones first, and before them how many are met."""
    say, found = context.say, context.findings.requirements
    labels = {case.id: context.axes.label(case.case) for case in context.results.cases}
    unmet = context.findings.unmet
    shown = [*unmet, *(one for one in found if one not in unmet)]
    lines = [
        say(
            f"required_{one.verdict.value}",
            case=labels[one.case],
            quantity=say(f"required_{one.quantity}"),
            sentence=say.translated(one.sentence),
        )
        for one in shown[:MOST_ROWS]
    ]
    more = [say("and_more", n=len(shown) - MOST_ROWS)] if len(shown) > MOST_ROWS else []
    return [say("required_count", met=len(found) - len(unmet), of=len(found)), *lines, *more]


def _compared(context: Context) -> list[_Compared]:
    """Return every measured case with its baseline: the requested one, else its group's first measured case."""
    found = []
    for cases in by_unit(context.results.cases).values():
        groups: dict[str, list[CaseResult]] = {}
        for case in cases:
            if case.estimate is not None:
                groups.setdefault(trained(case), []).append(case)
        for group in groups.values():
            base = next((case for case in group if case.id in context.baselines), group[0])
            found += [_Compared(case, base) for case in group]
    return found


@dataclass(frozen=True, slots=True)
class _Selection:
    """The rows of the first screen, and the aspects by which they were chosen; all that vary if every case fits."""

    rows: Sequence[_Compared]
    aspects: tuple[Aspect, ...]
    are_fastest: bool = False


def _selected(context: Context, compared: Sequence[_Compared]) -> _Selection:
    """Return at most ``MOST_ROWS`` rows, in the order of the suite.

    If not all cases fit, each framework, precision and number of devices has one row if these fit, else the same for
    the smallest and the largest number of devices, else each framework, else each model: the case that differs from its
    baseline in the fewest aspects. If these would be several baselines, so that nothing is compared, the fastest of
    each group is shown.
    """
    if len(compared) <= MOST_ROWS:
        return _Selection(compared, context.axes.varying)
    sizes = [one.case.case.world_size for one in compared]
    ends = [one for one in compared if one.case.case.world_size in (min(sizes), max(sizes))]
    chosen: list[_Compared] = []
    aspects: tuple[Aspect, ...] = ()
    for among, aspects in ((compared, _GROUPS[0]), (ends, _GROUPS[0]), *((compared, a) for a in _GROUPS[1:])):
        groups = _grouped(context, among, aspects)
        chosen = [min(group, key=lambda one: _distance(context, one)) for group in groups]
        if len(chosen) <= MOST_ROWS:
            break
    are_fastest = len(chosen) > 1 and all(one.case.id == one.baseline.id for one in chosen)
    if are_fastest:
        chosen = [_fastest(group) for group in groups]
    return _Selection(chosen[:MOST_ROWS], aspects, are_fastest)


def _grouped(
    context: Context, among: Sequence[_Compared], aspects: tuple[Aspect, ...]
) -> list[list[_Compared]]:
    """Return the cases of each value of ``aspects``."""
    groups: dict[tuple[str, ...], list[_Compared]] = {}
    for one in among:
        key = (one.baseline.id, *context.axes.key(one.case.case, aspects))
        groups.setdefault(key, []).append(one)
    return list(groups.values())


def _fastest(group: Sequence[_Compared]) -> _Compared:
    """Return the fastest case of a group, compared with none."""
    best = max((one.case for one in group), key=lambda case: case.estimate.median if case.estimate else 0.0)
    return _Compared(best, best)


def _distance(context: Context, one: _Compared) -> int:
    axes = context.axes
    return sum(
        axes.value(one.case.case, aspect) != axes.value(one.baseline.case, aspect) for aspect in axes.varying
    )


def _glance_table(context: Context, compared: list[_Compared]) -> Table:
    say, selection = context.say, _selected(context, compared)
    rows = selection.rows
    ends = _ends(rows)
    units = {one.case.unit for one in rows}
    several = any(one.case.id != one.baseline.id for one in rows)
    title = say("column_throughput", unit=next(iter(units))) if len(units) == 1 else say("column_throughputs")
    columns = [Column(say("column_case"), numeric=False), Column(title)]
    columns += [Column(say("column_ratio"))] if several else []
    joules = {found.case: found for found in context.findings.energy}
    has_energy = any(one.case.id in joules for one in rows)
    columns += [Column(say("column_joules"))] if has_energy else []
    columns.append(Column(say("column_bound"), numeric=False))
    places = {
        unit: decimals(
            one.case.estimate.median for one in rows if one.case.estimate and one.case.unit == unit
        )
        for unit in units
    }
    digits = _ratio_decimals(rows)
    body = []
    for one in rows:
        unit = one.case.unit
        cells = [cell(context.axes.label(one.case.case))]
        cells.append(_number(context, one.case, places[unit], "" if len(units) == 1 else f" {unit}"))
        cells += [_ratio(context, one, digits)] if several else []
        cells += [energy_cell(joules.get(one.case.id))] if has_energy else []
        cells.append(_bound(context, one.case))
        body.append(tuple(cells))
    bars = tuple(_glance_bar(one.case, ends[one.case.unit or ""]) for one in rows)
    note = say("glance_bars" if len(units) == 1 else "glance_bars_of_units")
    return Table(
        "",
        tuple(columns),
        tuple(body),
        tuple(_glance_notes(context, compared, selection)),
        bars=bars,
        bars_note=note,
    )


def _glance_notes(context: Context, compared: Sequence[_Compared], selection: _Selection) -> Iterator[str]:
    say, rows = context.say, selection.rows
    labels = {one.baseline.id: context.axes.label(one.baseline.case) for one in rows}
    bases = [labels[name] for name in labels if sum(one.baseline.id == name for one in rows) > 1]
    note = []
    if any(one.case.estimate is not None and one.case.estimate.interval is not None for one in rows):
        note.append(say("glance_intervals"))
    if bases:
        note.append(say("glance_ratio", bases=say("semicolon").join(bases)))
    if len(rows) < len(compared):
        note.append(
            say("glance_fastest" if selection.are_fastest else "glance_some", n=len(rows), of=len(compared))
        )
    note += _unlike(context, selection)
    if note:
        yield say("space").join(note)
    topologies = (one.case.case.topology for one in rows)
    shown = " ".join(context.axes.label(one.case.case) for one in rows).split()
    named = next((topology for topology in topologies if topology in shown), None)
    if named is not None:
        yield say("glance_topology", label=named)


def _unlike(context: Context, selection: _Selection) -> Iterator[str]:
    """Yield a sentence for each row that differs from its baseline in more than that by which the rows were chosen."""
    axes = context.axes
    chosen_by = {*selection.aspects, *axes.of_framework()}
    for one in selection.rows:
        sides = one.case.case, one.baseline.case
        differing = [
            aspect for aspect in axes.varying if len({axes.value(side, aspect) for side in sides}) > 1
        ]
        others = [context.aspect(aspect) for aspect in differing if aspect not in chosen_by]
        if others:
            yield context.say("glance_unlike", case=axes.label(sides[0]), aspects=context.say.joined(others))


def _number(context: Context, case: CaseResult, places: int, unit: str) -> Cell:
    assert case.estimate is not None
    signs = "".join(marks(context, case))
    return cell(
        f"{number(case.estimate.median, places)}{signs}{unit}", interval(case.estimate.interval, places)
    )


def _ratio_decimals(rows: Sequence[_Compared]) -> int:
    """Return the decimals of the ratios: 2, or more if an interval would be rounded to one number."""
    found = [
        ratio(one.case.estimate, one.baseline.estimate) for one in rows if one.case.id != one.baseline.id
    ]
    bounds = [one.interval for one in found if one is not None and one.interval is not None]
    narrowest = min((each.high - each.low for each in bounds), default=1.0)
    return next((places for places in (2, 3) if narrowest >= 2 * 10**-places), 4)


def _ratio(context: Context, one: _Compared, places: int) -> Cell:
    if one.case.id == one.baseline.id:
        return cell("1", context.say("is_baseline"))
    found = ratio(one.case.estimate, one.baseline.estimate)
    if found is None:
        return cell("-")
    doubtful = {one.case.id, one.baseline.id} & context.doubted
    return cell(
        f"{number(found.value, places)}{Mark.DOUBT.value * bool(doubtful)}", interval(found.interval, places)
    )


def _bound(context: Context, case: CaseResult) -> Cell:
    found = context.findings.bound(case.id)
    if found is None:
        return cell("-")
    share = found.share if found.bound is not Bound.COMPUTE else None
    name = context.say(f"bound_{found.bound.value.replace('-', '_')}")
    return cell(name, "" if share is None else percent(share))


def _ends(rows: Sequence[_Compared]) -> dict[str, float]:
    """Return the end of the bars' common axis for each unit."""
    ends: dict[str, float] = {}
    for one in rows:
        assert one.case.estimate is not None
        unit = one.case.unit or ""
        ends[unit] = max(ends.get(unit, 0.0), one.case.estimate.maximum)
    highs = dict(ends)
    for one in rows:
        found, unit = one.case.estimate, one.case.unit or ""
        if found is not None and found.interval is not None:
            highs[unit] = max(highs[unit], min(found.interval.high, 1.25 * ends[unit]))
    return highs


def _glance_bar(case: CaseResult, end: float) -> Bar:
    assert case.estimate is not None
    bounds = case.estimate.interval
    scale = 1 / end if end > 0 else 0.0
    return Bar(
        value=case.estimate.median * scale,
        low=None if bounds is None else bounds.low * scale,
        high=None if bounds is None else min(bounds.high * scale, 1.0),
    )


def _distrust(context: Context) -> Iterator[tuple[Span, ...]]:
    """Yield the reasons to distrust the numbers, the most serious first; a sentence if no check found one."""
    found = list(_reasons(context))
    for text, anchor in found[:MOST_REASONS]:
        yield (Span(text, href=f"#{anchor}"),) if anchor else plain(text)
    if len(found) > MOST_REASONS:
        yield plain(context.say("and_more_reasons", n=len(found) - MOST_REASONS))
    if not found:
        yield plain(context.say("nothing_to_distrust"))
        for sentence in inspection_sentence(context):
            yield plain(sentence)


def _reasons(context: Context) -> Iterator[tuple[str, str]]:
    """Yield each reason and the anchor of the section with the details."""
    results, say = context.results, context.say
    if not results.complete:
        yield say("incomplete"), ""
    outcomes = Counter(run.outcome for _, run in context.runs() if run.outcome is not Outcome.OK)
    unmeasured = Counter(
        case.outcome for case in results.cases if not case.runs and case.outcome is not Outcome.OK
    )
    if outcomes:
        words = [f"{n} {say.outcome(outcome)}" for outcome, n in outcomes.items()]
        reasons = {run.reason for _, run in context.runs() if run.outcome is not Outcome.OK}
        if len(reasons) == 1 and (reason := reasons.pop()):
            yield (
                say(
                    "distrust_outcomes_reason", what=say.joined(words), reason=_short(say.translated(reason))
                ),
                "outcomes",
            )
        else:
            yield say("distrust_outcomes", what=say.joined(words)), "outcomes"
    if unmeasured:
        words = [f"{n} {say.outcome(outcome)}" for outcome, n in unmeasured.items()]
        yield say("distrust_cases", what=say.joined(words)), "outcomes"
    if any(alert for _, alert in equality(context)):
        yield say("distrust_different_work"), "equivalence"
    elif any(_is_unverified(found) for found in context.findings.equality):
        yield say("distrust_work"), "throughput"
    yield from _doubts(context)
    few = [case for case in results.cases if case.estimate and case.estimate.interval is None]
    if few:
        yield say("distrust_no_interval", n=len(few)), "throughput"
    if (environments := count_environments(results.manifests)) > 1:
        yield say("distrust_environments", n=environments), "environment"
    unknown = sum(run.measurement is not None and run.identity is None for _, run in context.runs())
    if unknown:
        yield say.count("distrust_identity", unknown), ""
    if results.gates_off:
        yield say("gates_off", names=say.joined([gate.value for gate in results.gates_off])), ""
    unseen = [
        run for _, run in context.runs() if run.measurement and run.inspection and not run.inspection.is_whole
    ]
    if unseen:
        yield say("distrust_not_checked", n=len(unseen)), "runs"


def _is_unverified(found: EqualityFinding) -> bool:
    """Return whether frameworks are compared without evidence of equal work."""
    return not found.holds and len({work.framework for work in found.works}) > 1


def _doubts(context: Context) -> Iterator[tuple[str, str]]:
    """Yield the doubts by their code, the most frequent first, each with the sentence of one of them."""
    cases: dict[str, dict[str, str]] = {}
    for doubt in context.findings.doubts:
        cases.setdefault(doubt.code, {}).setdefault(doubt.case, doubt.sentence)
    for kind, sentences in sorted(cases.items(), key=lambda item: -len(item[1])):
        text = _short(context.say.doubt(kind, next(iter(sentences.values()))))
        yield f"{context.say.count('distrust_doubt', len(sentences))}{text} ({kind})", "suspect"


def _short(text: str, most: int = 140) -> str:
    return text if len(text) <= most else text[: most - 1].rsplit(" ", 1)[0] + " …"


def lead(context: Context) -> str:
    """Return the opening sentence."""
    results, say = context.results, context.say
    runs = [run for case in results.cases for run in case.runs]
    is_known = any(case.case.framework != UNKNOWN for case in results.cases)
    return say(
        "lead" if is_known else "lead_unknown_framework",
        suite=results.suite,
        frameworks=say.joined(_frameworks(context)),
        models=say.joined(_distinct(map(trained, results.cases))),
        hardware=_hardware(context),
        date=days(*context.results.measured),
        protocol=results.protocol.name.value,
        cases=say.count("cases", len(results.cases)),
        runs=say.count("runs", len(runs)),
        ok=sum(run.outcome is Outcome.OK for run in runs),
    )


def subtitle(context: Context) -> str:
    """Return the opening sentence in a few words: models, hardware, day and number of runs."""
    results, say = context.results, context.say
    runs = [run for case in results.cases for run in case.runs]
    models = _distinct(map(trained, results.cases))
    more = [say("and_more", n=len(models) - MOST_MODELS)] if len(models) > MOST_MODELS else []
    return say(
        "subtitle",
        models=say.joined([*models[:MOST_MODELS], *more]),
        hardware=_hardware(context),
        date=days(*results.measured),
        cases=say.count("cases", len(results.cases)),
        runs=say.count("runs", len(runs)),
        ok=sum(run.outcome is Outcome.OK for run in runs),
    )


MOST_MODELS = 4
"""The largest number of models named in the subtitle; of more, it gives the number."""


def trained(case: CaseResult) -> str:
    """Return the model of a case; the program's name if the model is unknown."""
    return case.case.workload if case.case.model == UNKNOWN else case.case.model


def overview_section(context: Context) -> Section:
    """Return the facts that a reader needs for every number of the report."""
    results, say, protocol = context.results, context.say, context.results.protocol
    blocks: list[Block] = []
    if results.description:
        blocks.append(Paragraph(plain(results.description)))
    if not results.complete:
        blocks.append(Paragraph(plain(say("incomplete")), alert=True))
    if not any(case.estimate for case in results.cases):
        blocks.append(Paragraph(plain(say("nothing_measured")), alert=True))
    if protocol.min_repeats == protocol.max_repeats:
        repeats = say.count("protocol_repeats", protocol.min_repeats)
    else:
        repeats = say("protocol_repeats_range", low=protocol.min_repeats, high=protocol.max_repeats)
    if protocol.target_half_width is not None and protocol.min_repeats < protocol.max_repeats:
        repeats += say("protocol_target", target=f"{protocol.target_half_width * 100:g} %")
    facts = [*_protocol_steps(context), repeats + say("stop"), *_constant(context)]
    if doubts := len(context.doubted):
        facts.append(say.count("doubts_above", doubts))
    if results.gates_off:
        facts.append(say("gates_off", names=say.joined([gate.value for gate in results.gates_off])))
    facts += inspection_sentence(context)
    unknown = sum(
        run.measurement is not None and run.identity is None for case in results.cases for run in case.runs
    )
    if unknown:
        facts.append(say.count("identity_unknown", unknown))
    blocks.append(Bullets(tuple(plain(fact) for fact in facts)))
    blocks += _advice(context)
    return Section("overview", say("overview_title"), tuple(blocks))


def _protocol_steps(context: Context) -> list[str]:
    """Return the steps of the protocol, unless all runs are of other projects' programs, and what those measured."""
    say, protocol = context.say, context.results.protocol
    found = [(case.case.task, run.measurement) for case, run in context.runs() if run.measurement is not None]
    planned = (protocol.warmup_steps, protocol.measured_steps)
    # A program that counts its own samples may yet choose its own steps.
    foreign = [
        one
        for task, one in found
        if one.measured_steps
        and (
            one.samples is None
            or (task == neutral_task() and (one.warmup_steps, one.measured_steps) != planned)
        )
    ]
    results = [one for _, one in found if one.samples is None and not one.measured_steps]
    sentences = []
    is_planned = any(case.case.task != neutral_task() for case, _ in context.runs())
    if (is_planned and not found) or len(foreign) + len(results) < len(found):
        sentences.append(
            say(
                "protocol_steps",
                steps=protocol.steps,
                warmup=protocol.warmup_steps,
                measured=protocol.measured_steps,
            )
        )
    if foreign:
        left_out, used = (
            say("range", low=min(numbers), high=max(numbers)) if len(set(numbers)) > 1 else str(numbers[0])
            for numbers in ([one.warmup_steps for one in foreign], [one.measured_steps for one in foreign])
        )
        sentences.append(say("foreign_steps", warmup=left_out, measured=used))
    if results:
        sentences.append(say.count("own_results", len(results)))
    return [*sentences, *_stand_ins(context)]


def _stand_ins(context: Context) -> list[str]:
    """Return a sentence that names the stand-ins for data of measured runs; none if they have none."""
    runs = [run for _, run in context.runs() if run.measurement is not None]
    with_some = [run for run in runs if run.stand_ins]
    if not with_some:
        return []
    made = dict.fromkeys(f"{label} ({path})" for run in with_some for path, label in run.stand_ins.items())
    return [context.say("stand_ins", n=len(with_some), of=len(runs), made="; ".join(made))]


def inspection_sentence(context: Context) -> list[str]:
    """Return the amount of checked samples in the measured runs, as a sentence; none for results of older versions."""
    say = context.say
    found = [run.inspection for _, run in context.runs() if run.measurement and run.inspection]
    whole = [one for one in found if one.is_whole and one.samples is not None and one.seconds is not None]
    sentences = []
    if whole:
        least = min(whole, key=lambda one: (one.samples, one.seconds))
        seconds = f"{least.seconds:.3g}"
        sentences.append(say("looked", n=len(whole), of=len(found), samples=least.samples, seconds=seconds))
    if len(whole) < len(found):
        sentences.append(say("not_looked_runs", n=len(found) - len(whole), of=len(found)))
    return [*sentences, *_work_not_checked(context)]


def _work_not_checked(context: Context) -> list[str]:
    """Return the checks of the work that some measured runs could not do, as a sentence; none if all did all."""
    measured = [run.measurement for _, run in context.runs() if run.measurement]
    checked = [found.work_not_checked for found in measured if found.work_not_checked is not None]
    lacking = [names for names in checked if names]
    if not lacking:
        return []
    names = context.say.joined(list(dict.fromkeys(name for one in lacking for name in one)))
    return [context.say("work_not_checked", n=len(lacking), of=len(checked), names=names)]


def advice_lines(context: Context) -> list[str]:
    """Return why some numbers have no interval, and what to do, as one paragraph for each kind of advice."""
    return [
        "\n".join([*reasons, context.say("advice"), *(f"  - {step}" for step in steps)])
        for steps, reasons in _shared_advice(context).items()
    ]


def _shared_advice(context: Context) -> dict[tuple[str, ...], list[str]]:
    """Return the reasons of all cases by the steps that are advised for them."""
    labels = {case.id: context.axes.label(case.case) for case in context.results.cases}
    shared: dict[tuple[str, ...], list[str]] = {}
    for advice in context.findings.advice:
        reason = f"{labels[advice.case]}{context.say('colon')}{context.say.translated(advice.reason)}"
        steps = tuple(context.say.translated(step) for step in advice.steps)
        shared.setdefault(steps, []).append(reason)
    return shared


def _advice(context: Context) -> Iterator[Block]:
    """Yield why some numbers have no interval, and what to do."""
    for steps, reasons in _shared_advice(context).items():
        for reason in reasons:
            yield Paragraph(plain(reason), alert=True)
        yield Paragraph(plain(context.say("advice")))
        yield Bullets(tuple(marked(step) for step in steps))


def _constant(context: Context) -> list[str]:
    """Return what all cases have in common, and what is unknown of all."""
    say = context.say
    stated = {aspect: value for aspect, value in context.axes.constant().items() if value != NOTHING}
    known = [
        say("aspect_is", aspect=context.aspect(aspect), value=value)
        for aspect, value in stated.items()
        if value != UNKNOWN
    ]
    unknown = [context.aspect(aspect) for aspect, value in stated.items() if value == UNKNOWN]
    return [
        *([say("the_same_everywhere", what=say.joined(known))] if known else []),
        *([say("unknown_everywhere", what=say.joined(unknown))] if unknown else []),
    ]


def _frameworks(context: Context) -> list[str]:
    """Return the frameworks with the versions in the manifests, the most exact version of each."""
    known = [name for node in _nodes(context) if (name := framework(node))]
    plain_names = _distinct(case.case.framework for case in context.results.cases)
    versions = _distinct(known)
    missing = [
        name for name in plain_names if not any(v.lower().startswith(f"{name.lower()} ") for v in versions)
    ]
    return versions + missing


def _hardware(context: Context) -> str:
    """Return every kind of node with the largest number of them in a run."""
    counts: Counter[str] = Counter()
    for manifest in context.results.manifests.values():
        counts |= Counter(words for node in nodes(manifest) if (words := hardware(node, context.say)))
    if not counts:
        return context.say("hardware_unknown")
    return context.say.joined(
        [words if n == 1 else context.say("several_nodes", n=n, node=words) for words, n in counts.items()]
    )


def _nodes(context: Context) -> list[Node]:
    return [node for manifest in context.results.manifests.values() for node in nodes(manifest)]


def _distinct(words: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(words))


def method_section(context: Context) -> Section:
    """Return the rules behind the numbers, each in a sentence or two."""
    say = context.say
    used = [
        plain(say(f"method_{name}")) for name in ("throughput", "interval", "speedup", "outcome", "warmup")
    ]
    more = Paragraph((*plain(say("method_more")), *code("docs/explanation/concepts.md"), *plain(say("stop"))))
    return Section("method", say("method_title"), (Bullets(tuple(used)), more))


def _command(context: Context) -> Iterator[Block]:
    """Yield the command; if it was not saved, a note about that and the hosts of the runs."""
    say, command = context.say, context.results.command
    if command is not None:
        yield Code(say("reproduce_command"), command)
        yield Paragraph(plain(say("reproduce_again")))
        return
    hosts = {host for _, run in context.runs() for host in run.hosts} - {LOCALHOST}
    yield Paragraph(plain(say("command_unknown")))
    if hosts:
        yield Paragraph(plain(say("command_hosts", hosts=named(list(hosts)))))


def reproduce_section(context: Context) -> Section:
    """Return the command that made the results, and the files that contain them."""
    say = context.say
    blocks = list(_command(context))
    names = (SUITE, RESULTS, "results.csv", "runs.csv")
    held = [
        (*context.link(name, name), *plain(say("colon") + say(f"file_{name.replace('.', '_')}")))
        for name in names
        if (context.directory / name).is_file()
    ]
    if held:
        blocks.append(Bullets(tuple(held)))
    return Section("reproduce", say("reproduce_title"), tuple(blocks))
