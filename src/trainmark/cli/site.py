"""``trainmark site``: pages of many results, for a folder that any web server or a browser alone can show."""

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def site(
    source: Annotated[
        str,
        typer.Argument(
            metavar="STORE|DIR",
            help="A database with campaigns, a result directory (--out of trainmark run), or a directory of those.",
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(metavar="DIR", help="The folder of the pages; existing pages are replaced."),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was written as one JSON object.")
    ] = False,
) -> None:
    """Write pages of all results: tables and plots by any axes, history, comparisons, published figures.

    Each number leads to its runs, its interval, the line of the log, the command and the environment. The pages are in
    English and Chinese. They open from the folder or from any web server, and load nothing from elsewhere.
    """
    from contextlib import closing

    from trainmark.printable import counted
    from trainmark.site import open_source, write_site

    with closing(open_source(source)) as opened:
        written = write_site(opened, out)
    if as_json:
        from dataclasses import asdict

        from trainmark.files import to_json

        sys.stdout.write(to_json({"out": str(out), **asdict(written)}))
        return
    sys.stdout.write(
        f"{out / 'index.html'}: {counted(written.results, 'result')} of {counted(written.campaigns, 'campaign')}, "
        f"{counted(written.files, 'file')}, {written.bytes / 1e6:.1f} MB\n"
    )
