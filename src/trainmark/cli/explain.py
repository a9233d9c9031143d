"""``trainmark explain``: explain why a throughput differs from a published one, or from another run's."""

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(name="explain", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def explain(
    log: Annotated[
        Path,
        typer.Argument(
            help="The log of a run, or the folder of a run (DIR/runs/CASE/REPEAT).", metavar="LOG"
        ),
    ],
    reference: Annotated[
        str | None,
        typer.Option(
            help="The published figure to compare with; default: the fastest one with the same framework, model, "
            "precision and hardware."
        ),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option(
            help="Another run to compare with instead of a published figure: its log or folder.",
            metavar="LOG",
        ),
    ] = None,
    rule: Annotated[
        str | None, typer.Option(help="The rule that computes the throughput from the log; default: window.")
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="The device, if the log does not name it, e.g. V100.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare a run with a published figure or another run, and rank the differences by their effect on throughput.

    Exit code 1: the log gives no throughput; the differences are printed anyway.
    """
    from dataclasses import replace

    from trainmark.errors import InputError
    from trainmark.files import to_json
    from trainmark.insight.bound import bound_line
    from trainmark.insight.choose import choose_reference
    from trainmark.insight.evidence import load_effects
    from trainmark.insight.explanation import explain as explain_run
    from trainmark.insight.explanation import side_of_figure, side_of_run
    from trainmark.insight.from_log import run_from_log
    from trainmark.insight.render import render_text, to_document
    from trainmark.reference import find_reference, load_references

    if reference and against:
        raise InputError(
            "--reference and --against exclude each other: a run is compared with one other number"
        )
    named = find_reference(reference) if reference else None
    run = run_from_log(log, rule, device)
    if against is not None:
        there = run_from_log(against, rule, device)
        if there.name == run.name:
            run, there = replace(run, name=str(log)), replace(there, name=str(against))
        other = side_of_run(there)
    else:
        try:
            other = side_of_figure(named or choose_reference(run, load_references()))
        except InputError:
            if run.bound is not None and not as_json:
                sys.stdout.write(f"bound  by {bound_line(run.bound)}\n")
            raise
    explanation = explain_run(run, other, load_effects(), load_references())
    sys.stdout.write(to_json(to_document(explanation)) if as_json else render_text(explanation))
    if run.throughput is None:
        reasons = "; ".join(run.doubts) or "no rule applies to this log"
        sys.stderr.write(f"{log}: no throughput: {reasons}\n")
        raise typer.Exit(1)
