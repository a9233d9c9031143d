"""The doubt about a resumed run whose averages are those since its start."""

from collections.abc import Callable, Iterator
from typing import Any

from trainmark.logs.description.facts import Settings
from trainmark.logs.format import LogContext
from trainmark.logs.model import Problem


def resumed_averages(
    start: Any, resumed_from: Callable[[bytes, Settings], float | None]
) -> Callable[[LogContext], Iterator[Problem]]:
    """Return the check for a log whose averages cover fewer steps than its counter shows.

    ``resumed_from`` reads the printed step from which a run resumed; where it finds none, a log with its ``start`` (a
    compiled pattern) was resumed if the first record has a later step.
    """

    def doubts(context: LogContext) -> Iterator[Problem]:
        found = resumed_from(context.text, {})
        step, first = int(found) if found else 0, context.first_step or 0
        if (
            not step
            and first > 2 * context.step_interval
            and start is not None
            and start.search(context.head)
        ):
            step = first - context.step_interval
        if step:
            sentence = (
                f"the run resumed from iteration {step}: its averages cover fewer iterations than its counter "
                "shows"
            )
            yield Problem("resumed", sentence)

    return doubts
