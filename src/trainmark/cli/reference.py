"""``trainmark reference``: published figures with their sources and recipes."""

import json
import sys
from typing import Annotated

import typer

app = typer.Typer(
    name="reference",
    help="List published throughputs, show one with its recipe and source, or audit published tables.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.command("list")
def list_figures(
    framework: Annotated[str | None, typer.Option(help="Only this framework, e.g. pytorch.")] = None,
    device: Annotated[
        str | None, typer.Option(help="Only this device or system, e.g. v100-32gb, dgx-2.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="Only this model, e.g. resnet50.")] = None,
    precision: Annotated[str | None, typer.Option(help="Only this precision, e.g. fp32, tf32, amp.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per figure, one per line.")
    ] = False,
) -> None:
    """List the published figures that match all given options."""
    from trainmark.reference import load_references, select
    from trainmark.reference.render import render_list

    found = select(load_references(), framework, device, model, precision)
    if as_json:
        for reference in found:
            sys.stdout.write(json.dumps(reference.document(), ensure_ascii=False) + "\n")
    else:
        sys.stdout.write(render_list(found))


@app.command()
def show(
    name: Annotated[
        str, typer.Argument(help="The name of the figure, as printed by 'list'.", metavar="NAME")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print the figure as a JSON object.")] = False,
) -> None:
    """Show all recorded facts of one figure."""
    from trainmark.files import to_json
    from trainmark.reference import find_reference
    from trainmark.reference.render import render_one

    reference = find_reference(name)
    sys.stdout.write(to_json(reference.document()) if as_json else render_one(reference))


@app.command()
def audit(
    names: Annotated[
        list[str] | None, typer.Argument(help="Only these tables or series.", metavar="[TABLE]...")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per statement, one per line.")
    ] = False,
) -> None:
    """Check published tables against their own numbers."""
    from dataclasses import asdict

    from trainmark.reference.audit import audit as audited
    from trainmark.reference.audit import counted_models
    from trainmark.reference.render import render_audit
    from trainmark.reference.table import find_tables, load_tables

    tables = find_tables(names) if names else load_tables()
    known = {table.name for table in tables}
    statements = [one for one in audited(load_tables()) if one.tables[-1] in known]
    if as_json:
        for statement in statements:
            sys.stdout.write(json.dumps(asdict(statement), ensure_ascii=False) + "\n")
        return
    counted = [one for table in tables for one in counted_models(table)]
    sys.stdout.write(render_audit(tables, statements, counted))
