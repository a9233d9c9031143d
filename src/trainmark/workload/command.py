"""From a case and a card to the words of the program's command line."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from trainmark.errors import nearest
from trainmark.suite import AXES, Case, Device
from trainmark.workload.card import Card
from trainmark.workload.cards import Workload

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_NOT_FLAGS = ("workload", "framework", "options")


class UnsupportedByCard(Exception):  # noqa: N818 - it becomes the outcome "unsupported", with this reason
    """The program cannot do what the case asks; the message says what."""


@dataclass(frozen=True, slots=True)
class Values:
    """What the placeholders of a card stand for in one run, besides the case's own axes."""

    steps: int
    warmup_steps: int
    threads: int
    loader_workers: int
    seed: int
    events: Path
    data: str

    def placeholders(self, source: Path) -> dict[str, str]:
        """Return the text of each placeholder."""
        names = ("steps", "warmup_steps", "threads", "loader_workers", "seed", "events", "data")
        return {name: str(getattr(self, name)) for name in names} | {"source": str(source)}


def program_words(case: Case, workload: Workload, values: Values) -> tuple[str, ...]:
    """Return the words that follow the interpreter (or the launcher) in the command of one rank.

    Raises ``UnsupportedByCard`` when the card lacks an axis, a value or an option that the case uses.
    """
    card, known = workload.card, values.placeholders(workload.source)
    words = [_filled(word, known) for word in card.command]
    for axis in AXES:
        if axis not in _NOT_FLAGS:
            words += _axis_words(case, axis, workload, known)
    for option, value in case.options.items():
        if option not in card.options:
            raise UnsupportedByCard(
                f"workload '{card.name}' has no option '{option}'{nearest(option, card.options)}"
            )
        words += [_filled(word, known | {"value": _text(value)}) for word in card.options[option]]
    return tuple(words)


def find_gap(case: Case, card: Card, device: Device) -> str | None:
    """Return why the program cannot do this combination of axes on ``device``, or None."""
    for gap in card.gaps:
        if all(
            _text(device if axis == "device" else getattr(case, axis)) == value
            for axis, value in gap.when.items()
        ):
            return gap.reason
    return None


def _axis_words(case: Case, axis: str, workload: Workload, known: dict[str, str]) -> list[str]:
    card, value = workload.card, getattr(case, axis)
    text = _text(value)
    rule = card.axes.get(axis)
    if rule is None:
        only = _text(card.fixed.get(axis, Case.model_fields[axis].get_default(call_default_factory=True)))
        if text != only:
            raise UnsupportedByCard(f"workload '{card.name}' can only do {axis} {only}, not {text}")
        return []
    if rule.values is not None:
        if text not in rule.values:
            choices = ", ".join(rule.values)
            raise UnsupportedByCard(
                f"workload '{card.name}' ({card.framework}) has no {axis} '{text}'"
                f"{nearest(text, rule.values)} (it has: {choices})"
            )
        words = rule.values[text]
    else:
        words = rule.flags
    if axis == "data":
        text = known["data"]
    if axis == "batch_per_device" and rule.counts == "global":
        text = str(int(value) * case.world_size)
    return [_filled(word, known | {"value": text}) for word in words]


def _filled(word: str, known: Mapping[str, str]) -> str:
    """Put the placeholders' texts in, in one pass, so that a text with braces in it stays as it is."""
    if "{" not in word:
        return word
    return _PLACEHOLDER.sub(lambda match: known.get(match[1], match[0]), word)


def _text(value: Any) -> str:
    if isinstance(value, Enum):
        return str(value.value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
