"""What forbids to make one number of several runs."""

from collections.abc import Sequence

from trainmark.errors import InputError
from trainmark.words.results import RunResult


def require_one_identity(case: str, runs: Sequence[RunResult]) -> None:
    """Raise ``InputError`` saying what differs when measured runs of a case ran different things.

    A run whose identity is not known is taken to be of the same.
    """
    known = [run for run in runs if run.identity is not None and run.measurement is not None]
    for run in known[1:]:
        assert run.identity is not None
        assert known[0].identity is not None
        if told := known[0].identity.told(run.identity):
            raise InputError(
                f"runs {known[0].repeat} and {run.repeat} of {case} ran different things and are not pooled: {told}; "
                f"keep one of them ({known[0].directory}, {run.directory})"
            )
