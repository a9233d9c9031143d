"""Reading of an unknown program's log by a format that is proposed for it.

The proposal has the family of lines that counts, its fields by their words, and the assumptions.
"""

import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from trainmark import logs
from trainmark.logs import Facts, ParsedLog, Problem, Status
from trainmark.logs.description import build_format, parse_description
from trainmark.logs.format import Format, GivenFormats
from trainmark.logs.guess.bars import BAR_MARKS, guess_bar, guess_last_bars
from trainmark.logs.guess.families import (
    BAR,
    LAPSE,
    SIGN,
    STAMPED,
    Family,
    Guess,
    Meant,
    Place,
    blocks,
    families,
    is_ambiguous_rate,
    meaning_of,
    unit_of_counter,
)
from trainmark.logs.guess.line_fields import (
    SECONDS,
    Fields,
    counts,
    counts_samples,
    find_fields,
    find_uncounted_fields,
    has_loss,
    has_rate,
    is_of_a_total,
    is_other_work,
    names_other_work,
    shown,
    units_behind,
    with_own_clock,
)
from trainmark.logs.guess.whose_rate import (
    CLOSE,
    DIFFERENT,
    FIRST_RECORDS,
    WHOSE,
    of_ranks,
    of_tagged_ranks,
    print_own,
    tagged_ranks_differ,
    twins_differ,
    whose_rate,
    with_rate_of,
)
from trainmark.logs.lines.transport import DamagedError, longest_rank, strip_colours, unpack
from trainmark.logs.lines.wrapping import unwrap
from trainmark.logs.model import Floats, Witness, median
from trainmark.logs.records import HEAD_BYTES
from trainmark.printable import significant

_OF_TEXT = ("tokens/s", "words/s")
"""Units of which a sample has many."""
_SENTENCES = {
    "steps_per_s": "is steps per second",
    **dict.fromkeys(("clock_s", "clock_ms", "clock_m", "clock_h"), "is the time since the start"),
    **dict.fromkeys(("data_time_s", "data_time_ms"), "is the wait for data in a step"),
    "consumed": "counts those of all devices since the start",
    "steps": "is how many steps the line is about",
    "seconds": "is the time of all of them",
}
"""What is assumed of a number, by its field, for those that need no more than this."""
_UNITS_OF_TIME = ("s", "sec", "secs", "seconds", "ms")
_LONGEST_HEAD = 1e9
"""More lines than any part of a log that is guessed from."""
_OF_A_STEP = re.compile(r"step|batch|iter|update")
"""In the name of a time that is that of one step."""
_OF_BOTH = 10
"""Lines with words of training and of other work, such as a validation by ``train.py:7``, are used after others."""
_OF_A_PART = re.compile(r"\bmicro[ _-]?(?:batch|step)", re.IGNORECASE)
"""In the lines of each micro-batch, which are used only if no line is of a whole step."""
_ACCUMULATION = re.compile(
    rb"(?i)(?<![a-z])grad(?:ient)?[_-]?accum(?:ulation)?(?:[_-]?steps)?['\"]?\s*[:= ]\s*(\d{1,9})\b"
)
_BATCH = re.compile(rb"(?i)batch(?:[_-]?size)?['\"]?\s*[:= ]\s*(\d{1,9})\b")
"""How programs state the micro-batches of a step, and a batch."""
_IS_BAR = re.compile(r"#%\|\|")
"""A progress bar in the text of a family, whose numbers are left out."""
_FEWEST_UNCOUNTED = 8
_LONG_S = 20.0
"""A time of a step without its unit that is longer may be in milliseconds."""
_POWERS_OF_A_BATCH = 32
"""Programs print after 10, 50 or 100 steps; a rise that this divides is one of samples, such as 10 batches of 64."""
_FEWEST_OF_A_BATCH = 2
_LEAST_BATCH = 16
_BARE_BAR = "||"
_LETTERS = r"(?:(?P<TIME_h>\d+) ?h,? ?)?(?P<TIME_m>\d+) ?m,? ?(?P<TIME_s>\d+) ?s(?=\W)"
_LONGER = ("clock_m", "clock_h", "step_time_m", "step_time_h")
_ANY_LAPSE = r"\d+ ?(?:ms|[dhms])(?:,? ?\d+ ?(?:ms|[dhms]))*"
_ANY_DAYS = rf"(?:(?:\d+ days?, )?\d+:\d\d:\d\d|{_ANY_LAPSE})"
"""A duration in letters, also one of a single unit, in the place of one of several."""
_BEFORE = 24
"""Characters of a line's text that a proposed pattern keeps before a number."""
NAME = "guessed"


def guess_format(text: bytes) -> Guess | None:
    """Return a guess from the first part of an unknown log; None if no family of lines counts something with a time.

    Lines that count epochs are used only if no line counts steps. A progress bar is used before other lines, unless
    these, or the words behind the bar, print a rate.
    """
    known = list(map(with_own_clock, families(text)))
    trained = _lines_of_training(known)
    bar = guess_bar(text, trained) if any(mark in text for mark in BAR_MARKS) else None
    best: tuple[float, Guess] | None = None
    best_has_rate = False
    used: tuple[Family, Fields] | None = None
    for family in known:
        if is_other_work(family) or _is_outside(family, trained):
            continue
        found = find_fields(family)
        if found is None:
            continue
        if _IS_BAR.search(family.text):
            found = _behind_bar(found)
            if found is None:
                continue
        guess = _propose(family, found)
        rated = has_rate(found)
        weight = float(family.count * (3 if rated else 1))
        if found.counts_epochs or _OF_A_PART.search(family.text):
            weight /= _LONGEST_HEAD
        if names_other_work(family.text):
            weight /= _OF_BOTH
        if bar is not None and not rated:
            continue
        if best is None or weight > best[0]:
            best = weight, guess
            best_has_rate = rated
            used = family, found
    if bar is None and not best_has_rate and (block := _guess_block(known, best[1] if best else None)):
        return block
    if used is not None and best is not None:
        guess = _with_twins(best[1], *used, known)
        return _without_other_work(guess, *used, text, known)
    return bar or next(filter(None, map(_guess_uncounted, known)), None) or guess_last_bars(text)


def _without_other_work(
    guess: Guess, family: Family, fields: Fields, text: bytes, known: Sequence[Family]
) -> Guess:
    """Return the guess with all words between its numbers if lines of other work would match without these."""
    others = [one for one in known if is_other_work(one)]
    if not others:
        return guess
    lines = text.split(b"\n")
    (pattern,) = proposed_format(guess).records
    if not any(pattern.search(lines[one.lines[0]] + b"\n") for one in others):
        return guess
    document = {**guess.document, "records": [line_pattern(family, fields, whole=True)]}
    return replace(guess, document=document)


def _guess_uncounted(family: Family) -> Guess | None:
    """Return a guess from lines with a loss, and a speed or the time of a step, of which no number counts; or None."""
    if family.misread or family.count < _FEWEST_UNCOUNTED or not has_loss(family) or is_other_work(family):
        return None
    fields = find_uncounted_fields(family)
    if fields is None:
        return None
    units = units_behind(family)
    unit = next((one.unit for one in fields.meant.values() if one.field == "rate" and one.unit), "samples/s")
    scope = "device" if any(one.per_device for one in fields.meant.values()) else "all"
    document = {
        "title": "an unknown program",
        "unit": unit,
        "rate_of": scope,
        "records": [line_pattern(family, fields)],
    }
    figures = (_of_figure(family, fields, at, units[at], (unit, scope)) for at in fields.meant)
    counted = "no number counts steps, so that each line is taken to be of equally many"
    return Guess(document, (counted, *figures), family.count)


def _lines_of_training(known: Sequence[Family]) -> range | None:
    """Return the range of the lines with a counter and the loss of a training; None without any."""
    found = [one.lines for one in known if has_loss(one) and not is_other_work(one) and counts(one)]
    if not found:
        return None
    return range(min(int(lines[0]) for lines in found), max(int(lines[-1]) for lines in found) + 1)


def _is_outside(family: Family, trained: range | None) -> bool:
    """Return whether lines without a loss end before all with one, or begin behind them: they are of other work."""
    if trained is None or has_loss(family):
        return False
    return int(family.lines[-1]) < trained.start or int(family.lines[0]) >= trained.stop


def _behind_bar(fields: Fields) -> Fields | None:
    """Return the fields of lines with a bar without its own time and mean speed; None if no words print a speed."""
    if not counts_samples(fields):
        return None
    meant = {at: one for at, one in fields.meant.items() if one.field in ("rate", "consumed")}
    return replace(fields, meant=meant)


def _with_twins(guess: Guess, family: Family, fields: Fields, known: Sequence[Family]) -> Guess:
    """Return the guess with an assumption if other lines print the same steps with figures of their own.

    Lines that differ by a number within a word alone (``[rank0]``, ``cuda:1``) are those of ranks.
    """
    steps = family.places[fields.counter].values
    twins: list[Family] = []
    for other in known:
        if other is family or is_other_work(other) or (found := find_fields(other)) is None:
            continue
        kinds = {one.field for one in found.meant.values()} & {one.field for one in fields.meant.values()}
        own = other.places[found.counter].values
        if kinds & {"rate", "steps_per_s", *SECONDS} and np.array_equal(own, steps):
            twins.append(other)
    if not twins:
        return guess
    ranks = [one for one in twins if _without_digits(one) == _without_digits(family)]
    if ranks and guess.document["rate_of"] == "all" and twins_differ(family, ranks[0], fields):
        guess = with_rate_of(guess, "device", DIFFERENT)
    sentence = (
        of_ranks(len(ranks) + 1, rated=has_rate(fields) and guess.document["rate_of"] == "all")
        if ranks
        else f"lines such as '{shown(twins[0])}' print the same steps: they are taken to be other figures of them"
    )
    return replace(guess, assumed=(*guess.assumed, sentence))


def _without_digits(family: Family) -> str:
    return re.sub(r"\d+", "", family.text)


def _guess_block(known: Sequence[Family], alone: Guess | None) -> Guess | None:
    """Return a guess from lines that follow each other in turn: a counter in one, its figures in others.

    It has a speed, or times of steps instead of the epochs that the guess from lines ``alone`` counts, if there is one.
    """
    for block in blocks(known):
        fields = None if is_other_work(block.merged, is_block=True) else find_fields(block.merged)
        if fields is None or fields.counter not in block.counted:
            continue
        is_better = alone is None or (alone.counts_epochs and not fields.counts_epochs)
        if not (is_better or has_rate(fields)):
            continue
        lines, start = [], 0
        for part in block.parts:
            own = _fields_of_line(fields, start, len(part.places))
            start += len(part.places)
            if own.counter >= 0 or own.epoch is not None or own.meant:
                lines.append(line_pattern(part, own))
        if len(lines) > 1 and not fields.restarts:
            return _propose(block.merged, fields, {"lines": lines})
    return None


def _fields_of_line(fields: Fields, start: int, count: int) -> Fields:
    """Return the fields of the ``count`` numbers from ``start``, those of one line; a counter of -1 is elsewhere."""
    places = range(start, start + count)
    epoch = fields.epoch
    return Fields(
        fields.counter - start if fields.counter in places else -1,
        {at - start: one for at, one in fields.meant.items() if at in places},
        epoch=epoch - start if epoch is not None and epoch in places else None,
        ignores_clock=fields.ignores_clock,
    )


def _propose(family: Family, fields: Fields, record: Mapping[str, Any] | None = None) -> Guess:
    counted = _unit_counted(family, fields)
    stated = next((one.unit for one in fields.meant.values() if one.field == "rate" and one.unit), None)
    unit = stated or counted or "samples/s"
    rates = [one for one in fields.meant.values() if one.field in ("rate", "steps_per_s")]
    copies = _copies(family.places[fields.counter].values)
    of_samples = [one for one in rates if one.field == "rate"]
    per_device = any(one.per_device for one in of_samples) or (
        copies > 1 and bool(of_samples) and print_own(family, fields, copies)
    )
    scope = "device" if per_device else "node" if any(one.per_node for one in rates) else "all"
    document = {
        "title": "an unknown program",
        "unit": unit,
        "rate_of": scope,
        "records": [record or line_pattern(family, fields)],
        **({"counts_samples": True} if counted else {}),
        **({"restarts_each_epoch": True} if fields.restarts else {}),
    }
    assumed = tuple(_assumptions(family, fields, unit, scope))
    return Guess(
        document, assumed, family.count // copies, _may_count_samples(family, fields), fields.counts_epochs
    )


def _may_count_samples(family: Family, fields: Fields) -> tuple[str, str] | None:
    """Return the names of the counter and the time if both may be of samples: nothing else in the lines decides.

    Time stamps do not either: they agree with the time of what is counted. CycleGAN's ``iters`` count samples, and its
    ``time`` is that of one; a counter of every step, or up to a total, is one of steps.
    """
    counter = family.places[fields.counter]
    times = [at for at, one in fields.meant.items() if one.field in SECONDS]
    only_time = bool(times) and len(fields.meant) == len(times) + _data_times(fields)
    is_plain = counter.name and "step" not in counter.name and not is_of_a_total(family, fields.counter)
    if not only_time or not is_plain or _rise(counter.values) < _FEWEST_OF_A_BATCH:
        return None
    name = family.places[times[0]].name
    return None if _OF_A_STEP.search(name) else (counter.name.strip(), name.strip())


def _data_times(fields: Fields) -> int:
    return sum(one.field.startswith("data_time") for one in fields.meant.values())


def _unit_counted(family: Family, fields: Fields) -> str | None:
    """Return the unit per second of what the counter counts, if these are samples; None if it counts steps.

    A counter without a name (``[640/60000]``) counts samples if it rises by so many powers of two as only batches have.
    """
    place = family.places[fields.counter]
    if place.name:
        return unit_of_counter(place.name) or unit_of_counter(f"{place.name} seen")
    rise = _rise(place.values)
    return "samples/s" if rise and not rise % _POWERS_OF_A_BATCH else None


def _rise(counter: Floats) -> int:
    """Return by how much a counter usually rises from one line to the next; 0 if it never does."""
    rises = np.diff(counter)
    rises = rises[rises > 0]
    return int(median(rises)) if len(rises) else 0


def _copies(values: Floats) -> int:
    """Return how many lines in a row each number of a counter has: more than one if several ranks print them."""
    starts = np.flatnonzero(np.diff(values, prepend=np.nan) != 0)
    return int(median(np.diff(np.append(starts, len(values)))))


def _nameless(values: Floats) -> str:
    """Return words for a counter without a name: its first values show which number of the line it is."""
    shown = ", ".join(f"{value:g}" for value in dict.fromkeys(values[:_SHOWN_VALUES].tolist()))
    return f"the increasing number ({shown}, …)"


_SHOWN_VALUES = 3


def _assumptions(family: Family, fields: Fields, unit: str, scope: str) -> Any:
    counter = family.places[fields.counter]
    if fields.counts_epochs:
        yield (
            "no line counts steps, so an epoch counts as one step, whose samples --batch must be, including anything "
            + (
                "in its printed time"
                if any(one.field in SECONDS for one in fields.meant.values())
                else "between lines"
            )
            + ", such as evaluation"
        )
    else:
        samples = "samples of all devices" if _unit_counted(family, fields) else "steps"
        counted = "epochs" if fields.ignores_clock else samples
        either = (
            " (if it counts samples, a step has the work of one)"
            if _may_count_samples(family, fields)
            else ""
        )
        name = f"'{counter.name.strip()}'" if counter.name.strip() else _nameless(counter.values)
        yield f"{name} counts {counted}{either}"
    if fields.restarts:
        yield "it restarts in each epoch"
    copies = _copies(counter.values)
    if copies > 1 and not fields.counts_epochs:
        yield of_ranks(copies, rated=has_rate(fields) and scope == "all")
    units = units_behind(family)
    for at, found in fields.meant.items():
        if found.since_start:
            label = _label(family.places[at], units[at], found)
            yield f"{label} is the mean since the start: the difference of two lines gives the steps between them"
        if not found.since_start or found.field == "rate":
            yield _of_figure(family, fields, at, units[at], (unit, scope))
    agreed = _agreement(family, fields)
    if agreed:
        yield agreed


def _of_figure(family: Family, fields: Fields, at: int, unit: str, rate: tuple[str, str]) -> str:
    """Return what is assumed of the number at a place with ``unit`` behind it; ``rate`` is the unit and whose it is."""
    place, found = family.places[at], fields.meant[at]
    label = _label(place, unit, found)
    if found.field == "rate":
        per = f"{rate[0].removesuffix('s')}{found.per}" if found.per != "s" else rate[0]
        either = " (if it is steps/s, --batch is missing in it)" if is_ambiguous_rate(place.name) else ""
        return f"{label} is {per} of {WHOSE[rate[1]]}{either}"
    if found.per != "s":
        return f"{label} is steps per {'minute' if found.per == 'min' else 'hour'}"
    if words := _SENTENCES.get(found.field):
        return f"{label} {words}"
    if fields.counts_epochs:
        return f"{label} is the time of an epoch"
    rise = _rise(family.places[fields.counter].values) if fields.counter >= 0 else 1
    bare_s = found.field == "step_time_s" and unit not in _UNITS_OF_TIME and not place.is_duration
    if bare_s and family.clock_s is None and median(place.values) > _LONG_S and "(" not in place.name:
        return f"{label} is the time of one step in seconds (if it is in ms, they are 1000 times as fast)"
    if rise <= 1 or family.clock_s is not None or _OF_A_STEP.search(place.name):
        return f"{label} is the time of one step"
    # Lines that count samples do not show how many steps are between them.
    either = (
        f"all {rise} samples since the line before, add --batch {rise}"
        if _unit_counted(family, fields)
        else f"all {rise} steps since the line before, they are {rise} times as fast"
    )
    return f"{label} is the time of one step (if it is that of {either})"


def _label(place: Place, unit: str, found: Meant) -> str:
    """Return the words that say what a number is: its unit, its name, or both."""
    if place.is_duration:
        return f"'{place.name}'" if place.name else "the duration in each line"
    if found.field.startswith("clock") and not place.name and unit not in _UNITS_OF_TIME:
        return "the time stamp in each line"
    words = (("", unit), (place.name, ""), (place.name, unit))
    meanings = ((name, behind, meaning_of(name, behind)) for name, behind in words)
    fitting = (f"{name} {behind}" for name, behind, meant in meanings if meant and meant.field == found.field)
    return f"'{next(fitting, f'{place.name} {unit}').strip()}'"


_SUFFIXES = {"k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9}


def _agreement(family: Family, fields: Fields) -> str | None:
    """Return a sentence if rate x time is constant, so that both are of the same steps."""
    rate = next((at for at, one in fields.meant.items() if one.field == "rate"), None)
    time = next((at for at, one in fields.meant.items() if one.field in SECONDS), None)
    if rate is None or time is None:
        return None
    place = family.places[rate]
    suffix = "k" if place.is_in_thousands else "m" if place.is_in_millions else place.suffix.lower()
    per_s = {"s": 1.0, "min": 60.0, "h": 3600.0}[fields.meant[rate].per]
    scale = SECONDS[fields.meant[time].field] * _SUFFIXES.get(suffix, 1.0) / per_s
    work = family.places[rate].values * family.places[time].values * scale
    middle = median(work)
    if middle > 0 and median(np.abs(work / middle - 1)) < CLOSE:
        # Runs of one program have one sentence: a fourth digit is that of the run.
        return (
            f"rate x time is constant (about {significant(float(middle), 3)}), so both are of the same steps"
        )
    return None


def read_head(path: Path) -> bytes:
    """Return the first part of the log at ``path`` as patterns see it; empty if it is compressed and damaged there."""
    with path.open("rb") as file:
        return head_of(file)


def propose(path: Path) -> Guess | None:
    """Return a format proposed from the first part of the log at ``path``; None if its lines allow none."""
    try:
        return _guess_from_lines(read_head(path))
    except OSError:
        return None


IN_EXPLAIN = "trainmark parse --explain prints the format that is proposed"
"""Where to read the proposal for a log that shows its times itself."""


def read_guessed(
    unknown: ParsedLog,
    stream: BinaryIO,
    given: Facts | None,
    guess: Guess | None = None,
    advice: str = IN_EXPLAIN,
) -> ParsedLog | None:
    """Return the log in ``stream`` by a proposed format, as ``guessed``; None if there is none or it does not fit.

    ``stream`` can seek; ``unknown`` is the same log by the known formats; ``guess`` is the proposal, by default that
    from the first part of the log; ``advice`` ends the sentence of the doubt. If a known format recognises the log by
    its beginning alone, its facts are used.
    """
    guess = guess or _guess_from_lines(head_of(stream))
    if guess is None:
        return None
    # A log that is read again, with further facts, was recognised by no program either.
    recognised = None if unknown.format == NAME else unknown.format
    known = proposed_format(guess)
    if recognised is not None:
        given = _merge_given(given, unknown, known.unit)
    log = _read(stream, known, unknown.log, given)
    better = None
    has_rates, has_ranks = log.records.rate is not None, len(log.tagged_ranks()) > 1
    if has_rates and (log.facts.gpus or 1) > 1 and (whose := whose_rate(log)):
        better = with_rate_of(guess, whose)
    elif guess.is_bar and _has_whole_batches(log):
        better = _with_samples(guess)
    elif has_rates and has_ranks and tagged_ranks_differ(log):
        better = with_rate_of(guess, "device", DIFFERENT)
    if better is not None:
        guess = better
        log = _read(stream, proposed_format(guess), unknown.log, given)
    is_readable = log.status is Status.OK or (log.status is Status.INVALID and log.records.count)
    if not is_readable or log.records.count < guess.lines // 2:
        return None
    stream.seek(0)
    of_parts = _of_micro_batches(log, head_of(stream))
    assumed = "; ".join((*guess.assumed, *(of_tagged_ranks(log) if has_ranks else ()), *of_parts))
    what = (
        "no known program prints these lines"
        if recognised is None
        else f"no line has the form of a record of '{recognised}', whose words the log has"
    )
    sentence = f"{what}; assumed from their words: {assumed}. {advice}"
    problems = (Problem(NAME, sentence), *log.problems)
    witnesses = (*log.witnesses, *_of_samples(log, guess))
    status = Status.GUESSED if log.status is Status.OK else log.status
    return replace(log, status=status, format=NAME, problems=problems, witnesses=witnesses)


def _read(stream: BinaryIO, known: Format, name: str, given: Facts | None) -> ParsedLog:
    stream.seek(0)
    return logs.read_stream(stream, GivenFormats((known,)), name, given)


def _has_whole_batches(log: ParsedLog) -> bool:
    """Return whether the counter of a bar has multiples of the stated batch alone, but for its end: it counts samples.

    PyTorch Geometric's examples draw such bars. Multiples of 10 may be those of the steps after which a bar is drawn.
    """
    batch, steps = log.global_batch, log.records.step
    if batch is None or batch < _LEAST_BATCH or not batch % 10 or steps is None:
        return False
    values = steps.array(0, FIRST_RECORDS)
    before = values[values < values.max()].astype(np.int64)
    return len(before) > 0 and int(np.gcd.reduce(before)) == batch


def _with_samples(guess: Guess) -> Guess:
    """Return the guess with a bar that counts samples."""
    assumed = tuple(
        f"{one.removesuffix('steps')}samples: they are multiples of the batch"
        if one.endswith(" counts steps")
        else one
        for one in guess.assumed
    )
    return replace(guess, document={**guess.document, "counts_samples": True}, assumed=assumed)


def _of_micro_batches(log: ParsedLog, head: bytes) -> Iterator[str]:
    """Yield what is assumed if rate x time is the stated batch, and the log states several micro-batches of a step."""
    rates, times = log.records.rate, log.records.step_time_s
    parts = {int(number) for number in _ACCUMULATION.findall(head)}
    if rates is None or times is None or len(parts) != 1 or (count := parts.pop()) < 2:
        return
    work = median(rates.array(0, FIRST_RECORDS) * times.array(0, FIRST_RECORDS))
    if any(abs(work / int(batch) - 1) < CLOSE for batch in _BATCH.findall(head) if int(batch)):
        yield (
            f"rate x time is the batch of {work:.3g}, and the log states {count} micro-batches of a step (if a line "
            f"is a step of all of them, it is {count} times as fast)"
        )


def _merge_given(given: Facts | None, logged: ParsedLog, unit: str) -> Facts:
    """Return the facts that the reader gives, and those of the log where he gives none.

    The samples of a step, with all its micro-batches, are the log's if the guess counts in a ``unit`` of their kind.
    """
    stated: dict[str, Any] = {
        item.name: value for item in fields(Facts) if (value := getattr(given, item.name, None)) is not None
    }
    facts = replace(logged.facts, **stated)
    if (logged.unit in _OF_TEXT) != (unit in _OF_TEXT):
        return replace(facts, global_batch=None)
    whole = replace(logged, facts=facts).global_batch
    for name in ("gpus", "batch_per_device"):
        own = getattr(logged.facts, name)
        if facts.global_batch and own and name in stated:
            whole = (whole or 0) * stated[name] // own
    return replace(facts, global_batch=whole)


def _of_samples(log: ParsedLog, guess: Guess) -> Iterator[Witness]:
    """Yield the other reading of a counter and a time that may be of samples, if the counter has whole batches."""
    batch, times, steps = log.global_batch, log.records.step_time_s, log.records.step
    if guess.may_count_samples is None or batch is None or batch < 2 or times is None or steps is None:
        return
    if any((values % batch != 0).any() for values in steps.blocks()):
        return
    counter, time = guess.may_count_samples
    seconds = sum(float(np.nansum(values)) for values in times.blocks()) / len(times)
    how = f"1 / {seconds:.6g} s, if '{counter}' counts samples and '{time}' is the time of one: then add --batch 1"
    yield Witness("time of one sample", 1 / seconds, how)


def proposed_format(guess: Guess) -> Format:
    """Return the format that is proposed for the lines of a log."""
    return build_format(parse_description(guess.document, "the proposed format", NAME))


def head_of(stream: BinaryIO) -> bytes:
    """Return the first part of a log, unpacked; empty if it is damaged."""
    try:
        with unpack(stream) as unpacked:
            return strip_colours(longest_rank(unwrap(unpacked, with_times=True).read(HEAD_BYTES)))
    except DamagedError:
        return b""


def propose_for(text: bytes) -> Guess | None:
    """Return a format proposed for the first or else the last lines of ``text``; None if they allow none."""
    head = _guess_from_lines(strip_colours(longest_rank(text[:HEAD_BYTES])))
    if head is not None or len(text) <= HEAD_BYTES:
        return head
    end = text[-HEAD_BYTES:]
    return _guess_from_lines(strip_colours(longest_rank(end[end.find(b"\n") + 1 :])))


def _guess_from_lines(text: bytes) -> Guess | None:
    return guess_format(text[: text.rfind(b"\n") + 1])


def proposal(guess: Guess) -> str:
    """Return the YAML of a proposed format, to be saved, corrected and given by ``--format``."""
    import yaml

    document: Mapping[str, Any] = guess.document
    stream = io.StringIO()
    stream.write("".join(f"# {sentence}\n" for sentence in guess.assumed))
    yaml.safe_dump(dict(document), stream, sort_keys=False, allow_unicode=True, width=1000)
    return stream.getvalue()


def _begins_line(family: Family, fields: Fields) -> bool:
    """Return whether a pattern may begin with the line: its text before the first number is short, and that is read.

    Else it would match the lines of another family too: ``micro step 1/4`` by the words of ``step 1``.
    """
    before = family.places[0].before
    return _is_read(0, fields) and STAMPED not in before and len(before.lstrip()) <= _BEFORE


def line_pattern(family: Family, fields: Fields, *, whole: bool = False) -> str:
    """Return the pattern that reads the fields from a line of the family; ``whole``: with all words between them."""
    if any(place.heading for place in family.places):
        return _row_pattern(family, fields)
    return ("^ *" if _begins_line(family, fields) else "") + _words_pattern(family, fields, whole)


def _words_pattern(family: Family, fields: Fields, whole: bool) -> str:
    is_stamped = family.clock_s is None or fields.ignores_clock
    parts: list[str] = []
    last, unit = None, ""
    read = [at for at in range(len(family.places)) if _is_read(at, fields)]
    between = range(read[0], read[-1]) if whole else range(0)
    for at, place in enumerate(family.places):
        if not is_stamped and STAMPED in place.before:
            parts += [".*?" if parts else "", family.stamp_pattern]
            is_stamped, last = True, None
        if not (_is_read(at, fields) or _is_like_the_next(family, at, fields) or at in between):
            continue
        adjacent = last is not None and last == at - 1
        gap = ".*?" if parts and not adjacent else ""
        before = _escaped(
            _without_suffix(place.before, parts[-1]) if adjacent else place.before, whole=adjacent
        )
        field = _field(_name(at, fields), place) if _is_read(at, fields) else _unread(place)
        # Without a text before it, any number between would do: the unit behind tells which one it is.
        is_bare = not (before or adjacent or _is_read(at + 1, fields))
        parts += [gap, before, field]
        unit = _unit_behind(_without_suffix(place.after, field), place.unit) if is_bare else ""
        parts += [unit] if unit else []
        last = at
    if unit:
        return "".join(parts) + ("" if is_stamped else f".*?{family.stamp_pattern}")
    after = _without_suffix(family.places[-1 if last is None else last].after, parts[-1])
    after = after.partition(STAMPED)[0]  # what wrapped the line may have the stamp
    if not is_stamped:
        return "".join(parts) + f"[^0-9.].*?{family.stamp_pattern}"
    if last == fields.counter and not family.places[last].name and is_of_a_total(family, last):
        # Other lines count something up to a total too.
        return "".join([*parts, "/ *{number}", _escape(family.places[last + 1].after[:_BEFORE].rstrip())])
    return "".join(parts) + (_escape(after[:1]) if after.strip() else r"\s")


def _is_like_the_next(family: Family, at: int, fields: Fields) -> bool:
    """Return whether an unread number has the same text before it as the next that is read, which follows it."""
    following = next((place for n, place in enumerate(family.places) if n > at and _is_read(n, fields)), None)
    text = following.before.rpartition(STAMPED)[2][-_BEFORE:].lstrip() if following else ""
    return bool(text) and family.places[at].before.endswith(text)


def _without_suffix(text: str, field: str) -> str:
    """Return the text behind a number without the unit that its ``field`` reads: K, M, …."""
    return text.lstrip(" ")[1:] if field.endswith(":K}") else text


def _row_pattern(family: Family, fields: Fields) -> str:
    """Return the pattern of a table's row, in which only the order tells what a number is."""
    parts = ["^" if family.places[0].before.strip() else "^ *"]
    for at, place in enumerate(family.places):
        before = _without_suffix(place.before, parts[-1])
        parts += [_spaced(before)] if at or before.strip() else []
        parts.append(_field(_name(at, fields), place) if _is_read(at, fields) else _unread(place))
    after = _without_suffix(family.places[-1].after, parts[-1]).strip()
    return "".join(parts) + (" *" + _escape(after[:1]) if after else r"\s")


def _spaced(text: str) -> str:
    """Return the pattern of the text between two numbers of a row, whose columns are filled up with blanks."""
    if not text.strip():
        return r"[ \t]+" if text else ""
    return " *" + " *".join(map(_escape, text.split())) + " *"


def _is_read(at: int, fields: Fields) -> bool:
    return at in (fields.counter, fields.epoch) or at in fields.meant


def _name(at: int, fields: Fields) -> str:
    name = {fields.counter: "step", fields.epoch: "epoch"}.get(at)
    return name or _field_name(fields.meant[at])


def _field_name(found: Meant) -> str:
    if found.per != "s":
        return f"{found.field.removesuffix('_per_s')}_per_{found.per}"
    if not found.since_start:
        return found.field
    return f"average_{found.field.removeprefix('step_')}"


def _field(name: str, place: Place) -> str:
    if place.is_duration:
        kind = "step_time" if name == "step_time_s" else "clock"
        if place.is_in_letters:
            return _LETTERS.replace("TIME", kind)
        return "{step_duration}" if kind == "step_time" else "{elapsed}"
    if name in _LONGER:
        return rf"(?P<{name}>[\d.]+)"
    if place.is_in_thousands and name == "rate":
        return r"(?P<rate_thousands>[\d.]+)"
    if place.is_in_millions and name == "rate":
        return r"(?P<rate_millions>[\d.]+)"
    if place.suffix and name in ("rate", "rate_per_min", "rate_per_h", "average_rate", "consumed", "step"):
        return f"{{{name}:K}}"
    return f"{{{name}{place.grouping if name in ('rate', 'step', 'consumed') else ''}}}"


def _unread(place: Place) -> str:
    """Return the pattern of a number that is passed over."""
    if place.is_in_letters:
        return _ANY_LAPSE
    return r"[\d:.]+" if place.is_duration else "-?{number}"


def _escaped(before: str, *, whole: bool) -> str:
    text = before.rpartition(STAMPED)[2]
    # A number in brackets may be filled up with blanks.
    return _escape(text if whole else text[-_BEFORE:].lstrip()) + (" *" if text.endswith(("[", "(")) else "")


def _unit_behind(after: str, unit: str) -> str:
    """Return the pattern of the text from a number to the end of its unit; empty if it has none there."""
    at = after.lower().find(unit) if unit else -1
    return _escape(after[: at + len(unit)]) if at >= 0 else ""


def _escape(text: str) -> str:
    if _BARE_BAR in text:
        return r"\|[^|\n]*\|".join(map(_escape, text.split(_BARE_BAR)))
    return (
        re.sub(r"(?:\\ )+", " +", re.escape(text))
        .replace("\\/", "/")
        .replace("\\=", "=")
        .replace("\\:", ":")
        .replace(SIGN, r"[^\x00-\x7f]+")
        .replace(BAR, r"[^\d\n]+")
        .replace(LAPSE, _ANY_DAYS)
    )
