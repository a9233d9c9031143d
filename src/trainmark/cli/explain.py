"""``trainmark explain``: explain why a throughput differs from another one: of a run, a result, a log or a figure."""

import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from trainmark.cli.typer_commands import with_groups

if TYPE_CHECKING:
    from trainmark.insight import ExplainedRun, Explanation
    from trainmark.insight.sides import OtherSide
    from trainmark.logs import Facts

app = typer.Typer(name="explain", add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)

_SIDE = (
    "A log, a run's folder (DIR/runs/CASE/REPEAT), a case of a result (DIR, DIR#CASE or DIR#axis=value), or the name "
    "of a published figure"
)


@dataclass(frozen=True, slots=True)
class LogOptions:
    """The rule of a log's number, and what the logs do not state; None for nothing."""

    rule: Annotated[
        str | None, typer.Option(help="The rule that computes the throughput from the log; default: window.")
    ] = None
    device: Annotated[
        str | None, typer.Option(help="The device, if the log does not name it, e.g. V100.")
    ] = None
    gpus: Annotated[
        int | None,
        typer.Option(min=1, help="The number of devices over all nodes, if the log does not state it."),
    ] = None
    nodes: Annotated[
        int | None, typer.Option(min=1, help="The number of nodes, if the log does not state it.")
    ] = None
    batch: Annotated[
        int | None, typer.Option(min=1, help="The batch size per device, if the log does not state it.")
    ] = None
    precision: Annotated[
        str | None, typer.Option(help="The precision, if the log does not state it, e.g. amp-fp16.")
    ] = None
    model: Annotated[str | None, typer.Option(help="The model's name, if the log does not state it.")] = None


@dataclass(frozen=True, slots=True)
class ExperimentOptions:
    """The options of ``--test``."""

    test: Annotated[
        bool,
        typer.Option(
            "--test",
            help="Measure the factors: run A, B, A with each difference of B added, and B with each left out, in "
            "turn, by the protocol of A's suite. A and B are cases of results.",
        ),
    ] = False
    out: Annotated[
        Path | None,
        typer.Option(help="With --test: the result directory of the runs; default: results/explain-SUITE."),
    ] = None
    resume: Annotated[
        bool, typer.Option("--resume", help="With --test: continue an interrupted experiment.")
    ] = False
    budget: Annotated[
        str | None,
        typer.Option(help="With --test: the maximum total time of the runs.", metavar="30min"),
    ] = None


@app.command()
@with_groups
def explain(
    side: Annotated[str, typer.Argument(help=f"{_SIDE}.", metavar="A")],
    reference: Annotated[
        str | None,
        typer.Option(
            help="The published figure to compare with; default: the fastest one with the same framework, model, "
            "precision and hardware."
        ),
    ] = None,
    against: Annotated[
        str | None,
        typer.Option(help=f"Compare with B instead of a published figure. {_SIDE}.", metavar="B"),
    ] = None,
    *,
    log: LogOptions,
    experiment: ExperimentOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare two numbers, rank the differences by their effect, and show the ratio as a product of factors.

    A factor is measured here, published, arithmetic, or open: the open factor is the part of the ratio that no evidence
    explains. With --test, the factors are measured one at a time.

    Exit code 1: A or B has no throughput; the differences are printed anyway. With --test, 1: more than 3 % of the gap
    is open, or runs are missing.
    """
    from trainmark.cli.parse import given_facts
    from trainmark.errors import InputError
    from trainmark.files import to_json
    from trainmark.insight import render_text, to_document

    if reference and against:
        raise InputError(
            "--reference and --against exclude each other: a run is compared with one other number"
        )
    _refuse_experiment(experiment, against)
    facts = given_facts(log.gpus, log.nodes, log.batch, log.precision, log.model)
    given = LogFacts(log.rule, log.device, facts)
    explanation = explain_sides(side, reference or against, given, quiet=as_json)
    if experiment.test and against is not None:
        from trainmark.cli.explain_test import run_test

        raise typer.Exit(run_test(explanation, side, against, experiment, as_json=as_json))
    sys.stdout.write(to_json(to_document(explanation)) if as_json else render_text(explanation))
    lacking = [
        (name, "; ".join(one.doubts) or "no rule applies to this log")
        for name, one in ((side, explanation.run), (str(against), explanation.other.run))
        if one is not None and one.throughput is None
    ]
    for name, reasons in lacking:
        sys.stderr.write(f"{name}: no throughput: {reasons}\n")
    if lacking:
        raise typer.Exit(1)


def _refuse_experiment(given: ExperimentOptions, against: str | None) -> None:
    """Raise ``InputError`` for options that do not apply."""
    from trainmark.errors import InputError

    if given.test and against is None:
        raise InputError("--test needs --against B: the case whose differences from A are tested")
    if not given.test and (given.out is not None or given.resume or given.budget is not None):
        raise InputError("--out, --resume and --budget are for --test")


class LogFacts(NamedTuple):
    """The rule of a log's number, and what is given of the logs because they do not state it; None for nothing."""

    rule: str | None = None
    device: str | None = None
    facts: "Facts | None" = None


def explain_sides(side: str, other_side: str | None, given: LogFacts, *, quiet: bool) -> "Explanation":
    """Return the explanation of one number against another one; raise ``InputError`` if a side names nothing.

    Without a second side it is the fastest published figure. Unless ``quiet``, what the run was bound by is printed
    where no figure fits.
    """
    from trainmark.insight import explain as explain_run
    from trainmark.insight import load_effects
    from trainmark.reference import load_references

    run = side_of(side, given)
    other = _other(run, other_side, given, quiet=quiet)
    if other.run is not None and other.run.name == run.name:
        run = replace(run, name=side)
        other = replace(other, name=str(other_side), run=replace(other.run, name=str(other_side)))
    return explain_run(run, other, load_effects(), load_references())


def _other(run: "ExplainedRun", name: str | None, given: LogFacts, *, quiet: bool) -> "OtherSide":
    """Return the other side; without a name the fastest published figure of the run's case."""
    from trainmark.errors import InputError
    from trainmark.insight.bound import bound_line
    from trainmark.insight.published import choose_reference
    from trainmark.insight.sides import side_of_figure, side_of_run
    from trainmark.reference import load_references
    from trainmark.schema.results import Bound

    if name is not None:
        there = side_of(name, given)
        return side_of_run(there) if there.figure is None else side_of_figure(there.figure)
    try:
        return side_of_figure(choose_reference(run, load_references()))
    except InputError:
        if run.bound is not None and run.bound.bound is not Bound.UNKNOWN and not quiet:
            sys.stdout.write(f"bound by {bound_line(run.bound)}\n")
        raise


def side_of(text: str, given: LogFacts) -> "ExplainedRun":
    """Return the run that a word of the command line names; raise ``InputError`` if it names nothing."""
    from trainmark.errors import InputError
    from trainmark.insight.from_results import side_from_path
    from trainmark.insight.sides import run_of_figure
    from trainmark.reference import find_reference

    path, _, chosen = text.partition("#")
    if Path(text).exists() and not _is_result(Path(text)):
        return side_from_path(Path(text), *given)
    if _is_result(Path(path)):
        return _case(Path(path), chosen, text)
    try:
        return run_of_figure(find_reference(text))
    except InputError as error:
        if "/" not in text and Path(text).suffix not in (".txt", ".log", ".json", ".jsonl", ".gz"):
            raise
        raise InputError(f"{text}: no such log file, result directory or published figure") from error


def _is_result(path: Path) -> bool:
    from trainmark.schema.names import RESULTS, RUNS

    if path.is_dir():
        return (path / RESULTS).is_file() or (path / RUNS).is_dir() or path.parent.name == RUNS
    return path.is_file() and path.name == RESULTS


def _case(path: Path, chosen: str, name: str) -> "ExplainedRun":
    from trainmark.cli.results import case_at
    from trainmark.insight.from_results import run_from_case

    results, case, folder = case_at(path, chosen, name)
    return run_from_case(results, case, name, folder)
