"""JUnit XML: a test case for each case of the suite, for any CI that shows test results."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from trainmark.files import write_atomically
from trainmark.imports import import_extra
from trainmark.printable import printable
from trainmark.report.export.records import CaseRecord, ExportedResults
from trainmark.report.export.wording import doubts_of, throughput_of, verdict_of
from trainmark.schema.comparison import Change
from trainmark.schema.measurement import About
from trainmark.schema.outcome import Outcome

_NOT_RUN = (Outcome.UNSUPPORTED, Outcome.SKIPPED)


def write(source: ExportedResults, output: str) -> tuple[str, ...]:
    """Write the file ``output``; return its path."""
    junit = import_extra("junitparser", "an export to JUnit XML")
    suite = junit.TestSuite(printable(source.results.suite))
    suite.timestamp = source.results.measured[0].isoformat()
    suite.add_property("trainmark.version", source.results.trainmark_version)
    suite.add_property("trainmark.complete", str(source.results.complete).lower())
    suite.add_testcases([_test_case(junit, source, case) for case in source.cases])
    document = junit.JUnitXml("trainmark")
    document.add_testsuite(suite)
    document.update_statistics()
    text = BytesIO()
    document.write(text, pretty=True)
    write_atomically(Path(output), text.getvalue())
    return (output,)


def _test_case(junit: Any, source: ExportedResults, case: CaseRecord) -> Any:
    durations = [run.duration_s for run in case.runs if run.duration_s is not None]
    test = junit.TestCase(printable(case.id), classname=printable(source.results.suite), time=sum(durations))
    test.result = list(_results(junit, case))
    test.system_out = printable("\n".join(_lines(case)))
    return test


def _results(junit: Any, case: CaseRecord) -> Iterator[Any]:
    """Yield what speaks against the case; nothing for one that passes."""
    reason = printable(case.reason or case.outcome.label)
    if case.outcome in _NOT_RUN:
        yield junit.Skipped(reason, case.outcome.value)
        return
    if case.outcome is not Outcome.OK:
        kind = junit.Failure if case.outcome is Outcome.INVALID else junit.Error
        yield kind(reason, case.outcome.value)
        return
    work = next((doubt for doubt in case.doubts if doubt.about is About.WORK), None)
    if work is not None:
        yield junit.Failure(printable(work.sentence), work.code)
    elif case.compared is not None and case.compared.change is Change.SLOWER:
        yield junit.Failure(printable(verdict_of(case.compared)), Change.SLOWER.value)


def _lines(case: CaseRecord) -> Iterator[str]:
    yield throughput_of(case)
    if case.compared is not None:
        yield verdict_of(case.compared)
    for run in case.runs:
        if run.outcome is not Outcome.OK:
            yield f"run {run.repeat}: {run.outcome.value}: {run.reason or 'no reason is known'}"
    yield from doubts_of(case)
