"""Section on the runs' environment and recipe: manifests, the runs' own parameters, telemetry.

Manifests are read tolerantly: of one from another version, the known parts are shown.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from trainmark.report.blocks import Block, Bullets, Cell, Column, Paragraph, Section, Table, cell, code, plain
from trainmark.report.context import Context
from trainmark.report.language import GIB, Catalogue, number
from trainmark.schema.hosts import LOCALHOST
from trainmark.schema.manifest import Manifest, Node
from trainmark.schema.results import StoredManifest
from trainmark.schema.telemetry import TelemetrySummary

MOST_HOSTS = 4
"""If there are more hosts than this, only the first and the last name are shown."""

MOST_VALUES = 8
"""If a parameter has more values than this, only their number is shown."""


def environment(context: Context) -> Section:
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


def every_fact(context: Context) -> Section | None:
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


def recipe(context: Context) -> Section | None:
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


def telemetry(context: Context) -> Section | None:
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
