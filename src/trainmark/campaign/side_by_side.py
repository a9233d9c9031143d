"""Run cases on different hosts at the same time; one thread alone selects cases and saves results."""

import threading
from collections.abc import Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass

from trainmark.campaign.executor import Executor, run_case
from trainmark.campaign.finished_runs import FinishedRuns
from trainmark.campaign.host_pool import pool_hosts
from trainmark.campaign.identity import UnlikeRunsError
from trainmark.campaign.listener import ProgressListener
from trainmark.campaign.resume import as_attempts
from trainmark.campaign.schedule import Schedule
from trainmark.execution import Heartbeat
from trainmark.node import Host, deferred_signals, map_hosts
from trainmark.schema.case import Case
from trainmark.schema.outcome import Outcome, OutcomeRecord
from trainmark.schema.results import RunResult


@dataclass(frozen=True, slots=True)
class _Going:
    """A run in progress. ``last_chance``: no other hosts can replace those of its hosts that are unreachable."""

    index: int
    case: Case
    repeat: int
    hosts: tuple[Host, ...]
    last_chance: bool

    @property
    def names(self) -> list[str]:
        return [host.name for host in self.hosts]

    def run(self, executor: Executor) -> OutcomeRecord | None:
        """Run the case; return None, with nothing done, if an unreachable host can be replaced by another."""
        if not self.last_chance and any(why is not None for why in map_hosts(self.hosts, _away)):
            return None
        return run_case(executor, self.case, self.repeat)


_Recording = Future[OutcomeRecord | None]


class SideBySide:
    """Executes a schedule on several hosts; only the thread that calls ``go`` saves results."""

    def __init__(
        self, finished: FinishedRuns, schedule: Schedule, executor: Executor, listener: ProgressListener
    ) -> None:
        self._finished, self._schedule = finished, schedule
        self._executor, self._listener = executor, listener
        self._host_pool = pool_hosts(executor.run_env.hosts)
        for case in finished.cases:
            for run in finished.of(case):
                self._host_pool.ran(case, run.hosts)
        self._going: dict[_Recording, _Going] = {}
        self._over = threading.Event()

    def go(self) -> None:
        """Run until no case needs another run; no run is in progress when this returns or raises."""
        with ThreadPoolExecutor(len(self._executor.run_env.hosts)) as pool:
            try:
                while True:
                    while (one := self._next_placed()) is not None:
                        self._listener.run_begins(one.case, one.repeat, self._schedule.progress)
                        own_executor = self._executor.for_thread(
                            one.hosts, _UntilOver(self._listener, self._over)
                        )
                        with deferred_signals():
                            self._going[pool.submit(one.run, own_executor)] = one
                    if not self._going:
                        return
                    for future in wait(self._going, return_when=FIRST_COMPLETED).done:
                        self._ended(future)
            except BaseException:
                self._over.set()
                self._keep_finished()
                raise

    def _next_placed(self) -> _Going | None:
        cases, pool_hosts = self._finished.cases, self._host_pool
        index = self._schedule.take(lambda index: pool_hosts.free(cases[index]) is not None)
        if index is None:
            return None
        case = cases[index]
        names = pool_hosts.free(case)
        assert names is not None
        hosts, last_chance = pool_hosts.take(case, names), bool(pool_hosts.lost.intersection(names))
        return _Going(index, case, self._finished.next_repeat(case), hosts, last_chance)

    def _ended(self, future: _Recording) -> None:
        """Save a run's result; if its hosts are unreachable or unlike the case's earlier ones, try other hosts."""
        one = self._going[future]
        self._host_pool.give_back(one.names)
        try:
            result = self._keep(future)
        except UnlikeRunsError as error:
            before = {name for run in self._finished.of(one.case) if run.started_at for name in run.hosts}
            unlike = sorted(set(one.names) - before)
            if not unlike or not self._host_pool.refuse(one.case, unlike):
                raise
            self._put_back(one, f"{one.case.id} is not run on {', '.join(unlike)}: {error}")
            return
        if result is None:
            away = [host.name for host in one.hosts if _away(host) is not None]
            self._host_pool.lost |= set(away)
            self._put_back(one, f"{', '.join(away)} cannot be reached: {one.case.id} runs on other hosts")
            return
        self._schedule.done(one.index, *as_attempts([result]))
        self._listener.readying(f"{one.case.id} run {one.repeat} on {', '.join(one.names) or 'no host'}:")
        self._listener.run_ended(result, self._schedule.progress)

    def _put_back(self, one: _Going, why: str) -> None:
        self._listener.readying(why)
        self._schedule.put_back(one.index)

    def _keep(self, future: _Recording) -> RunResult | None:
        """Save a run's result, once; return None if the case was not run. Raises the run's exception."""
        with deferred_signals():
            one = self._going.pop(future)
            record = future.result()
            return None if record is None else self._finished.keep(one.case, record)

    def _keep_finished(self) -> None:
        """Wait for all runs in progress after the end of the campaign, and save those that have finished.

        A run that fails only after the end may have failed because of it: it is not saved and will run again.
        """
        with deferred_signals():
            before = {future for future in self._going if future.done()}
            wait(self._going)
            for future in list(self._going):
                record = future.result() if future.exception() is None else None
                if record is not None and (future in before or record.outcome is Outcome.OK):
                    # The exception that ends the campaign is reported; a full disk at this point must not replace it.
                    with suppress(OSError):
                        self._keep(future)


class _UntilOver:
    """Passes on the events of a run among others, except its pulses, which could not be attributed to a run.

    Each event raises ``KeyboardInterrupt`` once the campaign is over, which ends the run or its preparation.
    """

    def __init__(self, listener: ProgressListener, over: threading.Event) -> None:
        self._listener, self._over = listener, over
        self.run_begins, self.run_ended = listener.run_begins, listener.run_ended

    def preparing(self, what: str, done: int, total: int) -> None:
        self._require_wanted()
        self._listener.preparing(what, done, total)

    def readying(self, what: str) -> None:
        self._require_wanted()
        self._listener.readying(what)

    def probing(self, batch: int) -> None:
        self._require_wanted()
        self._listener.probing(batch)

    def trying(self, candidate: Case, axes: Mapping[str, str]) -> None:
        self._require_wanted()
        self._listener.trying(candidate, axes)

    def pulse(self, _pulse: Heartbeat) -> None:
        self._require_wanted()

    def _require_wanted(self) -> None:
        if self._over.is_set():
            raise KeyboardInterrupt


def _away(host: Host) -> str | None:
    return host.unreachable()
