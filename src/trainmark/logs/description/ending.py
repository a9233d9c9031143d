"""The end of a run by a format's description: a printed line, or counters that reach the printed totals."""

import re
from collections.abc import Callable
from typing import Any

from trainmark.logs.description.document import FormatDescription
from trainmark.logs.description.facts import Settings, Sources
from trainmark.logs.format import LogContext, ends_with, unknown_end
from trainmark.logs.model import EndState

_SIGNAL = re.compile(rb"Terminating with signal \d+|KeyboardInterrupt")
"""Printed by ``paddle.distributed.launch``; lines of other ranks may follow."""


def make_end(
    text: FormatDescription,
    printed: Any,
    sources: Sources,
    settings: Callable[[LogContext], Settings] | None,
) -> Callable[[LogContext], EndState]:
    """Return the function that tells whether a log has the end of its run.

    ``printed`` is the compiled pattern of ``end``. A log that stops before ``last_step_of_epoch`` is incomplete, one
    that reaches it may be complete; a run is complete at its ``last_step`` in its ``last_epoch`` after its ``end``.
    """
    line = ends_with(printed) if printed else None
    if text.last_step is None and text.last_epoch is None and text.last_step_of_epoch is None:
        return line or unknown_end
    step, epoch, step_of_epoch = (
        sources.number(source, f"{text.where}: {key}")
        for key, source in (
            ("last_step", text.last_step),
            ("last_epoch", text.last_epoch),
            ("last_step_of_epoch", text.last_step_of_epoch),
        )
    )

    def by_counters(context: LogContext) -> EndState:
        words = settings(context) if settings else {}
        next_step = context.last_step + context.step_interval if context.last_step is not None else 0
        most = step_of_epoch(context.text, words)
        if most is not None and next_step <= most:
            return EndState.MISSING
        reached = []
        for source, find, value in (
            (text.last_step, step, next_step - 1),
            (text.last_epoch, epoch, context.last_epoch or 0),
        ):
            if source is not None:
                total = find(context.text, words)
                if total is None:
                    return EndState.UNKNOWN
                reached.append(value >= total)
        if line is not None:
            reached.append(line(context) is EndState.FOUND)
        if not reached:
            return EndState.UNKNOWN
        return EndState.FOUND if all(reached) else EndState.MISSING

    def end_state(context: LogContext) -> EndState:
        found = by_counters(context)
        is_stopped = text.launcher is not None and _SIGNAL.search(context.tail) is not None
        return EndState.STOPPED if is_stopped and found is not EndState.FOUND else found

    return end_state
