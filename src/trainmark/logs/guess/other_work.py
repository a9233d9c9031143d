"""Lines and progress bars of other work than training: evaluation, inference, the preparation of data."""

import re

from trainmark.logs.guess.families import Family
from trainmark.logs.guess.line_fields import has_loss

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
