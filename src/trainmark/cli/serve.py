"""``trainmark serve``: the pages of results, live, for readers of this machine."""

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def serve(
    source: Annotated[
        str,
        typer.Argument(
            metavar="STORE|DIR",
            help="A database with campaigns, a result directory (--out of trainmark run), or a directory of those.",
        ),
    ],
    host: Annotated[
        str,
        typer.Option(metavar="ADDRESS", help="The address to listen on; everybody who reaches it can read."),
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 picks a free one.")] = 8000,
    ingest_token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Accept results at /ingest from clients that send the token in this file; STORE only.",
        ),
    ] = None,
) -> None:
    """Serve the pages of trainmark site, and a live page of running suites.

    The live page shows the cases done and left, the current run with its steps, clocks and power, new doubts and the
    slowest rank, with a delay of at most two seconds. Without --ingest-token-file the pages are read-only. Ctrl-C ends
    the server.
    """
    from contextlib import closing

    from trainmark.errors import InputError
    from trainmark.imports import import_extra

    for module in ("fastapi", "sse_starlette", "uvicorn"):
        import_extra(module, "a live page")
    from trainmark.site import StoreSource, open_source
    from trainmark.web import LOOPBACK, Ingest, make_app, read_token, start_server

    token = None if ingest_token_file is None else read_token(ingest_token_file)
    with closing(open_source(source)) as opened:
        ingest = None
        if token is not None:
            if not isinstance(opened, StoreSource):
                raise InputError("--ingest-token-file needs a database, not a result directory")
            ingest = Ingest(opened.store, token)
        names = LOOPBACK if host in LOOPBACK else None
        if names is None:
            sys.stderr.write(f"everybody who reaches {host} can read these results\n")

        def ready(url: str) -> None:
            sys.stdout.write(f"{url}  (press Ctrl-C to stop)\n")
            sys.stdout.flush()

        start_server(make_app(opened, names, ingest), host, port, ready)
