"""Meanings of the words around a number: a counter, a rate and its unit, a time; and words of non-training lines."""

import re
from dataclasses import dataclass, replace

_COUNTERS = re.compile(
    r"(?:^|[\W_])(?:global_?step|steps?|iter(?:ation)?s?|it|updates?|num_updates|batch(?:es)?|batch(?:_?(?:id|idx))?|train_step)\W*$"
)
_SAMPLES = re.compile(
    r"(?:^|[\W_])(samples?|examples?|images?|imgs?|sequences?|tokens?)"
    r"[\W_]+(?:seen|consumed|processed|trained|so[\W_]far)\W*$"
    r"|(?:^|[\W_])(?:consumed|seen|processed|trained)[\W_]+(samples?|examples?|images?|imgs?|sequences?|tokens?)\W*$"
)
_EPOCHS = re.compile(r"(?:^|[\W_])epochs?\W*$")
_BATCH_SIZE = re.compile(r"(?:^|[\W_])(?:batch[_ -]?size|bsz|bs)\W*$")
_UNITS = (
    ("tokens/s", r"(?:tok(?:en)?s?|words?|w|t)"),
    ("images/s", r"(?:im(?:a)?g(?:e)?s?)"),
    ("sequences/s", r"(?:seq(?:uence)?s?|sentences?)"),
    ("samples/s", r"(?:samples?|examples?|ex|items?|rows?|records?|points?|ins(?:tances?)?)"),
)
COUNTED = r"(?:tok(?:en)?s?|samples?|images?|imgs?|seqs?|words?|frames?)"
_DEVICE = r"(?:gpu|device|card|chip|npu|rank|core)"
_PER_S = rf"(?:(?: ?/ ?|_per_|[ _]?per[ _]?){_DEVICE})?(?: ?/ ?|_per_|[ _]?per[ _]?|_p)s(?:ec(?:ond)?)?"
_UNDER_S = r"(?:(?<=tok)|(?<=[a-z]{3}s))_s(?:ec)?"
"""``tok_s`` and ``samples_s`` are rates, but ``step_s`` is a time."""
_STEPS_PER_S = re.compile(r"(?:\bit(?:er(?:ation)?)?s?|\bsteps?|\bbatch(?:es)?|\bupdates?)" + _PER_S + r"\b")
_OF_ONE = rf"(?: ?\(? ?(?:per[ _]?|/ ?){_DEVICE}\)?)?"
_BARE_RATE = re.compile(rf"(?:^|[\W_])(?:tps|tgs|tokps|wps){_OF_ONE}\W*$")
_AMBIGUOUS_RATE = re.compile(r"(?:^|\W)sps\W*$")
"""Samples per second, or steps."""
_IMAGES = re.compile(r"(?:^|\W)imps\W*$")
_NAMES_OF_RATES = (("tokens/s", _BARE_RATE), ("samples/s", _AMBIGUOUS_RATE), ("images/s", _IMAGES))
_FRAMES = re.compile(r"(?:^|\W)fps(?: (?:total|step|train\w*))?\W*$")
_THROUGHPUT = re.compile(rf"(?:^|[\W_])(?:throughput|speed|ips){_OF_ONE}\W*$")
_OTHER_RATE = re.compile(r"[a-z]+(?:/s(?:ec(?:ond)?)?|ps)|tflops?")
"""The unit of what no training counts: bytes, requests, floating-point operations."""
_PER_DEVICE = re.compile(rf"(?:/ ?|per[ _]?){_DEVICE}|device/|\btgs\b|\blocal_")
_UNIT_PER_DEVICE = re.compile(rf" ?[a-z%]+(?:/[a-z]+)*,? ?[(\[]?(?:per[ _-]?|/ ?|each ){_DEVICE}")
_PER_NODE = re.compile(r"(?:/|per[ _-]?)(?:node|host|machine)\b")
_OF_SEVERAL = re.compile(r"(?:^|[\W_])(?:steps|iters|iterations|batches|updates)(?: (?:took|in|time))?\W*$")
_PREFERENCE = (
    re.compile(r"(?:^|[\W_])(?:current|curr|cur|instant\w*)(?:[\W_]|$)"),
    re.compile(r"(?:^|[\W_])(?:global|overall|total|all)(?:[\W_]|$)"),
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
    r"|batch[_ ]?time|dt|time|took|duration)\W*$"
)

_STEP = re.compile(r"(?:time[/ _](?:per[ _])?)?(?:iter(?:ation)?|it|step|batch)\W*")
"""The whole name of a time of one step, if its unit is behind the number: ``[iter: 345.1 ms]``."""
_UNIT_OF_NAME = re.compile(r"[\W_]+\(?(ms|us|s|secs?|seconds)\)?\W*$")
"""The unit at the end of the name of a time: ``iter time (s)``, ``step_time_ms``."""
_NOT_THE_STEP = re.compile(
    r"data|load|eta|remain|total|elapsed|forward|backward|fwd|bwd|eval|val|optim|ckpt|save|comm|epoch|gpu|cpu|kernel|sync"
    r"|queue|idle|bubble|wait"
)
_OTHER_TIME = re.compile(r"(?:m|mins?|minutes?|h|hrs?|hours?|d|days?|ns|nsec|nanoseconds?)")
"""The unit of a time that is neither seconds nor milli- or microseconds."""
_DATA = re.compile(
    r"(?:^|[\W_])(?:data[_ ]?(?:load(?:ing|er)?|fetch|wait)?[_ ]?(?:time)?|load(?:ing|er)?[_ ]?time"
    r"|wait(?:ed|ing)? for data)\W*$"
)
_ELAPSED = re.compile(
    r"(?:^|[\W_])(?:elapsed(?:[_ ]?time)?|wall(?:[_ ]?(?:time|clock))?|train[_ ]?time|runtime|total[_ ]?time)\W*$"
)
NOT_TRAINING = re.compile(
    r"\b(?:val(?:id(?:ation)?)?|eval(?:uat\w*)?|test(?:ing)?|predict\w*|(?<!policy )infer\w*|prefill|decode|decoding|"
    r"ttft|tpot|request\w*|latency|generat\w*|download\w*|upload\w*|shards?|"
    r"prompts?|kv[ _-]?cache|serving|bitrate|packets?|tokeniz\w*|preprocess\w*|map|warm[- ]?up)\b",
    re.IGNORECASE,
)
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
    "sec/step": "step_time_s",
    "sec/iter": "step_time_s",
    "ms/iter": "step_time_ms",
    "s/batch": "step_time_s",
    "sec/batch": "step_time_s",
    "ms/batch": "step_time_ms",
    **{
        f"{second} per {step}": "step_time_s"
        for second in ("s", "sec", "secs", "seconds")
        for step in ("it", "iter", "iteration", "step", "batch", "update")
    },
}


_DATA_SECONDS = {
    **dict.fromkeys(("s", "sec", "secs", "seconds"), "data_time_s"),
    **dict.fromkeys(("ms", "msec"), "data_time_ms"),
}


@dataclass(frozen=True, slots=True)
class Meant:
    """The likely meaning of a number: a field of a record, its unit, and whether it is of one device or one node.

    ``since_start``: it is the mean of all steps since the start.
    """

    field: str
    unit: str | None = None
    per_device: bool = False
    per_node: bool = False
    since_start: bool = False


def is_counter_name(name: str) -> bool:
    """Return whether ``name`` is what programs call their counter of steps."""
    return _COUNTERS.search(name) is not None


def is_epoch_name(name: str) -> bool:
    """Return whether ``name`` is what programs call their counter of epochs."""
    return _EPOCHS.search(name) is not None


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


def meaning_of_duration(name: str) -> Meant | None:
    """Return what a duration such as ``0:12:34`` is: the time since the start, by its name or without one."""
    return Meant("clock_s") if not name or name == "time" or _ELAPSED.search(name) else None


def preference(name: str) -> int:
    """Return the rank of a figure called ``name`` among others of its kind; the lowest is used."""
    last = len(_PREFERENCE)
    rank = next((rank for rank, words in enumerate(_PREFERENCE) if words.search(name)), last)
    return rank + (last + 1 if _AVERAGE.search(name) else 0)


def is_of_several_steps(name: str) -> bool:
    """Return whether a time called ``name`` is that of as many steps as the number before it: ``10 steps took``."""
    return _OF_SEVERAL.search(name) is not None


def meaning_of(name: str, unit: str, after: str = "") -> Meant | None:
    """Return what a number called ``name`` with ``unit`` behind it is; None for a word that says nothing.

    ``after`` is the text behind the number, in which "per GPU" may follow the unit.
    """
    found = _meaning(name, unit, after)
    per_node = found is not None and _PER_NODE.search(f"{name} {unit}{after.lower()}") is not None
    return replace(found, per_device=False, per_node=True) if found and per_node else found


def _meaning(name: str, unit: str, after: str) -> Meant | None:
    about = f"{name} {unit}"
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
        if not _OTHER_RATE.fullmatch(unit):
            return Meant("rate", None, per_device)
    return _meaning_of_time(name, unit)


def _meaning_of_time(name: str, unit: str) -> Meant | None:
    if _OTHER_TIME.fullmatch(unit) or _PER_SAMPLE.search(name):
        return None
    ending = _UNIT_OF_NAME.search(name)
    bare = name[: ending.start()] if ending else name
    word = "s" if ending is None or ending[1].startswith("s") else ending[1]
    if _ELAPSED.search(bare):
        return Meant("clock_ms" if unit == "ms" or word == "ms" else "clock_s")
    if unit in _SECONDS and ("/" in unit or " per " in unit):
        return Meant(_SECONDS[unit])
    if (last := name.split()[-1:]) and "/" in last[0] and last[0].strip(":=") in _SECONDS:
        return Meant(_SECONDS[last[0].strip(":=")])
    if unit in _SECONDS and _STEP.fullmatch(name):
        return Meant(_SECONDS[unit])
    if _DATA.search(bare) and (unit in _DATA_SECONDS or ending or re.search(r"time|wait", bare)):
        return Meant(_DATA_SECONDS.get(unit, "data_time_ms" if word == "ms" else "data_time_s"))
    if _TIME.search(bare) and not _NOT_THE_STEP.search(bare):
        return Meant(_SECONDS.get(unit, f"step_time_{word}"))
    return None
