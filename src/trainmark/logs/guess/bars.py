"""Progress bars: the one that most likely counts the steps of the training."""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from trainmark.logs.guess.families import (
    SLOWER,
    STAMP_GRAIN_S,
    Guess,
    duration_s,
    meaning_of,
)
from trainmark.logs.guess.line_fields import is_training, may_train
from trainmark.logs.lines.fields import STAMP, stamps

BAR_MARKS = (b"%|", b"/step")
"""One of these is in the text of each bar."""
_BAR = re.compile(
    rb"^(?P<service>[\w.-]{1,40} +\| )?(?P<stamp>"
    + STAMP
    + rb" ?)?(?:(?P<words>[^\n]*?) *\d+%\|[^|\n]*\| *(?P<step>\d+)/(?P<total>\d+) ?\[(?P<elapsed>[\d:]+)<"
    rb"(?P<rest>[^\n]*)"
    rb"| *(?P<drawn>\d+)/\d+ (?:\[[=>.]*\] |(?:\xe2\x94\x81)+ ).*/step\b)",
    re.MULTILINE,
)
_STATED_STEPS = re.compile(rb"Total (?:optimization )?steps = ([\d,]+)\s")
"""The number of steps that the Trainer and Unsloth print before they train."""
_DRAWN = r" *{step}/\d+ (?:\[|━).*/step\b"
"""Keras' bar; its times are means since the start of the epoch, so only the arrival of its lines is used."""
_EPOCHS = re.compile(r"\bepochs?\b", re.IGNORECASE)
_KERAS = "keras"
_COUNT = "\x1f"
"""Stands for a number in the words before a bar."""
_FEWEST = 8
"""Fewest values of its counter from which a bar is used."""
_SOME_WORDS = 40
_OF_ONE = re.compile(rb", *[\d.]+(?:s/ ?([A-Za-z]+)| ?([A-Za-z]+)/s)\b")
"""The pace behind a bar, with the name of what it counts: ``2.50s/img``."""
_LOSS = re.compile(rb"loss", re.IGNORECASE)
_OTHER_TOTAL = 1.2
"""Bars with the same words up to a number that differs by more are those of other loops, such as the validation's."""
_MOST_TOTALS = 8
_FEWEST_LAST = 3


@dataclass(slots=True)
class _Bar:
    """What is known of the bars with the same words: their counter, total, stamps and times, and the lines they are in.

    ``seconds`` is the time that they show, of all of them.
    """

    is_whole: bool = True
    steps: set[bytes] = field(default_factory=set)
    totals: set[bytes] = field(default_factory=set)
    lines: int = 0
    stamps: list[bytes] = field(default_factory=list)
    elapsed: list[bytes] = field(default_factory=list)
    seconds: float = 0.0
    last_s: float = 0.0
    has_loss: bool = False
    counted: str | None = None
    start: int = -1
    end: int = 0

    def add(self, match: re.Match[bytes], whole: bool) -> None:
        """Add one drawing of the bar."""
        self.is_whole &= whole
        self.lines += 1
        self.steps.add(match["step"] or match["drawn"])
        self.start, self.end = match.start() if self.start < 0 else self.start, match.end()
        if match["stamp"]:
            self.stamps.append(match["stamp"].strip())
        if not match["elapsed"]:
            return
        self.totals.add(match["total"])
        self.elapsed.append(match["elapsed"])
        now_s = duration_s(match["elapsed"])
        self.seconds += now_s - self.last_s if now_s >= self.last_s else now_s
        self.last_s = now_s
        self.has_loss |= _LOSS.search(match["rest"]) is not None
        if self.counted is None and (pace := _OF_ONE.search(match["rest"])):
            self.counted = (pace[1] or pace[2]).decode().lower()

    @property
    def is_full(self) -> bool:
        """Whether all drawings are of the whole bar."""
        return len(self.totals) == 1 and self.steps == self.totals

    @property
    def is_stamped(self) -> bool:
        """Whether each drawing has a stamp, and these pass as the bar's time does: not those of a copy of the log."""
        if len(self.stamps) != self.lines:
            return False
        if len(self.elapsed) != self.lines:
            return True
        passed_s = float(np.ptp(stamps([self.stamps[0], self.stamps[-1]])))
        own_s = duration_s(self.elapsed[-1]) - duration_s(self.elapsed[0])
        return own_s <= (1 + SLOWER) * passed_s + STAMP_GRAIN_S


def guess_bar(text: bytes, trained: range | None = None) -> Guess | None:
    """Return the description of the progress bar in ``text`` that most likely counts training steps; None without one.

    Bars are alike if the words before them are, apart from numbers, and if they go up to about the same number. One
    whose words name the training comes first, then one that prints a loss, then the one that takes the most time;
    those of evaluations and preparations are left out, and those up to another number than that of the steps, if the
    log states it. ``trained`` are the lines with the loss of a training, if there are any: a bar that ends before them
    or begins behind them, and prints no loss, is one of other work.
    """
    found = [(words, bar) for words, bar in _bars(text) if len(bar.steps) >= _FEWEST and may_train(words)]
    if trained is not None:
        found = [
            (words, bar)
            for words, bar in found
            if bar.has_loss
            or (
                text.count(b"\n", 0, bar.end) >= trained.start
                and text.count(b"\n", 0, bar.start) < trained.stop
            )
        ]
    if not found:
        return None
    words, bar = max(found, key=lambda each: _likelihood(*each))
    is_stamped = bar.is_stamped
    if words == _KERAS:
        if not is_stamped:
            return None
        assumed = "the progress bar of Keras counts steps"
        return Guess(_document("{stamp}" + _DRAWN), (assumed,), len(bar.steps))
    others = any(other is not bar and same == words for same, other in found)
    total = rf"(?:{'|'.join(sorted(each.decode() for each in bar.totals))})" if others else r"\d+"
    before = re.escape(words).replace(_COUNT, r"\d+").replace("\\ ", " +") + (" *" if words else "")
    start = " *" if bar.is_whole and (is_stamped or not bar.stamps) else ".*?"
    if is_stamped:
        records = rf"{{stamp}}{start}{before}\d+%\|[^|\n]*\| *{{step}}/{total} ?\["
    else:
        ahead = rf"(?=\d+%\|[^|\n]*\| *\d+/{total} ?\[)" if others else ""
        records = rf"^{start}{before}{ahead}{{bar}}"
    name = f"the progress bar '{words.replace(_COUNT, 'N').rstrip(':')}'" if words else "the progress bar"
    up_to = f" up to {' or '.join(sorted(each.decode() for each in bar.totals))}" if others else ""
    meant = meaning_of("", f"{bar.counted}/s") if bar.counted else None
    if meant is not None and meant.field == "rate" and not _counts_epochs(words):
        document = {**_document(records), "unit": meant.unit, "counts_samples": True}
        return Guess(
            document,
            (f"{name}{up_to} counts samples of all devices, as its '{bar.counted}' says",),
            len(bar.steps),
        )
    counts_epochs = _counts_epochs(words)
    counted = "epochs, each of which counts as one step" if counts_epochs else "steps"
    return Guess(
        _document(records),
        (f"{name}{up_to} counts {counted}",),
        len(bar.steps),
        counts_epochs=counts_epochs,
        is_bar=True,
    )


def guess_last_bars(text: bytes) -> Guess | None:
    """Return the description of bars of which each epoch has the last drawing alone, as in files; None without any.

    Their pace is that of the epoch, and they are taken to be as many steps each.
    """
    found = [
        (words, bar)
        for words, bar in _bars(text)
        if may_train(words) and not _counts_epochs(words) and bar.lines >= _FEWEST_LAST and bar.is_full
    ]
    if not found or len(found) > 1:
        return None
    words, bar = found[0]
    ((total,), before) = bar.totals, re.escape(words).replace(_COUNT, r"\d+").replace("\\ ", " +")
    drawn = rf"^ *{before} *100%\|[^|\n]*\| *{total.decode()}/{total.decode()} ?\[[\d:]+<[\d:?]+, *"
    meant = meaning_of("", f"{bar.counted}/s") if bar.counted else None
    is_rate = meant is not None and meant.field == "rate"
    one = re.escape(bar.counted or "it")
    pace = rf"{{rate}} ?{one}/s" if is_rate else rf"(?:{{steps_per_s}} ?{one}/s|{{step_time_s}} ?s/{one})"
    document = {
        "title": "an unknown program",
        "unit": meant.unit if meant is not None and is_rate else "samples/s",
        "rate_of": "all",
        "records": [drawn + pace],
    }
    name = f"the progress bar '{words.replace(_COUNT, 'N').rstrip(':')}'" if words else "the progress bar"
    return Guess(document, (f"{name} is printed at the end of each epoch, of as many steps",), bar.lines)


def _bars(text: bytes) -> list[tuple[str, _Bar]]:
    """Return the bars in the text by the words before them, and by what they go up to if that differs much."""
    bars: defaultdict[tuple[str, bytes], _Bar] = defaultdict(_Bar)
    matches: defaultdict[str, list[tuple[re.Match[bytes], bool]]] = defaultdict(list)
    stated = {total.replace(b",", b"") for total in _STATED_STEPS.findall(text)}
    for match in _BAR.finditer(text):
        if stated and match["total"] and match["total"] not in stated:
            continue  # it counts micro-batches or something else
        before = (match["words"] or b"").decode("utf-8", "replace").strip()
        words = _KERAS if match["drawn"] else re.sub(r"\d+", _COUNT, before)
        is_whole = len(words) <= _SOME_WORDS and match["service"] is None
        matches[words[-_SOME_WORDS:]].append((match, is_whole))
    for words, drawn in matches.items():
        kind = _kinds({int(match["total"]) for match, _ in drawn if match["total"]})
        for match, is_whole in drawn:
            bars[words, kind.get(match["total"], b"")].add(match, is_whole)
    return [(words, bar) for (words, _), bar in bars.items()]


def _kinds(totals: set[int]) -> Mapping[bytes, bytes]:
    """Return each total with the first of those about as large; none if there are many kinds of them, or one."""
    kinds: list[list[int]] = []
    for total in sorted(totals):
        if kinds and total <= kinds[-1][-1] * _OTHER_TOTAL:
            kinds[-1].append(total)
        else:
            kinds.append([total])
    if len(kinds) > _MOST_TOTALS or max(map(len, kinds), default=0) > _MOST_TOTALS:
        return {}
    return {str(total).encode(): str(kind[0]).encode() for kind in kinds for total in kind}


def _likelihood(words: str, bar: _Bar) -> tuple[float, ...]:
    return (
        is_training(words),
        not _counts_epochs(words),
        bar.has_loss,
        bar.seconds,
        len(bar.steps),
    )


def _document(records: str) -> Mapping[str, object]:
    return {
        "title": "an unknown program",
        "unit": "samples/s",
        "rate_of": "all",
        "restarts_each_epoch": True,
        "records": [records],
    }


def _counts_epochs(words: str) -> bool:
    """Return whether a bar counts epochs: ``Epochs``, but not ``Epoch 3``, which counts the steps of one."""
    return _EPOCHS.search(words) is not None and _COUNT not in words
