"""The suite of results whose ``suite.yaml`` is missing, as far as the results show it."""

from trainmark.schema.results import Results
from trainmark.schema.suite import Dataset, Suite
from trainmark.suite import dump_suite


def rebuilt_suite(results: Results) -> str:
    """Return a suite (YAML) with the cases of results."""
    cases = tuple(found.case for found in results.cases)
    return dump_suite(
        Suite(
            name=results.suite,
            description=results.description,
            protocol=results.protocol,
            datasets={case.data: Dataset() for case in cases if case.reads_data_set},
            cases=cases,
        )
    )
