"""Logs with fewer records than the usual warm-up: which of their first records are left out."""

import numpy as np

from trainmark.logs.model import Floats, Meaning, ParsedLog, Problem, Severity, median
from trainmark.measure.rules.series import NoNumberError

_UNSTEADY = 0.15
"""A first record whose pace is off the median of those after it by this share belongs to the warm-up."""
_FEWEST = 2
_MOST = 1 << 12


def only_warm_up(log: ParsedLog, skipped: int) -> NoNumberError:
    """Return the error of a log whose records are all left out."""
    count = log.records.count
    if not count:
        return _no_steps()
    if count == 1:
        sentence = "the log has a single record, which may be warm-up: add a longer part of the log"
    else:
        sentence = (
            f"the log has {count} records, but the first {skipped} are warm-up: pass --skip to use some"
        )
    return NoNumberError("only-warm-up", sentence, ("--skip",) if count > 1 else ())


def all_skipped(log: ParsedLog, skip: int) -> NoNumberError:
    """Return the error of a log that has no record after the ``skip`` ones that its reader leaves out."""
    if not log.records.count:
        return _no_steps()
    sentence = f"--skip leaves out {skip} records, and the log has {log.records.count}: give a smaller number"
    return NoNumberError("only-warm-up", sentence, ("--skip",) if log.records.count > 1 else ())


def _no_steps() -> NoNumberError:
    """Return the error of a log without a single record, such as one that has only the program's own result."""
    return NoNumberError("no-records", "no line of the log has the rate or the time of a step")


def short_warmup(log: ParsedLog, usual: int) -> tuple[int, Problem]:
    """Return how many first records to leave out of a short log, and the problem of that choice.

    It is a note if no other choice would change the number by more than 5 %.

    Left out are records at the start whose pace is not that of the later ones: compilation is slow, and a step that is
    timed before it is computed (asynchronous dispatch) looks fast. Raises
    ``NoNumberError`` if fewer than two records are left, or the records are averages since the start.
    """
    times = _paces(log)
    averaged = log.meaning is Meaning.RUNNING or log.records.average_rate is not None
    averaged = averaged or log.records.average_time_s is not None
    if times is None or averaged or len(times) < _FEWEST:
        raise only_warm_up(log, usual)
    skipped = 0
    while len(times) - skipped > _FEWEST and _is_off(times[skipped], times[skipped + 1 :]):
        skipped += 1
    # With two records left, only their agreement shows that neither of them is a warm-up.
    if len(times) - skipped == _FEWEST and _is_off(times[skipped], times[skipped + 1 :]):
        raise only_warm_up(log, usual)
    left_out = "none of them is left out"
    if skipped:
        first = "the first one is" if skipped == 1 else f"the first {skipped} are"
        left_out = f"{first} left out because of a different pace"
    sentence = (
        f"the log has only {len(times)} records, fewer than the usual warm-up of {usual}; {left_out}: "
        "pass --skip to choose it yourself"
    )
    return skipped, Problem("short-log", sentence, Severity.of_effect(_effect_of_choice(times, skipped)))


def _effect_of_choice(times: Floats, skipped: int) -> float:
    """Return the largest share by which the number changes if other first records than ``skipped`` are left out."""
    usable = np.isfinite(times)
    # Means of all records from each one on, from the last two.
    means = np.cumsum(np.where(usable, times, 0.0)[::-1]) / np.cumsum(usable[::-1])
    means = means[_FEWEST - 1 :][::-1]
    return float(np.abs(means[skipped] / means - 1).max())


def _is_off(first: float, later: Floats) -> bool:
    return bool(not np.isfinite(first) or abs(first / median(later[~np.isnan(later)]) - 1) > _UNSTEADY)


def _paces(log: ParsedLog) -> Floats | None:
    """Return the time of a step, or of a unit, of each record; None if the records have neither rate nor time."""
    records = log.records
    if records.rate is not None:
        with np.errstate(divide="ignore"):
            return 1 / records.rate.array(0, _MOST)
    if records.step_time_s is not None:
        return records.step_time_s.array(0, _MOST)
    if records.clock_s is None or records.count <= _FEWEST:
        return None
    passed = np.diff(records.clock_s.array(0, _MOST))
    steps = np.diff(records.step.array(0, _MOST)) if records.step is not None else np.ones(len(passed))
    with np.errstate(divide="ignore", invalid="ignore"):
        # The first record only opens the clock.
        return np.concatenate(([np.inf], np.where(steps > 0, passed / steps, np.nan)))
