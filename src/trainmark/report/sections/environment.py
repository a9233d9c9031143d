"""What the runs ran on and by which recipe: the manifests, the runs' own parameters, the telemetry."""

from collections.abc import Iterable, Mapping
from typing import Any

from trainmark.report.blocks import Block, Cell, Column, Paragraph, Section, Table, cell, code, plain
from trainmark.report.context import Context
from trainmark.report.facts import flat, nodes, summary
from trainmark.report.numbers import GIB, number
from trainmark.words.telemetry import TelemetrySummary

MOST_VALUES = 8
"""More different values of one parameter than this are told by their number."""


def environment(context: Context) -> Section:
    """Return the section of what was really there; several environments stand beside each other."""
    say, manifests = context.say, list(context.results.manifests.values())
    if not manifests:
        return Section("environment", say("environment_title"), (Paragraph(plain(say("no_manifest"))),))
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


def every_fact(context: Context) -> Section | None:
    """Return the section of all that the manifests hold, by the names that ``manifest.json`` uses."""
    manifests = [dict(flat(manifest)) for manifest in context.results.manifests.values()]
    if not manifests:
        return None
    table = _side_by_side(context, manifests, as_code=True)
    return Section("manifest", context.say("manifest_title"), (table,), folded=True)


def _summaries(context: Context, manifest: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Yield the facts of a manifest's nodes: those of equal nodes once."""
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


def _side_by_side(context: Context, held: list[dict[str, str]], as_code: bool = False) -> Table:
    say = context.say
    titles = (
        [say("column_value")] if len(held) == 1 else [say("environment_n", n=i + 1) for i in range(len(held))]
    )
    columns = (Column(say("column_fact"), numeric=False), *(Column(title, numeric=False) for title in titles))
    names = [(name, Cell(code(name)) if as_code else cell(name)) for name in _names(held)]
    rows = tuple((shown, *(cell(facts.get(name, "-")) for facts in held)) for name, shown in names)
    return Table("", columns, rows)


def recipe(context: Context) -> Section | None:
    """Return the section of the parameters that the runs themselves wrote, or None when none did."""
    said = [dict(flat(run.parameters)) for _, run in context.runs() if run.parameters]
    if not said:
        return None
    say = context.say
    rows = tuple(
        (Cell(code(name)), cell(_distinct(context, (held.get(name, "-") for held in said))))
        for name in _names(said)
    )
    columns = (Column(say("column_parameter"), numeric=False), Column(say("column_value"), numeric=False))
    caption = Paragraph(plain(say("recipe_caption")))
    return Section("recipe", say("recipe_title"), (caption, Table("", columns, rows)), folded=True)


def telemetry(context: Context) -> Section | None:
    """Return the section of what was sampled beside the runs (lowest to highest over each case's runs), or None."""
    sampled = [
        (result, [_quantities((run.telemetry, *run.other_nodes)) for run in result.runs if run.telemetry])
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
    rows = tuple(
        (Cell(code(name)), *(cell(_range(context, held, name)) for _, held in sampled)) for name in names
    )
    caption = Paragraph(plain(say("telemetry_caption")))
    return Section("telemetry", say("telemetry_title"), (caption, Table("", columns, rows)), folded=True)


def _quantities(nodes: Iterable[TelemetrySummary]) -> dict[str, float | str]:
    """Return what was sampled by name; of a GPU as ``gpus[0].power_w_mean``, of another node as ``node1.…``."""
    found: dict[str, Any] = {}
    for node in nodes:
        of = f"node{node.node}." if node.node else ""
        values = {name: value for name, value in node if name not in ("node", "gpus")}
        for gpu in node.gpus:
            facts = {
                name: value for name, value in gpu if name not in ("index", "reason_shares", "foreign_pids")
            }
            facts |= {f"reason_shares.{reason}": share for reason, share in gpu.reason_shares.items()}
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
