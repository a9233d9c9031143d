#!/usr/bin/env python3
"""Write the table of log formats in docs/reference/logs.md from the formats; ``--check`` only compares (exit code 1).

The flags are those that a whole synthetic log of the format needs.
"""

import io

from generated_section import GeneratedSection
from trainmark.logs import Meaning, Scope
from trainmark.logs.synthetic import SampleRun
from trainmark.measure.rules import measure_log
from trainmark.programs import formats, read_stream, synthetic_log
from trainmark.programs.reading import descriptions

SECTION = GeneratedSection(
    "reference/logs.md",
    "<!-- formats: written by scripts/formats_page.py -->",
    "<!-- end of formats -->",
    "scripts/formats_page.py",
)
_OF = {Scope.GLOBAL: "all", Scope.NODE: "node", Scope.DEVICE: "device"}
_OVER = {Meaning.INTERVAL: "interval", Meaning.RUNNING: "running", Meaning.SAMPLED: "sampled"}


def table() -> str:
    """Return the table of all formats in Markdown, sorted by name."""
    programs = {each.name: each.program for each in descriptions()}
    rows = [
        "| format | program | of | averages over | needs |",
        "| --- | --- | --- | --- | --- |",
    ]
    for known in sorted(formats(), key=lambda each: each.name):
        text = synthetic_log(known.name, SampleRun([0.5] * 60))
        log = read_stream(io.BytesIO(text.encode()))
        rate = (
            _OF[known.scope]
            if log.records.rate is not None or log.records.average_rate is not None
            else "no rate"
        )
        by_clock = not any(
            (log.records.rate, log.records.step_time_s, log.records.average_rate, log.records.average_time_s)
        )
        title = f"[{known.title}]({programs[known.name]})" if known.name in programs else known.title
        needs = " ".join(measure_log(log).needs)
        cells = (
            *(f"`{known.name}`", title, rate, "time stamps" if by_clock else _OVER[known.meaning]),
            f"`{needs}`" if needs else "-",
        )
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join(rows)


if __name__ == "__main__":
    raise SystemExit(SECTION.update(table()))
