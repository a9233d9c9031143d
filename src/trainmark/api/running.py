"""Measurement of a suite or a command: ``trainmark.run``."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from trainmark.api.results import Results
from trainmark.api.suites import Suite
from trainmark.errors import InputError

if TYPE_CHECKING:
    from trainmark.schema.suite import Suite as SuiteDocument


def run(
    suite_or_command: str | os.PathLike[str] | Suite | Sequence[str],
    *,
    out: str | os.PathLike[str] | None = None,
    only: str | None = None,
    resume: bool = False,
    repeats: int | None = None,
    vary: Mapping[str, Sequence[object]] | None = None,
    timeout: float | None = None,
) -> Results:
    """Measure a suite (a ``Suite`` or its YAML file) or a training command (its words), and return the results.

    Everything is saved in ``out``, by default ``results/<name>``, as by ``trainmark run``; progress goes to standard
    error. ``only`` selects cases, ``resume`` continues an interrupted run. For a command: ``repeats`` is the number of
    runs of each case (3), ``vary`` the values of each ``{NAME}`` in it, ``timeout`` the longest time of a run in
    seconds. A run that fails is an outcome in the results and no exception. Raises ``InputError`` for a suite, a
    command or a directory that cannot be used, and ``KeyboardInterrupt`` after Ctrl-C; finished runs are saved.

    Example::

        results = trainmark.run([sys.executable, "train.py", "--batch", "{batch}"], vary={"batch": [32, 64]})
        results = trainmark.run("suites/demo.yaml", out="results/demo")
    """
    from trainmark.cli.run import run_suite
    from trainmark.cli.run_options import RunOptions
    from trainmark.report import write_reports

    if isinstance(suite_or_command, str | os.PathLike | Suite):
        if repeats is not None or vary is not None or timeout is not None:
            raise InputError("repeats, vary and timeout are for a command; a suite states its own")
        suite, directory, source = _suite(suite_or_command, out)
    else:
        suite, directory, source = _command(list(suite_or_command), out, repeats, vary or {}, timeout)
    ending = run_suite(RunOptions(only=only, resume=resume), suite, directory, ("trainmark", "run", source))
    write_reports(directory, ending.results)
    if ending.interrupted:
        sys.stderr.write(
            f"interrupted; all finished runs are saved: run(..., out={str(directory)!r}, resume=True)\n"
        )
        raise KeyboardInterrupt
    return Results(ending.results, directory)


def _suite(
    given: str | os.PathLike[str] | Suite, out: str | os.PathLike[str] | None
) -> "tuple[SuiteDocument, Path, str]":
    suite = given if isinstance(given, Suite) else Suite.read(given)
    directory = Path(out) if out is not None else Path("results") / suite.name
    source = str(directory / "suite.yaml") if isinstance(given, Suite) else os.fspath(given)
    return suite.document, directory, source


def _command(
    words: list[str],
    out: str | os.PathLike[str] | None,
    repeats: int | None,
    vary: Mapping[str, Sequence[object]],
    timeout: float | None,
) -> "tuple[SuiteDocument, Path, str]":
    from trainmark.cli.run_options import CommandOptions
    from trainmark.cli.suite_input import command_suite, default_directory, read_suite

    varied = [f"{name}={','.join(map(str, values))}" for name, values in vary.items()]
    options = CommandOptions(vary=varied, repeats=repeats, timeout=timeout)
    found = command_suite(list(map(os.fspath, words)), options, Path.cwd())
    directory = Path(out) if out is not None else default_directory(found.name)
    with found.stored(directory) as path:
        return read_suite(path), directory, str(path)
