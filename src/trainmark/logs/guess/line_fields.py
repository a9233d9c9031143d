"""Fields of a family of lines: which number counts, and what the others are, by their words and by consistency."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trainmark.logs.guess.families import (
    BAR,
    LAPSE,
    SIGN,
    SLOWER,
    STAMP_GRAIN_S,
    STAMPED,
    Family,
    Meant,
    Place,
    is_ambiguous_rate,
    is_batch_name,
    is_counter_name,
    is_epoch_name,
    is_of_all,
    is_of_several_steps,
    is_per_step,
    is_rank_name,
    is_tag,
    meaning_of,
    meaning_of_duration,
    meaning_of_epoch,
    preference,
    rises_in_parts,
    unit_of_counter,
)
from trainmark.logs.intervals import last_digit
from trainmark.logs.model import Floats, median

_SHOWN = 24
"""Characters of a line's text that a sentence shows."""
_NOT_TRAINING = re.compile(
    r"\b(?:val(?:id(?:ation)?)?|eval(?:uat\w*)?|test(?:ing)?|predict\w*|(?<!policy )infer\w*|prefill|decode|decoding|"
    r"ttft|tpot|request\w*|latency|generat\w*|download\w*|upload\w*|shards?|dev|hold-?out|sanity|"
    r"prompts?|kv[ _-]?cache|serving|bitrate|packets?|tokeniz\w*|preprocess\w*|map|warm[- ]?up)\b",
    re.IGNORECASE,
)
_LOADS = re.compile(r"\W*(?:load|fetch|read|writ|sav|cop[iy])(?:ing|ed)\b", re.IGNORECASE)
_PREPARING = (
    r"(?:(?:pre-?)?tokeniz|add|append|apply|build|cach|calibrat|cast|check|clean|collat|collect|comput|concatenat|convert"
    r"|copy|count|creat|decod|dedup\w*|download|embedd|encod|extract|featuriz|fetch|filter(?:ing)?|generat|group|hash|index"
    r"|load|mapp|min|pack|padd|pars|prepar|preprocess|read|render|resiz|sav|scann|scor|shard|shuffl|sort|splitt|truncat"
    r"|unpack|unzipp|verify|writ)ing"
)
_PREPARES_FIRST = re.compile(rf"\W*(?:{_PREPARING}|wrote)\b|\W*running tokenizer\b", re.IGNORECASE)
"""The verb with which a line begins that is about data, whatever they are for: ``Tokenizing train dataset``."""
_PREPARES = re.compile(
    rf"\b(?:load|filter|fetch|read|extract|resolv|cach|shard|build|convert|compil|sampl|calibrat|benchmark|comput|scor"
    rf"|{_PREPARING}\b)",
    re.IGNORECASE,
)
"""In the words of a bar that do not name the training either."""
_LATENCY = re.compile(r"\blatency\b", re.IGNORECASE)
_OF_TRAINING = re.compile(r"\b(?:latency|generat\w*|prompts?|kv[ _-]?cache|request\w*)\b", re.IGNORECASE)
"""Words of inference that lines with a loss have too: DeepSpeed-Chat's latency of a step, generation in RL."""
_LOSS = re.compile(r"([a-z_/ -]*)loss", re.IGNORECASE)
_OF_EVALUATION = re.compile(
    r"(?:^|[\W_])(?:val|valid|validation|eval|evaluation|test|dev)[\W_]*$", re.IGNORECASE
)
_TRAINS = re.compile(r"(?<![^\W_])(?:train|(?:global|optimizer)[_ ]step\b)", re.IGNORECASE)
"""In lines of training, whatever else they are about: ``Global step 7: {'timing/generation': 35.4``."""
_TRAINING = re.compile(r"\b(?:pre-?)?train", re.IGNORECASE)
SECONDS = {
    "step_time_s": 1.0,
    "step_time_ms": 1e-3,
    "step_time_us": 1e-6,
    "step_time_m": 60.0,
    "step_time_h": 3600.0,
}
"""Fields of a step's time, and how many seconds their unit has."""
_OF_CLOCKS = {"clock_s": 1.0, "clock_ms": 1e-3, "clock_m": 60.0, "clock_h": 3600.0}
"""Fields of the time since the start, and how many seconds their unit has."""
_NAMES_OF_STAMPS = ("", "ts", "timestamp", "time", "unix", "created", "wall time", "wall_time")
_EARLIEST_S, _LATEST_S = 1.2e9, 2.4e9
"""Seconds since 1970: the years 2008 to 2046."""
_BARE_SECONDS = {"ms": "step_time_ms", **dict.fromkeys(("s", "sec", "secs", "seconds"), "step_time_s")}
"""Units of the first number without a name that is the time of a step, if the line prints no other."""
_SEPARATORS = tuple("|,;()[]{}")
_MOSTLY = 0.7
_SAME = 0.1
_CLEARLY = 0.5
"""A figure follows the clock more closely than another if its ratio to the clock varies by less than this share."""
"""Deviation of a rate times a time from 1 up to which both are of the same steps; averages lag behind."""

_REMARK = re.compile(r" ?[([][a-z0-9 .^*]+[])](?=[ :=]*$)")
"""What a name has in brackets at its end: ``tok/s (per GPU)``."""
_PER_SEVERAL = re.compile(r" ?(?:s|secs?|seconds)(?: ?/ ?| per )")
_STEPS_BEHIND = re.compile(r" ?(?:steps|iters|iterations|its?|batches|updates)\b")
"""Between the seconds and the number of the steps that they are of, and behind it."""
_SEVERAL = 2
_MOST_RUNS = 8
_FEWEST_MEANS = 8
_EARLY = 0.4
"""Least part of the change of a mean since the start that is in its first third; of a linear one it is a third."""
_ROUNDED = 0.02
"""Deviation of a mean since the start from the time of a step between lines up to which it does not matter."""


@dataclass(frozen=True, slots=True)
class Fields:
    """The places of the counter, of the epoch in which it begins anew (if it does), and of the other fields.

    ``restarts``: the counter begins anew in each epoch, and the epoch's number is not in its line.
    ``ignores_clock``: a line is of an epoch, and has the time of one of its steps.
    """

    counter: int
    meant: Mapping[int, Meant]
    counts_epochs: bool = False
    epoch: int | None = None
    restarts: bool = False
    ignores_clock: bool = False


def has_rate(fields: Fields) -> bool:
    """Return whether the lines print a speed, of samples or of steps."""
    return any(one.field in ("rate", "steps_per_s") for one in fields.meant.values())


def counts_samples(fields: Fields) -> bool:
    """Return whether the lines print a speed of samples or tokens."""
    return any(one.field == "rate" for one in fields.meant.values())


def find_fields(family: Family) -> Fields | None:
    """Return the counter and the other fields of a family; None without a counter or a time, and if it is misread."""
    if family.misread:
        return None
    epoch, of_epochs = _counters_of_epochs(family)
    counters = [at for at, place in enumerate(family.places) if at != epoch and _is_counter(place)]
    named = [at for at in counters if _is_named(family, at)]
    restarting: list[int] = []
    if named:
        epoch = None
    elif not of_epochs:
        restarting = [at for at in range(len(family.places)) if _restarts(family, at)]
    # Lines of several runs give no number, but a reason for that.
    runs = range(len(family.places)) if not (named or of_epochs or restarting) else ()
    named = named or of_epochs or restarting or [at for at in runs if _counts_runs(family, at)]
    if not counters and not named:
        return None
    # A counter of samples next to one of steps is a witness; one of micro-batches is used last.
    named = sorted(
        named,
        key=lambda at: (
            unit_of_counter(family.places[at].name) is not None,
            "micro" in family.places[at].name,
        ),
    )
    epochs = [] if named else [at for at in counters if is_epoch_name(family.places[at].name)]
    counter = (named or epochs or counters)[0]
    meant = _meanings(family, counter, epoch)
    meant = _with_several_steps(family, counter, meant)
    meant = _only_consistent(family, counter, meant)
    counter, meant = _with_consumed(family, counter, _of_named_rank(family, meant))
    rated = any(one.field in ("rate", "steps_per_s") for one in meant.values())
    timed = any(one.field in SECONDS for one in meant.values())
    if not (named or epochs or rated or (timed and has_loss(family))):
        return None  # numbers of requests or pages rise too
    if epochs and not rated:
        if per_step := _times_per_step(family, _meanings(family, counter, epoch)):
            return Fields(counter, per_step, ignores_clock=True)
        # The arrival of the lines comes first: JAX prints an epoch's time before its steps have run.
        clocks = {at: one for at, one in meant.items() if one.field.startswith("clock")}
        meant = clocks or (_times_of_epochs(family, counter) if family.clock_s is None else {})
    if not rated and any(is_batch_name(place.name) and _differs(place.values) for place in family.places):
        return None  # the time of a step of another batch each time is no rate
    # The wait for data alone is no time of a step.
    has_time = any(
        one.field != "consumed" and not one.field.startswith("data_time") for one in meant.values()
    )
    if not has_time and family.clock_s is None:
        return None
    if epoch is None and not restarting:
        epoch = _epoch_of_clock(family, meant)
    return Fields(
        counter, meant, counts_epochs=bool(epochs) and not rated, epoch=epoch, restarts=bool(restarting)
    )


def _epoch_of_clock(family: Family, meant: Mapping[int, Meant]) -> int | None:
    """Return the place of the epoch in which a clock begins anew; None if it does not, or no number is that epoch's."""
    for clock in (family.places[at].values for at, one in meant.items() if one.field.startswith("clock")):
        falls = np.diff(clock) < 0
        for at, place in enumerate(family.places):
            if falls.any() and is_epoch_name(place.name) and np.array_equal(np.diff(place.values) > 0, falls):
                return at
    return None


def _of_named_rank(family: Family, meant: dict[int, Meant]) -> dict[int, Meant]:
    """Return the fields with a speed as that of the rank which the program names in its lines: ``Rank: 0, step: 7``.

    A tag (``[rank 0] step 7``) may be a launcher's, and does not tell.
    """
    if any(one.per_device or one.per_node for one in meant.values()):
        return meant
    line = np.cumsum(["\n" in place.after for place in family.places])
    of_rank = {
        int(line[at])
        for at, place in enumerate(family.places)
        if is_rank_name(place.name) and not _differs(place.values) and not is_tag(place)
    }
    return {
        at: replace(one, per_device=True)
        if one.field == "rate" and line[at] in of_rank and not is_of_all(family.places[at].name)
        else one
        for at, one in meant.items()
    }


def _times_per_step(family: Family, meant: Mapping[int, Meant]) -> dict[int, Meant]:
    """Return the times of one step by their words, of lines of whole epochs: ``Time/Iter: 41.2ms``."""
    return {
        at: one for at, one in meant.items() if one.field in SECONDS and is_per_step(family.places[at].name)
    }


def _times_of_epochs(family: Family, counter: int) -> dict[int, Meant]:
    """Return the time of an epoch in lines of epochs, that of the training alone if it is printed: ``Time: 30.1s``."""
    found: dict[int, Meant] = {}
    for at, place in enumerate(family.places):
        meant = (
            meaning_of_epoch(place.name, "s" if place.is_duration else place.unit) if at != counter else None
        )
        if meant is None or rises_in_parts(place.values) or not (place.values > 0).all():
            continue
        if not found or "train" in place.name:
            found = {at: meant}
    return found


def with_own_clock(family: Family) -> Family:
    """Return the family without its date stamps if a printed time since the start passes more than they do.

    Then the stamps are those of a copy of the log, such as of ``cat train.log | ts``.
    """
    if family.clock_s is None:
        return family
    passed_s = family.clock_s[-1] - family.clock_s[0]
    for place, unit in zip(family.places, units_behind(family), strict=True):
        found = (
            meaning_of_duration(place.name, place.values)
            if place.is_duration
            else meaning_of(place.name, unit)
        )
        own_s = (place.values[-1] - place.values[0]) * _OF_CLOCKS.get(found.field if found else "", 0.0)
        if own_s > (1 + SLOWER) * passed_s + STAMP_GRAIN_S and (np.diff(place.values) >= 0).all():
            return replace(family, clock_s=None)
    return family


def _meanings(family: Family, counter: int, epoch: int | None) -> dict[int, Meant]:
    """Return the numbers that mean something by their names and units, the preferred one of each kind."""
    meant: dict[int, Meant] = {}
    units = units_behind(family)
    names = [_own_name(place, units[at - 1] if at else "") for at, place in enumerate(family.places)]
    for at in sorted(range(len(units)), key=lambda at: preference(names[at])):
        place, unit = family.places[at], units[at]
        after = place.after if unit == place.unit else ""
        if at in (counter, epoch) or _is_part_of_a_list(place):
            continue
        found = (
            meaning_of_duration(names[at], place.values)
            if place.is_duration
            else _unix_time(place) or meaning_of(names[at], unit, after)
        )
        if found is not None and _is_used(found, place.values, meant.values()):
            meant[at] = found
    if has_loss(family) and not any(one.field in ("rate", "steps_per_s", *SECONDS) for one in meant.values()):
        bare = [
            at
            for at, place in enumerate(family.places)
            if at not in (counter, epoch) and place.name.rstrip(" =:") in ("", "t") and not place.is_duration
        ]
        timed = [(at, _BARE_SECONDS[units[at]]) for at in bare if units[at] in _BARE_SECONDS]
        meant |= {at: Meant(field) for at, field in timed[:1] if at not in meant}
    return meant


def _unix_time(place: Place) -> Meant | None:
    """Return the clock that a number is which has no name, or that of a stamp, and the size of seconds since 1970."""
    if place.name.rstrip(" =:\"'") not in _NAMES_OF_STAMPS or not np.isfinite(place.values).all():
        return None
    for field, scale in (("clock_s", 1.0), ("clock_ms", 1e-3)):
        if place.values.min() * scale > _EARLIEST_S and place.values.max() * scale < _LATEST_S:
            return Meant(field)
    return None


def _own_name(place: Place, unit_before: str) -> str:
    """Return the name of a number without the unit of the number before it: ``2 it/s, 40``, ``2 it/s (data: 40``."""
    words = place.before.strip()
    rest = words[len(unit_before) :].lstrip()
    is_closed = rest.startswith("(") and ")" in rest  # "wps (per GPU): 40" is one name
    if (
        not unit_before
        or not words.lower().startswith(unit_before)
        or rest[:1] not in _SEPARATORS
        or is_closed
    ):
        return place.name
    return replace(place, before=rest).name


def has_loss(family: Family) -> bool:
    """Return whether the words of the lines name a loss."""
    return "loss" in family.text.lower()


def _with_consumed(family: Family, counter: int, meant: dict[int, Meant]) -> tuple[int, dict[int, Meant]]:
    """Return the counter and the fields with a counter of samples or tokens next to one of steps, as a witness.

    Without a printed speed it is the counter: over the time stamps it gives the number, whatever the batch is.
    """
    if unit_of_counter(family.places[counter].name) is not None:
        return counter, meant
    stated = next((one.unit for one in meant.values() if one.field == "rate"), "samples/s")
    for at, place in enumerate(family.places):
        unit = unit_of_counter(place.name) or _unit_of_total(place, family.places[counter])
        is_counter = place.is_whole or bool(place.suffix)
        if at in (counter, *meant) or unit is None or not is_counter or not np.isfinite(place.values).all():
            continue
        rises = np.diff(place.values)
        if (rises < 0).any() or not (rises > 0).any():
            continue
        speeds = [one for one in meant.values() if one.field in ("rate", "steps_per_s", *SECONDS)]
        has_clock = family.clock_s is not None or any(one.field.startswith("clock") for one in meant.values())
        if not speeds and has_clock:
            return at, meant
        if (unit == "tokens/s") == (stated == "tokens/s"):
            return counter, {**meant, at: Meant("consumed", unit)}
    return counter, meant


def _unit_of_total(place: Place, counter: Place) -> str | None:
    """Return the unit per second of a number called ``tokens`` that is in proportion to the counter: those so far."""
    unit = unit_of_counter(f"{place.name} seen")
    if unit is None or not (counter.values > 0).all() or len(place.values) < _FEWEST_MEANS:
        return None
    each = place.values / counter.values
    return unit if median(np.abs(each / each[-1] - 1)) < _ROUNDED else None


def _differs(values: Floats) -> bool:
    return bool((values != values[0]).any())


def units_behind(family: Family) -> list[str]:
    """Return the unit behind each number; empty if the word there is the next number's name (``time 0.08 it/s 12``)."""
    units = [place.unit for place in family.places]
    for at in reversed(range(len(units) - 1)):
        place = family.places[at]
        # The letter for thousands is a part of the word: "loss 0.08 ktok/s 12".
        after = place.after.strip().lower().removeprefix(place.suffix.lower()).lstrip()
        after = _REMARK.sub("", after)
        between = after.strip(" \t|,;[](){}")
        if not units[at] or between.rstrip(" :=") != units[at] or not _means_speed("", units[at]):
            continue
        if after != between and after.startswith(between):
            continue  # a separator behind the word: "2.0 it/s, 40"
        # The next number needs the word as its name, unless it has a unit too; a plain "speed" needs it as its unit.
        named = meaning_of(place.name, "")
        is_unit = _means_speed("", units[at + 1]) or (named is not None and named == Meant("rate"))
        if place.name and (between != units[at] or not is_unit):
            units[at] = ""
    return units


def _means_speed(name: str, unit: str) -> bool:
    """Return whether a number of that name and unit is a rate, or has a unit such as ``s/it``."""
    found = meaning_of(name, unit)
    return found is not None and (found.field in ("rate", "steps_per_s") or "/" in unit)


def _is_named(family: Family, at: int) -> bool:
    name = family.places[at].name
    if family.places[at].is_duration:
        return False
    if is_counter_name(name) or unit_of_counter(name) is not None or _is_step_of_epoch(family, at):
        return True
    return is_of_a_total(family, at) and not is_epoch_name(name)


def counts(family: Family) -> bool:
    """Return whether lines count steps by the name of their counter."""
    _, of_epochs = _counters_of_epochs(family)
    return bool(of_epochs) or any(
        _is_named(family, at) and _is_counter(place) for at, place in enumerate(family.places)
    )


def counts_without_time(family: Family) -> bool:
    """Return whether lines with a loss count steps, and nothing in them is a time or a speed."""
    return has_loss(family) and find_fields(family) is None and counts(family)


def has_other_batches(family: Family) -> bool:
    """Return whether lines count steps of different batches, whose times alone are no speed."""
    return counts_without_time(family) and any(
        is_batch_name(place.name) and _differs(place.values) for place in family.places
    )


def has_speed_alone(family: Family) -> bool:
    """Return whether lines print a speed of samples or steps, or with a loss a time, and nothing of them is read."""
    if family.misread or find_fields(family) is not None:
        return False
    found = [meaning_of(place.name, place.unit) for place in family.places]
    kinds = {one.field for one in found if one is not None}
    return bool(kinds & {"rate", "steps_per_s"} or (has_loss(family) and kinds & set(SECONDS)))


def find_uncounted_fields(family: Family) -> Fields | None:
    """Return the speeds and times of steps in lines of which no number counts; None without any."""
    if find_fields(family) is not None or counts(family):
        return None
    if any(is_epoch_name(place.name) and _differs(place.values) for place in family.places):
        return None  # a line of an epoch
    meant = {
        at: one
        for at, one in _meanings(family, -1, None).items()
        if one.field in ("rate", "steps_per_s", *SECONDS) and not rises_in_parts(family.places[at].values)
    }
    return Fields(-1, meant, ignores_clock=True) if meant else None


def _counters_of_epochs(family: Family) -> tuple[int | None, list[int]]:
    """Return the place of the epochs and those of the counters that begin anew with each; None and none without.

    An epoch is one by its name; a number without a name, or before a slash, is one if it rises by 1 exactly where a
    counter falls, as in ``[2, 400] loss``, ``Train: [2/300][400/1251]`` and ``Batch 2/400``.
    """
    for epoch, place in enumerate(family.places):
        is_bare = not place.name or (is_over_another(family, epoch) and not is_epoch_name(place.name))
        if (
            place.is_duration
            or not (is_epoch_name(place.name) or is_bare)
            or not np.isfinite(place.values).all()
        ):
            continue
        rises = np.diff(place.values)
        ends = np.flatnonzero(rises > 0) + 1
        if not len(ends) or (rises < 0).any() or (is_bare and (rises[ends - 1] != 1).any()):
            continue
        if len(ends) == len(rises):
            continue  # one line an epoch: nothing counts within it
        found = [
            at
            for at, one in enumerate(family.places)
            if at != epoch
            and (_is_named(family, at) or (is_bare and not (one.name or one.is_duration)))
            and (not is_bare or (np.diff(one.values)[ends - 1] < 0).all())
            and all(_counts(part) for part in np.split(one.values, ends) if len(part) > 1)
        ]
        if found:
            return epoch, found
    return None, []


def is_over_another(family: Family, at: int) -> bool:
    """Return whether only a slash separates a number from the next."""
    return at + 1 < len(family.places) and family.places[at].after.strip() == "/"


def _is_step_of_epoch(family: Family, at: int) -> bool:
    """Return whether a number without a name counts the steps of the one epoch before a slash: ``Batch 0/400``."""
    if not at or not is_over_another(family, at - 1) or family.places[at].name:
        return False
    before = family.places[at - 1]
    is_constant = bool((before.values == before.values[0]).all())
    return is_constant and is_counter_name(before.name) and _counts_in_parts(family.places[at].values)


def _counts_in_parts(values: Floats) -> bool:
    """Return whether values that may fall now and then count between these falls."""
    falls = np.flatnonzero(np.diff(values) < 0) + 1
    parts = [part for part in np.split(values, falls) if len(part) > 1]
    return bool(parts) and all(map(_counts, parts))


def _counts_runs(family: Family, at: int) -> bool:
    """Return whether a named number counts the steps of a few runs, one after the other."""
    place = family.places[at]
    is_counter = is_counter_name(place.name) and place.is_whole
    falls = int((np.diff(place.values) < 0).sum())
    return is_counter and 0 < falls <= _MOST_RUNS and _counts_in_parts(place.values)


def _restarts(family: Family, at: int) -> bool:
    """Return whether a named number counts up to about the same height again and again: the steps of each epoch."""
    values = family.places[at].values
    if not _is_named(family, at) or not np.isfinite(values).all():
        return False
    falls = np.flatnonzero(np.diff(values) < 0) + 1
    parts = np.split(values, falls)
    if not len(falls) or not all(_counts(part) for part in parts if len(part) > 1):
        return False
    heights, starts = values[falls - 1], values[falls]
    return bool((heights == heights[0]).all() and (starts == starts[0]).all() and len(parts[0]) > 1)


def is_of_a_total(family: Family, at: int) -> bool:
    """Return whether a number is the first of two that a program prints as ``120/5000``."""
    if at + 1 >= len(family.places) or not family.places[at].after.strip().startswith("/"):
        return False
    total = family.places[at + 1].values
    return bool((total == total[0]).all() and (family.places[at].values <= total).all())


def _is_counter(place: Place) -> bool:
    return not place.is_duration and _counts(place.values)


def _counts(values: Floats) -> bool:
    """Return whether whole numbers rise, mostly by the same amount."""
    if not np.isfinite(values).all() or (values != np.round(values)).any() or (values < 0).any():
        return False
    rises = np.diff(values)
    if (rises < 0).any() or not (rises > 0).any():
        return False
    up = rises[rises > 0]
    # If several ranks print each step, every number has the same number of lines.
    _, lines = np.unique(values, return_counts=True)
    is_even = float(np.mean(lines == median(lines))) >= _MOSTLY
    return is_even and float(np.mean(up == median(up))) >= _MOSTLY


def _is_used(found: Meant, values: Floats, before: Any) -> bool:
    """Return whether a number is the first of its kind, positive, and a clock only if it rises."""
    if not np.isfinite(values).all() or (values < 0).any():
        return False
    kinds = {"step_time" if one.field.startswith("step_time") else one.field for one in before}
    kind = "step_time" if found.field.startswith("step_time") else found.field
    if kind in kinds or (values == 0).all():
        return False
    is_clock = found.field.startswith("clock")
    return not is_clock or bool((np.diff(values) >= 0).all()) or rises_in_parts(values)


def _only_consistent(family: Family, counter: int, meant: dict[int, Meant]) -> dict[int, Meant]:
    """Return the fields without times that the stamps contradict; a time that only rises is a clock."""
    consistent = {}
    rises = np.diff(family.places[counter].values)
    clocks = [
        family.places[at].values
        for at, one in meant.items()
        if one.field == "clock_s" and (np.diff(family.places[at].values) >= 0).all()
    ]
    clock = family.clock_s if family.clock_s is not None else next(iter(clocks), None)
    passed = np.diff(clock) if clock is not None else None
    for at, found in meant.items():
        values = family.places[at].values
        if found.field in SECONDS:
            if rises_in_parts(values) and f"clock_{found.field.removeprefix('step_time_')}" in _OF_CLOCKS:
                consistent[at] = Meant(f"clock_{found.field.removeprefix('step_time_')}")
                continue
            up = rises > 0  # a counter that begins anew with an epoch falls there
            if passed is not None and passed[up].sum() > 10:
                own = median(values) * SECONDS[found.field]
                by_clock = float(passed[up].sum() / rises[up].sum())
                if not 0.5 < own / by_clock < 1.5:
                    continue  # the time of something else: of a whole record, of a part of the step
        consistent[at] = found
    clear = _with_clear_rates(family, counter, _with_one_clock(family, consistent))
    counted = _with_counted_rates(family, counter, clear)
    return {
        at: replace(one, since_start=True) if _is_mean_since_start(family, counter, at, one) else one
        for at, one in counted.items()
    }


def _is_mean_since_start(family: Family, counter: int, at: int, found: Meant) -> bool:
    """Return whether a speed or a time of a step is the mean of all steps since the start.

    Such a mean comes nearer to its end in ever smaller steps, and the time between two lines that follows from it (the
    difference of counter x mean) is steady, and differs from it. Or it agrees with the stamps of the lines, and the
    figure of a line alone does not.
    """
    steps, values = family.places[counter].values, family.places[at].values
    clock_s = family.clock_s
    if len(falls := np.flatnonzero(np.diff(steps) < 0)):
        # A counter of each epoch's steps: a mean begins anew there too, and the first epoch shows its course.
        first = slice(int(falls[0]) + 1)
        steps, values = steps[first], values[first]
        clock_s = None if clock_s is None else clock_s[first]
    rises = np.diff(steps)
    if found.field not in ("rate", "steps_per_s", "step_time_s", "step_time_ms") or found.per != "s":
        return False
    if not (rises > 0).all():
        return False
    if len(steps) < _FEWEST_MEANS or not (values > 0).all():
        return False
    means = values if found.field in SECONDS else 1 / values
    covered = steps + (rises[0] == 1) if not steps[0] else steps
    if clock_s is not None and _follows_clock(np.diff(clock_s), covered, means):
        return True
    changes = np.diff(means)
    early = len(means) // 3
    change = means[-1] - means[0]
    approaches = np.mean(changes * np.sign(change) >= 0) >= _MOSTLY and abs(
        means[early] - means[0]
    ) > _EARLY * abs(change)
    if not change or not approaches:
        return False
    between = np.diff(covered * means) / rises
    # No step takes less than nothing: times of single steps that vary would.
    coarse = (covered * means * last_digit(values))[1:] / rises
    if (between < -2 * coarse).any():
        return False
    usual = median(between)
    is_steady = usual > 0 and median(np.abs(between / usual - 1)) < _SAME
    return bool(
        is_steady and (abs(means[-1] / usual - 1) > _ROUNDED or abs(means.mean() / usual - 1) > _ROUNDED / 2)
    )


def _follows_clock(passed_s: Floats, covered: Floats, means: Floats) -> bool:
    """Return whether the time between lines follows from means since the start, and not from those of the lines."""
    since_start, of_lines = np.diff(covered * means), np.diff(covered) * means[1:]
    if not ((since_start > 0).all() and (of_lines > 0).all() and (passed_s > 0).all()):
        return False
    by_start, by_line = (
        np.std(each) / np.mean(each) for each in (passed_s / since_start, passed_s / of_lines)
    )
    return bool(by_start < _SAME and by_start < _CLEARLY * by_line)


def _with_one_clock(family: Family, meant: dict[int, Meant]) -> dict[int, Meant]:
    """Return the fields with the first clock of a line alone, and with none if the line has a date stamp."""
    clocks = [at for at, one in meant.items() if one.field.startswith("clock")]
    dropped = clocks if family.clock_s is not None else clocks[1:]
    return {at: one for at, one in meant.items() if at not in dropped}


def _is_part_of_a_list(place: Place) -> bool:
    """Return whether only a comma separates a number from another: ``[0.5,0.7]``, or a comma as decimal point."""
    return not place.heading and "," in (place.before, place.after)


def _with_several_steps(family: Family, counter: int, meant: dict[int, Meant]) -> dict[int, Meant]:
    """Return the fields with a time of several steps (``10 steps took 5.0 s``) as that, or without it."""
    for at in range(len(family.places)):
        behind = _steps_behind(family, at) if at != counter else None
        known = meant.get(at, Meant("step_time_s")).field == "step_time_s"
        if behind is not None and behind != counter and known:
            others = {key: one for key, one in meant.items() if one.field not in SECONDS and key != behind}
            return {**others, at: Meant("seconds"), behind: Meant("steps")}
    for at, one in meant.items():
        if one.field not in SECONDS or not is_of_several_steps(family.places[at].name):
            continue
        others = {key: value for key, value in meant.items() if key != at}
        steps = family.places[at - 1] if at else None
        if steps is None or at - 1 in (counter, *others) or not steps.is_whole or one.field != "step_time_s":
            return others
        return {**others, at - 1: Meant("steps"), at: Meant("seconds")}
    return meant


def _steps_behind(family: Family, at: int) -> int | None:
    """Return the place of the number of steps that a time is of: ``5.0 s/10 steps``, ``5.0s per 10 iters``."""
    place = family.places[at]
    if at + 1 >= len(family.places) or not _PER_SEVERAL.fullmatch(place.after):
        return None
    if meaning_of(place.name, "s/step") is None:
        return None  # "loss 2.1 s/10 steps: 5.0"
    return at + 1 if _STEPS_BEHIND.match(family.places[at + 1].after) else None


def _with_counted_rates(family: Family, counter: int, meant: dict[int, Meant]) -> dict[int, Meant]:
    """Return the fields with "steps per second" as a rate of samples if another counter of the line counts these.

    A step of an environment is a sample: ``Learning iteration 7``, ``65536 steps/s``, ``Total timesteps: 786432``.
    """
    rate = next((at for at, one in meant.items() if one.field == "steps_per_s" and one.per == "s"), None)
    time = next((at for at, one in meant.items() if one.field in SECONDS), None)
    rises = np.diff(family.places[counter].values)
    if rate is None or time is None or not (rises > 0).all():
        return meant
    seconds = family.places[time].values * SECONDS[meant[time].field]
    done = (family.places[rate].values * seconds)[1:]
    for at, place in enumerate(family.places):
        if at in (counter, *meant) or not _is_counter(place):
            continue
        each = np.diff(place.values) / rises
        if median(each) > _SEVERAL and median(np.abs(each / done - 1)) < _SAME:
            return {**meant, rate: Meant("rate", "samples/s", meant[rate].per_device)}
    return meant


def _with_clear_rates(family: Family, counter: int, meant: dict[int, Meant]) -> dict[int, Meant]:
    """Return the fields with an ambiguous rate (``sps``) as one of steps if a time of the same line shows that."""
    rises = np.diff(family.places[counter].values)
    seconds = {
        median(family.places[at].values) * SECONDS[one.field]
        for at, one in meant.items()
        if one.field in SECONDS
    }
    for clock in (
        family.clock_s,
        *(family.places[at].values for at, one in meant.items() if one.field == "clock_s"),
    ):
        if clock is not None and rises.sum() > 0:
            seconds.add(float(np.diff(clock).sum() / rises.sum()))
    for at, found in meant.items():
        place = family.places[at]
        of_steps = [abs(median(place.values) * each - 1) < _SAME for each in seconds]
        if found.field == "rate" and found.per == "s" and is_ambiguous_rate(place.name) and any(of_steps):
            return {**meant, at: Meant("steps_per_s", found.unit, found.per_device)}
    return meant


def names_other_work(text: str) -> bool:
    """Return whether words of evaluation, inference or preparation are in the text of lines."""
    return _NOT_TRAINING.search(text) is not None


def is_other_work(family: Family, *, is_block: bool = False) -> bool:
    """Return whether the words of the lines are those of evaluation or inference, or begin with those of loading.

    Of a block of several lines, those without a loss may be of inference.
    """
    if _LOADS.match(family.text):
        return True
    if has_loss(family):
        of_evaluation = all(_OF_EVALUATION.search(words) for words in _LOSS.findall(family.text))
        other = of_evaluation or names_other_work(
            (_LATENCY if is_block else _OF_TRAINING).sub("", family.text)
        )
        return other and not _TRAINS.search(family.text)
    if _PREPARES_FIRST.match(family.text):
        return True
    return names_other_work(family.text) and not _TRAINS.search(family.text)


def is_training(words: str) -> bool:
    """Return whether the words before a bar name the training."""
    return _TRAINING.search(words) is not None and not _PREPARES_FIRST.match(words)


def may_train(words: str) -> bool:
    """Return whether a bar with these words before it may be that of the training."""
    return is_training(words) or not (
        names_other_work(words) or _PREPARES.search(words) or _PREPARES_FIRST.match(words)
    )


def shown(family: Family) -> str:
    """Return the beginning of a family's lines, as sentences show it."""
    text = (
        family.text.replace(STAMPED, "")
        .replace(SIGN, "")
        .replace(LAPSE, "#")
        .replace(BAR, "")
        .replace("#", "N")
        .strip()
    )
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
