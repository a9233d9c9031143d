"""Who hears of a campaign's progress."""

from collections.abc import Mapping
from typing import Protocol as Interface

from trainmark.campaign.schedule import Progress
from trainmark.execution import Heartbeat
from trainmark.schema.case import Case
from trainmark.schema.results import RunResult


class Audience(Interface):
    """Who hears of a campaign's progress; a terminal, a log, or nobody."""

    def preparing(self, what: str, done: int, total: int) -> None:
        """Something is made before runs can start: ``done`` of ``total``."""

    def readying(self, what: str) -> None:
        """A program's source or a prepare step is worked on before a run can start."""

    def probing(self, batch: int) -> None:
        """A short run is about to tell whether a batch of this size fits."""

    def trying(self, candidate: Case, axes: Mapping[str, str]) -> None:
        """A short run is about to tell how fast a case is with these values on the axes that it leaves open."""

    def run_begins(self, case: Case, repeat: int, progress: Progress) -> None:
        """A run is about to start."""

    def pulse(self, pulse: Heartbeat) -> None:
        """The run shows a sign of life."""

    def run_ended(self, result: RunResult, progress: Progress) -> None:
        """A run has ended and is on disk."""
