"""Weights & Biases, offline: a run of W&B for each case and for each run, which ``wandb sync`` uploads."""

import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trainmark.errors import TrainmarkError
from trainmark.files import new_folder
from trainmark.imports import import_extra
from trainmark.report.export.paths import events_of
from trainmark.report.export.records import CaseRecord, ExportedResults, Figure, RunRecord
from trainmark.report.export.wording import doubts_of, throughput_of
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import Doubt

_PURPOSE = "an export to Weights & Biases"


def write(source: ExportedResults, output: str) -> tuple[str, ...]:
    """Write ``offline-run-*`` folders into the new folder ``output``; return their paths."""
    wandb = import_extra("wandb", _PURPOSE)
    with new_folder(Path(output)) as folder, TemporaryDirectory(prefix="trainmark-wandb-") as place:
        try:
            for case in source.cases:
                _add_case(wandb, place, source, case)
                for run in case.runs:
                    _add_run(wandb, place, source, case, run)
        except wandb.Error as error:
            raise TrainmarkError(f"{output}: wandb: {' '.join(str(error).split())}") from None
        finally:
            wandb.teardown()
        found = sorted(path for path in (Path(place) / "wandb").glob("offline-run-*") if path.is_dir())
        for path in found:
            shutil.copytree(path, folder / path.name)
    return tuple(str(Path(output) / path.name) for path in found)


def _add_case(wandb: Any, place: str, source: ExportedResults, case: CaseRecord) -> None:
    run = _start(wandb, place, source, case, case.id, "case", case.outcome)
    run.config.update({**case.axes, "outcome": case.outcome.value, "reason": case.reason, **case.facts})
    run.notes = "\n".join([throughput_of(case), *doubts_of(case)])
    _fill(run, case.figures, case.doubts)
    run.finish()


def _add_run(wandb: Any, place: str, source: ExportedResults, case: CaseRecord, made: RunRecord) -> None:
    run = _start(wandb, place, source, case, f"{case.id} {made.repeat}", "run", made.outcome)
    words: Mapping[str, Any] = {"repeat": made.repeat, "outcome": made.outcome.value, "reason": made.reason}
    started = made.started_at.isoformat() if made.started_at else None
    run.config.update({**made.axes, **made.facts, **words, "started_at": started})
    events = events_of(made, source.directory)
    if events is not None:
        for step, time_s in enumerate(events.step_times_s.tolist()):
            if time_s == time_s:  # noqa: PLR0124 - not NaN: the time is known
                run.log({"step_time_s": time_s}, step=step)
    _fill(run, made.figures, made.doubts)
    run.finish(exit_code=0 if made.outcome is Outcome.OK else 1)


def _start(
    wandb: Any,
    place: str,
    source: ExportedResults,
    case: CaseRecord,
    name: str,
    kind: str,
    outcome: Outcome,
) -> Any:
    """Return a run of W&B that reads nothing of this machine: it describes runs that are over."""
    settings = wandb.Settings(
        silent=True,
        console="off",
        disable_git=True,
        save_code=False,
        x_disable_stats=True,
        x_disable_meta=True,
    )
    return wandb.init(
        mode="offline",
        dir=place,
        project=source.results.suite,
        group=case.id,
        name=name,
        job_type=kind,
        tags=[outcome.value],
        config={"suite": source.results.suite, "trainmark_version": source.results.trainmark_version},
        settings=settings,
    )


def _fill(run: Any, figures: Iterable[Figure], doubts: Iterable[Doubt]) -> None:
    for figure in figures:
        run.summary[figure.name] = figure.value
        run.summary[f"unit/{figure.name}"] = figure.unit
    for doubt in doubts:
        run.summary[f"doubt/{doubt.code}"] = doubt.sentence
