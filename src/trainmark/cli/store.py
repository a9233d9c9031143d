"""``trainmark store``: result directories into a database, and what a database holds."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainmark.cli.tables import table
from trainmark.schema.case import SYNTHETIC

if TYPE_CHECKING:
    from trainmark.schema.results import Results
    from trainmark.store import CampaignSummary

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Put result directories into a database, and list what one holds.",
)

_ADDRESS = "URL"
_JSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def add(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR", help="The --out directories of trainmark runs.")
    ],
    to: Annotated[
        str,
        typer.Option("--to", metavar=_ADDRESS, help="postgresql://…, sqlite:///…, or a SQLite file's path."),
    ],
    as_json: _JSON = False,
) -> None:
    """Add the runs of result directories to a database.

    The database is made if need be. Adding a directory again changes nothing; one that grew adds what is new. A
    directory that was moved is the campaign that it was.
    """
    from dataclasses import asdict

    from trainmark.cli.results import results_of
    from trainmark.errors import InputError
    from trainmark.files import to_json
    from trainmark.store import Store, database_url

    url = database_url(to)
    for folder in directories:
        if url.database and url.get_backend_name() == "sqlite" and _is_within(folder, Path(url.database)):
            raise InputError(f"{url.database}: is the directory's own database, which holds its runs already")
    # All are read before the first is added: a word that is no directory adds nothing.
    held = [(folder, results_of(folder)) for folder in directories]
    store = Store(url)
    added = []
    try:
        for folder, results in held:
            try:
                done = store.put(results, _suite(folder, results), str(folder.resolve()))
            except InputError as error:
                raise InputError(f"{folder}: {error}") from None
            added.append({"directory": str(folder), "suite": results.suite, **asdict(done)})
    finally:
        store.close()
    if as_json:
        sys.stdout.write(to_json(added))
        return
    for one in added:
        sys.stdout.write(
            f"{one['directory']}: campaign {one['campaign']} ({one['suite']}): "
            f"{one['new']} runs new, {one['changed']} changed, {one['known']} known\n"
        )


@app.command(name="list")
def list_campaigns(
    source: Annotated[
        str,
        typer.Option(
            "--from", metavar=_ADDRESS, help="postgresql://…, sqlite:///…, or a SQLite file's path."
        ),
    ],
    as_json: _JSON = False,
) -> None:
    """List the campaigns of a database.

    trainmark report URL --campaign ID writes the report of one.
    """
    from trainmark.files import to_json
    from trainmark.store import existing_store

    store = existing_store(source)
    try:
        found = store.summaries()
    finally:
        store.close()
    if as_json:
        sys.stdout.write(to_json([_document(one) for one in found]))
        return
    head = ("id", "suite", "cases", "runs", "ok", "started", "directory")
    sys.stdout.write(table(head, [_line(one) for one in found]))


def _is_within(folder: Path, database: Path) -> bool:
    return database.resolve().parent == folder.resolve()


def _suite(folder: Path, results: "Results") -> str:
    """Return the suite as resolved; where only ``results.json`` is left, as far as that tells it."""
    from trainmark.schema.names import SUITE
    from trainmark.schema.suite import Dataset, Suite
    from trainmark.suite import dump_suite

    if (folder / SUITE).is_file():
        return (folder / SUITE).read_text(encoding="utf-8")
    cases = tuple(found.case for found in results.cases)
    return dump_suite(
        Suite(
            name=results.suite,
            description=results.description,
            protocol=results.protocol,
            datasets={case.data: Dataset() for case in cases if case.data != SYNTHETIC},
            cases=cases,
        )
    )


def _document(one: "CampaignSummary") -> dict[str, object]:
    return {
        "id": one.id,
        "suite": one.suite,
        "directory": one.directory,
        "cases": one.cases,
        "runs": one.runs,
        "ok": one.ok,
        "started_at": one.started_at.isoformat() if one.started_at else None,
    }


def _line(one: "CampaignSummary") -> tuple[str, ...]:
    started = f"{one.started_at:%Y-%m-%d %H:%M}" if one.started_at else "-"
    return (str(one.id), one.suite, str(one.cases), str(one.runs), str(one.ok), started, one.directory)
