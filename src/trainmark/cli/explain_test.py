"""``trainmark explain A --against B --test``: measure the differences of two cases one at a time."""

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark.errors import InputError, plain_message
from trainmark.printable import counted

if TYPE_CHECKING:
    from trainmark.cli.explain import ExperimentOptions
    from trainmark.insight import Explanation
    from trainmark.insight.experiment import Experiment
    from trainmark.schema.measurement import Ratio
    from trainmark.schema.results import CaseResult
    from trainmark.schema.suite import Suite


def run_test(explanation: "Explanation", a: str, b: str, given: "ExperimentOptions", *, as_json: bool) -> int:
    """Run the experiment between two cases of results, print what it shows, and return the exit code.

    Raises ``InputError`` if a side is not a case of a result directory, or the two cannot be tested against each other.
    """
    from trainmark.campaign import explain_full_disk
    from trainmark.cli.main import INTERRUPTED
    from trainmark.cli.run import run_suite
    from trainmark.cli.run_options import RunOptions
    from trainmark.files import to_json, write_atomically
    from trainmark.insight.experiment import decompose, plan_experiment
    from trainmark.report import Language, write_reports
    from trainmark.report.decomposition import render_decomposition
    from trainmark.schema.names import DECOMPOSITION

    (case_a, folder), (case_b, other_folder) = _located(a), _located(b)
    experiment = plan_experiment(case_a.settled, case_b.settled)
    suite = _suite(experiment, folder, other_folder, given.budget)
    directory = given.out or Path("results") / f"explain-{suite.name}"
    names = ", ".join(f"{one.name} ({one.here} -> {one.there})" for one in experiment.factors)
    sys.stderr.write(
        f"{counted(len(experiment.factors), 'factor')} in {counted(len(suite.cases), 'case')}: {names}\n"
    )
    budget = ("--budget", given.budget) if given.budget else ()
    command = ("trainmark", "explain", a, "--against", b, "--test", *budget)
    ending = run_suite(RunOptions(resume=given.resume), suite, directory, command)
    found = decompose(
        experiment, ending.results, (a, b), _gap(case_a, case_b), tuple(_not_tested(explanation, experiment))
    )
    with explain_full_disk(directory):
        write_atomically(directory / DECOMPOSITION, found.to_json())
        reports = write_reports(directory, ending.results, Language.EN)
    sys.stdout.write(to_json(found.model_dump(mode="json")) if as_json else render_decomposition(found))
    sys.stderr.write("".join(f"report: {path}\n" for path in reports if path.suffix == ".html"))
    if ending.interrupted:
        sys.stderr.write(
            f"interrupted; all finished runs are saved; continue with: {shlex.join(command)} --resume\n"
        )
        return INTERRUPTED
    return 0 if found.closes and found.complete else 1


def _located(text: str) -> "tuple[CaseResult, Path]":
    """Return the case that a side names, and its result directory."""
    from trainmark.cli.results import case_at
    from trainmark.schema.names import RESULTS, RUNS, SUITE

    path, _, chosen = text.partition("#")
    where = Path(path)
    if where.is_dir() and where.parent.parent.name == RUNS:
        where = where.parent
    is_result = (where / RESULTS).is_file() or where.parent.name == RUNS or where.name == RESULTS
    if not where.exists() or not is_result:
        raise InputError(
            f"--test: {text} is not a case of a result directory; a log or a published figure cannot be run again: "
            "measure it with trainmark run, and name its DIR#CASE"
        )
    _, case, folder = case_at(where, chosen, text)
    if not (folder / SUITE).is_file():
        raise InputError(f"--test: {folder}: {SUITE} is missing, so that the case cannot be run again")
    return case, folder


def _suite(experiment: "Experiment", folder: Path, other: Path, budget: str | None) -> "Suite":
    """Return the suite of the experiment: that of A, with the cases to measure, each often enough for an interval."""
    from pydantic import ValidationError

    from trainmark.execution import read_suite
    from trainmark.measure.statistics import MIN_RUNS
    from trainmark.schema.suite import Suite

    suite, theirs = read_suite(folder), read_suite(other)
    document = {name: getattr(suite, name) for name in Suite.model_fields}
    repeats = {name: max(MIN_RUNS, getattr(suite.protocol, name)) for name in ("min_repeats", "max_repeats")}
    document |= {
        "protocol": suite.protocol.model_copy(update=repeats),
        "cases": experiment.cases,
        "cards": tuple(dict.fromkeys((*suite.cards, *theirs.cards)))
        if suite.cards != theirs.cards
        else suite.cards,
        "datasets": {**theirs.datasets, **suite.datasets},
        # Both sides are of one framework.
        "equivalence": False,
        "budget": budget,
    }
    if suite.cards != theirs.cards and _card_names(suite.cards) & _card_names(theirs.cards):
        document["cards"] = suite.cards
    try:
        return Suite.model_validate(document)
    except ValidationError as error:
        raise InputError(f"--budget {budget}: {plain_message(error.errors()[0]['msg'])}") from None


def _card_names(cards: tuple[str, ...]) -> set[str]:
    return {Path(card).name for card in cards}


def _gap(a: "CaseResult", b: "CaseResult") -> "Ratio | None":
    from trainmark.measure import ratio

    return ratio(b.estimate, a.estimate)


def _not_tested(explanation: "Explanation", experiment: "Experiment") -> Iterator[str]:
    """Yield the recorded differences that the experiment leaves alone and that may have an effect."""
    from trainmark.insight.difference import Basis, DifferenceOf

    tested = {axis for factor in experiment.factors for axis in factor.axes}
    for one in explanation.differences:
        if one.of is not DifferenceOf.RECORDS and one.basis is not Basis.REASONED and one.axis not in tested:
            yield one.axis
