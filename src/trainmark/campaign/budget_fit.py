"""Fit a campaign into its suite's time budget: time each case by a first run, then leave out the longest."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from trainmark.campaign.budget import (
    FirstRunWatch,
    Timing,
    cases_over_budget,
    causes_of,
    computes_on_cpu,
    duration,
    predict,
    why_left_out,
)
from trainmark.campaign.executor import Executor, run_case
from trainmark.campaign.finished_runs import FinishedRuns
from trainmark.campaign.listener import ProgressListener
from trainmark.campaign.resume import as_attempts, manifest_in
from trainmark.campaign.schedule import Schedule
from trainmark.errors import InputError
from trainmark.execution import read_record
from trainmark.schema.case import MAX_BATCH, Case
from trainmark.schema.manifest import CpuFacts
from trainmark.schema.outcome import Outcome, OutcomeRecord

CLEARLY_LONG = 3.0
"""A case is left untimed when its predicted run takes more than this many shares of the budget."""


@dataclass(slots=True)
class BudgetFit:
    """Times the cases of a campaign and leaves out those that do not fit into ``budget_s`` seconds.

    ``timings`` has the timing of each case whose first run ended early, by case id; all other cases have a finished
    run.
    """

    budget_s: float
    finished: FinishedRuns
    schedule: Schedule
    executor: Executor
    listener: ProgressListener
    timings: dict[str, Timing] = field(default_factory=dict)

    def fit(self) -> None:
        """Time each case without a finished run, then leave out the longest cases until the rest fits.

        Raises ``InputError`` if no case fits.
        """
        protocol = self.executor.suite.protocol
        for index, case in self._untimed():
            predicted = predict(case, list(self._timed()), protocol.steps)
            if predicted is not None and (predicted.run_s or 0.0) > CLEARLY_LONG * self._share_s:
                self.timings[case.id] = predicted
            else:
                self._time(index, case)
        over = cases_over_budget(dict(self._needed()), self.schedule.left_s)
        left_out = [case for case in self._cases_in(over) if case.id in self.timings]
        if left_out and len(left_out) == len(self.finished.cases):
            raise self._fits_nothing()
        for case in left_out:
            self._leave_out(case)
        for case in self._cases_in(over):
            if case.id not in self.timings:
                self.schedule.retire(self.finished.cases.index(case))

    @property
    def _share_s(self) -> float:
        """The share of the budget for one run of one case, in seconds."""
        return self.budget_s / (len(self.finished.cases) * self.executor.suite.protocol.min_repeats)

    def _untimed(self) -> Iterator[tuple[int, Case]]:
        for index, case in enumerate(self.finished.cases):
            if self.finished.of(case):
                continue
            known = read_record(self.executor.directory.timing(case))
            if known is not None:
                self.timings[case.id] = Timing(known.expected_s, known.expected_step_s)
            else:
                yield index, case

    def _time(self, index: int, case: Case) -> None:
        """Run a case for the first time; the run counts unless it takes longer than its share."""
        if self.schedule.take(lambda waiting: waiting == index) is None:
            return
        protocol = self.executor.suite.protocol
        executor = self.executor
        # Short runs that choose a case's open axes or its batch have another speed than the case.
        if not case.left_open and case.batch_per_device != MAX_BATCH:
            executor = executor.until(FirstRunWatch(protocol.steps, self._share_s, self.budget_s))
        repeat = self.finished.next_repeat(case)
        self.listener.run_begins(case, repeat, self.schedule.progress)
        record = run_case(executor, case, repeat)
        if record.outcome is Outcome.SKIPPED:
            self.executor.directory.move_to_timing(case, record)
            self.timings[case.id] = Timing(record.expected_s, record.expected_step_s)
            self.schedule.spend(record.duration_s or 0.0)
            self.schedule.put_back(index)
            self.listener.readying(f"    {record.reason}")
            return
        result = self.finished.keep(case, record)
        self.schedule.done(index, *as_attempts([result]))
        self.listener.run_ended(result, self.schedule.progress)

    def _needed(self) -> Iterator[tuple[str, float | None]]:
        """Yield each case that needs runs, with the seconds that they are expected to take (None: unknown)."""
        repeats = self.executor.suite.protocol.min_repeats
        for case in self.finished.cases:
            if (timing := self.timings.get(case.id)) is not None:
                yield case.id, None if timing.run_s is None else repeats * timing.run_s
                continue
            durations = [run.duration_s for run in self.finished.of(case) if run.duration_s is not None]
            if durations and all(run.outcome is Outcome.OK for run in self.finished.of(case)):
                yield case.id, max(0, repeats - len(durations)) * sum(durations) / len(durations)

    def _leave_out(self, case: Case) -> None:
        """Record that a case is not measured, and why."""
        index, timing = self.finished.cases.index(case), self.timings[case.id]
        if self.schedule.take(lambda waiting: waiting == index) is None:
            return
        record = read_record(self.executor.directory.timing(case))
        if record is None:
            record = OutcomeRecord(case_id=case.id, repeat=1, outcome=Outcome.SKIPPED)
        runs = self.executor.suite.protocol.min_repeats
        others = sum(needed or 0.0 for other, needed in self._needed() if other not in self.timings)
        left_s = self.schedule.left_s - others
        on_cpu = computes_on_cpu(case, self.executor.run_env.machine.gpus)
        causes = causes_of(case, timing, list(self._timed()), self._cpu(case), on_cpu)
        reason = why_left_out(timing, runs, left_s, self.budget_s, causes)
        self.executor.directory.begin(self.executor.directory.run(case, 1))
        # Recorded as not started: the next call decides again, with the same timing and maybe a larger budget.
        skipped = record.model_copy(
            update={"repeat": 1, "reason": reason, "duration_s": None, "started_at": None}
        )
        result = self.finished.keep(case, OutcomeRecord.model_validate(skipped))
        self.schedule.done(index, *as_attempts([result]))
        self.listener.readying(f"{case.id} is left out: {reason}")

    def _timed(self) -> Iterator[tuple[Case, Timing]]:
        """Yield the cases with a known step time, from a first run that ended early or from finished runs."""
        for case in self.finished.cases:
            if (timing := self.timings.get(case.id)) is not None and timing.predicted_from is None:
                yield case, timing
            for run in self.finished.of(case):
                if run.measurement is not None and run.measurement.step_times is not None:
                    yield case, Timing(run.duration_s, run.measurement.step_times.mean)

    def _cpu(self, case: Case) -> CpuFacts:
        near = self.timings[case.id].predicted_from is not None
        folders = [self.executor.directory.timing(one) for one in (self.finished.cases if near else (case,))]
        manifest = next(filter(None, map(manifest_in, folders)), None)
        return manifest.nodes[0].cpu if manifest is not None and manifest.nodes else CpuFacts()

    def _cases_in(self, ids: tuple[str, ...]) -> list[Case]:
        return [case for case in self.finished.cases if case.id in ids]

    def _fits_nothing(self) -> InputError:
        """Return the error for a budget that fits no case, with the time that the cheapest case needs."""
        runs = self.executor.suite.protocol.min_repeats
        known = {case: timing.run_s for case, timing in self.timings.items() if timing.run_s is not None}
        need = "no case reported two steps in time"
        if known:
            cheapest = min(known, key=lambda case: known[case])
            each = known[cheapest] if math.isfinite(known[cheapest]) else 0.0
            total = f"{runs} runs of {duration(each)}" if runs > 1 else "a run"
            need = f"the cheapest, {cheapest}, needs about {duration(runs * each)} ({total})"
        return InputError(f"budget: {duration(self.budget_s)} fits no case of the suite; {need}")
