"""``trainmark check``: are this machine, or these hosts, fit to run a suite?"""

import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def check(
    suite: Annotated[
        Path | None,
        typer.Argument(help="The suite's YAML file; without it the hosts alone.", metavar="SUITE"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="The directory that run will be given; keeps check.json, shown in its report."
        ),
    ] = None,
    only: Annotated[str | None, typer.Option("--only", help="These cases only; see trainmark run.")] = None,
    hosts: Annotated[
        str | None,
        typer.Option(
            "--hosts",
            help="The hosts to check: a hosts file (FILE or FILE:GROUP), slurm for those of the allocation, "
            "or mpi for those that OpenMPI is told of; "
            "this machine alone by default.",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option("--engine", help="What reaches the hosts: ssh, slurm or mpi, whatever the file says."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print check.json instead of the lines.")] = False,
) -> None:
    """Look whether the hosts are fit for a suite, measure how fast they are, and say what to do where they are not.

    Nothing is installed or changed, and nothing needs root. Exit code 0: fit, warnings aside. 1: not fit.
    2: the suite cannot be used.
    """
    from trainmark.check import CheckOrder, as_text, check_hosts
    from trainmark.cli.hosts import chosen_hosts
    from trainmark.cli.run import interrupted_by
    from trainmark.cli.suites import read_suite
    from trainmark.errors import InputError
    from trainmark.files import write_atomically
    from trainmark.home import default_home
    from trainmark.schema.names import CHECK
    from trainmark.suite import select

    if only is not None and suite is None:
        raise InputError("--only chooses cases of a suite: give the suite")
    resolved = None if suite is None else read_suite(suite)
    if resolved is not None and only is not None:
        resolved = resolved.model_copy(update={"cases": tuple(select(resolved.cases, only))})
    place = out or Path("results") / (resolved.name if resolved is not None else "")
    home = default_home(os.environ)
    with interrupted_by(signal.SIGTERM, signal.SIGHUP), chosen_hosts(hosts, engine) as there:
        order = CheckOrder(hosts=there, home=home, out=place, suite=resolved)
        report = check_hosts(order, lambda text: sys.stderr.write(f"check: {text}\n"))
    document = report.model_dump_json(indent=1) + "\n"
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / CHECK, document)
    sys.stdout.write(document if as_json else as_text(report))
    raise typer.Exit(0 if report.fit else 1)
