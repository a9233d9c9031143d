"""Synthetic logs of a described format: the lines of its ``sample`` with the values of a given run filled in."""

import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any

from trainmark.errors import InputError, nearest
from trainmark.logs.synthetic import Line, SampleRun, end_of, lines_of, mean_rate, overall_rate

SAMPLE_KEYS = ("head", "line", "end")


class Filler(string.Formatter):
    """``str.format`` without access to attributes and items."""

    def get_field(self, field_name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, str]:  # noqa: ARG002 - the base class passes it
        """Return the value of a field and its name; raise ``KeyError`` for one that is not given."""
        if field_name not in kwargs:
            raise KeyError(field_name, nearest(field_name, kwargs))
        return kwargs[field_name], field_name


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
    ``step_time_ms``, ``steps_per_s``, ``rate``, ``device_rate``, ``last_step_time_s``, ``last_step_time_ms``,
    ``last_rate``, ``average_rate``, ``average_steps_per_s``, ``average_step_time_s`` (by the line's counter and
    ``averages_from``; lines without one are left out), ``device_average_rate``, ``device_samples`` (of the line)
    and ``samples`` (so far); the end has ``elapsed_s``, ``elapsed_hms``, ``samples``, ``mean_rate``,
    ``overall_rate`` and ``best_rate``.
    """
    if set(parts) - set(SAMPLE_KEYS) or not {"line", "end"} & set(parts):
        raise InputError(f"{where}: expected line or end, and head")
    filler = Filler()
    averaged = "average_step_time_s" in parts.get("line", "")
    left_out = averages_from + ("{step0" in parts.get("line", ""))

    def fill(part: str, values: Mapping[str, Any]) -> Iterator[str]:
        for text in parts.get(part, "").splitlines():
            yield filler.vformat(text, (), values)

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
            yield from fill("line", {**fixed, **_values(line, run), **mean_s})
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
            f"{where}: unknown field '{name}'{near} (docs/describe-a-log.md lists the fields)"
        ) from None
    except (ValueError, IndexError, TypeError) as error:
        raise InputError(f"{where}: cannot be filled in: {error}") from None
    return sample


def _values(line: Line, run: SampleRun) -> dict[str, Any]:
    return {
        "step": line.step,
        "step0": line.step - 1,
        "record": line.step // run.interval - 1,
        "timestamp": line.clock.timestamp(),
        "interval_s": line.step_time_s * run.interval,
        "clock": line.clock,
        "ms": line.clock.microsecond // 1000,
        "elapsed_s": line.elapsed_s,
        "elapsed_ms": 1000 * line.elapsed_s,
        "elapsed_hms": str(timedelta(seconds=int(line.elapsed_s))),
        "average_steps_per_s": line.step / line.elapsed_s,
        "elapsed": f"{int(line.elapsed_s) // 60:02}:{int(line.elapsed_s) % 60:02}",
        "step_time_s": line.step_time_s,
        "step_time_ms": 1000 * line.step_time_s,
        "steps_per_s": 1 / line.step_time_s,
        "rate": line.rate,
        "device_rate": line.rate / run.gpus,
        "device_average_rate": line.average_rate / run.gpus,
        "last_step_time_s": line.last_step_time_s,
        "last_step_time_ms": 1000 * line.last_step_time_s,
        "last_rate": run.global_batch / line.last_step_time_s,
        "average_rate": line.average_rate,
        "samples": run.global_batch * line.step,
        "device_samples": run.batch_per_device * run.interval,
    }
