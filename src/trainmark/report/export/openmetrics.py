"""OpenMetrics: a file for Prometheus or node-exporter's textfile collector, or a push to a Pushgateway."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.error import URLError

from trainmark.errors import InputError
from trainmark.files import write_atomically
from trainmark.imports import import_extra
from trainmark.report.export.records import CaseRecord, ExportedResults
from trainmark.schema.outcome import Outcome

_PURPOSE = "an export to OpenMetrics"
_PUSH_TIMEOUT_S = 30.0
_FIGURES = {
    "throughput_median": "throughput",
    "throughput_mean": "throughput_mean",
    "throughput_std": "throughput_std",
    "throughput_min": "throughput_min",
    "throughput_max": "throughput_max",
    "interval_low": "throughput_interval_low",
    "interval_high": "throughput_interval_high",
    "energy_j_per_unit": "energy",
    "energy_low": "energy_interval_low",
    "energy_high": "energy_interval_high",
    "speedup": "speedup",
    "speedup_low": "speedup_interval_low",
    "speedup_high": "speedup_interval_high",
    "efficiency": "efficiency",
    "efficiency_low": "efficiency_interval_low",
    "efficiency_high": "efficiency_interval_high",
}
"""The names of a case's figures in metrics; the throughput is the median over its runs, intervals are of 95 %."""

TEXTFILE = ".prom"
"""The suffix that node-exporter's textfile collector reads: Prometheus' text format; other files are OpenMetrics."""


def write(source: ExportedResults, output: str) -> tuple[str, ...]:
    """Write the file ``output``, or replace the suite's group on the Pushgateway of that address."""
    client = import_extra("prometheus_client", _PURPOSE)
    registry = client.CollectorRegistry()
    registry.register(_Collector(source))
    if output.startswith(("http://", "https://")):
        _push(client, registry, source, output)
    elif output.endswith(TEXTFILE):
        write_atomically(Path(output), client.generate_latest(registry))
    else:
        openmetrics = import_extra("prometheus_client.openmetrics.exposition", _PURPOSE)
        write_atomically(Path(output), openmetrics.generate_latest(registry))
    return (output,)


def _push(client: Any, registry: Any, source: ExportedResults, address: str) -> None:
    group = {"suite": source.results.suite}
    try:
        client.push_to_gateway(
            address, job="trainmark", registry=registry, grouping_key=group, timeout=_PUSH_TIMEOUT_S
        )
    except URLError as error:
        raise InputError(f"{address}: the Pushgateway refuses or is not reached: {error}") from None


class _Collector:
    """The metrics of results, in the form that the client's registry takes."""

    def __init__(self, source: ExportedResults) -> None:
        self.source = source

    def collect(self) -> Iterator[Any]:
        """Yield the metric families. A case without a number has no sample of a figure."""
        core = import_extra("prometheus_client.core", _PURPOSE)
        suite, cases = self.source.results.suite, self.source.cases
        yield from _figures(core, suite, cases)
        yield _information(core, suite, cases)
        outcomes = core.StateSetMetricFamily(
            "trainmark_case_outcome", "The outcome of a case: 1 at its state.", labels=("suite", "case")
        )
        runs = core.GaugeMetricFamily(
            "trainmark_runs", "The number of runs with an outcome.", labels=("suite", "case", "outcome")
        )
        doubts = core.GaugeMetricFamily(
            "trainmark_doubts",
            "The number of doubts about a result, by code and subject.",
            labels=("suite", "case", "code", "about"),
        )
        for case in cases:
            outcomes.add_metric((suite, case.id), {one.value: one is case.outcome for one in Outcome})
            for outcome, count in Counter(run.outcome.value for run in case.runs).items():
                runs.add_metric((suite, case.id, outcome), count)
            for (code, about), count in Counter((d.code, d.about.value) for d in case.doubts).items():
                doubts.add_metric((suite, case.id, code, about), count)
        yield from (outcomes, runs, doubts)
        last = core.GaugeMetricFamily(
            "trainmark_measured_timestamp_seconds", "The start of the suite's last run.", labels=("suite",)
        )
        last.add_metric((suite,), self.source.results.measured[1].timestamp())
        yield last


def _information(core: Any, suite: str, cases: Sequence[CaseRecord]) -> Any:
    axes = tuple(dict.fromkeys(axis for case in cases for axis in case.axes))
    family = core.InfoMetricFamily(
        "trainmark_case", "The axes of a case, and what limits it.", labels=("suite", "case")
    )
    for case in cases:
        words = {_name(axis): case.axes[axis] for axis in axes if axis in case.axes}
        family.add_metric((suite, case.id), {**words, "bound_by": case.facts.get("bound_by", "")})
    return family


def _figures(core: Any, suite: str, cases: Sequence[CaseRecord]) -> Iterator[Any]:
    """Yield a family for each figure and unit: a metric has one unit, which is the end of its name."""
    families: dict[str, Any] = {}
    for case in cases:
        for figure in case.figures:
            if figure.name not in _FIGURES:
                continue
            name, unit, text = _metric(_FIGURES[figure.name], figure.unit)
            if name not in families:
                families[name] = core.GaugeMetricFamily(name, text, labels=("suite", "case"), unit=unit)
            families[name].add_metric((suite, case.id), figure.value)
    yield from families.values()


_WORDS = {"s": "second", "J": "joules"}


def _metric(figure: str, unit: str) -> tuple[str, str, str]:
    """Return the metric's name, its unit and its description, such as ``trainmark_throughput_images_per_second``."""
    words = _name("_per_".join(_WORDS.get(part, part) for part in unit.split("/")))
    return f"trainmark_{figure}_{words}", words, f"{figure.replace('_', ' ')} of a case ({unit})".capitalize()


def _name(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
