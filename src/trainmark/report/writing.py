"""The whole report, with its sections in the order in which a reader needs them; rendering and writing it."""

from collections.abc import Mapping
from pathlib import Path

from trainmark.files import write_atomically
from trainmark.report.blocks import Report, Section
from trainmark.report.context import Context, context, read_series
from trainmark.report.csvfile import render_csv, render_runs_csv
from trainmark.report.language import Language
from trainmark.report.rendering import to_html, to_markdown
from trainmark.report.sections import equivalence, machine, runs, summary, throughput
from trainmark.schema.results import Results
from trainmark.suite import select_baselines

PLOTS = "plots"

MOST_CASES = 500
"""The number of cases that a page shows: it then has about 1.3 MB, which a browser sorts and filters at once."""


def compose(
    results: Results, directory: Path, language: Language, base: str = "", baseline: str | None = None
) -> Report:
    """Return the report on ``results``, whose runs' files are in ``directory``.

    ``base`` is the relative path from the report's folder to ``directory`` (empty, or ending in ``/``).
    ``baseline`` selects the cases with which the others are compared, see ``context``.
    """
    shown = part_of(results, baseline)
    about = context(shown, directory, language, base, read_series(shown, directory), baseline)
    say = about.say
    lead = [summary.lead(about)]
    if len(shown.cases) < len(results.cases):
        lead.append(say("cases_left_out", n=len(shown.cases), of=len(results.cases)))
    sections = [section for section in _sections(about) if section is not None]
    colophon = say(
        "colophon",
        version=results.trainmark_version,
        when=results.generated_at.strftime("%Y-%m-%d %H:%M %Z").strip(),
    )
    return Report(
        language=language.tag,
        title=say("title", suite=results.suite),
        subtitle=summary.subtitle(about),
        lead=say("space").join(lead),
        sections=tuple(sections),
        colophon=colophon,
    )


def part_of(results: Results, baseline: str | None = None) -> Results:
    """Return the first ``MOST_CASES`` cases and the baselines, in the order of the suite; all if they are not more."""
    if len(results.cases) <= MOST_CASES:
        return results
    expression = results.baseline if baseline is None else baseline
    cases = [result.case for result in results.cases]
    bases = {case.id for case in select_baselines(cases, expression, "--baseline")} if expression else set()
    others = [result.id for result in results.cases if result.id not in bases]
    chosen = bases | set(others[: MOST_CASES - len(bases)])
    part = tuple(result for result in results.cases if result.id in chosen)
    return results.model_copy(update={"cases": part, "findings": None})


def _sections(about: Context) -> list[Section | None]:
    return [
        summary.glance_section(about),
        summary.overview_section(about),
        throughput.decomposition_section(about),
        throughput.throughput_section(about),
        throughput.devices_section(about),
        throughput.published_section(about),
        machine.bound_section(about),
        machine.profile_section(about),
        machine.energy_section(about),
        machine.work_section(about),
        runs.trials_section(about),
        equivalence.equivalence_section(about) if about.results.certificates else None,
        throughput.scaling_section(about),
        runs.ranks_section(about),
        throughput.data_section(about),
        runs.outcomes_section(about),
        runs.doubts_section(about),
        runs.steps_section(about),
        runs.repeats_section(about),
        runs.runs_section(about),
        runs.commands_section(about),
        runs.check_section(about),
        machine.environment_section(about),
        machine.manifest_section(about),
        machine.recipe_section(about),
        machine.telemetry_section(about),
        summary.method_section(about),
        summary.reproduce_section(about),
    ]


def render_markdown(
    results: Results,
    directory: Path,
    language: Language = Language.EN,
    base: str = "",
    plots: str = PLOTS,
    baseline: str | None = None,
) -> str:
    """Return the report as Markdown.

    ``directory`` holds the runs' files, which are linked if they exist; ``base`` is the relative path to it from the
    folder of the Markdown file (empty, or ending in ``/``). ``plots`` is the folder of the charts as SVG, see
    ``write_plots``.
    """
    return to_markdown(compose(results, directory, language, base, baseline), plots)


def render_html(
    results: Results,
    directory: Path,
    language: Language = Language.EN,
    base: str = "",
    baseline: str | None = None,
) -> str:
    """Return the report as one self-contained HTML page; see ``render_markdown``."""
    return to_html(compose(results, directory, language, base, baseline))


def write_plots(
    folder: Path, results: Results, directory: Path, language: Language = Language.EN
) -> list[Path]:
    """Write the report's charts as ``folder/<name>.svg``; return their paths."""
    return _write_plots(folder, compose(results, directory, language))


def write_reports(
    directory: Path, results: Results, language: Language = Language.EN, baseline: str | None = None
) -> list[Path]:
    """Write ``results.csv``, ``runs.csv``, ``plots/*.svg``, ``report.md`` and ``report.html`` into ``directory``."""
    written = _write(directory, {"results.csv": render_csv(results), "runs.csv": render_runs_csv(results)})
    report = compose(results, directory, language, baseline=baseline)
    written += _write_plots(directory / PLOTS, report)
    pages = {"report.md": to_markdown(report, PLOTS), "report.html": to_html(report)}
    return written + _write(directory, pages)


def _write_plots(folder: Path, report: Report) -> list[Path]:
    if not report.charts:
        return []
    folder.mkdir(parents=True, exist_ok=True)
    return _write(folder, {f"{chart.name}.svg": chart.drawing.file() for chart in report.charts})


def _write(folder: Path, contents: Mapping[str, str]) -> list[Path]:
    paths = [folder / name for name in contents]
    for path, text in zip(paths, contents.values(), strict=True):
        write_atomically(path, text)
    return paths
