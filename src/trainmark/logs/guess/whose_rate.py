"""Whose a guessed rate is: one device's or that of all, by the figures of ranks, the steps' times and the batch."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from trainmark.logs import ParsedLog
from trainmark.logs.guess.families import Family, Guess, is_of_all
from trainmark.logs.guess.line_fields import Fields
from trainmark.logs.intervals import measure_timing
from trainmark.logs.model import Floats, Scope, median

CLOSE = 0.05
"""Deviation up to which two figures are of the same steps, and share of them that may be equal by chance."""
WHOSE = {"device": "one device", "node": "the devices of one node", "all": "all devices"}
"""What a format calls the devices of a rate, and the words for them in what is assumed."""
FIRST_RECORDS = 4096
DIFFERENT = "as the ranks print different ones"


def twins_differ(family: Family, twin: Family, fields: Fields) -> bool:
    """Return whether the lines of two ranks have different rates, at the same places."""
    return any(
        one.field == "rate"
        and not is_of_all(family.places[at].name)
        and _differ(np.stack((family.places[at].values, twin.places[at].values), axis=1).ravel(), 2)
        for at, one in fields.meant.items()
    )


def of_ranks(count: int, *, rated: bool) -> str:
    """Return what is assumed of a log of several ranks, which may print their own rates."""
    either = f" (if each prints its own rate, all are {count} times as fast)" if rated else ""
    return f"{count} ranks print each step, and the line of the first one stands for all of them{either}"


def print_own(family: Family, fields: Fields, copies: int) -> bool:
    """Return whether the several ``copies`` of each line have different rates, as ranks print that count their own."""
    steps = family.places[fields.counter].values
    groups = np.split(steps, np.flatnonzero(np.diff(steps)) + 1)
    if fields.counts_epochs or any(len(group) != copies for group in groups[:-1]):
        return False
    return any(
        one.field == "rate"
        and not is_of_all(family.places[at].name)
        and _differ(family.places[at].values, copies)
        for at, one in fields.meant.items()
    )


def _differ(rates: Floats, copies: int) -> bool:
    rows = rates[: len(rates) - len(rates) % copies].reshape(-1, copies)
    return float(np.mean(rows.min(axis=1) < rows.max(axis=1))) > 1 - CLOSE


def whose_rate(log: ParsedLog) -> str | None:
    """Return whose the rates are if the steps' time and the stated batch show that they are not of whom they seem."""
    rates, times, batch, gpus = log.records.rate, log.records.step_time_s, log.global_batch, log.facts.gpus
    if rates is None or batch is None or gpus is None or log.scope is Scope.NODE:
        return None
    if times is not None:
        count = min(len(rates), FIRST_RECORDS)
        done = median(rates.array(0, count) * times.array(0, count)) / batch
    elif log.records.clock_s is not None and (ratios := measure_timing(log).ratios):
        done = median(ratios)
        # The ratio is that of the rates of all devices to what they print.
        done /= gpus if log.scope is Scope.DEVICE else 1
    else:
        return None
    expected = 1 / gpus if log.scope is Scope.DEVICE else 1.0
    others = {"all": 1.0, "device": 1 / gpus}
    if abs(done / expected - 1) < CLOSE:
        return None
    return next((whose for whose, share in others.items() if abs(done / share - 1) < CLOSE), None)


def with_rate_of(
    guess: Guess, whose: str, why: str = "as the stated batch and the time of the steps show"
) -> Guess:
    """Return the guess with rates of one device or of all, whichever its words say."""
    before = WHOSE[guess.document["rate_of"]]
    assumed = tuple(
        f"{one.removesuffix(before)}{WHOSE[whose]}, {why}" if one.endswith(f" of {before}") else one
        for one in guess.assumed
    )
    return replace(guess, document={**guess.document, "rate_of": whose}, assumed=assumed)


def tagged_ranks_differ(log: ParsedLog) -> bool:
    """Return whether the first two ranks of tagged lines print different rates, which are then those of one device."""
    if log.scope is not Scope.GLOBAL:
        return False
    rates = [one.records.rate for one in log.tagged_ranks()[:2] if one.records.rate is not None]
    count = min(FIRST_RECORDS, *(len(each) for each in rates)) if len(rates) == 2 else 0
    return count > 0 and _differ(np.stack([each.array(0, count) for each in rates], axis=1).ravel(), 2)


def of_tagged_ranks(log: ParsedLog) -> Iterator[str]:
    """Yield what is assumed if lines with the tags of several ranks print rates of all devices."""
    if log.records.rate is not None and log.scope is Scope.GLOBAL:
        yield of_ranks(len(log.tagged_ranks()), rated=True)
