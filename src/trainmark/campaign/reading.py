"""One run's measurement, by the reader that its card names."""

from pathlib import Path

from trainmark.logs.events import RunEvents
from trainmark.measure import Measurement, NotMeasurable, measure_events
from trainmark.suite import Case
from trainmark.workload import Card

OWN_FORMAT = "trainmark"


def measure_run(case: Case, card: Card, folder: Path, events: RunEvents) -> Measurement:
    """Return the measurement of a finished run of ``case`` in ``folder``.

    Raises ``NotMeasurable``, with the reason, when what the run left is no measurement.
    """
    if card.log_format == OWN_FORMAT:
        return measure_events(events)
    raise NotMeasurable(
        f"{folder}: no reader for the log format '{card.log_format}' of workload '{case.workload}'"
    )
