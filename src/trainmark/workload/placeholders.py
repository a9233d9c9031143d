"""The placeholders in the words of a card: their substitution, and numbers computed from them."""

import re
from ast import expr
from collections.abc import Mapping
from functools import lru_cache

from trainmark.errors import InputError
from trainmark.expressions import evaluate, names_in, parse_expression
from trainmark.schema.case import Case

PLACEHOLDERS: Mapping[str, str] = {
    "value": "the axis's or the option's value",
    "source": "the program's folder",
    "framework": "the framework's name",
    "task": "the task's name",
    "run": "the run's folder, in which the program is started",
    "prepared": "the folder for the results of the prepare steps",
    "compile_cache": "the folder for compiled programs, which the runs of one environment share",
    "python": "the interpreter of the environment (in prepare steps)",
    "events": "the file for DLLogger events",
    "data": "the data set's training samples, or 'synthetic'",
    "dataset": "the folder of the whole data set, or 'synthetic'",
    "steps": "steps of the run, warm-up included",
    "warmup_steps": "steps that are not measured",
    "samples": "samples of all steps and all devices",
    "threads": "the cores of one rank",
    "loader_workers": "loader processes of one rank",
    "node_loader_workers": "loader processes of all ranks of a node",
    "seed": "the number of the run",
    "batch": "the batch of one device",
    "node_batch": "the batch of all devices of a node",
    "global_batch": "the batch of all devices of the run",
    "micro_batch": "the batch of one device divided by its accumulation steps (the axis accumulation; default: 1)",
    "learning_rate": "the learning rate for the global batch, by the card's scaling",
    "world_size": "the number of ranks",
    "nodes": "the number of nodes",
    "node": "the number of this node, from 0",
    "devices_per_node": "the number of a node's devices",
    "devices": "a node's devices as 0,1,2,3",
    "hosts": "the nodes' addresses, separated by commas",
    "master": "the address of the rendezvous",
    "port": "the port of the rendezvous",
}
"""Every valid placeholder, and the meaning of its text."""

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_NAME = re.compile(r"\{(?:(?:axis|option)\.)?([A-Za-z_]\w*)\}")
_COMPUTED = re.compile(r"\{=([^{}]*)\}")
NUMBERS = (
    *("batch", "node_batch", "global_batch", "micro_batch", "world_size", "nodes", "devices_per_node"),
    *("steps", "warmup_steps", "threads", "loader_workers", "seed"),
)
"""The placeholders that are numbers, besides axes and options."""


@lru_cache(maxsize=4096)
def placeholders_in(word: str) -> tuple[str, ...]:
    """Return the placeholders of a word."""
    return tuple(_PLACEHOLDER.findall(word)) if "{" in word else ()


def filled(word: str, known: Mapping[str, str], value: str | None = None) -> str:
    """Return the word with its placeholders replaced, in one pass: braces in a text stay as they are.

    ``value`` is the text of the placeholder of that name, if the word has an axis's or an option's value.
    """
    if "{" not in word:
        return word
    return filled_template(_parts(word), known if value is None else {**known, "value": value})


Template = str | tuple[tuple[str, str | None], ...]
"""A word of which some placeholders are filled in already: its parts, each with the name of the placeholder that it
still is, or None; a text if none is left."""


def template(word: str, known: Mapping[str, str], value_is: str = "value") -> Template:
    """Return the word with the placeholders in ``known`` filled in; ``{value}`` is then named ``value_is``."""
    parts: list[tuple[str, str | None]] = []
    for text, name in _parts(word):
        if name is not None and name in known:
            parts.append((known[name], None))
        else:
            parts.append((text, value_is if name == "value" else name))
    return tuple(parts) if any(name for _, name in parts) else "".join(text for text, _ in parts)


def filled_template(template: Template, known: Mapping[str, str]) -> str:
    """Return the text of a template; a placeholder without a text in ``known`` stays as it is."""
    if isinstance(template, str):
        return template
    return "".join([text if name is None else known.get(name, text) for text, name in template])


@lru_cache(maxsize=4096)
def _parts(word: str) -> tuple[tuple[str, str | None], ...]:
    """Return the texts of which a word consists, each with the name of the placeholder that it is, or None."""
    pieces = _PLACEHOLDER.split(word)
    return tuple(
        (f"{{{piece}}}", piece) if at % 2 else (piece, None)
        for at, piece in enumerate(pieces)
        if at % 2 or piece
    )


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
