"""The finished runs of a campaign's cases, read from and saved in their folders."""

from collections.abc import Sequence

from trainmark.campaign.persist import Persistence, require_space
from trainmark.execution import ResultDirectory, write_record
from trainmark.node import deferred_signals
from trainmark.schema.case import Case
from trainmark.schema.outcome import OutcomeRecord
from trainmark.schema.results import RunResult


class FinishedRuns:
    """The finished runs of a campaign's cases, and of cases that only an earlier call ran."""

    def __init__(self, cases: Sequence[Case], directory: ResultDirectory, persistence: Persistence) -> None:
        self.cases = tuple(cases)
        self._directory, self._persistence = directory, persistence
        # A run that could not be started measured nothing, and its cause may be gone by now.
        self._runs = {case.id: [run for run in self._read(case) if run.started_at] for case in cases}

    def of(self, case: Case) -> Sequence[RunResult]:
        """Return a case's finished runs."""
        return self._runs[case.id] if case.id in self._runs else self._read(case)

    def next_repeat(self, case: Case) -> int:
        """Return the number of the case's next run."""
        return 1 + max((run.repeat for run in self.of(case)), default=0)

    def keep(self, case: Case, record: OutcomeRecord) -> RunResult:
        """Save the record of a run of one of the cases; return its result.

        Raises the ``OSError`` of a full disk for a run that failed because of it; that run stays unfinished.
        """
        folder = self._directory.run(case, record.repeat)
        # Signals are deferred, so that a Ctrl-C at this moment does not lose a finished run.
        with deferred_signals():
            result = self._persistence.result(case, record)
            require_space(folder, result.outcome)
            # A run without a measurement is "invalid", which is known only after its files were read.
            update = {"case_id": case.id, "outcome": result.outcome, "reason": result.reason}
            write_record(folder, record.model_copy(update=update))
            self._persistence.keep(case, result)
            self._runs[case.id].append(result)
        return result

    def _read(self, case: Case) -> list[RunResult]:
        return [self._persistence.result(case, record) for record in self._directory.finished(case).values()]
