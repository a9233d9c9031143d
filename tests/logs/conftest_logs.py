"""Helpers of the tests of this folder: samples of formats, and a log's rates and doubts."""

import json
from collections.abc import Callable
from typing import Any

from trainmark.logs import ParsedLog, Severity, Status
from trainmark.logs.synthetic import SampleRun
from trainmark.measure.rules import measure_log
from trainmark.programs import synthetic_log

Reader = Callable[..., ParsedLog]
"""Reads text or bytes as a log: ``read(text, name="-", given=None)``."""

INTERVALS = {
    "paddleclas": 10,
    "paddlenlp-bert": 10,
    "paddleseg": 5,
    "fairseq": 10,
    "mmsegmentation": 2,
    "paddlerec": 20,
    "mlperf": 20,
}


def sample(name: str, steps: int = 120, seconds: float = 0.5, gpus: int = 8, *, amp: bool = False) -> str:
    return synthetic_log(
        name,
        SampleRun(
            [seconds] * steps, gpus=gpus, batch_per_device=64, interval=INTERVALS.get(name, 1), amp=amp
        ),
    )


def rates(log: ParsedLog) -> list[float | None]:
    return [record.rate for record in log.records.rows()]


def doubts_of(log: ParsedLog) -> dict[str, str]:
    """Return the doubts about a log and its number: sentences by code."""
    problems = (*log.problems, *measure_log(log).problems)
    return {problem.code: problem.message for problem in problems if problem.severity is Severity.DOUBT}


def sound(log: ParsedLog) -> float | None:
    """Return the number of a log that has one and no doubt about it."""
    assert (log.status, doubts_of(log)) == (Status.OK, {})
    return measure_log(log).value


Event = tuple[str, float, Any, dict[str, Any]]
"""An event of MLPerf's log: its key, its second, its value and its metadata."""


def mlperf_log(*events: Event) -> str:
    """Return events as MLPerf's logger prints them."""
    lines = (
        {
            "namespace": "",
            "time_ms": 1_700_000_000_000 + 1000 * at,
            "key": key,
            "value": value,
            "metadata": about,
        }
        for key, at, value, about in events
    )
    return "".join(f":::MLLOG {json.dumps(line)}\n" for line in lines)
