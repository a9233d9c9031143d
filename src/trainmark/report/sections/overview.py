"""The opening and the facts before any number; at the end, how the numbers were computed and can be reproduced."""

from collections import Counter
from collections.abc import Iterable, Iterator

from trainmark.report.blocks import Block, Bullets, Code, Paragraph, Section, code, marked, plain
from trainmark.report.context import NOTHING, Context
from trainmark.report.language import days
from trainmark.report.sections.environment import framework, hardware, named, nodes
from trainmark.schema.case import UNKNOWN
from trainmark.schema.hosts import LOCALHOST
from trainmark.schema.manifest import Node
from trainmark.schema.names import RESULTS, SUITE
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import CaseResult
from trainmark.schema.task_catalogue import neutral_task


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


def section(context: Context) -> Section:
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
    facts = [*_steps(context), repeats + say("stop"), *_constant(context)]
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


def _steps(context: Context) -> list[str]:
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
    say = context.say
    constant = [
        say("aspect_is", aspect=context.aspect(aspect), value=value)
        for aspect, value in context.axes.constant().items()
        if value != NOTHING
    ]
    if not constant:
        return []
    return [say("the_same_everywhere", what=say.joined(constant))]


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


def method(context: Context) -> Section:
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


def reproduce(context: Context) -> Section:
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
