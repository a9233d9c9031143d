"""Progress bars, as tqdm and Keras print them: the description of the one that counts training steps."""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from trainmark.logs.fields import STAMP
from trainmark.logs.guess.model import Guess
from trainmark.logs.guess.vocabulary import NOT_TRAINING

_BAR = re.compile(
    rb"^(?P<stamp>" + STAMP + rb" ?)?(?:(?P<words>[^|\n]*?) *\d+%\|[^|\n]*\| *(?P<step>\d+)/\d+ \[[\d:]+<"
    rb"| *(?P<drawn>\d+)/\d+ (?:\[[=>.]*\] |(?:\xe2\x94\x81)+ ).*/step\b)",
    re.MULTILINE,
)
_DRAWN = r" *{step}/\d+ (?:\[|━).*/step\b"
"""Keras' bar; its times are means since the start of the epoch, so only the arrival of its lines is used."""
_PREPARES = re.compile(
    r"\b(?:load|filter|fetch|read|extract|resolv|cach|shard|build|convert|compil|sampl)", re.IGNORECASE
)
_EPOCHS = re.compile(r"\bepochs?\b", re.IGNORECASE)
_KERAS = "keras"
_FEWEST = 8
"""Fewest values of its counter from which a bar is used."""
_SOME_WORDS = 40


@dataclass(slots=True)
class _Bar:
    steps: set[bytes] = field(default_factory=set)
    lines: int = 0
    stamped: int = 0


def guess_bar(text: bytes) -> Guess | None:
    """Return the description of the progress bar in ``text`` that most likely counts training steps; None without one.

    Bars are alike if the words before them are, apart from numbers. One whose words name the training comes first,
    then the one with most values of its counter; those of evaluations and preparations are left out.
    """
    bars: defaultdict[str, _Bar] = defaultdict(_Bar)
    for match in _BAR.finditer(text):
        before = (match["words"] or b"").decode("utf-8", "replace").strip()
        words = _KERAS if match["drawn"] else re.sub(r"\d+", "#", before)[-_SOME_WORDS:]
        bar = bars[words]
        bar.lines += 1
        bar.steps.add(match["step"] or match["drawn"])
        bar.stamped += match["stamp"] is not None
    found = [words for words, bar in bars.items() if len(bar.steps) >= _FEWEST and _may_train(words)]
    if not found:
        return None
    words = max(found, key=lambda each: (_is_training(each), not _counts_epochs(each), len(bars[each].steps)))
    bar = bars[words]
    is_stamped = bar.stamped == bar.lines
    if words == _KERAS:
        if not is_stamped:
            return None
        assumed = "the progress bar of Keras counts steps"
        return Guess(_document("{stamp}" + _DRAWN), (assumed,), len(bar.steps))
    before = re.escape(words).replace(r"\#", r"\d+").replace("\\ ", " +") + (" *" if words else "")
    records = (
        rf"{{stamp}} *{before}\d+%\|[^|\n]*\| *{{step}}/\d+ \[" if is_stamped else rf"^ *{before}{{bar}}"
    )
    name = f"the progress bar '{words.replace('#', 'N').rstrip(':')}'" if words else "the progress bar"
    assumed = (
        f"{name} counts {'epochs, each of which counts as one step' if _counts_epochs(words) else 'steps'}"
    )
    return Guess(_document(records), (assumed,), len(bar.steps))


def _document(records: str) -> Mapping[str, object]:
    return {
        "title": "an unknown program",
        "unit": "samples/s",
        "rate_of": "all",
        "restarts_each_epoch": True,
        "records": [records],
    }


def _is_training(words: str) -> bool:
    return re.search(r"\b(?:pre-?)?train", words, re.IGNORECASE) is not None


def _may_train(words: str) -> bool:
    return _is_training(words) or not (NOT_TRAINING.search(words) or _PREPARES.search(words))


def _counts_epochs(words: str) -> bool:
    """Return whether a bar counts epochs: ``Epochs``, but not ``Epoch 3``, which counts the steps of one."""
    return _EPOCHS.search(words) is not None and "#" not in words
