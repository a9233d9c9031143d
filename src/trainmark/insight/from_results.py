"""Reading a case of a result as a run to be explained: its estimate over repeats, and what its runs recorded."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import median

from trainmark.errors import InputError
from trainmark.insight.bound import bound_of, judge_bounds
from trainmark.insight.findings import counted_doubts
from trainmark.insight.from_log import manifest_readings, run_from_log
from trainmark.insight.profiles import profiled_side
from trainmark.insight.recipe import Reading, StatedRecipe, recipe_from
from trainmark.insight.side_facts import facts_of
from trainmark.insight.sides import ExplainedRun
from trainmark.logs import Facts
from trainmark.logs.events import Parameter
from trainmark.schema.case import UNKNOWN, Case, value_text
from trainmark.schema.manifest import Manifest
from trainmark.schema.names import RESULTS, RUNS
from trainmark.schema.recipe import AxisName, Condition
from trainmark.schema.results import CaseResult, Results, RunResult, pooled
from trainmark.store import read_results
from trainmark.tasks import own_axes, recipe_axis

_AS_CONDITION = {
    "framework": Condition.FRAMEWORK,
    "model": Condition.MODEL,
    "precision": Condition.PRECISION,
    "batch_per_device": Condition.BATCH_PER_DEVICE,
    "nodes": Condition.NODES,
}
_WHERE = "case of the result"


def run_from_case(results: Results, case: CaseResult, name: str, folder: Path | None = None) -> ExplainedRun:
    """Return a case as a run: the median of its runs with their spread, its axes and options, its machine.

    ``folder`` is the result directory, from which packages, variables and files are read. A case without a number gives
    a run without one.
    """
    runs = pooled(case.runs)
    measurement = runs[0].measurement if runs else None
    waits = sorted(
        run.measurement.data_wait for run in runs if run.measurement and run.measurement.data_wait is not None
    )
    estimate = case.estimate
    doubts = (f"{doubt.sentence} ({code})" for doubt, code in counted_doubts(case, runs))
    return ExplainedRun(
        name=name,
        recipe=stated_recipe(results, case),
        throughput=None if estimate is None else estimate.median,
        unit=case.unit,
        rule=None if measurement is None else measurement.rule,
        data_wait=waits[len(waits) // 2] if waits else None,
        doubts=tuple(doubts) or _no_number(case),
        noise=0.0 if estimate is None else estimate.half_width or _noise_of_records(runs, folder),
        unrepeated=estimate.no_interval.in_words
        if estimate is not None and estimate.no_interval is not None
        else None,
        bound=next(iter(judge_bounds([case], results.manifests)), None),
        facts=facts_of(case.case, runs, results.manifests, folder),
        profile=None if case.profile is None else profiled_side(case),
    )


def stated_recipe(results: Results, case: CaseResult) -> StatedRecipe:
    """Return what a case states: its axes and options, and what its first run reported or ran on."""
    runs = pooled(case.runs)
    recipe, manifest = StatedRecipe(dict(_axes(case.settled))), None
    if runs:
        reported, manifest = _reported(runs[0]), results.manifests.get(runs[0].manifest or "")
        recipe = StatedRecipe({**recipe.readings, **reported.readings}, reported.program)
    recipe = recipe.with_readings(manifest_readings(manifest if isinstance(manifest, Manifest) else None))
    return recipe.with_options(case.case.options, _WHERE)


def _noise_of_records(runs: Sequence[RunResult], folder: Path | None) -> float:
    """Return the noise of the records of a case's runs, which its number has without an interval over them.

    It is 0 if ``folder`` lacks the runs' files, or their windows are too short.
    """
    if folder is None:
        return 0.0
    found = []
    for run in runs:
        with suppress(InputError, OSError):
            found.append(run_from_log(folder / run.directory).noise)
    return median(found) if found else 0.0


def _no_number(case: CaseResult) -> tuple[str, ...]:
    return () if case.estimate is not None else (case.reason or case.outcome.label,)


def with_results(run: ExplainedRun, folder: Path) -> ExplainedRun:
    """Return a run that was read from its own folder with the case, machine and telemetry that its result recorded."""
    directory = folder.resolve().parent.parent.parent
    if folder.resolve().parent.parent.name != RUNS or not (directory / RESULTS).is_file():
        return run
    try:
        results = read_results(directory / RESULTS)
    except InputError:
        return run
    name = folder.resolve().relative_to(directory).as_posix()
    pairs = ((case, one) for case in results.cases for one in case.runs if one.directory == name)
    case, found = next(pairs, (None, None))
    if case is None or found is None or found.measurement is None:
        return run
    stated = StatedRecipe({**dict(_axes(case.settled)), **run.recipe.readings}, run.recipe.program)
    return replace(
        run,
        recipe=stated.with_options(case.case.options, _WHERE),
        bound=run.bound or bound_of(case.case, found, results.manifests),
        profile=profiled_side(case),
        unrepeated="is one run",
        data_wait=found.measurement.data_wait if run.data_wait is None else run.data_wait,
        facts=facts_of(case.case, [found], results.manifests, directory),
    )


def side_from_path(
    path: Path, rule: str | None = None, device: str | None = None, given: Facts | None = None
) -> ExplainedRun:
    """Return a log or a run's folder as a run, with what its result directory recorded of it."""
    run = run_from_log(path, rule, device, given)
    return with_results(run, path if path.is_dir() else path.parent)


def _axes(case: Case) -> Iterator[tuple[AxisName, Reading]]:
    """Yield the axes that a case states; those of programs that are not ours may be unknown."""
    for axis in case.axes:
        value = case.value(axis)
        name = _AS_CONDITION.get(axis) or (recipe_axis(axis) if axis in own_axes() else axis)
        if axis in ("workload", "task", "devices_per_node", "options", "where", "device") or value == UNKNOWN:
            continue
        yield name, Reading(value if isinstance(value, bool | int | float) else value_text(value), _WHERE)
    yield Condition.DEVICES, Reading(case.world_size, _WHERE)


def _reported(run: RunResult) -> StatedRecipe:
    """Return the recipe that a run reported itself."""
    flat: dict[str, Parameter] = {}
    for name, value in run.parameters.reported().items():
        inner = value.items() if isinstance(value, dict) else [("", value)]
        for key, one in inner:
            label = f"{name}.{key}" if key else name
            text = str(one).lower() if isinstance(one, bool) else str(one)
            flat[label] = Parameter(label, text, 1)
    found = recipe_from(flat)
    readings = {
        axis: replace(reading, where="reported by the run") for axis, reading in found.readings.items()
    }
    return StatedRecipe(readings, found.program)
