"""Names of folders for cases, and the steps of a run from its events."""

import hashlib
import re
from pathlib import Path

from trainmark.logs.events import RunEvents, read_events
from trainmark.report.export.records import RunRecord
from trainmark.schema.names import EVENTS

_MOST_CHARACTERS = 180


def folder_name(name: str) -> str:
    """Return a name without separators for one folder; a name that has to be changed ends in a digest of itself."""
    safe = re.sub(r"[^\w.=+,-]", "-", name, flags=re.ASCII).lstrip(".")
    if safe == name and len(name) <= _MOST_CHARACTERS:
        return name
    return f"{safe[:_MOST_CHARACTERS]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def events_of(run: RunRecord, directory: Path | None) -> RunEvents | None:
    """Return the events of a measured run if the result directory has them."""
    if directory is None or not run.figures:
        return None
    path = (directory / run.result.directory / EVENTS).resolve()
    if not path.is_relative_to(directory.resolve()):
        return None
    events = read_events(path)
    return events if events.measured.any() else None
