"""MLflow: an experiment for the suite, a run of MLflow for each case, and one nested in it for each run."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from trainmark.errors import InputError, TrainmarkError
from trainmark.imports import import_extra
from trainmark.printable import printable
from trainmark.report.export.records import CaseRecord, ExportedResults, Figure, RunRecord
from trainmark.report.export.wording import doubts_of, throughput_of
from trainmark.schema.outcome import Outcome

_PURPOSE = "an export to MLflow"
_KEY = "trainmark.key"
_MOST_TAG = 5000
"""The longest value of a tag that every store of MLflow takes."""
_RETRIES = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2", "MLFLOW_HTTP_REQUEST_TIMEOUT": "30"}
"""A server that is not reached is an error within seconds; a user's own values come first."""
_STATUS = {Outcome.OK: "FINISHED", Outcome.SKIPPED: "KILLED", Outcome.UNSUPPORTED: "KILLED"}


def write(source: ExportedResults, output: str) -> tuple[str, ...]:
    """Add the cases and runs that the tracking store ``output`` does not have yet; return their addresses.

    After an error, what was added is deleted again.
    """
    with _quiet_retries():
        tracking = import_extra("mlflow.tracking", _PURPOSE)
        exceptions = import_extra("mlflow.exceptions", _PURPOSE)
        try:
            store = _Store.open(tracking.MlflowClient(tracking_uri=output), source.results.suite)
        except exceptions.MlflowException as error:
            raise InputError(f"{output}: {_line(error)}") from None
        try:
            for case in source.cases:
                _add_case(store, source, case)
        except BaseException as error:
            left = store.remove_added()
            if isinstance(error, exceptions.MlflowException):
                raise TrainmarkError(f"{output}: {_line(error)}; {left}") from None
            raise
    return tuple(f"{output.rstrip('/')}#{store.experiment}/{run}" for run in store.added)


@contextmanager
def _quiet_retries() -> Iterator[None]:
    """Let the client give up within seconds while the context lasts."""
    new = {name: value for name, value in _RETRIES.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            os.environ.pop(name, None)


@dataclass(slots=True)
class _Store:
    """A client with its experiment, the runs that the experiment has, and those that were added."""

    client: Any
    experiment: str
    known: Mapping[str, str]
    added: list[str] = field(default_factory=list)

    @classmethod
    def open(cls, client: Any, suite: str) -> "_Store":
        found = client.get_experiment_by_name(suite)
        experiment = client.create_experiment(suite) if found is None else found.experiment_id
        known: dict[str, str] = {}
        token = None
        while True:
            page = client.search_runs([experiment], max_results=1000, page_token=token)
            known |= {run.data.tags[_KEY]: run.info.run_id for run in page if _KEY in run.data.tags}
            token = page.token
            if not token:
                return cls(client, experiment, known)

    def add(self, name: str, key: str, tags: Mapping[str, str], start_ms: int | None) -> str:
        """Create a run and return its id."""
        words = {tag: printable(value)[:_MOST_TAG] for tag, value in tags.items()}
        made = self.client.create_run(
            self.experiment, start_time=start_ms, tags={**words, _KEY: key}, run_name=printable(name)
        )
        self.added.append(made.info.run_id)
        return str(made.info.run_id)

    def remove_added(self) -> str:
        """Delete the runs that were added, and return what is left of them, in words."""
        left = []
        for run in self.added:
            try:
                self.client.delete_run(run)
            except Exception:
                left.append(run)
        return f"{len(left)} runs are left there: {', '.join(left)}" if left else "nothing is left there"


def _add_case(store: _Store, source: ExportedResults, case: CaseRecord) -> None:
    first, last = source.results.measured
    key = f"{source.results.suite}/{case.id}/{first.isoformat()}/{len(case.runs)}"
    parent = store.known.get(key)
    if parent is None:
        tags = {
            "trainmark.kind": "case",
            "trainmark.outcome": case.outcome.value,
            "trainmark.number": throughput_of(case),
            "mlflow.note.content": "\n".join([throughput_of(case), *doubts_of(case)]),
            **_words(source, case.facts, case.figures),
            **_doubts((doubt.code, doubt.sentence) for doubt in case.doubts),
        }
        parent = store.add(case.id, key, tags, int(first.timestamp() * 1000))
        end = int(last.timestamp() * 1000)
        _fill(store, parent, case.axes, case.figures, end)
        store.client.set_terminated(parent, _STATUS.get(case.outcome, "FAILED"), end_time=end)
    for run in case.runs:
        if run.key not in store.known:
            _add_run(store, source, case, run, parent)


def _add_run(store: _Store, source: ExportedResults, case: CaseRecord, run: RunRecord, parent: str) -> None:
    tags = {
        "trainmark.kind": "run",
        "trainmark.outcome": run.outcome.value,
        "mlflow.parentRunId": parent,
        **({"trainmark.reason": run.reason} if run.reason else {}),
        **_words(source, run.facts, run.figures),
        **_doubts((doubt.code, doubt.sentence) for doubt in run.doubts),
    }
    start = int(run.started_at.timestamp() * 1000) if run.started_at else None
    made = store.add(f"{case.id} {run.repeat}", run.key, tags, start)
    end = None if start is None else start + int((run.duration_s or 0.0) * 1000)
    _fill(store, made, {**run.axes, "repeat": str(run.repeat)}, run.figures, end or 0)
    store.client.set_terminated(made, _STATUS.get(run.outcome, "FAILED"), end_time=end)


def _fill(
    store: _Store, run: str, axes: Mapping[str, str], figures: Iterable[Figure], moment_ms: int
) -> None:
    entities = import_extra("mlflow.entities", _PURPOSE)
    store.client.log_batch(
        run,
        metrics=[entities.Metric(figure.name, figure.value, moment_ms, 0) for figure in figures],
        params=[entities.Param(axis, printable(value)[:_MOST_TAG]) for axis, value in axes.items()],
    )


def _words(source: ExportedResults, facts: Mapping[str, str], figures: Iterable[Figure]) -> dict[str, str]:
    return {
        "trainmark.version": source.results.trainmark_version,
        "trainmark.suite": source.results.suite,
        **{f"trainmark.{fact}": value for fact, value in facts.items()},
        **{f"trainmark.unit.{figure.name}": figure.unit for figure in figures},
    }


def _doubts(doubts: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    for code, sentence in doubts:
        found.setdefault(code, []).append(sentence)
    return {f"trainmark.doubt.{code}": "; ".join(sentences) for code, sentences in found.items()}


def _line(error: Exception) -> str:
    return printable(" ".join(str(error).split()))[:500]
