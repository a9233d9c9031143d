"""``results.json`` on disk: written in one piece, read with one line of complaint."""

from math import isclose
from pathlib import Path
from statistics import median

from pydantic import ValidationError

from trainmark.errors import InputError
from trainmark.files import write_atomically
from trainmark.schema.results import SCHEMA, CaseResult, Results, pooled


def write_results(path: Path, results: Results) -> None:
    """Write ``results.json`` in one piece."""
    write_atomically(path, results.model_dump_json(indent=1) + "\n")


def read_results(path: Path) -> Results:
    """Read ``results.json``; raise ``InputError`` when it is not there, not of this schema, or contradicts itself."""
    try:
        results = Results.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path}: not there; is it the --out directory of a trainmark run?") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{path}: not a {SCHEMA} document: {place}: {first['msg']}") from None
    for case in results.cases:
        if (told := _contradiction(case)) is not None:
            raise InputError(f"{path}: the number of {case.id} is not that of its runs: {told}")
    return results


def _contradiction(case: CaseResult) -> str | None:
    """Return how a case's number differs from what its runs give; None where it is theirs, or there is none.

    Which runs a machine spoiled was not always known: an older trainmark pooled all.
    """
    if case.estimate is None:
        return None
    said = (case.estimate.n, case.estimate.median)
    found = [
        (len(rates), median(rates))
        for runs in (pooled(case.runs), case.runs)
        if (rates := [run.measurement.throughput for run in runs if run.measurement is not None])
    ]
    if any(said[0] == n and isclose(said[1], middle, rel_tol=1e-9) for n, middle in found):
        return None
    theirs = f"the median of {found[0][0]} is {found[0][1]:.6g}" if found else "none of them has one"
    return f"it is a median of {said[0]}, {said[1]:.6g}, and {theirs}"
