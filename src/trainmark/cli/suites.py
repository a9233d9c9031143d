"""Read a suite and look up every name in it, so that an error for an unknown name has its line."""

import os
from pathlib import Path

from trainmark.environment import SYSTEM, find_entry
from trainmark.environment.engine import ENGINES
from trainmark.errors import InputError
from trainmark.schema.suite import EACH_ITS_OWN, Suite
from trainmark.suite import load_suite, read_document
from trainmark.workload import NoCardError, load_workloads


def read_suite(path: Path) -> Suite:
    """Return the suite in ``path``; raise ``InputError`` for an invalid suite or an unknown name.

    The names are those of workloads, of their frameworks, and of the environment.
    """
    suite = load_suite(path)
    workloads = load_workloads(Path(card) for card in suite.cards)
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
