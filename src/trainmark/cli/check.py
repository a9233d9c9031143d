"""``trainmark check``: check whether this machine, or the given hosts, are ready to run a suite."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def check(
    suite: Annotated[
        Path | None,
        typer.Argument(
            help="The suite's YAML file; without it, only the hosts are checked.", metavar="SUITE"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="The result directory of the later run: check.json is saved there and shown in the report.",
        ),
    ] = None,
    only: Annotated[str | None, typer.Option(help="Check only for these cases; see trainmark run.")] = None,
    hosts: Annotated[
        str | None,
        typer.Option(
            help="The hosts to check: a hosts file (FILE or FILE:GROUP), slurm (the hosts of the allocation) or mpi "
            "(the hosts in OpenMPI's hostfile); default: this machine only.",
        ),
    ] = None,
    engine: Annotated[
        str | None,
        typer.Option(help="How to reach the hosts (ssh, slurm or mpi); overrides the hosts file."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print check.json instead of text.")] = False,
) -> None:
    """Check whether the hosts are ready for a suite, measure their speed, and print what to fix.

    Installs and changes nothing, and needs no root. Exit code 0: ready, perhaps with warnings. 1: not ready.
    2: the suite cannot be used.
    """
    from trainmark.check import CheckOptions, check_hosts, format_report
    from trainmark.cli.run import signals_interrupt
    from trainmark.cli.suite_input import chosen_hosts, read_suite
    from trainmark.errors import InputError
    from trainmark.files import default_home, write_atomically
    from trainmark.schema.names import CHECK
    from trainmark.suite import select

    if only is not None and suite is None:
        raise InputError("--only selects cases of a suite: name the suite too")
    resolved = None if suite is None else read_suite(suite)
    if resolved is not None and only is not None:
        resolved = resolved.model_copy(update={"cases": tuple(select(resolved.cases, only))})
    directory = out or Path("results") / (resolved.name if resolved is not None else "")
    home = default_home(os.environ)
    with signals_interrupt(), chosen_hosts(hosts, engine) as connected:
        order = CheckOptions(hosts=connected, home=home, out=directory, suite=resolved)
        report = check_hosts(order, lambda text: sys.stderr.write(f"check: {text}\n"))
    document = report.to_json()
    if out is not None:
        out.mkdir(parents=True, exist_ok=True)
        write_atomically(out / CHECK, document)
    sys.stdout.write(document if as_json else format_report(report))
    raise typer.Exit(0 if report.fit else 1)
