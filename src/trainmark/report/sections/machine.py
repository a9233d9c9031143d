"""Sections on the machine: what limited a case, energy, peaks and profiled steps; environment, recipe and telemetry.

Manifests are read tolerantly: of one from another version, the known parts are shown.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any

from trainmark.insight.bound import bound_line, other_causes
from trainmark.insight.profiles import ProfiledSide, is_distant, profiled_side
from trainmark.measure.energy import joules_text
from trainmark.report.blocks import (
    Block,
    Bullets,
    Cell,
    Column,
    Paragraph,
    Section,
    Span,
    Style,
    Table,
    cell,
    code,
    plain,
)
from trainmark.report.context import Context, by_unit, marks, of_marks
from trainmark.report.language import GIB, Catalogue, Language, decimals, number, percent
from trainmark.schema.energy import EnergyFinding
from trainmark.schema.hosts import LOCALHOST
from trainmark.schema.manifest import Manifest, Node
from trainmark.schema.measurement import Measurement
from trainmark.schema.profile import StepProfile, WorkKind
from trainmark.schema.results import Bound, BoundFinding, CaseResult, StoredManifest, pooled
from trainmark.schema.telemetry import TelemetrySummary

_LONGEST = 60
"""Names of kernels can have hundreds of characters."""


def bound_section(context: Context) -> Section | None:
    """Return the section, or None if no case has a number."""
    found = _bound_found(context)
    if not found:
        return None
    say = context.say
    columns = (
        Column(say("column_case"), numeric=False),
        Column(say("column_bound"), numeric=False),
        Column(say("column_bound_share")),
        Column(say("column_evidence"), numeric=False),
    )
    rows = tuple(_bound_row(context, case, bound) for case, bound in found)
    return Section(
        "bound", say("bound_title"), (Paragraph(plain(say("bound_caption"))), Table("", columns, rows))
    )


def bound_lines(context: Context) -> list[str]:
    """Return one paragraph: a title, and a line for each case that has a number; none if no case has one."""
    found = [
        context.say("bound_by", case=context.axes.label(case.case), what=_bound_line(context, bound))
        for case, bound in _bound_found(context)
    ]
    return ["\n".join([context.say("bound_title"), *found])] if found else []


def _bound_found(context: Context) -> list[tuple[CaseResult, BoundFinding]]:
    by_case = {bound.case: bound for bound in context.findings.bounds}
    return [(case, by_case[case.id]) for case in context.results.cases if case.id in by_case]


def _bound_line(context: Context, found: BoundFinding) -> str:
    """Return the answer in one line: the cause, and the evidence with its share."""
    if context.say.language is Language.EN:
        return bound_line(found)
    some = context.say("in_runs", times=found.runs, n=found.of) if found.runs < found.of else ""
    cause = context.say(f"bound_{found.bound.value.replace('-', '_')}")
    return context.say("colon").join(filter(None, (cause, some, _bound_details(context, found))))


def _bound_details(context: Context, found: BoundFinding) -> str:
    """Return the evidence, in brackets that of other causes, and how to find out more."""
    say = context.say
    text = say.translated(found.sentence)
    if others := other_causes(found):
        text = say("bound_others", text=text, others=say("semicolon").join(map(say.translated, others)))
    if found.settle is None:
        return text
    known = found.bound is not Bound.UNKNOWN
    settle = say.translated(found.settle, "; or ")
    return say("bound_settle_more" if known else "bound_settle", text=text, settle=settle)


def _bound_row(context: Context, case: CaseResult, found: BoundFinding) -> tuple[Cell, ...]:
    some = context.say("in_runs", times=found.runs, n=found.of) if found.runs < found.of else ""
    share = found.share if found.bound is not Bound.COMPUTE else None
    return (
        cell(context.axes.label(case.case)),
        cell(context.say(f"bound_{found.bound.value.replace('-', '_')}"), some),
        cell("-" if share is None else percent(share)),
        cell(_bound_details(context, found)),
    )


def energy_section(context: Context) -> Section | None:
    """Return the section; None if no case has an energy."""
    by_case = {found.case: found for found in context.findings.energy}
    found = [(case, by_case[case.id]) for case in context.results.cases if case.id in by_case]
    if not found:
        return None
    say = context.say
    columns = (
        Column(say("column_case"), numeric=False),
        Column(say("column_joules")),
        Column(say("column_watts")),
        Column(say("column_energy_of"), numeric=False),
    )
    rows = tuple(_energy_row(context, case, energy) for case, energy in found)
    return Section(
        "energy", say("energy_title"), (Paragraph(plain(say("energy_caption"))), Table("", columns, rows))
    )


def _energy_row(context: Context, case: CaseResult, found: EnergyFinding) -> tuple[Cell, ...]:
    return (
        cell(context.axes.label(case.case)),
        energy_cell(found),
        cell(f"{found.watts:.0f} W"),
        cell(context.say(f"energy_{found.source.value.replace('-', '_')}", n=found.devices)),
    )


def energy_cell(found: EnergyFinding | None) -> Cell:
    """Return the joules of one unit of work with their interval; a dash where they were not measured."""
    if found is None:
        return cell("-")
    bounds = found.interval
    detail = "" if bounds is None else f"[{joules_text(bounds.low)}, {joules_text(bounds.high)}]"
    return cell(f"{joules_text(found.per_unit_j)} / {found.unit}", detail)


def work_section(context: Context) -> Section | None:
    """Return the section with one table per headline unit, or None if no case has further counters or a peak."""
    say = context.say
    reported = [
        case for case in context.results.cases if any(_has_more(found) for found in _work_measured(case))
    ]
    if not reported:
        return None
    tables: list[Block] = [_work_table(context, cases) for cases in by_unit(reported).values()]
    return Section("work", say("work_title"), (Paragraph(plain(say("work_caption"))), *tables))


def _work_measured(case: CaseResult) -> list[Measurement]:
    return [run.measurement for run in pooled(case.runs) if run.measurement is not None]


def _has_more(found: Measurement) -> bool:
    return len(found.work) > 1 or bool(found.mfu) or _is_above_its_peak(found)


def _is_above_its_peak(found: Measurement) -> bool:
    return found.peak_operations_per_s is not None and not found.mfu


def _work_table(context: Context, cases: Sequence[CaseResult]) -> Table:
    say = context.say
    floors = [_median([one.roofline for one in _work_measured(case) if one.roofline]) for case in cases]
    has_floor = any(floors)
    counters = list(
        dict.fromkeys(name for case in cases for found in _work_measured(case) for name in found.work)
    )
    conventions = list(
        dict.fromkeys(name for case in cases for found in _work_measured(case) for name in found.mfu)
    )
    rates = {name: [_work_rate(case, name) for case in cases] for name in counters}
    places = {name: decimals(rate for rate in column if rate) for name, column in rates.items()}
    rows = []
    for index, case in enumerate(cases):
        shares = (_work_share(case, name) for name in conventions)
        of_counters = ((rates[name][index], places[name]) for name in counters)
        signs = "".join(marks(context, case))
        rows.append(
            (
                cell(context.axes.label(case.case)),
                *(
                    cell("-" if rate is None else number(rate, digits) + signs)
                    for rate, digits in of_counters
                ),
                *(
                    cell("-" if share is None else percent(share) + signs)
                    for share in (*shares, *([floors[index]] if has_floor else []))
                ),
            )
        )
    columns = (
        Column(say("column_case"), numeric=False),
        *(Column(f"{name.replace('_', ' ')}/s") for name in counters),
        *(Column(say("column_mfu", convention=name)) for name in conventions),
        *([Column(say("column_roofline"))] if has_floor else []),
    )
    above = [case for case in cases if any(_is_above_its_peak(found) for found in _work_measured(case))]
    notes = of_marks(context, cases)
    notes += [say("above_the_peak", case=context.axes.label(case.case)) for case in above]
    return Table("", columns, tuple(rows), tuple(notes))


def _work_rate(case: CaseResult, counter: str) -> float | None:
    """Return the median over the runs of a counter's amount over the window."""
    return _median(
        [
            found.work[counter] / found.window_s
            for found in _work_measured(case)
            if found.window_s and counter in found.work
        ]
    )


def _work_share(case: CaseResult, convention: str) -> float | None:
    """Return the median share of the peak, for the highest peak that any of the runs measured.

    A peak is what the devices can reach: a disturbed measurement of it is too low and makes the share too high.
    """
    reported = [
        (found.mfu[convention], found.peak_operations_per_s)
        for found in _work_measured(case)
        if convention in found.mfu
    ]
    highest = max((peak for _, peak in reported if peak), default=0.0)
    return _median([share * peak / highest if peak else share for share, peak in reported])


def _median(values: list[float]) -> float | None:
    return median(values) if values else None


def profile_section(context: Context) -> Section | None:
    """Return the section with two tables for each profiled case; None if no case has a profiled run."""
    cases = [case for case in context.results.cases if case.profile is not None]
    if not cases:
        return None
    blocks: list[Block] = [Paragraph(plain(context.say("profile_caption")))]
    for case in cases:
        blocks += _profile_blocks(context, case)
    return Section("profile", context.say("profile_title"), tuple(blocks), folded=len(cases) > 2)


def _profile_blocks(context: Context, case: CaseResult) -> Iterator[Block]:
    side, label = profiled_side(case), context.axes.label(case.case)
    if side is None:
        assert case.profile is not None
        outcome, reason = context.say.outcome(case.profile.outcome), case.profile.reason or ""
        yield Paragraph(plain(context.say("profile_none", case=label, outcome=outcome, reason=reason)))
        return
    yield Paragraph(plain(_profile_steps(context, label, side)))
    if is_distant(side):
        yield Paragraph(plain(context.say("profile_distant")))
    yield _profile_kinds(context, label, side.profile)
    if side.profile.operations:
        yield _profile_operations(context, side.profile)


def _profile_steps(context: Context, label: str, side: ProfiledSide) -> str:
    say = context.say
    known = (
        ("profile_step", side.profile.step_s),
        ("profile_plain_step", side.case.plain_step_s),
        ("profile_measured_step", side.measured_step_s),
    )
    steps = [say(key, seconds=_milliseconds(seconds)) for key, seconds in known if seconds is not None]
    return say("profile_steps", case=label, steps=say("comma").join(steps), n=side.profile.steps)


def _profile_kinds(context: Context, label: str, profile: StepProfile) -> Table:
    say = context.say
    columns = (
        Column(say("column_kind"), numeric=False),
        Column(say("column_step_ms")),
        Column(say("column_step_share")),
    )
    places = decimals([profile.step_s * 1e3])
    order = sorted(profile.kinds.items(), key=lambda item: -item[1])
    rows: list[tuple[Cell, ...]] = [
        _profile_row(context, kind, seconds, profile, places) for kind, seconds in order
    ]
    rows.append((cell(say("profile_sum")), cell(number(profile.step_s * 1e3, places)), cell(percent(1.0))))
    hidden = (
        ("profile_hidden_communication", profile.communication_hidden_s),
        ("profile_hidden_copies", profile.copy_hidden_s),
    )
    notes = tuple(say(key, seconds=_milliseconds(seconds)) for key, seconds in hidden if seconds)
    return Table(label, columns, tuple(rows), footnotes=notes)


def _profile_row(
    context: Context, kind: WorkKind, seconds: float, profile: StepProfile, places: int
) -> tuple[Cell, ...]:
    name = context.say(f"kind_{kind.value.replace('-', '_')}")
    return cell(name), cell(number(seconds * 1e3, places)), cell(percent(seconds / profile.step_s))


def _profile_operations(context: Context, profile: StepProfile) -> Table:
    say = context.say
    columns = (
        Column(say("column_operation"), numeric=False),
        Column(say("column_kind"), numeric=False),
        Column(say("column_step_ms")),
        Column(say("column_step_share")),
    )
    rows = tuple(
        (
            Cell((Span(one.name[:_LONGEST], Style.CODE),)),
            cell(say(f"kind_{one.kind.value.replace('-', '_')}")),
            cell(number(one.seconds * 1e3)),
            cell(percent(one.seconds / profile.step_s)),
        )
        for one in profile.operations
    )
    return Table("", columns, rows)


def _milliseconds(seconds: float) -> str:
    return f"{number(seconds * 1e3)} ms"


MOST_HOSTS = 4
"""If there are more hosts than this, only the first and the last name are shown."""

MOST_VALUES = 8
"""If a parameter has more values than this, only their number is shown."""


def environment_section(context: Context) -> Section:
    """Return the section of the environments; several environments are side by side."""
    say, manifests = context.say, list(context.results.manifests.values())
    if not manifests:
        return Section("environment", say("environment_title"), (Paragraph(plain(say("no_manifest"))),))
    if any(host != LOCALHOST for _, run in context.runs() for host in run.hosts):
        return Section("environment", say("environment_title"), tuple(_hosts(context)))
    blocks: list[Block] = []
    if len(manifests) > 1:
        blocks.append(Paragraph(plain(say("several_environments", n=len(manifests))), alert=True))
    short = [dict(_summaries(context, manifest)) for manifest in manifests]
    if len(manifests) > 1:
        short = [
            {say("fact_cases"): _cases_in(context, key)} | facts
            for key, facts in zip(context.results.manifests, short, strict=True)
        ]
    if any(short):
        blocks.append(_side_by_side(context, short))
    return Section("environment", say("environment_title"), tuple(blocks))


def _hosts(context: Context) -> Iterator[Block]:
    """Yield the facts of the hosts, one column per kind of host, and a note if there are several kinds."""
    groups: dict[tuple[tuple[str, str], ...], dict[str, None]] = {}
    cases: dict[tuple[tuple[str, str], ...], dict[str, None]] = {}
    for case, run in context.runs():
        manifest = context.results.manifests.get(run.manifest or "")
        for node, host in zip(nodes(manifest) if manifest else (), run.hosts, strict=False):
            facts = tuple(summary(node, context.say))
            groups.setdefault(facts, {})[host] = None
            cases.setdefault(facts, {})[context.axes.label(case.case)] = None
    say = context.say
    if len(groups) > 1:
        yield Paragraph(plain(say("several_groups_of_hosts", n=len(groups))), alert=True)
    held = [
        {say("nodes"): str(len(hosts))}
        | ({say("fact_cases"): say.joined(list(cases[facts]))} if len(groups) > 1 else {})
        | {say(name): text for name, text in facts}
        for facts, hosts in groups.items()
    ]
    if held:
        yield _side_by_side(context, held, titles=[named(list(hosts)) for hosts in groups.values()])


def named(hosts: Sequence[str]) -> str:
    """Return the names of hosts; of many, the first and the last."""
    names = sorted(hosts)
    if len(names) <= MOST_HOSTS:
        return ", ".join(names)
    return f"{names[0]} … {names[-1]} ({len(names)})"


def manifest_section(context: Context) -> Section | None:
    """Return the section of all facts in the manifests, by their names in ``manifest.json``."""
    manifests = [dict(flat(_document(manifest))) for manifest in context.results.manifests.values()]
    if not manifests:
        return None
    table = _side_by_side(context, manifests, as_code=True)
    return Section("manifest", context.say("manifest_title"), (table,), folded=True)


def _document(manifest: StoredManifest) -> Mapping[str, Any]:
    return manifest.model_dump(mode="json") if isinstance(manifest, Manifest) else manifest


def _summaries(context: Context, manifest: StoredManifest) -> Iterable[tuple[str, str]]:
    """Yield the facts of a manifest's nodes; equal nodes appear once."""
    groups: dict[tuple[tuple[str, str], ...], int] = {}
    for node in nodes(manifest):
        facts = tuple(summary(node, context.say))
        groups[facts] = groups.get(facts, 0) + 1
    for i, (facts, n) in enumerate(groups.items()):
        suffix = f" ({i + 1})" if len(groups) > 1 else ""
        yield context.say("nodes") + suffix, str(n)
        yield from ((context.say(name) + suffix, text) for name, text in facts)


def _cases_in(context: Context, manifest: str) -> str:
    """Return the cases that have a run in the environment ``manifest``."""
    return context.say.joined(
        [
            context.axes.label(case.case)
            for case in context.results.cases
            if any(run.manifest == manifest for run in case.runs)
        ]
    )


def _side_by_side(
    context: Context,
    held: list[dict[str, str]],
    as_code: bool = False,
    titles: Sequence[str] | None = None,
) -> Table:
    say = context.say
    if titles is None and len(held) == 1:
        titles = [say("column_value")]
    elif titles is None:
        titles = [say("environment_n", n=i + 1) for i in range(len(held))]
    columns = (Column(say("column_fact"), numeric=False), *(Column(title, numeric=False) for title in titles))
    names = [(name, Cell(code(name)) if as_code else cell(name)) for name in _names(held)]
    rows = tuple((shown, *(cell(facts.get(name, "-")) for facts in held)) for name, shown in names)
    return Table("", columns, rows)


def recipe_section(context: Context) -> Section | None:
    """Return the section of the parameters that the runs recorded, or None if they recorded none."""
    reported = [facts for _, run in context.runs() if (facts := dict(flat(run.parameters.reported())))]
    if not reported:
        return None
    say = context.say
    rows = tuple(
        (Cell(code(name)), cell(_distinct(context, (held.get(name, "-") for held in reported))))
        for name in _names(reported)
    )
    columns = (Column(say("column_parameter"), numeric=False), Column(say("column_value"), numeric=False))
    caption = Paragraph(plain(say("recipe_caption")))
    return Section("recipe", say("recipe_title"), (caption, Table("", columns, rows)), folded=True)


def telemetry_section(context: Context) -> Section | None:
    """Return the section of telemetry during the runs (lowest to highest over each case's runs), or None."""
    sampled = [
        (result, [_quantities(run.telemetry) for run in result.runs if run.telemetry])
        for result in context.results.cases
    ]
    sampled = [(result, held) for result, held in sampled if held]
    if not sampled:
        return None
    say = context.say
    names = _names(figures for _, held in sampled for figures in held)
    columns = (
        Column(say("column_quantity"), numeric=False),
        *(Column(context.axes.label(r.case)) for r, _ in sampled),
    )
    texts = {
        name for name in names for _, held in sampled if any(isinstance(one.get(name), str) for one in held)
    }
    rows = tuple(
        (Cell(code(name)), *(cell(_range(context, held, name)) for _, held in sampled))
        for name in names
        if name not in texts
    )
    # Names of processes would make a column of figures wider than the page.
    words = tuple(
        (
            *code(name),
            *plain(f" {context.axes.label(result.case)}{say('colon')}{_range(context, held, name)}"),
        )
        for name in names
        if name in texts
        for result, held in sampled
        if any(name in one for one in held)
    )
    caption = Paragraph(plain(say("telemetry_caption")))
    blocks: list[Block] = [caption, Table("", columns, rows), *([Bullets(words)] if words else [])]
    return Section("telemetry", say("telemetry_title"), tuple(blocks), folded=True)


def _quantities(nodes: Iterable[TelemetrySummary]) -> dict[str, float | str]:
    """Return the sampled quantities by name: ``gpus[0].power_w_mean`` of a GPU, ``node1.…`` of another node."""
    found: dict[str, Any] = {}
    for node in nodes:
        of = f"node{node.node}." if node.node else ""
        values = {
            name: value
            for name, value in node
            if name not in ("node", "host", "gpus", "foreign", "clock_ahead_s")
        }
        values["foreign"] = ", ".join(f"{one.name} (PID {one.pid})" for one in node.foreign or ()) or None
        for gpu in node.gpus:
            facts = {
                name: value
                for name, value in gpu
                if name not in ("index", "reason_shares", "violation_shares", "foreign_pids")
            }
            facts |= {f"reason_shares.{reason}": share for reason, share in gpu.reason_shares.items()}
            facts |= {f"violation_shares.{policy}": share for policy, share in gpu.violation_shares.items()}
            facts["foreign_pids"] = ", ".join(map(str, gpu.foreign_pids)) or None
            values |= {f"gpus[{gpu.index}].{name}": value for name, value in facts.items()}
        found |= {f"{of}{name}": value for name, value in values.items() if value is not None}
    return found


def _range(context: Context, held: list[dict[str, float | str]], name: str) -> str:
    values = [quantities[name] for quantities in held if name in quantities]
    figures = sorted(value for value in values if not isinstance(value, str))
    if not figures:
        return _distinct(context, map(str, values)) or "-"
    size, unit = (GIB, " GiB") if "_bytes" in name else (1, "")
    places = 0 if size == 1 and all(isinstance(value, int) for value in figures) else None
    low, high = number(figures[0] / size, places), number(figures[-1] / size, places)
    return f"{low}{unit}" if low == high else f"{low} – {high}{unit}"


def _names(held: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for figures in held for name in figures))


def _distinct(context: Context, values: Iterable[str]) -> str:
    different = list(dict.fromkeys(values))
    if len(different) > MOST_VALUES:
        return context.say("many_values", n=len(different))
    return " | ".join(different)


def flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every fact of a JSON value as (path, text), in the value's order; null and empty ones are omitted.

    In a list of objects, a fact that is equal in all of them appears once: ``gpus[0-7].name``.
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        yield from _flat_list(value, path)
    elif value is not None and value != "":
        yield path, _text(value)


def _flat_list(values: Sequence[Any], path: str) -> Iterator[tuple[str, str]]:
    if all(isinstance(inner, str | int | float | bool) or inner is None for inner in values):
        if values:
            yield path, ", ".join(_text(inner) for inner in values)
        return
    held = [dict(flat(inner)) for inner in values]
    for name in dict.fromkeys(name for facts in held for name in facts):
        end = f".{name}" if name and not name.startswith("[") else name
        if len(held) > 1 and len({facts.get(name) for facts in held}) == 1:
            yield f"{path}[0-{len(held) - 1}]{end}", held[0][name]
        else:
            yield from ((f"{path}[{i}]{end}", facts[name]) for i, facts in enumerate(held) if name in facts)


def nodes(manifest: StoredManifest) -> tuple[Node, ...]:
    """Return the nodes in a manifest; none if this version cannot read the manifest."""
    return manifest.nodes if isinstance(manifest, Manifest) else ()


def hardware(node: Node, say: Catalogue) -> str | None:
    """Return a node's GPUs, or its processors if it has none, in a few words."""
    return gpus(node) or processors(node, say)


def gpus(node: Node) -> str | None:
    """Return a node's GPUs by name, with their number."""
    names = Counter(gpu.name or "GPU" for gpu in node.accelerators.gpus)
    return " + ".join(f"{n} × {name}" for name, n in names.items()) or None


def processors(node: Node, say: Catalogue) -> str | None:
    """Return a node's processor model with its numbers of cores and threads."""
    model = node.cpu.model
    known = [("cores", node.cpu.cores), ("threads", node.cpu.threads)]
    sizes = say.joined([say.count(key, n) for key, n in known if n is not None])
    return say("processors", model=model, sizes=sizes) if model and sizes else model or sizes or None


def framework(node: Node) -> str | None:
    """Return the framework and its version in the manifest."""
    reported = node.framework
    return f"{reported.framework} {reported.version}" if reported is not None and reported.version else None


def summary(node: Node, say: Catalogue) -> Iterator[tuple[str, str]]:
    """Yield the most important facts of a node, as (key of the fact's name, text), as far as they are known."""
    reported = node.framework
    facts = {
        "fact_gpus": gpus(node),
        "fact_gpu_memory": _gib(next((gpu.memory_bytes for gpu in node.accelerators.gpus), None)),
        "fact_driver": node.accelerators.driver,
        "fact_processors": processors(node, say),
        "fact_memory": _gib(node.memory.total_bytes),
        "fact_memory_limit": _gib(node.memory.limit_bytes),
        "fact_os": node.os.name,
        "fact_kernel": node.os.kernel,
        "fact_container": node.container.engine if node.container else None,
        "fact_framework": framework(node),
        "fact_python": reported.python if reported else None,
        "fact_cuda": reported.cuda if reported else None,
        "fact_cudnn": reported.cudnn if reported else None,
        "fact_nccl": reported.nccl if reported else None,
        "fact_lock": node.environment_lock,
    }
    yield from ((name, fact) for name, fact in facts.items() if fact is not None)


def _gib(size: int | None) -> str | None:
    return f"{size / GIB:.1f} GiB" if size else None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)
