"""``trainmark store``: add result directories to a database, and list its campaigns."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainmark.printable import table

if TYPE_CHECKING:
    from trainmark.schema.results import Results
    from trainmark.store import CampaignSummary

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    help="Add result directories to a database, or list its campaigns.",
)

_ADDRESS = "URL"
_JSON = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command()
def add(
    directories: Annotated[
        list[Path], typer.Argument(metavar="DIR", help="Result directories (--out) of trainmark runs.")
    ],
    to: Annotated[
        str,
        typer.Option(metavar=_ADDRESS, help="postgresql://…, sqlite:///…, or the path of a SQLite file."),
    ],
    as_json: _JSON = False,
) -> None:
    """Add the runs of result directories to a database.

    The database is created if it does not exist. Adding a directory again adds only its new runs. A directory that
    was moved is recognised as the same campaign.
    """
    from dataclasses import asdict

    from trainmark.campaign import results_of
    from trainmark.errors import InputError
    from trainmark.files import to_json
    from trainmark.store import Store, database_url

    url = database_url(to)
    for folder in directories:
        if url.database and url.get_backend_name() == "sqlite" and _is_within(folder, Path(url.database)):
            raise InputError(
                f"{url.database}: this is the database of {folder} itself and already contains its runs"
            )
    # All are read before the first is added, so that an invalid argument adds nothing.
    loaded = [(folder, results_of(folder)) for folder in directories]
    store = Store(url)
    added = []
    try:
        for folder, results in loaded:
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
            f"{one['new']} runs added, {one['changed']} updated, {one['known']} unchanged\n"
        )


@app.command(name="list")
def list_campaigns(
    source: Annotated[
        str,
        typer.Option(
            "--from", metavar=_ADDRESS, help="postgresql://…, sqlite:///…, or the path of a SQLite file."
        ),
    ],
    as_json: _JSON = False,
) -> None:
    """List the campaigns of a database.

    To write the report of one: trainmark report URL --campaign ID.
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
    """Return the resolved suite; if only ``results.json`` is left, the suite as far as it can be rebuilt from that."""
    from trainmark.schema.names import SUITE
    from trainmark.store import rebuilt_suite

    if (folder / SUITE).is_file():
        return (folder / SUITE).read_text(encoding="utf-8")
    return rebuilt_suite(results)


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
