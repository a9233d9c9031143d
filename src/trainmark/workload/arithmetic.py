"""Numbers of a card that follow from a case: ``{block_size} * {global_batch}``."""

import re
from ast import expr
from collections.abc import Mapping

from trainmark.errors import InputError
from trainmark.logs.description.facts import evaluate, names_in, parse_expression
from trainmark.schema.case import Case

_NAME = re.compile(r"\{(?:(?:axis|option)\.)?([A-Za-z_]\w*)\}")
_COMPUTED = re.compile(r"\{=([^{}]*)\}")

NUMBERS = (
    *("batch", "node_batch", "global_batch", "micro_batch", "world_size", "nodes", "devices_per_node"),
    *("steps", "warmup_steps", "threads", "loader_workers", "seed"),
)
"""The placeholders that are numbers, besides axes and options."""


class NoNumberError(ValueError):
    """An error for an expression whose value is not known; ``names`` are the names without a number."""

    def __init__(self, text: str, names: tuple[str, ...]) -> None:
        unknown = ", ".join(names)
        super().__init__(f"'{text}' has no value: {unknown} has no number in this case" if names else text)
        self.names = names


def parse_work(text: str, where: str) -> expr:
    """Return an expression with names in braces (``{axis.NAME}``, ``{option.NAME}``, ``{NAME}``) or without, parsed.

    Raises ``InputError`` if it has more than names, numbers and ``+ - * / // ()``.
    """
    return parse_expression(_NAME.sub(r"\1", text), where)


def expressions_in(word: str) -> list[str]:
    """Return the expressions in a word of a command: ``{=batch * 2}`` has one."""
    return _COMPUTED.findall(word) if "{=" in word else []


def expression_names(text: str, where: str) -> frozenset[str]:
    """Return the names in an expression; raise ``InputError`` as ``parse_work``."""
    return names_in(parse_work(text, where))


def computed(text: str, numbers: Mapping[str, float]) -> float:
    """Return the value of an expression; raise ``NoNumberError`` if it has none."""
    tree = parse_work(text, "expression")
    if missing := sorted(name for name in names_in(tree) if name not in numbers):
        raise NoNumberError(text, tuple(missing))
    value = evaluate(tree, numbers.get)
    if value is None:
        raise NoNumberError(f"'{text}' divides by 0", ())
    return value


def with_numbers(word: str, numbers: Mapping[str, float]) -> str:
    """Return a word with its expressions replaced by their values; raise ``NoNumberError`` if one has none."""
    return _COMPUTED.sub(lambda match: f"{computed(match[1], numbers):.15g}", word)


def numbers_of(case: Case, texts: Mapping[str, str], options: Mapping[str, object]) -> dict[str, float]:
    """Return the numbers by name: a case's axes, then the placeholders' ``texts``, then its ``options``."""
    axes = {axis: case.value(axis) for axis in case.axes}
    found = {name: float(value) for name, value in axes.items() if _is_number(value)}
    found |= {name: float(texts[name]) for name in NUMBERS if name in texts}
    return found | {name: float(str(value)) for name, value in options.items() if _is_number(value)}


def whole(text: str, value: float) -> int:
    """Return the value of an expression as a positive integer; raise ``InputError`` for any other."""
    if value < 1 or value != int(value):
        raise InputError(f"'{text}' is {value:g}; expected a whole number from 1")
    return int(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
