"""``outcome.json``: what became of one run. It is written last, so a run with this file is finished."""

from pathlib import Path

from pydantic import ValidationError

from trainmark.errors import TrainmarkError
from trainmark.files import write_atomically
from trainmark.words.outcome import OutcomeRecord

FILE = "outcome.json"


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
