"""The interface that receives the progress of a campaign."""

from collections.abc import Mapping
from typing import Protocol as Interface

from trainmark.campaign.schedule import Progress
from trainmark.execution import Heartbeat
from trainmark.schema.case import Case
from trainmark.schema.results import RunResult


class ProgressListener(Interface):
    """Receives the progress of a campaign, for example to show it on a terminal."""

    def preparing(self, what: str, done: int, total: int) -> None:
        """Report the progress of a data set: ``done`` of ``total`` samples."""

    def readying(self, what: str) -> None:
        """Report work before a run can start, such as a fetch or a prepare step."""

    def probing(self, batch: int) -> None:
        """Report the start of a short run that finds out whether this batch size fits."""

    def trying(self, candidate: Case, axes: Mapping[str, str]) -> None:
        """Report the start of a short run that times a case with these values on its open axes."""

    def run_begins(self, case: Case, repeat: int, progress: Progress) -> None:
        """Report the start of a run."""

    def pulse(self, pulse: Heartbeat) -> None:
        """Report the current step of the run."""

    def run_ended(self, result: RunResult, progress: Progress) -> None:
        """Report the result of a run, which is on disk."""
