"""Reading the suite that a verb was given, with every name in it looked up, so that a wrong one has its line."""

import os
from pathlib import Path

from trainmark.environment import SYSTEM, find_entry
from trainmark.environment.engine import ENGINES
from trainmark.errors import InputError
from trainmark.suite import Suite, load_suite, read_document
from trainmark.workload import NoCardError, load_workloads

_EACH_ITS_OWN = "auto"


def read_suite(path: Path) -> Suite:
    """Return the suite in ``path``; raise ``InputError`` for what ``load_suite`` refuses, and for an unknown name.

    The names are those of workloads, of their frameworks, and of the environment.
    """
    suite = load_suite(path)
    workloads = load_workloads(Path(card) for card in suite.cards)
    for case in {(case.workload, case.framework): case for case in suite.cases}.values():
        try:
            workloads.find(case)
        except NoCardError as error:
            document = read_document(path)
            raise document.error(document.find(error.axis, getattr(case, error.axis)), str(error)) from None
    name = suite.environment
    if name not in (_EACH_ITS_OWN, SYSTEM, *ENGINES) and os.sep not in name:
        try:
            find_entry(name)
        except InputError as error:
            raise read_document(path).error(("environment",), str(error)) from None
    return suite
