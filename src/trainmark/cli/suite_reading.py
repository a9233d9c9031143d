"""Read a suite and look up every name in it, so that an error for an unknown name has its line."""

import os
from pathlib import Path

from trainmark.environment import SYSTEM, find_entry
from trainmark.environment.engine import ENGINES
from trainmark.errors import InputError
from trainmark.schema.suite import EACH_ITS_OWN, Suite
from trainmark.suite import load_suite, read_document
from trainmark.workload import NoCardError


def read_suite(path: Path) -> Suite:
    """Return the suite in ``path``; raise ``InputError`` for an invalid suite, an invalid card or an unknown name.

    The names are those of workloads, of their frameworks, and of the environment.
    """
    try:
        suite = load_suite(path)
    except InputError:
        # A suite takes values from its cards: report their mistakes where they are.
        _check_cards(path)
        raise
    from trainmark.campaign import load_programs  # not imported for a log alone

    workloads = load_programs(suite)
    for case in {(case.workload, case.framework): case for case in suite.cases}.values():
        try:
            workloads.find(case)
        except NoCardError as error:
            document = read_document(path)
            raise document.error(document.find(error.axis, case.value(error.axis)), str(error)) from None
    requested = suite.environment
    names = {"": requested} if isinstance(requested, str) else requested
    for framework, name in names.items():
        if name not in (EACH_ITS_OWN, SYSTEM, *ENGINES) and os.sep not in name:
            try:
                find_entry(name)
            except InputError as error:
                key = ("environment", framework) if framework else ("environment",)
                raise read_document(path).error(key, str(error)) from None
    return suite


def _check_cards(path: Path) -> None:
    """Raise ``InputError`` for the mistakes in the cards of a suite that cannot be read itself."""
    from trainmark.campaign import program_mistakes
    from trainmark.workload import load_workloads

    values = read_document(path).values
    cards = values.get("cards") if isinstance(values, dict) else None
    files = [path.resolve().parent / card for card in cards or () if isinstance(card, str)]
    load_workloads([file for file in files if file.is_file()], (program_mistakes,))
