"""Synthetic logs of a described format: the lines of its ``sample`` with the values of a given run filled in."""

import string
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import cache
from typing import Any

from trainmark.errors import InputError, nearest
from trainmark.logs.synthetic import Line, SampleRun, end_of, lines_of, mean_rate, overall_rate

SAMPLE_KEYS = ("head", "line", "end")


_FORMATTER = string.Formatter()


class Template:
    """A line with fields as in ``str.format``, parsed once, without access to attributes and items."""

    def __init__(self, text: str) -> None:
        """Parse ``text``; raise ``ValueError`` for unbalanced braces."""
        self._parts = tuple(_FORMATTER.parse(text))

    def fill_in(self, values: Mapping[str, Any], known: Iterable[str] = ()) -> str:
        """Return the text with these values; raise ``KeyError`` for an unknown field, with the nearest name."""
        pieces: list[str] = []
        for text, field, specification, conversion in self._parts:
            pieces.append(text)
            if field is None:
                continue
            if field not in values:
                raise KeyError(field, nearest(field, {*known, *values}))
            value = _FORMATTER.convert_field(values[field], conversion) if conversion else values[field]
            nested = specification and "{" in specification
            pieces.append(
                format(
                    value, Template(specification or "").fill_in(values) if nested else specification or ""
                )
            )
        return "".join(pieces)


class _Switch:
    """True or False as a sample's field: ``{amp}`` is the word, ``{amp:on|off}`` the text of each."""

    def __init__(self, on: bool) -> None:
        self.on = on

    def __str__(self) -> str:
        return str(self.on)

    def __format__(self, spec: str) -> str:
        on, _, off = (spec or "True|False").partition("|")
        return on if self.on else off


def make_sample(
    parts: Mapping[str, str], where: str, averages_from: int = 0
) -> Callable[[SampleRun], Iterator[str]]:
    """Return the writer of synthetic logs; raise ``InputError`` naming ``where`` for an unknown key or field.

    ``head`` and ``end`` are written once, ``line`` for each record. ``{step:4}`` and the like are filled in:
    ``gpus``, ``gpu_list`` (0,1,…), ``batch`` (per device), ``global_batch``, ``amp`` (True or False; ``{amp:on|off}``
    are other words), ``fp16_or_fp32``, ``clock`` (a date: ``{clock:%H:%M:%S}``, ``{ms:03}`` its milliseconds),
    ``steps`` and ``interval``. Lines also have ``step``, from 0 ``step0`` and ``record``, ``timestamp`` (seconds
    since 1970), ``elapsed_s``, ``elapsed_ms``, ``elapsed``, ``elapsed_hms``, ``interval_s``, ``step_time_s``,
    ``step_time_ms``, ``steps_per_s``, ``rate``, ``seconds_per_thousand``, ``device_rate``, ``device_rate_per_minute``,
    ``last_step_time_s``, ``last_step_time_ms``, ``last_rate``, ``average_rate``, ``average_steps_per_s``,
    ``average_step_time_s`` (by the line's counter and ``averages_from``; lines without one are left out),
    ``device_average_rate``, ``device_samples`` (of the line) and ``samples`` (so far); the end has ``elapsed_s``,
    ``elapsed_hms``, ``samples``, ``mean_rate``, ``overall_rate`` and ``best_rate``.
    """
    if set(parts) - set(SAMPLE_KEYS) or not {"line", "end"} & set(parts):
        raise InputError(f"{where}: expected line or end, and head")
    averaged = "average_step_time_s" in parts.get("line", "")
    left_out = averages_from + ("{step0" in parts.get("line", ""))
    printed = {name: value for name, value in _VALUES.items() if name in parts.get("line", "")}

    @cache
    def templates(part: str) -> tuple[Template, ...]:
        return tuple(map(Template, parts.get(part, "").splitlines()))

    def fill(part: str, values: Mapping[str, Any]) -> Iterator[str]:
        known = _VALUES if part == "line" else ()
        return (template.fill_in(values, known) for template in templates(part))

    def sample(run: SampleRun) -> Iterator[str]:
        fixed = {
            "gpus": run.gpus,
            "batch": run.batch_per_device,
            "global_batch": run.global_batch,
            "amp": _Switch(run.amp),
            "steps": len(run.step_times_s),
            "interval": run.interval,
            "fp16_or_fp32": "fp16" if run.amp else "fp32",
            "gpu_list": ",".join(map(str, range(run.gpus))),
        }
        yield from fill("head", {**fixed, "clock": run.start, "ms": 0})
        first_s = sum(run.step_times_s[: max(left_out, 0)])
        for line in lines_of(run):
            counted = line.step - left_out
            if averaged and counted <= 0:
                continue
            mean_s = {"average_step_time_s": (line.elapsed_s - first_s) / max(counted, 1)}
            of_line = {name: value(line, run) for name, value in printed.items()}
            yield from fill("line", {**fixed, **of_line, **mean_s})
        if not templates("end"):
            return
        end = end_of(run)
        seconds = sum(run.step_times_s)
        totals = {
            "mean_rate": mean_rate(run),
            "overall_rate": overall_rate(run),
            "samples": run.global_batch * len(run.step_times_s),
            "elapsed_s": seconds,
            "elapsed_hms": str(timedelta(seconds=round(seconds))),
        }
        best = {"best_rate": max((line.rate for line in lines_of(run)), default=0.0)}
        yield from fill("end", {**fixed, **totals, **best, "clock": end, "ms": end.microsecond // 1000})

    try:
        list(sample(SampleRun([0.5] * 2)))
    except KeyError as error:
        name, near = error.args
        raise InputError(
            f"{where}: unknown field '{name}'{near} (docs/how-to/describe-a-log.md lists the fields)"
        ) from None
    except (ValueError, IndexError, TypeError) as error:
        raise InputError(f"{where}: cannot be filled in: {error}") from None
    return sample


_VALUES: Mapping[str, Callable[[Line, SampleRun], Any]] = {
    "step": lambda line, _run: line.step,
    "step0": lambda line, _run: line.step - 1,
    "record": lambda line, run: line.step // run.interval - 1,
    "timestamp": lambda line, _run: line.clock.timestamp(),
    "interval_s": lambda line, run: line.step_time_s * run.interval,
    "clock": lambda line, _run: line.clock,
    "ms": lambda line, _run: line.clock.microsecond // 1000,
    "elapsed_s": lambda line, _run: line.elapsed_s,
    "elapsed_ms": lambda line, _run: 1000 * line.elapsed_s,
    "elapsed_hms": lambda line, _run: str(timedelta(seconds=int(line.elapsed_s))),
    "average_steps_per_s": lambda line, _run: line.step / line.elapsed_s,
    "elapsed": lambda line, _run: f"{int(line.elapsed_s) // 60:02}:{int(line.elapsed_s) % 60:02}",
    "step_time_s": lambda line, _run: line.step_time_s,
    "step_time_ms": lambda line, _run: 1000 * line.step_time_s,
    "steps_per_s": lambda line, _run: 1 / line.step_time_s,
    "rate": lambda line, _run: line.rate,
    "seconds_per_thousand": lambda line, _run: 1000 / line.rate,
    "device_rate_per_minute": lambda line, run: 60 * line.rate / run.gpus,
    "device_rate": lambda line, run: line.rate / run.gpus,
    "device_average_rate": lambda line, run: line.average_rate / run.gpus,
    "last_step_time_s": lambda line, _run: line.last_step_time_s,
    "last_step_time_ms": lambda line, _run: 1000 * line.last_step_time_s,
    "last_rate": lambda line, run: run.global_batch / line.last_step_time_s,
    "average_rate": lambda line, _run: line.average_rate,
    "samples": lambda line, run: run.global_batch * line.step,
    "device_samples": lambda _line, run: run.batch_per_device * run.interval,
}
"""What a line can print of its record."""
