"""``outcome.json``: what became of one run. It is written last, so a run with this file is finished."""

from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from trainmark.errors import TrainmarkError
from trainmark.files import write_atomically
from trainmark.suite import Outcome

FILE = "outcome.json"


class OutcomeRecord(BaseModel):
    """What became of a run, why, when, and by which commands.

    ``reason`` is a sentence for every outcome but ``ok``. ``exit_code`` is the first command's, negative for
    a signal, null when nothing was started. ``last_step`` is the last step that the program spoke of;
    ``strays`` is the number of processes that it left behind and that were ended.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_name: Literal["trainmark.outcome/1"] = "trainmark.outcome/1"
    case_id: str
    repeat: int
    outcome: Outcome
    reason: str | None = None
    exit_code: int | None = None
    started_at: datetime | None = None
    ended_at: datetime | None = None
    duration_s: float | None = None
    last_step: int | None = None
    strays: int = 0
    commands: tuple[str, ...] = ()


def write_record(directory: Path, record: OutcomeRecord) -> None:
    """Write the record into a run's folder, in one piece; from then on the run is finished."""
    write_atomically(directory / FILE, record.model_dump_json(indent=1) + "\n")


def read_record(directory: Path) -> OutcomeRecord | None:
    """Read a run's record; None when the run is not finished."""
    path = directory / FILE
    try:
        return OutcomeRecord.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (ValidationError, OSError) as error:
        raise TrainmarkError(f"{path}: cannot be read as an outcome: {str(error).splitlines()[0]}") from None
