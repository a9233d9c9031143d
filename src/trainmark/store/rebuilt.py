"""The suite of results whose ``suite.yaml`` is missing, as far as the results show it."""

from pydantic import ValidationError

from trainmark.errors import InputError, plain_message
from trainmark.schema.results import Results
from trainmark.schema.suite import Dataset, Suite
from trainmark.suite import dump_suite


def rebuilt_suite(results: Results) -> str:
    """Return a suite (YAML) with the cases of results; raise ``InputError`` if no suite may have their names."""
    cases = tuple(found.case for found in results.cases)
    try:
        suite = Suite(
            name=results.suite,
            description=results.description,
            protocol=results.protocol,
            # The folders are unknown; a suite without any cannot be read.
            datasets={case.data: Dataset(path=case.data) for case in cases if case.reads_data_set},
            cases=cases,
        )
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "suite"
        raise InputError(f"no suite can have these results: {place}: {plain_message(first['msg'])}") from None
    return dump_suite(suite)
