"""Reading a log as a run to be explained: its throughput, its recipe with line numbers, and its environment."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from trainmark.errors import InputError
from trainmark.insight.bound import BoundFacts, judge_bound, stored_bound
from trainmark.insight.findings import MIN_DATA_WAIT, data_wait_doubt, in_causal_order
from trainmark.insight.log_head import data_wait
from trainmark.insight.recipe import FLAGS, Reading, StatedRecipe, recipe_from
from trainmark.insight.side_facts import SideFacts
from trainmark.insight.sides import ExplainedRun, PublishedRule
from trainmark.logs import Facts, ParsedLog, Problem
from trainmark.logs.events import read_events, read_parameters
from trainmark.logs.lines.transport import (
    DamagedError,
    UnusableFileError,
    clean,
    log_of_run,
    open_log,
    unpack,
)
from trainmark.logs.lines.wrapping import unwrap
from trainmark.logs.plausibility import stalls
from trainmark.measure.device_peaks import find_peak
from trainmark.measure.rules import find_rule, measure_log, noise
from trainmark.measure.rules.row import reading_problems
from trainmark.measure.steadiness import log_suspicions
from trainmark.programs import formats, read_log, settings_of_axes
from trainmark.schema.manifest import Manifest
from trainmark.schema.names import EVENTS, LOG, MANIFEST
from trainmark.schema.recipe import AxisName, AxisValue, Condition, RecipeAxis
from trainmark.schema.results import RunBound
from trainmark.tasks import model_word

HEAD_BYTES = 4 << 20
"""The size of the part of a log that is searched for settings and data-wait times."""

_PRINTED_FIRST = (RecipeAxis.ACCUMULATION_STEPS, RecipeAxis.SEQUENCE_LENGTH)
"""Axes of which a setting that the program prints is more certain than what its records imply."""

_SHORT_DEVICE = re.compile(r"\b([VPAHBTL]\d{1,3}S?)\b")
_MEMORY = re.compile(r"(\d+) ?GB\b", re.IGNORECASE)


def run_from_log(
    path: Path, rule: str | None = None, device: str | None = None, given: Facts | None = None
) -> ExplainedRun:
    """Return the log at ``path`` as a run; for the folder or the log of a built-in worker's run, read its events.

    ``rule`` names the rule for the throughput (the window rule by default), ``device`` the device, which few logs
    state, and ``given`` further facts that the log does not state. A ``manifest.json`` next to the log supplies machine
    and software. A log without a throughput gives a run without one. Raises ``InputError`` if the path is not a file or
    the rule is unknown.
    """
    if path.is_dir():
        path = log_of_run(path) or path / EVENTS
        if not path.is_file():
            raise InputError(f"{path.parent}: not the directory of a run ({EVENTS} is missing)")
    if not path.is_file():
        raise InputError(f"{path}: no such log file")
    path = (log_of_run(path.parent) if path.name == LOG else None) or path
    manifest = _manifest(path.parent / MANIFEST)
    parsed = read_log(path, replace(given or Facts(), hardware=device or _gpu(manifest)))
    result = measure_log(parsed, find_rule(rule) if rule else None)
    lines = list(_head(path))
    printed = recipe_from(read_parameters(lines), lines)
    recipe = printed.with_readings(
        {
            axis: reading
            for axis, reading in _environment(parsed, given or Facts()).items()
            if axis not in _PRINTED_FIRST or axis not in printed.readings
        }
    )
    recipe = recipe.with_readings(manifest_readings(manifest)).with_readings(_given(device))
    problems = reading_problems(parsed, result)
    waited = data_wait(lines)
    if waited is None:
        waited = own_data_wait(path)
    of_axes = settings_of_axes(lines)
    settings = {
        name: value
        for name, value in parsed.parameters.items()
        if recipe.program is None and name not in of_axes
    }
    return ExplainedRun(
        name=path.name,
        recipe=recipe,
        throughput=result.value,
        unit=parsed.unit,
        rule=result.rule,
        data_wait=waited,
        doubts=_doubts(problems, waited),
        noise=noise(parsed, result.skipped) or 0.0,
        stall=stalls(parsed),
        by_publishers=tuple(_by_publishers(parsed)),
        bound=stored_bound(path.parent) or _bound_of_log(parsed, waited),
        facts=SideFacts(settings=settings),
    )


def _bound_of_log(parsed: ParsedLog, waited: float | None) -> RunBound:
    """Return what a log by itself shows of what its run was bound by: at most the wait for data."""
    devices = parsed.facts.gpus or 1
    remedy = "let trainmark run start the program, and give its folder (DIR/runs/CASE/REPEAT) here"
    return judge_bound(BoundFacts(devices=devices, data_wait=waited, unsampled=remedy))


def own_data_wait(path: Path) -> float | None:
    """Return the share of the window that a built-in worker's run waited for its loader, by its events, or None."""
    if not path.name.startswith(EVENTS):
        return None
    events = read_events(path)
    waits, window_s = events.data_waits_s[events.measured], events.summary.get("window_s")
    if not np.isfinite(waits).any() or not isinstance(window_s, int | float) or not window_s > 0:
        return None
    return min(float(np.nansum(waits)) / window_s, 0.99)


def _doubts(problems: Sequence[Problem], waited: float | None) -> tuple[str, ...]:
    """Return the sentences of the doubts, causes first; a long wait for data is one of the causes."""
    found = list(log_suspicions(problems))
    if waited is not None and waited >= MIN_DATA_WAIT:
        found.append(data_wait_doubt(waited))
    return tuple(doubt.sentence for doubt in in_causal_order(found))


def stated_recipe(path: Path) -> StatedRecipe:
    """Return the recipe stated at the start of the log at ``path``; an empty one if the log cannot be read."""
    try:
        lines = list(_head(path))
        return recipe_from(read_parameters(lines), lines)
    except OSError:
        return StatedRecipe()


def _by_publishers(parsed: ParsedLog) -> Iterator[PublishedRule]:
    known = next((known for known in formats() if known.name == parsed.format), None)
    for published in known.published if known else ():
        value = find_rule(published.rule).compute(parsed).value
        if value is not None:
            yield PublishedRule(published.by, published.rule, value)


def _manifest(path: Path) -> Manifest | None:
    try:
        return Manifest.model_validate_json(path.read_bytes())
    except (OSError, ValueError):
        # Most logs have no manifest, and a damaged one is ignored.
        return None


def _gpu(manifest: Manifest | None) -> str | None:
    names = [gpu.name for node in manifest.nodes for gpu in node.accelerators.gpus] if manifest else []
    return next((name for name in names if name), None)


def manifest_readings(manifest: Manifest | None) -> dict[AxisName, Reading]:
    """Return the machine and software of rank 0's node from the manifest next to a run's log."""
    if manifest is None:
        return {}
    node = manifest.nodes[0]
    accelerators, framework = node.accelerators, node.framework
    device, memory = _device(_gpu(manifest))
    if device and memory is None:
        memory = _vendors_gb(device, accelerators.gpus[0].memory_bytes)
    # A machine without a GPU trains on its processor; a name without a short form is the device's own.
    own = _gpu(manifest) or (node.cpu.model if not accelerators.gpus else None)
    values: dict[AxisName, AxisValue | None] = {
        Condition.DEVICE: device or own,
        Condition.DEVICE_MEMORY_GB: memory,
        Condition.HOST_CPU: node.cpu.model,
        Condition.OS: node.os.name,
        Condition.DRIVER: accelerators.driver,
        Condition.FRAMEWORK_VERSION: framework.version if framework else None,
        Condition.CUDA: framework.cuda if framework else None,
        Condition.CUDNN: framework.cudnn if framework else None,
        Condition.NCCL: framework.nccl if framework else None,
    }
    return {axis: Reading(value, MANIFEST) for axis, value in values.items() if value is not None}


def _vendors_gb(device: str, memory_bytes: int | None) -> int | None:
    """Return a device's nominal memory in GB, which differs from the number of bytes that a driver reports."""
    if memory_bytes is None:
        return None
    peak, counted = find_peak(device), memory_bytes / 2**30
    known = peak.memory_gb if peak is not None else None
    return round(known if known and abs(known - counted) < 0.05 * known else counted)


def _given(hardware: str | None) -> dict[AxisName, Reading]:
    device, memory = _device(hardware)
    values: dict[AxisName, AxisValue | None] = {Condition.DEVICE: device, Condition.DEVICE_MEMORY_GB: memory}
    if hardware is not None and device is None:
        values[Condition.DEVICE] = hardware
    return {
        axis: Reading(value, "as given by --device") for axis, value in values.items() if value is not None
    }


def _environment(parsed: ParsedLog, given: Facts) -> dict[AxisName, Reading]:
    facts = parsed.facts
    device, memory = _device(facts.hardware)
    values: dict[AxisName, AxisValue | None] = {
        Condition.FRAMEWORK: parsed.framework,
        Condition.MODEL: model_word(facts.model) if facts.model else None,
        Condition.PRECISION: facts.precision.value if facts.precision else None,
        Condition.BATCH_PER_DEVICE: facts.batch_per_device,
        Condition.DEVICES: facts.gpus,
        Condition.NODES: facts.nodes,
        RecipeAxis.ACCUMULATION_STEPS: facts.accumulation,
        RecipeAxis.SEQUENCE_LENGTH: facts.sequence_length,
        Condition.DEVICE: device,
        Condition.DEVICE_MEMORY_GB: memory,
    }
    stated: dict[AxisName, object] = {
        Condition.MODEL: given.model,
        Condition.PRECISION: given.precision,
        Condition.BATCH_PER_DEVICE: given.batch_per_device,
        Condition.DEVICES: given.gpus,
        Condition.NODES: given.nodes,
    }
    return {
        axis: Reading(value, f"as given by {FLAGS[axis]}" if stated.get(axis) else "from the log or its name")
        for axis, value in values.items()
        if value is not None
    }


def _device(hardware: str | None) -> tuple[str | None, int | None]:
    """Return a device's short name and its memory in GB: ``Tesla V100-SXM2-32GB`` is ``V100`` with 32.

    A compute capability names a generation and not a device.
    """
    if hardware is None:
        return None, None
    name, memory = _SHORT_DEVICE.search(hardware), _MEMORY.search(hardware)
    return (name[1] if name else None), (int(memory[1]) if memory else None)


def _head(path: Path) -> Iterator[str]:
    try:
        with open_log(path) as file, unpack(file) as unpacked:
            head = unwrap(unpacked).read(HEAD_BYTES)
    except (OSError, UnusableFileError, DamagedError):
        # The log reader reports a damaged archive; no settings can be read from it.
        head = b""
    # The last line may be incomplete, and a number in it may have lost digits.
    yield from clean(head).decode("utf-8", "replace").split("\n")[:-1]
