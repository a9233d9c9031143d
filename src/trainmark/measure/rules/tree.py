"""Summaries of a DLPerf directory (``<n>n<g>g/r50_b128_fp32_1.log``) or a tree with other names.

The tables match those of DLPerf's script except for its mistakes: here an out-of-memory repeat is an outcome and not a
0 in a mean; without 1n1g there is no speedup (not 1.0); batches, precisions and models in one folder are separate;
10n8g is ten nodes; duplicate repeat numbers are reported.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from trainmark.errors import InputError
from trainmark.logs.facts import read_hints
from trainmark.logs.model import Facts, ParsedLog, Problem, Severity, Status, same_device
from trainmark.measure.rules.catalog import measure_log, rules_for
from trainmark.measure.rules.dlperf import BASELINE, PlacementSummary, no_speedup, summarise, two_decimals
from trainmark.measure.rules.model import Rule, RuleKind, RuleResult
from trainmark.measure.rules.naming import Naming
from trainmark.measure.rules.row import reading_problems
from trainmark.programs import read_log
from trainmark.schema.precision import Precision

_ABOUT_NAMES = frozenset(
    {"from-name", "name-contradicts-log", "flag-contradicts-log", "flag-contradicts-name"}
)
_FLAG_SAYS = re.compile(r"^--[a-z]+ says")
_FOLDER = re.compile(r"(\d+)n(\d+)[gc]", re.IGNORECASE)
_NAME = re.compile(r"(?P<model>.+?)_b(?:s|z)?(?P<batch>\d+)(?:_(?P<variant>.+?))?_(?P<repeat>\d+)")


@dataclass(frozen=True, slots=True, order=True)
class Group:
    """The runs that are compared: one recipe over placements. ``variant`` is the precision and other name parts."""

    model: str
    batch_per_device: int
    variant: str


@dataclass(frozen=True, slots=True)
class TreeRun:
    """One repeat with its placement, its log and the rule's result."""

    path: str
    group: Group
    placement: str
    repeat: int
    log: ParsedLog
    result: RuleResult


@dataclass(frozen=True, slots=True)
class PlacementRow:
    """One placement of a group. ``summary`` is ``None`` if no repeat has a speed, ``unit`` if no log states it.

    ``hardware`` has the devices named in the logs that give speeds; different devices have no speedup between them.
    """

    group: Group
    placement: str
    nodes: int
    gpus: int
    speeds: tuple[tuple[int, float], ...]
    outcomes: tuple[tuple[int, Status], ...]
    summary: PlacementSummary | None
    unit: str | None
    problems: tuple[Problem, ...]
    hardware: frozenset[str] = frozenset()


def read_tree(folder: Path, rule: Rule | None = None, naming: Naming | None = None) -> list[PlacementRow]:
    """Read a DLPerf directory, or a tree with another ``naming``.

    A run's speed is by ``rule`` (by default DLPerf's own, then trainmark's window). Rows are sorted by group and
    devices. Raises ``InputError`` if the folder is missing or contains no run.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder")
    runs = list(_runs(folder, rule) if naming is None else _named_runs(folder, rule, naming))
    if not runs and naming is not None:
        example = next((path for path in sorted(folder.rglob("*")) if path.is_file()), None)
        names = f" (a file there: {example.relative_to(folder).as_posix()})" if example else ""
        raise InputError(f"{folder}: no file matches the pattern {naming.text}{names}")
    if not runs:
        raise InputError(
            f"{folder}: no folder named <n>n<g>g with logs (example: 1n1g/r50_b128_fp32_1.log); "
            "for other names, use --layout"
        )
    runs = _split_mixed_groups(runs)
    rows: list[PlacementRow] = []
    for group in sorted({run.group for run in runs}):
        rows += summarise_runs([run for run in runs if run.group == group])
    return rows


def _split_mixed_groups(runs: list[TreeRun]) -> list[TreeRun]:
    """Return ``runs`` with groups split by precision, framework and unit if the logs of one group differ in them."""
    kinds_of: dict[Group, list[tuple[str, ...]]] = {}
    for run in runs:
        kinds_of.setdefault(run.group, []).append(_kind(run.log))
    several = {
        group: [len({kind[at] for kind in kinds} - {""}) > 1 for at in range(len(kinds[0]))]
        for group, kinds in kinds_of.items()
    }
    found = []
    for run in runs:
        words = (word for word, differs in zip(_kind(run.log), several[run.group], strict=True) if differs)
        variant = "_".join(word for word in (run.group.variant, *words) if word)
        found.append(replace(run, group=replace(run.group, variant=variant)))
    return found


def _kind(log: ParsedLog) -> tuple[str, ...]:
    return (log.facts.precision or "", log.framework or "", (log.unit or "").removesuffix("/s"))


def summarise_runs(runs: list[TreeRun]) -> list[PlacementRow]:
    """Return the rows of one group's runs, smallest placement first."""
    placements = sorted({run.placement for run in runs}, key=lambda name: _place(name)[1])
    counted = {name: _first_of_each([run for run in runs if run.placement == name]) for name in placements}
    speeds = {
        name: [run.result.value for run in of if run.result.value is not None] for name, of in counted.items()
    }
    hardware = {name: _devices_of(of) for name, of in counted.items()}
    alone = hardware.get(BASELINE, frozenset())
    unlike = {name for name, of in hardware.items() if not same_device(alone | of)}
    summaries = summarise(speeds, unlike=unlike)
    rows = []
    for name in placements:
        nodes, gpus = _place(name)
        rows.append(
            PlacementRow(
                group=runs[0].group,
                placement=name,
                nodes=nodes,
                gpus=gpus,
                speeds=tuple(
                    (run.repeat, two_decimals(run.result.value))
                    for run in counted[name]
                    if run.result.value is not None
                ),
                outcomes=tuple(
                    (run.repeat, run.result.status) for run in counted[name] if run.result.value is None
                ),
                summary=summaries.get(name),
                unit=next((run.log.unit for run in runs if run.log.unit), None),
                problems=tuple(
                    _problems(
                        [run for run in runs if run.placement == name], counted[name], summaries, name, alone
                    )
                ),
                hardware=hardware[name],
            )
        )
    return rows


def _devices_of(runs: list[TreeRun]) -> frozenset[str]:
    """Return the device names in the logs that give a speed."""
    return frozenset(run.log.facts.hardware or "" for run in runs if run.result.value is not None) - {""}


def _runs(folder: Path, rule: Rule | None) -> Iterator[TreeRun]:
    for place in sorted(path for path in folder.iterdir() if path.is_dir() and _FOLDER.fullmatch(path.name)):
        for file in sorted(
            path for path in place.iterdir() if path.is_file() and not path.name.startswith(".")
        ):
            stem = re.sub(r"(?:\.(?:log|txt|gz|json))+$", "", file.name)
            parts = _NAME.fullmatch(stem)
            if parts is None:
                continue
            log = read_log(file)
            yield TreeRun(
                path=str(file),
                group=Group(parts["model"], int(parts["batch"]), parts["variant"] or ""),
                placement=place.name.lower(),
                repeat=int(parts["repeat"]),
                log=log,
                result=_speed(log, rule),
            )


def _named_runs(folder: Path, rule: Rule | None, naming: Naming) -> Iterator[TreeRun]:
    repeats: Counter[tuple[Group, str]] = Counter()
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        place = naming.match(file.relative_to(folder).as_posix())
        if place is None:
            continue
        devices = place.devices or (place.gpus * (place.nodes or 1) if place.gpus else None)
        precision = Precision(place.precision) if place.precision in set(Precision) else None
        given = Facts(place.model, precision, place.nodes, devices, place.batch)
        log = _attributed_to_name(read_log(file, given))
        nodes = place.nodes or log.facts.nodes or 1
        each = (devices or log.facts.gpus or nodes) // nodes
        group = Group(
            place.model or log.facts.model or "-",
            place.batch or log.facts.batch_per_device or 0,
            "_".join(word for word in (place.precision, place.variant) if word),
        )
        placement = f"{nodes}n{each}g"
        repeats[group, placement] += 1
        yield TreeRun(
            path=str(file),
            group=group,
            placement=placement,
            repeat=repeats[group, placement] if place.repeat is None else place.repeat,
            log=log,
            result=_speed(log, rule),
        )


def _attributed_to_name(log: ParsedLog) -> ParsedLog:
    """Return ``log`` with contradictions by flags reported as by its name: the path's facts were passed as flags."""
    return replace(
        log,
        problems=tuple(
            replace(
                problem,
                code="name-contradicts-log",
                message=f"{_FLAG_SAYS.sub('the name says', problem.message)}: the log's value is used",
            )
            if problem.code == "flag-contradicts-log"
            else problem
            for problem in log.problems
        ),
    )


def _speed(log: ParsedLog, rule: Rule | None) -> RuleResult:
    if rule is not None:
        return rule.compute(log)
    for known in rules_for(log.format):
        if known.kind in (RuleKind.DLPERF_SPEED, RuleKind.DLPERF_TIME):
            result = known.compute(log)
            if result.value is not None:
                return result
    return measure_log(log)


def _place(name: str) -> tuple[int, int]:
    nodes = int(name.split("n", maxsplit=1)[0])
    hint = read_hints(f"{name}/x")
    return nodes, hint.gpus or nodes


def _reason(problems: tuple[Problem, ...]) -> str:
    """Return why there is no speed, preferring problems that are not about names or flags."""
    doubts = (p.message for p in problems if p.severity is Severity.DOUBT and p.code not in _ABOUT_NAMES)
    return next(doubts, problems[0].message if problems else "")


def _first_of_each(runs: list[TreeRun]) -> list[TreeRun]:
    first: dict[int, TreeRun] = {}
    for run in runs:
        first.setdefault(run.repeat, run)
    return list(first.values())


def _problems(
    runs: list[TreeRun],
    counted: list[TreeRun],
    summaries: dict[str, PlacementSummary],
    placement: str,
    alone: frozenset[str],
) -> Iterator[Problem]:
    for run in runs:
        if run not in counted:
            yield Problem(
                "duplicate-repeat",
                f"{run.path}: repeat {run.repeat} exists twice; only the first one is counted",
            )
    for run in counted:
        if run.result.value is None:
            reason = _reason(reading_problems(run.log, run.result))
            yield Problem(
                f"repeat-{run.result.status}", f"{run.path}: {run.result.status}, no speed: {reason}"
            )
        else:
            for problem in reading_problems(run.log, run.result):
                if problem.code == "from-name":
                    continue  # a placement is always stated by the folder's name
                yield Problem(problem.code, f"{run.path}: {problem.message}", problem.severity)
    rules = {run.result.rule for run in counted if run.result.value is not None}
    if len(rules) > 1:
        yield Problem(
            "rules-differ",
            f"{placement}: its repeats were measured by different rules ({', '.join(sorted(rules))})",
        )
    summary, own = summaries.get(placement), _devices_of(counted)
    if summary is not None and not same_device(alone | own):
        yield Problem("hardware-differs", no_speedup(placement, own, BASELINE, alone))
    elif summary is not None and summary.speedup is None:
        yield Problem("no-baseline", f"{placement}: no speedup, because 1n1g has no speed")
