"""Lines that are equal apart from their numbers, with the numbers as columns; blocks of lines.

The words around a number have meanings: a counter, a rate and its unit, a time.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trainmark.logs.lines.fields import STAMP, number, past_midnight, stamps
from trainmark.logs.model import Floats

_COUNTERS = re.compile(
    r"(?:^|[\W_])(?:global_?step|steps?|iter(?:ation)?s?|it|updates?|num_updates|batch(?:es)?|batch(?:_?(?:id|idx))?|train_step)\W*$"
)
_SAMPLES = re.compile(
    r"(?:^|[\W_])(samples?|examples?|images?|imgs?|sequences?|tokens?)"
    r"[\W_]+(?:seen|consumed|processed|trained|so[\W_]far)\W*$"
    r"|(?:^|[\W_])(?:consumed|seen|processed|trained)[\W_]+(samples?|examples?|images?|imgs?|sequences?|tokens?)\W*$"
)
_EPOCH_WORDS = re.compile(r"(?:^|[\W_])epochs?\W*$")
_BATCH_SIZE = re.compile(r"(?:^|[\W_])(?:batch[_ -]?size|bsz|bs)\W*$")
_UNITS = (
    ("tokens/s", r"(?:tok(?:en)?s?|words?|w|t)"),
    ("images/s", r"(?:im(?:a)?g(?:e)?s?)"),
    ("sequences/s", r"(?:seq(?:uence)?s?|sentences?)"),
    (
        "samples/s",
        r"(?:samples?|examples?|ex|items?|rows?|records?|points?|rays?|videos?|clips?|ins(?:tances?)?|pos(?:itions?)?"
        r"|utt(?:erance)?s?|sents?|pairs?|triples?|graphs?|molecules?|structures?|patches|crops?)",
    ),
)
COUNTED = r"(?:tok(?:en)?s?|samples?|images?|imgs?|seqs?|words?|frames?)"
_DEVICE = r"(?:gpu|device|card|chip|npu|rank|core)"
_PER_S = rf"(?:(?: ?/ ?|_per_|[ _]?per[ _]?){_DEVICE})?(?: ?/ ?|_per_|[ _]?per[ _]?|_p)s(?:ec(?:ond)?)?"
_UNDER_S = r"(?:(?<=tok)|(?<=[a-z]{3}s))_s(?:ec)?"
"""``tok_s`` and ``samples_s`` are rates, but ``step_s`` is a time."""
_STEPS_PER_S = re.compile(r"(?:\bit(?:er(?:ation)?)?s?|\bsteps?|\bbatch(?:es)?|\bupdates?)" + _PER_S + r"\b")
_OF_ONE = rf"(?: ?\(? ?(?:per[ _]?|/ ?){_DEVICE}\)?)?"
_BARE_RATE = re.compile(rf"(?:^|[\W_])(?:tps|tgs|tokps|(?<![cg]pu )wps){_OF_ONE}\W*$")
_AMBIGUOUS_RATE = re.compile(r"(?:^|\W)sps\W*$")
"""Samples per second, or steps."""
_IMAGES = re.compile(r"(?:^|\W)imps\W*$")
_NAMES_OF_RATES = (("tokens/s", _BARE_RATE), ("samples/s", _AMBIGUOUS_RATE), ("images/s", _IMAGES))
_FRAMES = re.compile(r"(?:^|\W)fps(?:[ /](?:total|step|train\w*))?\W*$")
_NO_SPEED = re.compile(r"(?:^|[\W_])(?:loss|ppl|perplexity|acc(?:uracy)?|lr|g?(?:rad)?_?norm|epoch)\W*$")
"""The name of a number whose word behind is not its unit: ``loss 2.1 tok/s (8 GPUs): 3200``."""
_THROUGHPUT = re.compile(rf"(?:^|[\W_])(?:throughput|tput|speed|ips){_OF_ONE}\W*$")
_OTHER_RATE = re.compile(r"[a-z]+(?:/s(?:ec(?:ond)?)?|ps)|tflops?")
"""The unit of what no training counts: bytes, requests, floating-point operations."""
_OTHER_IN_BRACKETS = re.compile(r" ?[(\[](?:[a-z]?flops?|[a-z]?i?b(?:its|ytes)?)(?:/s(?:ec)?|ps)?[)\]/]")
_PER_DAY = re.compile(r"(?:/ ?|[_ ]per[_ ])days?(?:$|[\W_])")
_PER_LONGER = re.compile(r"(?:/ ?|[_ ]per[_ ])(?:(min(?:ute)?s?)|h(?:ou)?r?s?)(?=$|[\W_])")
"""In the name or the unit of a speed that is not per second."""
_PER_DEVICE = re.compile(rf"(?:/ ?|per[ _]?){_DEVICE}|device/|\btgs\b|\blocal_")
_UNIT_PER_DEVICE = re.compile(rf" ?[a-z%]+(?:/[a-z]+)*,? ?[(\[]?(?:per[ _-]?|/ ?|each ){_DEVICE}")
_PER_NODE = re.compile(r"(?:/|per[ _-]?)(?:node|host|machine)\b")
_OF_SEVERAL = re.compile(
    r"(?:^|[\W_])(?:steps|iters|iterations|batches|updates)(?: (?:took|takes?|used|in|time))?\W*$"
)
_RANK = re.compile(r"(?:.*[^\w-])?(?<!lora )rank\W*")
_TAG = re.compile(r"[\[(<]\w+ ?$")
_OF_ALL = re.compile(r"(?:^|[\W_])(?:global|overall|total|all)(?:[\W_]|$)")
_PREFERENCE = (
    re.compile(r"(?:^|[\W_])(?:current|curr|cur|instant\w*)(?:[\W_]|$)"),
    _OF_ALL,
    re.compile(r"(?:^|[\W_])(?:step|iter(?:ation)?|batch|update)(?:[\W_]|$)"),
)
_AVERAGE = re.compile(
    r"(?:^|[\W_])(?:avg|average|mean|running|smoothed|ema|local|max|min|peak|best"
    r"|data|load(?:er|ing)?|io|prefetch|rollout|sampling)(?:[\W_]|$)"
)
"""Words of the figures that are used first, in this order, and of those used last, if there are several of a kind."""
_PER_SAMPLE = re.compile(rf"per[ _-]?{COUNTED}\b")
"""In the name of a time that is not that of a step."""
_TIME = re.compile(
    r"(?:^|[\W_])(?:step[_ ]?time|iter[_ ]?time|t(?:ime)?(?:[_ ]?per[_ ]|/)(?:step|iter\w*|it|batch|update)"
    r"|batch[_ ]?time|dt|time|timer|took|duration)(?:[_ ](?:avg|average|mean|diff|cur|ema|median|p50))?\W*$"
)
_STEP = re.compile(r"(?:time[/ _](?:per[ _])?)?(?:iter(?:ation)?|it|step|batch)\W*")
"""The whole name of a time of one step, if its unit is behind the number: ``[iter: 345.1 ms]``."""
_UNIT_OF_NAME = re.compile(r"[\W_]+\(?(ms|us|s|secs?|seconds)\)?\W*$")
"""The unit at the end of the name of a time: ``iter time (s)``, ``step_time_ms``."""
_PER_STEP = re.compile(
    r"(?:^|[\W_])(ms|us|s|secs?|seconds)[_ ]per[_ ](?:steps?|iter(?:ation)?s?|it|batch|update)\W*$"
)
"""A name that is the unit of a time of one step: ``sec_per_step``, ``ms_per_iter``."""
_OF_EPOCH = re.compile(
    r"(?:^|[\W_])(?:(?:train(?:ing)?|epoch)[_ ]?)?(?:time|took|dur(?:ation)?|elapsed|runtime)"
    r"(?:(?:[_ ]per[_ ]|[_ /]?)epoch|[_ ]of[_ ]epoch| \d+)?"
    r"[\W_]*(?:\(?(ms|s|secs?|seconds|m|mins?|minutes|h|hours)\)?)?\W*$"
)
"""The name of the time of an epoch in a line of one, with its unit."""
_UNITS_OF_EPOCHS = ("s", "sec", "secs", "seconds", "ms")
_NOT_THE_EPOCH = re.compile(r"data|load|eta|remain|eval|val|test|infer|save|left")
_NOT_THE_STEP = re.compile(
    r"data|load|eta|remain|total|elapsed|forward|backward|fwd|bwd|eval|val|optim|ckpt|save|comm|epoch|gpu|cpu|kernel|sync"
    r"|queue|idle|bubble|wait"
)
_LONGER = re.compile(r"(h|hrs?|hours?)|m|mins?|minutes?")
_OTHER_TIME = re.compile(r"(?:d|days?|ns|nsec|nanoseconds?)")
"""The unit of a time that is neither hours, minutes, seconds nor milli- or microseconds."""
_DATA = re.compile(
    r"(?:^|[\W_])(?:data[_ ]?(?:load(?:ing|er)?|fetch|wait)?[_ ]?(?:time)?|load(?:ing|er)?[_ ]?time"
    r"|wait(?:ed|ing)? for data)\W*$"
)
_ELAPSED = re.compile(
    r"(?:^|[\W_])(?:elapsed(?:[_ ]?time)?|wall(?:[_ ]?(?:time|clock))?|train[_ ]?time|runtime|total[_ ]?time)\W*$"
)
_NAMES_OF_CLOCKS = ("", "time", "t", "tot", "total")
_SHORTEST_PART = 8
_DISTINCT = 5
_STEADY = 3
"""Fewest lines of an epoch and different values of a time that rises in each, and how much its rise may differ."""
_SECONDS = {
    "s": "step_time_s",
    "sec": "step_time_s",
    "secs": "step_time_s",
    "seconds": "step_time_s",
    "ms": "step_time_ms",
    "msec": "step_time_ms",
    "us": "step_time_us",
    "s/it": "step_time_s",
    "s/iter": "step_time_s",
    "s/step": "step_time_s",
    "ms/step": "step_time_ms",
    "ms/it": "step_time_ms",
    "us/step": "step_time_us",
    "us/it": "step_time_us",
    "sec/step": "step_time_s",
    "sec/iter": "step_time_s",
    "ms/iter": "step_time_ms",
    "s/b": "step_time_s",
    "s/batch": "step_time_s",
    "sec/batch": "step_time_s",
    "ms/batch": "step_time_ms",
    **{
        f"{second}{of}{step}": field
        for second, field in (
            *((word, "step_time_s") for word in ("s", "sec", "secs", "seconds")),
            ("ms", "step_time_ms"),
        )
        for of in (" per ", " ")
        for step in ("it", "iter", "iteration", "step", "batch", "update")
    },
}
_DATA_SECONDS = {
    **dict.fromkeys(("s", "sec", "secs", "seconds"), "data_time_s"),
    **dict.fromkeys(("ms", "msec"), "data_time_ms"),
}
_GLOG = rb"\b[IWEF](?:\d{4})?[01]\d[0-3]\d \d\d:\d\d:\d\d(?:\.\d{1,9})?"
_STAMP = re.compile(STAMP + rb"|" + _GLOG)
"""A date with a time of day; glog and absl (JAX, TensorFlow) may print no year: ``I0301 12:00:00.123456``."""
_AFTER_STAMP = re.compile(rb"^(?:Z|[+-]\d\d:?\d\d)?(?: std(?:out|err) [FP](?= ))?")
"""The time zone behind a stamp, and what Kubernetes puts there."""
_LEAP_YEAR = b"2024-"
_BAR = re.compile(
    rb"\|(?:[ #=>.-]|\xe2\x96[\x80-\x9f])*\|"
    rb"|(?<=\[)(?:[ #=>.-]|\xe2\x96[\x80-\x9f]){8,}(?=\])|(?:\xe2\x94\x81|\xe2\x95[\xb8\xba]){2,} ?"
)
"""A progress bar between strokes or brackets, or one that Rich draws."""
BAR = "\x1d"
"""Stands for a bar that is not between strokes."""
_BAR_BYTES = BAR.encode()
_DURATION = rb"(?<![\w.:])\d{1,4}:\d\d(?::\d\d(?:\.\d+)?)?(?![\w:])(?!\.\d)"
_SEPARATOR = rb"(?:[,'_]|\xe2\x80\xaf|\xc2\xa0)"
"""Between thousands: a comma, an apostrophe, an underscore, or a blank that does not break the line."""
_SEPARATORS = re.compile(_SEPARATOR)
_POINTED = re.compile(rb"[1-9]\d{0,2}(?:\.\d{3})+")
"""Points between thousands, where decimals have commas."""
_LOGGER = re.compile(r"^(?:DEBUG|INFO|WARNING|ERROR):[\w.]+:")
"""What Python's logging prints before a message, without a format of its own: ``INFO:root:``."""
_OWN_BRACKETS = re.compile(r"[\])}] ?[\[({]$")
"""Before the first number of brackets that have no name: ``[train] [2, 400]``."""
_DIGITS = 3
"""Digits of thousands."""
_BEFORE_A_NUMBER = tuple(" =:")
"""Before a number that is no element of a list."""
_ROW = re.compile(rb"[-+\d.eE]*(?:,[-+\d.eE]*)+")
_CELL = re.compile(rb"(?<![\w.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
"""A row of values with commas between them (and none within), and one of its values."""
_FILLED = re.compile(rb"(?<=[\[(]) $")
"""The blanks before a number in brackets, as in ``[   64/60000]``."""
SIGN = "\x0e"
"""Stands for an arrow or another sign of its kind, which may be another one in the next line."""
_SIGN_BYTES = SIGN.encode()
_ARROW = re.compile(rb"\xe2(?:\x86[\x90-\xbf]|\x87[\x80-\xbf]|\x96[\xa0-\xbf]|\x97[\x80-\xbf])")
"""Arrows and triangles (U+2190 to U+21FF, U+25A0 to U+25FF): up or down against the line before."""
LAPSE = "\x0f"
"""Stands for a duration in letters or of days that is not read: ``1h2m``, ``1s234ms``, ``1 day, 2:03:04``."""
_LAPSE_BYTES = LAPSE.encode()
_IN_LETTERS = rb"(?<![\w.])(?:\d+ ?h,? ?)?\d+ ?m,? ?\d+ ?s(?![\w.])"
"""A duration in letters down to the second: ``3m 12s``, ``1h2m3s``."""
_LAPSE = re.compile(
    rb"(?<![\w.])\d+(?:d ?\d+h"
    rb"|h ?\d+m(?! ?\d+ ?s)|s ?\d+ms| h, \d+ m(?!, \d+ s)| days?, \d+:\d\d:\d\d)[\dhms]*(?![\w.])"
)
_NUMBER = re.compile(
    _IN_LETTERS
    + rb"|"
    + _DURATION
    + rb"|(?<![\w.])[-+]?(?:\d{1,3}(?:"
    + _SEPARATOR
    + rb"\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?![\d.]*:\d)"
)
STAMPED = "\x1a"
"""Stands for a line's date stamp in the text between its numbers."""
_STAMPED = STAMPED.encode()
_RULE = re.compile("[\u2500-\u257f]")
"""Characters of which boxes and tables are drawn."""
_UNIT_OF_CELL = re.compile(rb"^ ?(?:[KMGBkmg]|m?s|it/s)(?![\w/])")
"""The unit behind a number of a table, which is no word beside it."""
_CELLS = re.compile(rb" {2,}|\t")
_CELL_OF_NUMBERS = re.compile(_IN_LETTERS + rb"|\x0f|[-+\d.,]+(?: ?(?:\(\d[\d.]*%\)|[A-Za-z/]{1,6}))?")
"""A cell with a number, and its unit or a share of a whole, or with a duration in letters."""
_SHARE = re.compile(r" *\(%[^()]*\)$")
"""Behind the name of a number that has a share of a whole behind it: ``Step (% Done)``."""
_NO_WORD = " "
_COLUMN = re.compile(r"\s*\|\s*|\t|,\s*|\s+")
_KILO = re.compile(
    rf"(?:^|[\W_])(?:k|thousands? (?:of )?)(?= ?(?:{COUNTED}|t)(?:/|ps\b| per ))"
    r"| ?[(\[](?:k|(?:in )?thousands|x ?(?:1000|1k|1e3|10\^3))[)\]]"
)
"""The letter for thousands at the beginning of a name, or a word for them in brackets: ``Kt/s=16.4``, ``tok/s (k)``."""
_MEGA = re.compile(
    rf"(?:^|[\W_])(?:m|millions? (?:of )?)(?= ?(?:{COUNTED}|t)(?:/|ps\b| per ))| ?[(\[](?:m|(?:in )?millions)[)\]]"
)
"""The same for millions: ``Mtok/s=1.6``."""
_UNIT = re.compile(
    rf" ?(?:[KMGBkmg](?: (?=[A-Za-z]+/)|(?={COUNTED}(?:/|ps\b))))?"
    r"([A-Za-z]+(?: per [A-Za-z]+){1,2}|(?:m?s|sec(?:ond)?s?) (?:step|iter(?:ation)?|it|batch|update)(?= *(?:[,;|)]|$))"
    r"|[A-Za-z%]+(?:/[A-Za-z]+){0,2})"
)
_SUFFIX = re.compile(r" ?([KMGBkmg])(?![A-Za-z])")
_THOUSANDS = re.compile(rf" ?([KMGBkmg])(?={COUNTED}(?:/|ps\b))")
"""The letter for thousands or more behind a number: by itself, or the beginning of its unit (``262.1 ktok/s``)."""
_ABOVE = 3
"""Most lines between a table's heading and its first row."""
_LONGEST = 4096
SLOWER = 0.05
STAMP_GRAIN_S = 2.0
"""Share and seconds by which a clock may pass more than the stamps, which may be in whole seconds at both ends."""
FEWEST = 4
_LONGEST_BLOCK = 40
"""Most lines between the counter and another line of its block."""
_MOST_COLUMNS = 64


@dataclass(frozen=True, slots=True)
class Guess:
    """A description of the log's format as a document for YAML, its assumptions, and the lines that it is based on.

    ``may_count_samples`` names the counter and the time if nothing tells whether they are of steps or of samples;
    ``counts_epochs``: no line counts steps, so that a record is an epoch; ``is_bar``: a record is a progress bar.
    """

    document: Mapping[str, Any]
    assumed: tuple[str, ...]
    lines: int
    may_count_samples: tuple[str, str] | None = None
    counts_epochs: bool = False
    is_bar: bool = False


@dataclass(frozen=True, slots=True)
class Meant:
    """The likely meaning of a number: a field of a record, its unit, and whether it is of one device or one node.

    ``since_start``: it is the mean of all steps since the start. ``per`` is the time that a speed is per: s, min or h.
    """

    field: str
    unit: str | None = None
    per_device: bool = False
    per_node: bool = False
    since_start: bool = False
    per: str = "s"


def is_counter_name(name: str) -> bool:
    """Return whether ``name`` is what programs call their counter of steps."""
    return _COUNTERS.search(name) is not None and not is_per_step(name)


def is_epoch_name(name: str) -> bool:
    """Return whether ``name`` is what programs call their counter of epochs."""
    return _EPOCH_WORDS.search(name) is not None


def unit_of_counter(name: str) -> str | None:
    """Return the unit per second of what a counter by that name counts (``samples seen``); None if it is not known."""
    match = _SAMPLES.search(name)
    if match is None:
        return None
    word = match[1] or match[2]
    return next(label for label, pattern in _UNITS if re.fullmatch(pattern, word))


def is_batch_name(name: str) -> bool:
    """Return whether ``name`` is what programs call the size of a batch."""
    return _BATCH_SIZE.search(name) is not None


def is_ambiguous_rate(name: str) -> bool:
    """Return whether ``name`` may be one of samples or of steps per second."""
    return _AMBIGUOUS_RATE.search(name) is not None


def meaning_of_duration(name: str, values: Floats) -> Meant | None:
    """Return what a duration such as ``0:12:34`` is: the time since the start, or that of a step.

    That of a step has a name, and does not only rise, but at the beginning of an epoch.
    """
    if name in _NAMES_OF_CLOCKS or _ELAPSED.search(name) or _TIME.search(name):
        is_clock = rises_in_parts(values) or not _TIME.search(name)
        return Meant("clock_s" if is_clock else "step_time_s")
    return None


def meaning_of_epoch(name: str, unit: str) -> Meant | None:
    """Return the time of an epoch that a number is in a line of one, by its name or unit; None if it is another."""
    words = _OF_EPOCH.search(name)
    is_unit = unit in _UNITS_OF_EPOCHS or _LONGER.fullmatch(unit) is not None
    if (
        _NOT_THE_EPOCH.search(name)
        or _OTHER_TIME.fullmatch(unit)
        or (words is None and (name or not is_unit))
    ):
        return None
    own = unit if is_unit else (words[1] if words else None) or "s"
    if longer := _LONGER.fullmatch(own):
        return Meant(f"step_time_{'h' if longer[1] else 'm'}")
    return Meant(_SECONDS[own])


def rises_in_parts(values: Floats) -> bool:
    """Return whether values rise steadily, but for a few falls: as a time since the start, or that of each epoch."""
    rises = np.diff(values)
    falls = np.flatnonzero(rises < 0) + 1
    if len(falls) * _SHORTEST_PART > len(values) or len(values) <= 2:
        return False
    up = rises[rises > 0]
    if len(up) < len(values) / _SHORTEST_PART or len(np.unique(values)) < min(_DISTINCT, len(values)):
        return False
    # A mean rises too, but ever more slowly.
    half = len(rises) // 2
    first, second = (
        part[part > 0].mean() if (part > 0).any() else 0.0 for part in (rises[1:half], rises[half:])
    )
    is_steady = half < _DISTINCT or (first < _STEADY * second and second < _STEADY * first)
    return is_steady and (not len(falls) or bool((values[falls] < _STEADY * np.median(up)).all()))


def preference(name: str) -> int:
    """Return the rank of a figure called ``name`` among others of its kind; the lowest is used."""
    last = len(_PREFERENCE)
    rank = next((rank for rank, words in enumerate(_PREFERENCE) if words.search(name)), last)
    return rank + (last + 1 if _AVERAGE.search(name) else 0)


def is_of_all(name: str) -> bool:
    """Return whether a figure called ``name`` is that of all devices by its words: ``global_tps``."""
    return _OF_ALL.search(name) is not None


def is_rank_name(name: str) -> bool:
    """Return whether ``name`` is that of the rank that prints the line."""
    return _RANK.fullmatch(name) is not None


def is_of_several_steps(name: str) -> bool:
    """Return whether a time called ``name`` is that of as many steps as the number before it: ``10 steps took``."""
    return _OF_SEVERAL.search(name) is not None


def is_per_step(name: str) -> bool:
    """Return whether a time called ``name`` is that of one step by its words: ``Time/Iter``, ``sec_per_step``."""
    return re.search(r"(?:/|per[_ ])(?:step|iter\w*|it|batch|update)\W*$", name) is not None


def meaning_of(name: str, unit: str, after: str = "") -> Meant | None:
    """Return what a number called ``name`` with ``unit`` behind it is; None for a word that says nothing.

    ``after`` is the text behind the number, in which "per GPU" may follow the unit.
    """
    if _NO_SPEED.search(name):
        unit, after = "", ""
    found = _meaning(name, unit, after)
    per_node = found is not None and _PER_NODE.search(f"{name} {unit}{after.lower()}") is not None
    return replace(found, per_device=False, per_node=True) if found and per_node else found


def _meaning(name: str, unit: str, after: str) -> Meant | None:
    name = _MEGA.sub(" ", _KILO.sub(" ", name))
    about = f"{name} {unit}"
    if _PER_DAY.search(about):
        return None
    if longer := _PER_LONGER.search(about):
        found = _meaning(_PER_LONGER.sub("/s", name), _PER_LONGER.sub("/s", unit), after)
        if found is None or found.field not in ("rate", "steps_per_s"):
            return None
        return replace(found, per="min" if longer[1] else "h")
    per_device = _PER_DEVICE.search(about) is not None or _UNIT_PER_DEVICE.match(after.lower()) is not None
    if _STEPS_PER_S.search(about):
        return Meant("steps_per_s", "samples/s", per_device)
    for label, word in _UNITS:
        if re.search(rf"(?:^|[\W_]){word}(?:{_PER_S}|{_UNDER_S})(?:$|[\W_])", about):
            return Meant("rate", label, per_device)
    for label, names in _NAMES_OF_RATES:
        if names.search(name):
            return Meant("rate", label, per_device)
    if _FRAMES.search(name) or unit == "fps":
        return Meant("rate", "frames/s", per_device)
    if _THROUGHPUT.search(name):
        if unit in _SECONDS:
            return Meant(_SECONDS[unit])
        if not (_OTHER_RATE.fullmatch(unit) or _OTHER_IN_BRACKETS.match(after.lower())):
            return Meant("rate", None, per_device)
    return _meaning_of_time(name, unit)


def _meaning_of_time(name: str, unit: str) -> Meant | None:
    if longer := _LONGER.fullmatch(unit):
        found = _meaning_of_time(name, "s")
        longer_field = {"clock_s": "clock", "step_time_s": "step_time"}.get(found.field if found else "")
        return Meant(f"{longer_field}_{'h' if longer[1] else 'm'}") if longer_field else None
    if _OTHER_TIME.fullmatch(unit) or _PER_SAMPLE.search(name):
        return None
    ending = _UNIT_OF_NAME.search(name)
    bare = name[: ending.start()] if ending else name
    word = "s" if ending is None or ending[1].startswith("s") else ending[1]
    if _ELAPSED.search(bare):
        return Meant("clock_ms" if unit == "ms" or word == "ms" else "clock_s")
    if unit in _SECONDS and re.search(r"[/ ]", unit):
        return Meant(_SECONDS[unit])
    if (last := name.split()[-1:]) and "/" in last[0] and last[0].strip(":=") in _SECONDS:
        return Meant(_SECONDS[last[0].strip(":=")])
    if unit in _SECONDS and (_STEP.fullmatch(name) or _OF_SEVERAL.search(name)):
        return Meant(_SECONDS[unit])
    if (per_step := _PER_STEP.search(name)) or (ending and _STEP.fullmatch(bare)):
        second = per_step[1] if per_step else word
        return Meant(f"step_time_{'s' if second.startswith('s') else second}")
    if _DATA.search(bare) and (unit in _DATA_SECONDS or ending or re.search(r"time|wait", bare)):
        return Meant(_DATA_SECONDS.get(unit, "data_time_ms" if word == "ms" else "data_time_s"))
    if _TIME.search(bare) and not _NOT_THE_STEP.search(bare):
        return Meant(_SECONDS.get(unit, f"step_time_{word}"))
    return None


@dataclass(frozen=True, slots=True)
class Place:
    """One number in the lines of a family: the text before it (back to the number before) and after it.

    ``grouping`` is how a placeholder names what is between thousands: empty for nothing, else ``,`` or ``,any``.
    ``heading`` is the word above the number in a table without other words. ``is_whole`` is false if one of the numbers
    has a point or an exponent; ``is_duration`` is true if all are written as ``0:12:34``, or in letters, and given in
    seconds.
    """

    before: str
    after: str
    values: Floats
    grouping: str
    heading: str = ""
    is_whole: bool = True
    is_duration: bool = False
    is_in_letters: bool = False

    @property
    def name(self) -> str:
        """The words directly before the number, or above it, in small letters."""
        if self.heading:
            return in_english(self.heading).lower()
        if _OWN_BRACKETS.search(self.before):
            return ""
        before = in_english(_LOGGER.sub("", self.before))
        words = re.findall(r"[A-Za-z][\w/()%. -]*", before[-40:])
        return words[-1].strip().lower() if words else ""

    @property
    def unit(self) -> str:
        """The word directly after the number, in small letters (``ms``, ``it/s``, ``k``); empty if there is none.

        Of ``8.2K tok/s`` it is that behind the ``suffix``.
        """
        match = _UNIT.match(in_english(self.after))
        return match[1].lower() if match else ""

    @property
    def suffix(self) -> str:
        """The letter for thousands, millions or more directly after the number; empty if there is none."""
        match = _SUFFIX.match(self.after) or _THOUSANDS.match(self.after)
        return match[1] if match else ""

    @property
    def is_in_thousands(self) -> bool:
        """True if the name says that the number counts thousands: ``Kt/s=16.4``."""
        return _KILO.search(self.name) is not None

    @property
    def is_in_millions(self) -> bool:
        """True if the name says that the number counts millions: ``Mtok/s=1.6``."""
        return _MEGA.search(self.name) is not None


def is_tag(place: Place) -> bool:
    """Return whether a number is in brackets with a word before it, as a launcher's ``[rank 0]``."""
    return _TAG.search(place.before) is not None


class _Row(NamedTuple):
    """A line: its number in the log, its date stamp, its numbers, and the text before, between and after them."""

    at: int
    stamp: bytes | None
    values: list[bytes]
    parts: list[bytes]


@dataclass(frozen=True, slots=True)
class Family:
    """Lines that are equal apart from their numbers, and their places in the log.

    ``clock_s`` are their date stamps, if each has one, which ``stamp_pattern`` reads. ``misread`` says why the
    numbers are not those that the program meant; empty if they are.
    """

    text: str
    places: tuple[Place, ...]
    clock_s: Floats | None
    lines: NDArray[np.int64]
    stamp_pattern: str = "{stamp}"
    misread: str = ""

    @property
    def count(self) -> int:
        """The number of lines."""
        return len(self.places[0].values)


_CHINESE = {
    **dict.fromkeys(("训练",), "train"),
    **dict.fromkeys(("全局步数", "迭代次数", "步数", "步骤", "迭代", "步"), "step"),
    **dict.fromkeys(("轮次", "轮数", "轮", "周期"), "epoch"),
    **dict.fromkeys(("批次",), "batch"),
    **dict.fromkeys(("损失",), "loss"),
    **dict.fromkeys(("吞吐量", "吞吐率", "吞吐", "速度", "速率"), "throughput"),
    **dict.fromkeys(("每步耗时", "每步用时", "每步时间", "单步耗时", "单步用时", "单步时间"), "step time"),
    **dict.fromkeys(("已用时间", "已用时", "已用", "总耗时", "总用时"), "elapsed"),
    **dict.fromkeys(("耗时", "用时", "时间", "时长"), "time"),
    **dict.fromkeys(("剩余时间", "剩余", "预计"), "eta"),
    **dict.fromkeys(("验证", "评估", "测试"), "eval"),
    **dict.fromkeys(("样本", "条"), "samples"),
    **dict.fromkeys(("图像", "图片", "张"), "images"),
    **dict.fromkeys(("词元", "令牌"), "tokens"),
    **dict.fromkeys(("加载", "读取"), "load"),
    **dict.fromkeys(("数据",), "data"),
    "毫秒": "ms",
    "秒": "s",
    "分钟": "min",
    "小时": "h",
    "每": "per",
}
"""What programs print in Chinese, with the English word for it."""
_IN_CHINESE = re.compile("|".join(sorted(_CHINESE, key=len, reverse=True)))


_FULL_WIDTH = str.maketrans("，：（）", ",:()")


def in_english(text: str) -> str:
    """Return a text with the words of training in English, where they are Chinese."""
    if text.isascii():
        return text
    words = _IN_CHINESE.sub(
        lambda match: f"{_CHINESE[match[0]]} " if match[0] in "，：（）" else f" {_CHINESE[match[0]]} ", text
    )
    words = words.translate(_FULL_WIDTH)
    return text if words == text else re.sub(r" +", " ", re.sub(r" */ *", "/", words))


def families(text: bytes) -> Iterator[Family]:
    """Yield the families of at least ``FEWEST`` lines, those with the most lines first."""
    groups: dict[bytes, list[_Row]] = {}
    lines = text.split(b"\n")
    for at, line in enumerate(lines):
        if not line or len(line) > _LONGEST:
            continue
        stamp = _STAMP.search(line)
        plain = line
        if stamp:
            # Another stamp is that of what wrapped or copied the line.
            rest = _STAMP.sub(_STAMPED, _AFTER_STAMP.sub(b"", line[stamp.end() :]))
            plain = line[: stamp.start()] + _STAMPED + rest
        plain = _LAPSE.sub(_LAPSE_BYTES, _ARROW.sub(_SIGN_BYTES, _BAR.sub(_without_bar, plain)))
        numbers = _CELL if _ROW.fullmatch(plain) else _NUMBER
        values = numbers.findall(plain)
        if values and len(values) <= _MOST_COLUMNS:
            parts = [_FILLED.sub(b"", re.sub(rb" +", b" ", part)) for part in numbers.split(plain)]
            key = b"\0".join(parts)
            groups.setdefault(key, []).append(_Row(at, stamp[0] if stamp else None, values, parts))
    for key, rows in sorted(groups.items(), key=lambda item: len(item[1]), reverse=True):
        if len(rows) >= FEWEST:
            above = lines[max(rows[0].at - _ABOVE, 0) : rows[0].at]
            words = _headings_of_cells(lines[rows[0].at], above) or _headings(key, len(rows[0].values), above)
            yield _family(rows, words if len(words) == len(rows[0].values) else [])


def _without_bar(match: re.Match[bytes]) -> bytes:
    return b"||" if match[0].startswith(b"|") else _BAR_BYTES


def _headings_of_cells(row: bytes, above: list[bytes]) -> list[str]:
    """Return the words above the first number of each cell of a row, and none for its others: ``10 (0.1%)   45 ms``.

    Empty unless two blanks or more are between cells, and some cell has a unit or several numbers.
    """
    cells = _CELLS.split(_LAPSE.sub(_LAPSE_BYTES, row.strip()))
    if len(cells) < FEWEST - 1 or not all(map(_CELL_OF_NUMBERS.fullmatch, cells)):
        return []
    counts = [len(_NUMBER.findall(cell)) for cell in cells]
    for line in reversed(above):
        words = [_SHARE.sub("", word.decode("utf-8", "replace")) for word in _CELLS.split(line.strip())]
        if len(words) == len(cells) and all(re.search("[A-Za-z]", word) for word in words):
            pairs = zip(words, counts, strict=True)
            return [word if first else _NO_WORD for word, count in pairs for first in [True, False][:count]]
    return []


def _headings(key: bytes, columns: int, above: list[bytes]) -> list[str]:
    """Return the words above the numbers of a table's rows; empty if the rows have words of their own."""
    if any(re.search(rb"[A-Za-z]", _UNIT_OF_CELL.sub(b"", part)) for part in key.split(b"\0")):
        return []
    for line in reversed(above):
        heading = _RULE.sub("|", line.decode("utf-8", "replace")).strip("| \t\r")
        if "|" in heading or heading.count(",") == columns - 1 > 0:
            parts = heading.split("|" if "|" in heading else ",")
        else:
            parts = _COLUMN.split(heading)
        words = [word.strip() for word in parts if word.strip()]
        if len(words) == columns and all(re.search("[A-Za-z]", word) for word in words):
            return words
    return []


def _family(rows: list[_Row], headings: list[str]) -> Family:
    parts = [part.decode("utf-8", "replace") for part in rows[0].parts]
    columns = list(zip(*(row.values for row in rows), strict=True))
    places = tuple(
        Place(
            before=parts[at],
            after=parts[at + 1],
            values=_durations(column)
            if _is_duration(column)
            else np.array([_value(word) for word in column]),
            grouping=_grouping(column),
            heading=headings[at] if headings else "",
            is_whole=all(_SEPARATORS.sub(b"", word).isdigit() for word in column),
            is_duration=_is_duration(column),
            is_in_letters=column[0].endswith(b"s"),
        )
        for at, column in enumerate(columns)
    )
    times = [row.stamp for row in rows if row.stamp is not None]
    is_glog = [time[:1].isalpha() for time in times]
    if any(is_glog):
        times = [_dated(time) for time in times] if all(is_glog) else []
    return Family(
        in_english(" ".join(["#".join(parts), *headings])),
        places,
        stamps(times) if len(times) == len(rows) else None,
        np.array([row.at for row in rows]),
        "{glog_stamp}" if any(is_glog) else "{stamp}",
        misread=_misread(columns, parts) if re.search("[A-Za-z]", "".join(parts)) else "",
    )


def _is_duration(words: Sequence[bytes]) -> bool:
    return all(b":" in word or word.endswith(b"s") for word in words)


def _durations(words: Sequence[bytes]) -> Floats:
    return past_midnight(np.array([_value(word) for word in words]))


def _grouping(words: Sequence[bytes]) -> str:
    found = {separator for word in words for separator in _SEPARATORS.findall(word)}
    return ",any" if found - {b","} else "," if found else ""


def _misread(columns: Sequence[Sequence[bytes]], parts: Sequence[str]) -> str:
    """Return in words why numbers of these lines are read wrongly; empty if nothing shows that they are."""
    if _has_decimal_commas(columns, parts):
        return "decimal commas: replace them by points"
    if any(_is_cut(columns, parts, at) for at in range(1, len(columns))):
        return "blanks between thousands: remove them"
    return ""


def _is_cut(columns: Sequence[Sequence[bytes]], parts: Sequence[str], at: int) -> bool:
    """Return whether a number is the end of one with blanks between thousands: ``2 621 044``.

    Its three digits begin with a zero now and then, or follow three others.
    """
    groups = (columns[at - 1], columns[at])
    if parts[at] != " " or not all(word.isdigit() for words in groups for word in words):
        return False
    if any(len(word) > _DIGITS for word in columns[at - 1]) or any(
        len(word) != _DIGITS for word in columns[at]
    ):
        return False
    is_second = at > 1 and parts[at - 1] == " " and all(len(word) == _DIGITS for word in columns[at - 1])
    return is_second or any(word.startswith(b"0") for word in columns[at])


def _has_decimal_commas(columns: Sequence[Sequence[bytes]], parts: Sequence[str]) -> bool:
    """Return whether the commas in the numbers of lines stand for points: ``loss 0,345``, ``ips 320,12``.

    Numbers with three digits behind a comma alone do not show it; a loss is no number of thousands.
    """
    words = [word for column in columns for word in column]
    if any((b"." in word and not _POINTED.fullmatch(word)) or word.count(b",") > 1 for word in words):
        return False
    return any(word.lstrip(b"+-").startswith(b"0,") for word in words) or any(
        ("loss" in parts[at].lower() and any(b"," in word for word in column))
        or (at > 0 and parts[at] == "," and parts[at - 1][-1:] in _BEFORE_A_NUMBER and len(set(column)) > 1)
        for at, column in enumerate(columns)
    )


def _dated(stamp: bytes) -> bytes:
    """Return glog's stamp as a date of a leap year."""
    day, time = stamp[1:].split(b" ")
    return _LEAP_YEAR + day[-4:-2] + b"-" + day[-2:] + b" " + time


def duration_s(word: bytes) -> float:
    """Return the seconds of a duration: ``0:12:34``, ``12m 34s``."""
    seconds = 0.0
    for part in word.split(b":") if b":" in word else re.findall(rb"\d+", word):
        seconds = 60 * seconds + float(part)
    return seconds


def _value(word: bytes) -> float:
    """Return a number, or a duration in seconds."""
    return duration_s(word) if _is_duration([word]) else number(_SEPARATORS.sub(b"", word))


class Block(NamedTuple):
    """Families whose lines follow each other in turn, in the order of the log, and all their numbers as one family.

    ``counted`` are the places of the numbers in the line by which the others were found.
    """

    parts: tuple[Family, ...]
    merged: Family
    counted: range


def blocks(found: Sequence[Family]) -> Iterator[Block]:
    """Yield a block for each family of at least ``FEWEST`` lines with one line of another family for each of its own.

    A first or last block that lacks a line is left out. One time stamp is used, that of the first line with one.
    """
    for counter in found:
        near = [(0, counter)]
        for other in found:
            offset = _offset(counter, other) if other is not counter else None
            if offset is not None:
                near.append((offset, other))
        if len(near) < 2:
            continue
        near.sort(key=lambda each: each[0])
        first = max(_first_block(counter, offset, family) for offset, family in near)
        counts = [family.count - first + _first_block(counter, offset, family) for offset, family in near]
        if min(counts) >= FEWEST:
            at = next(at for at, (_, family) in enumerate(near) if family is counter)
            yield _block([_cut(counter, first, min(counts), *each) for each in near], at)


def _offset(counter: Family, other: Family) -> int | None:
    """Return how many lines ``other`` is behind the counter; None unless it has one line for each of the counter's."""
    if abs(other.count - counter.count) > 1:
        return None
    before = np.searchsorted(counter.lines, other.lines)
    if (np.diff(before) != 1).any():
        return None
    # A block begins with the line that is the first in the log.
    if before[0] > 0:
        offset = int(np.median(other.lines - counter.lines[before - 1]))
    else:
        leads = before < counter.count
        offset = int(np.median(other.lines[leads] - counter.lines[before[leads]]))
    return offset if abs(offset) <= _LONGEST_BLOCK else None


def _first_block(counter: Family, offset: int, family: Family) -> int:
    """Return the number of the first block that has a line of ``family``, by the lines of the counter."""
    before = int(np.searchsorted(counter.lines, family.lines[0]))
    return before - 1 if offset > 0 else before


def _cut(counter: Family, first: int, count: int, offset: int, family: Family) -> Family:
    """Return ``family`` with its lines of ``count`` blocks from the ``first``."""
    start = first - _first_block(counter, offset, family)
    chosen = slice(start, start + count)
    return replace(
        family,
        places=tuple(replace(place, values=place.values[chosen]) for place in family.places),
        clock_s=None if family.clock_s is None else family.clock_s[chosen],
        lines=family.lines[chosen],
    )


def _block(parts: Sequence[Family], counter: int) -> Block:
    stamped = next((part for part in parts if part.clock_s is not None), None)
    own = tuple(part if part is stamped else replace(part, clock_s=None) for part in parts)
    # What is behind the last number of a line is not the name of the next line's first.
    places = tuple(
        replace(place, after=place.after + "\n") if place is part.places[-1] else place
        for part in own
        for place in part.places
    )
    merged = Family(
        "\n".join(part.text for part in own),
        places,
        None if stamped is None else stamped.clock_s,
        own[0].lines,
    )
    start = sum(len(part.places) for part in own[:counter])
    return Block(own, merged, range(start, start + len(own[counter].places)))
