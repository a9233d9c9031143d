"""The database rows of several runs: unnameable runs are reported, and no two rows share a name."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trainmark.errors import InputError
from trainmark.report.exchange.paddle import DatabaseRow, find_mission, mission_for, paddle_row
from trainmark.report.exchange.rows import SpeedRow


@dataclass(frozen=True, slots=True)
class Listing:
    """``rows`` for the database; ``left_out`` has one sentence for each run that cannot be a row."""

    rows: tuple[DatabaseRow, ...]
    left_out: tuple[str, ...]


def list_rows(runs: Iterable[SpeedRow], mission: str | None, way_out: str) -> Listing:
    """Return the rows of ``runs``: all of ``mission`` (Chinese or English), or each of its model's mission.

    A run whose model belongs to no mission is left out, and so is a run disturbed by its machine, because a row has no
    field for that. Raises ``InputError`` for an unknown mission, and if two runs would have the same name because a row
    has no field for the axis on which they differ; ``way_out`` is the end of that sentence and tells how to select
    among them.
    """
    chosen = find_mission(mission) if mission is not None else None
    named: dict[str, list[SpeedRow]] = {}
    rows, left_out = [], []
    for run in runs:
        if run.spoiled:
            left_out.append(f"{run.log}: the run {run.disturbance}, and a row has no field for a doubt")
            continue
        try:
            row = paddle_row(run, chosen or mission_for(run.model))
        except InputError as unknown:
            left_out.append(f"{run.log}: {unknown} (set --mission or --model)")
            continue
        rows.append(row)
        named.setdefault(str(row["log_file"]), []).append(run)
    _refuse_shared_names(named, way_out)
    return Listing(tuple(rows), tuple(left_out))


def _refuse_shared_names(named: Mapping[str, Sequence[SpeedRow]], way_out: str) -> None:
    for name, members in named.items():
        if len(members) > 1:
            raise InputError(
                f"{len(members)} runs would have the name '{name}': {_difference(members)}; {way_out}"
            )


def _difference(runs: Sequence[SpeedRow]) -> str:
    values: dict[str, list[str]] = {}
    for run in runs:
        for axis, value in (("nodes", str(run.nodes)), *run.variant):
            observed = values.setdefault(axis, [])
            if value not in observed:
                observed.append(value)
    separate = [f"{axis} ({', '.join(observed)})" for axis, observed in values.items() if len(observed) > 1]
    return f"a row has no field for {', '.join(separate)}" if separate else "they do not differ on any axis"
