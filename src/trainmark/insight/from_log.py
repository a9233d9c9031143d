"""A log as a run to be explained: its throughput, its recipe with the lines where it stands, its environment."""

import gzip
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

from trainmark.errors import InputError
from trainmark.insight.explanation import Run
from trainmark.insight.log_head import data_wait
from trainmark.insight.models import model_word
from trainmark.insight.recipe import Reading, recipe_from
from trainmark.logs import ParsedLog, Severity
from trainmark.logs.parameters import read_parameters
from trainmark.logs.transport import clean
from trainmark.measure.rules import find_rule, measure_log
from trainmark.programs import read_log
from trainmark.reference import AxisValue
from trainmark.words.recipe import AnyAxis, Place

HEAD_BYTES = 4 << 20
"""How much of a log is searched for settings and for the time that it waited for data."""

EVENTS = "events.jsonl"
"""What a built-in worker leaves in ``DIR/runs/<case-id>/<repeat>/``."""

_SHORT_DEVICE = re.compile(r"\b([VPAHBTL]\d{1,3}S?)\b")
_MEMORY = re.compile(r"(\d+) ?GB\b", re.IGNORECASE)


def run_from_log(path: Path, rule: str | None = None, device: str | None = None) -> Run:
    """Return the log at ``path`` as a run; of a run's directory of trainmark, its ``events.jsonl``.

    ``rule`` names the rule that makes the throughput (the window rule by default), ``device`` the device, which
    few logs do. A log without a throughput is a run all the same, with none. Raises ``InputError`` for a path that
    is no file, and for a rule that is not known.
    """
    if path.is_dir():
        path = path / EVENTS
        if not path.is_file():
            raise InputError(f"{path.parent}: not the directory of one run: it holds no {EVENTS}")
    if not path.is_file():
        raise InputError(f"{path}: no such log file")
    parsed = read_log(path)
    result = measure_log(parsed, find_rule(rule) if rule else None)
    lines = list(_head(path))
    recipe = recipe_from(read_parameters(lines)).with_readings(_environment(parsed))
    recipe = recipe.with_readings(_given(device))
    problems = (*parsed.problems, *result.problems)
    return Run(
        name=path.name,
        recipe=recipe,
        throughput=result.value,
        unit=parsed.unit,
        rule=result.rule,
        data_wait=data_wait(lines),
        doubts=tuple(problem.message for problem in problems if problem.severity is Severity.DOUBT),
    )


def _given(hardware: str | None) -> dict[AnyAxis, Reading]:
    device, memory = _device(hardware)
    values: dict[AnyAxis, AxisValue | None] = {Place.DEVICE: device, Place.DEVICE_MEMORY_GB: memory}
    if hardware is not None and device is None:
        values[Place.DEVICE] = hardware
    return {
        axis: Reading(value, "as given by --device") for axis, value in values.items() if value is not None
    }


def _environment(parsed: ParsedLog) -> dict[AnyAxis, Reading]:
    facts = parsed.facts
    device, memory = _device(facts.hardware)
    values: dict[AnyAxis, AxisValue | None] = {
        Place.FRAMEWORK: parsed.framework,
        Place.MODEL: model_word(facts.model) if facts.model else None,
        Place.PRECISION: facts.precision.value if facts.precision else None,
        Place.BATCH_PER_DEVICE: facts.batch_per_device,
        Place.DEVICES: facts.gpus,
        Place.NODES: facts.nodes,
        Place.DEVICE: device,
        Place.DEVICE_MEMORY_GB: memory,
    }
    where = "trainmark parse (the log's text or its name)"
    return {axis: Reading(value, where) for axis, value in values.items() if value is not None}


def _device(hardware: str | None) -> tuple[str | None, int | None]:
    """Return a device's short name and its memory in GB: ``Tesla V100-SXM2-32GB`` is ``V100`` with 32.

    A compute capability names a generation and no device.
    """
    if hardware is None:
        return None, None
    name, memory = _SHORT_DEVICE.search(hardware), _MEMORY.search(hardware)
    return (name[1] if name else None), (int(memory[1]) if memory else None)


def _head(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        try:
            head = gzip.GzipFile(fileobj=file).read(HEAD_BYTES) if packed else file.read(HEAD_BYTES)
        except (OSError, EOFError, zlib.error):
            # A damaged archive is the reader's to report; there are no settings to be had from it.
            head = b""
    # What follows the last line's end is half a line: a number in it may have lost digits.
    yield from clean(head).decode("utf-8", "replace").split("\n")[:-1]
