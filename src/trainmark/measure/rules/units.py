"""Units of published values: the counted items, one device or all, per second or seconds per item, and the multiple."""

import re
from dataclasses import dataclass
from enum import StrEnum

from trainmark.logs.model import ParsedLog
from trainmark.tasks import same_unit


class Dimension(StrEnum):
    """The quantity that a unit counts."""

    ITEMS = "items"  # samples or tokens, or any other name of them
    STEPS = "steps"
    TFLOPS = "TFLOP/s"
    MFU = "MFU"


@dataclass(frozen=True, slots=True)
class Unit:
    """A published unit: a value x in it is ``scale`` · x items (or steps) per second, or ``scale`` · x seconds for one.

    ``item`` is the counted item with ``/s``, in the notation of the logs' own units.
    """

    dimension: Dimension
    item: str = ""
    per_device: bool = False
    inverse: bool = False
    scale: float = 1.0


_STEPS = frozenset(
    "step steps it its iter iters iteration iterations batch batches update updates".split()  # noqa: SIM905
)
_TIMES = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **{"ms": 1e-3, "us": 1e-6, "min": 60.0, "h": 3600.0},
    **dict.fromkeys(("minute", "minutes"), 60.0),
    **dict.fromkeys(("hr", "hour", "hours"), 3600.0),
}
_ABBREVIATED = {
    "fps": "frames/s",
    "ips": "images/s",
    "sps": "samples/s",
    "tps": "tokens/s",
    "wps": "words/s",
    "tgs": "tokens/s/gpu",
}
"""Units of few letters, as RL and language models are published: ``FPS``, ``TPS``, tokens per GPU and second (TGS)."""
_DEVICES = (
    "gpu",
    "gpus",
    "device",
    "devices",
    "card",
    "cards",
    "chip",
    "chips",
    "npu",
    "npus",
    "tpu",
    "core",
    "rank",
)
_MULTIPLES = {"k": 1e3, "K": 1e3, "M": 1e6, "m": 1e6}
_FLOPS = re.compile(r"([tp])flops?(?:/s)?", re.IGNORECASE)


def parse_unit(text: str) -> Unit | None:
    """Return the unit of a spelling (``tok/s/GPU``, ``ms/step``, ``it/s``, ``TFLOPS``, ``%``); None if unknown."""
    compact = re.sub(r"\s*(?:/|\bper\b)\s*", "/", text.strip()).replace(" ", "")
    if compact.lower() in ("%", "mfu", "mfu%", "%mfu", "mfu(%)"):
        return Unit(Dimension.MFU, scale=0.01)
    if match := re.fullmatch(r"([kKM]?)([a-z]{3})((?:/[a-z]+)?)", compact, re.IGNORECASE):
        whole = _ABBREVIATED.get(match[2].lower())
        compact = f"{match[1]}{whole}{match[3]}" if whole else compact
    words = compact.split("/")
    per_device = any(word.lower() in _DEVICES for word in words[1:])
    words = [words[0], *(word for word in words[1:] if word.lower() not in _DEVICES)]
    if match := _FLOPS.fullmatch("/".join(words)):
        return Unit(Dimension.TFLOPS, per_device=per_device, scale=1e3 if match[1].lower() == "p" else 1.0)
    if len(words) != 2:
        return None
    above, below = words
    if above.lower() in _TIMES and below.lower() not in _TIMES:
        return _counted(below, per_device=per_device, inverse=True, scale=_TIMES[above.lower()])
    if below.lower() in _TIMES:
        return _counted(above, per_device=per_device, inverse=False, scale=1 / _TIMES[below.lower()])
    return None


def _counted(word: str, *, per_device: bool, inverse: bool, scale: float) -> Unit:
    multiple = re.fullmatch(r"([kKM])[-_]?([a-z]{2,})", word)
    if multiple and not inverse:
        word, scale = multiple[2], scale * _MULTIPLES[multiple[1]]
    if word.lower() in _STEPS:
        return Unit(Dimension.STEPS, per_device=per_device, inverse=inverse, scale=scale)
    return Unit(Dimension.ITEMS, f"{word.lower()}/s", per_device, inverse, scale)


def is_plain(unit: Unit, log: ParsedLog) -> bool:
    """Return whether a unit is the log's own: its items per second over all devices."""
    return (
        unit.dimension is Dimension.ITEMS
        and not (unit.per_device or unit.inverse)
        and unit.scale == 1.0
        and log.unit is not None
        and same_unit(unit.item, log.unit)
    )


def convert(value: float, unit: Unit, log: ParsedLog) -> float | str:
    """Return a throughput (log's unit, all devices) in ``unit``, or the reason why the log does not allow it."""
    if unit.dimension in (Dimension.TFLOPS, Dimension.MFU):
        return _figure(unit, log)
    rate: float = value
    if unit.dimension is Dimension.STEPS:
        if log.global_batch is None:
            return "the log does not say how many samples a step has"
        rate = value / log.global_batch
    elif log.unit is None or not same_unit(unit.item, log.unit):
        return (
            f"the table counts {unit.item.removesuffix('/s')}, the log {(log.unit or '?').removesuffix('/s')}"
        )
    elif unit.per_device:
        if log.facts.gpus is None:
            return "the log does not say how many devices there are"
        rate = value / log.facts.gpus
    return 1 / rate / unit.scale if unit.inverse else rate / unit.scale


def _figure(unit: Unit, log: ParsedLog) -> float | str:
    if unit.dimension is Dimension.MFU:
        share = log.figures.get("mfu_share", log.figures.get("mfu", 0.0) / 100)
        return share / unit.scale if share else "the log does not print its MFU"
    tflops = log.figures.get("tflops")
    if tflops is None:
        return "the log does not print its TFLOP/s"
    if unit.per_device:
        return tflops / unit.scale
    if log.facts.gpus is None:
        return "the log prints TFLOP/s of a device, and does not say how many devices there are"
    return tflops * log.facts.gpus / unit.scale
