"""The whole report: its sections in the order in which a reader needs them."""

from pathlib import Path

from trainmark.report.blocks import Report, Section
from trainmark.report.context import Context, context
from trainmark.report.language import Language
from trainmark.report.sections import (
    commands,
    data,
    environment,
    equivalence,
    method,
    outcomes,
    overview,
    runs,
    scaling,
    steps,
    throughput,
)
from trainmark.store import Results


def compose(results: Results, directory: Path, language: Language, base: str = "") -> Report:
    """Return the report on ``results``, whose runs' files lie under ``directory``.

    ``base`` leads from the folder that the report will stand in to ``directory`` (empty, or ending in ``/``).
    """
    about = context(results, directory, language, base)
    say = about.say
    return Report(
        language=language.tag,
        title=say("title", suite=results.suite),
        lead=overview.lead(about),
        sections=tuple(section for section in _sections(about) if section is not None),
        colophon=say(
            "colophon",
            version=results.trainmark_version,
            when=results.generated_at.strftime("%Y-%m-%d %H:%M %Z").strip(),
        ),
    )


def _sections(about: Context) -> list[Section | None]:
    return [
        overview.section(about),
        throughput.section(about),
        equivalence.section(about),
        scaling.section(about),
        data.section(about),
        outcomes.not_ok(about),
        outcomes.doubts(about),
        steps.section(about),
        runs.section(about),
        commands.section(about),
        environment.environment(about),
        environment.every_fact(about),
        environment.recipe(about),
        environment.telemetry(about),
        method.method(about),
        method.reproduce(about),
    ]
