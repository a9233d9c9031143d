"""Facts of a run by the sources that a format's description names for each, and arithmetic of them."""

import ast
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, NamedTuple

from trainmark.errors import InputError, nearest
from trainmark.expressions import evaluate, names_in, parse_expression
from trainmark.logs.description.patterns import compile_pattern
from trainmark.logs.fields import can_match
from trainmark.logs.format import count_items
from trainmark.logs.model import Facts, read_hardware
from trainmark.logs.paddle import paddle_devices
from trainmark.logs.precision import is_on, mentions_mixed_precision
from trainmark.schema.precision import Precision

_FACTS = tuple(each.name for each in fields(Facts))
_TEXTS = ("model", "hardware", "precision")
_LAUNCHED = ("nodes", "gpus", "gpus_per_node")
_SEARCHES = ("pattern", "setting", "switch", "mixed_precision")
_SOURCE_KEYS = (
    "pattern",
    "within",
    "setting",
    "switch",
    "mixed_precision",
    "words",
    "items",
    "product",
    "largest",
    "is",
)
_LARGEST = 10**15
_LARGE_BYTES = 1 << 16
Settings = Mapping[str, str]
Find = Callable[["Run"], str | float | None]
Expression = Callable[[bytes, Settings], Callable[[Mapping[str, float]], float | None]]
"""Returns, for a log's text and settings, the function that computes a value from further numbers."""
_NUMBER = re.compile(r"(\d[\d,]*(?:\.\d*)?(?:[eE][+-]?\d+)?)([KMGB]?)")


@dataclass(slots=True)
class Run:
    """The text and the printed settings of a log, and the numbers found so far by name."""

    text: bytes
    settings: Settings
    finders: Mapping[str, Find]
    launched: Mapping[str, int | None] = field(default_factory=dict)
    searching: frozenset[str] = frozenset()

    def number(self, name: str) -> float | None:
        """Return the number called ``name`` (a value or a fact); ``None`` if the log does not have it."""
        if name in self.searching or name not in self.finders:
            return None
        inner = Run(self.text, self.settings, self.finders, self.launched, self.searching | {name})
        return _as_number(self.finders[name](inner))


class Sources(NamedTuple):
    """The sources of a description's facts and values, ready to search a log.

    With a ``launcher`` its lines give the facts that no source finds, and the values ``launcher_nodes``,
    ``launcher_gpus`` and ``launcher_gpus_per_node``.
    """

    facts: tuple[str, ...]
    finders: Mapping[str, Find]
    launcher: str | None

    def read(self, text: bytes, settings: Settings) -> Facts:
        """Return the facts in a log's text and settings."""
        run = self._run(text, settings)
        found: dict[str, Any] = {}
        for name in self.facts:
            if name in _TEXTS:
                word = self.finders[name](run)
                found[name] = _precision(word) if name == "precision" else word
            else:
                found[name] = _as_count(run.number(name))
        found["hardware"] = found.get("hardware") or read_hardware(text)
        return Facts(**found)

    def number(self, source: Any, where: str) -> Callable[[bytes, Settings], float | None]:
        """Return the function that reads one more number; ``InputError`` naming ``where`` for a bad source."""
        if source is None:
            return lambda _text, _settings: None
        find = _finder(source, where, self.finders)
        return lambda text, settings: _as_number(find(self._run(text, settings)))

    def expression(self, text: str, where: str, more: frozenset[str]) -> Expression:
        """Return an expression of facts, values and numbers called as in ``more``, for the numbers of one log."""
        tree = _parsed(text, where, [*self.finders, *more])

        def of_log(log: bytes, settings: Settings) -> Callable[[Mapping[str, float]], float | None]:
            found = cache(self._run(log, settings).number)
            return lambda numbers: evaluate(
                tree, lambda name: numbers[name] if name in numbers else found(name)
            )

        return of_log

    def _run(self, text: bytes, settings: Settings) -> Run:
        return Run(text, settings, self.finders, paddle_devices(text)._asdict() if self.launcher else {})


def _refuse_cycles(known: Mapping[str, Any], where: str) -> None:
    """Raise ``InputError`` for values that can be found only by each other."""
    found: set[str] = set()
    while more := {name for name in known if name not in found and _can_be_found(known[name], found, known)}:
        found |= more
    missing = [name for name in known if name not in found]
    if missing:
        raise InputError(
            f"{where}: {', '.join(missing)}: found only by {'each other' if len(missing) > 1 else 'itself'}; "
            "give one of them a pattern, a setting or a number"
        )


def _can_be_found(source: Any, found: set[str], known: Mapping[str, Any]) -> bool:
    if isinstance(source, Sequence) and not isinstance(source, str):
        return not source or any(_can_be_found(one, found, known) for one in source)
    if not isinstance(source, str) or not source.startswith("="):
        return True
    # An unknown name or a mistake in the expression has an error of its own.
    words = re.findall(r"[A-Za-z_]\w*", source)
    return all(word in found or word not in known for word in words)


def _check_precisions(source: Any, where: str) -> None:
    """Raise ``InputError`` for a precision that a source names and that does not exist."""
    if isinstance(source, Sequence) and not isinstance(source, str):
        for one in source:
            _check_precisions(one, where)
    if not isinstance(source, Mapping):
        return
    words = source.get("words")
    for word in (source.get("is"), *(words.values() if isinstance(words, Mapping) else ())):
        if word is not None and word not in set(Precision):
            raise InputError(
                f"{where}: no precision '{word}'{nearest(str(word), list(Precision))} (known: {', '.join(Precision)})"
            )


def read_sources(
    facts: Mapping[str, Any], values: Mapping[str, Any], where: str, launcher: str | None = None
) -> Sources:
    """Return the sources of a description's facts and values; raise ``InputError`` for a bad one."""
    for name in facts:
        if name not in _FACTS:
            raise InputError(
                f"{where}: facts: no fact '{name}'{nearest(name, _FACTS)} (known: {', '.join(_FACTS)})"
            )
    described = {**values, **facts}
    finders: dict[str, Find] = {}
    if launcher:
        finders = {f"launcher_{name}": _of_launcher(name) for name in _LAUNCHED}
        described = {**dict.fromkeys(_LAUNCHED, ()), **described}
        facts = {**dict.fromkeys(_LAUNCHED), **facts}
    known = {**described, **finders}
    _refuse_cycles(known, where)
    _check_precisions(described.get("precision"), f"{where}: precision")
    for name, source in described.items():
        find = _finder(source, f"{where}: {name}", known)
        finders[name] = _first_of([find, _of_launcher(name)]) if launcher and name in _LAUNCHED else find
    return Sources(tuple(facts), finders, launcher)


def _finder(source: Any, where: str, known: Mapping[str, Any]) -> Find:
    if isinstance(source, Sequence) and not isinstance(source, str):
        return _first_of([_finder(one, where, known) for one in source])
    if isinstance(source, int | float) and not isinstance(source, bool):
        return lambda _run: float(source)
    if isinstance(source, Mapping):
        return _detailed(source, where)
    if not isinstance(source, str):
        raise InputError(f"{where}: '{source}' is no pattern, expression or list of these")
    if source.startswith("="):
        tree = _parsed(source[1:], where, known)
        return lambda run: evaluate(tree, run.number)
    return _by_pattern(source, where)


def _parsed(text: str, where: str, known: Collection[str]) -> ast.expr:
    """Return an expression of ``known`` names; raise ``InputError`` naming ``where`` for another."""
    tree = parse_expression(text, where)
    for name in names_in(tree):
        if name not in known:
            raise InputError(f"{where}: no value or fact '{name}'{nearest(name, known)}")
    return tree


def _first_of(each: Sequence[Find]) -> Find:
    return lambda run: next((found for find in each if (found := find(run)) is not None), None)


def _of_launcher(name: str) -> Find:
    def found(run: Run) -> float | None:
        value = run.launched.get(name)
        return None if value is None else float(value)

    return found


def _detailed(source: Mapping[str, Any], where: str) -> Find:
    """Return the finder of a source with keys: pattern or setting, and what its word means."""
    for key in source:
        if key not in _SOURCE_KEYS:
            raise InputError(f"{where}: unknown key '{key}'{nearest(str(key), _SOURCE_KEYS)}")
    if sum(key in source for key in _SEARCHES) != 1:
        raise InputError(
            f"{where}: give one of 'pattern', 'setting' and 'switch' (or 'mixed_precision: true')"
        )
    if "words" in source and not isinstance(source["words"], Mapping):
        raise InputError(f"{where}: words is '{source['words']}'; expected printed words with their values")
    if not isinstance(source.get("is"), str | int | float | None):
        raise InputError(f"{where}: is: '{source['is']}' is neither a word nor a number")
    if source.get("largest") and set(source) != {"pattern", "largest"}:
        raise InputError(f"{where}: 'largest' needs a 'pattern' alone")
    if "within" in source and "setting" in source:
        raise InputError(f"{where}: 'within' needs a 'pattern' to search for within that section")
    if source.get("largest"):
        return _largest(str(source.get("pattern")), where)
    if "pattern" in source:
        find = _by_pattern(str(source["pattern"]), where, source.get("within"))
    elif "switch" in source:
        find = _by_switch(str(source["switch"]), where, source.get("within"))
    elif "mixed_precision" in source:
        find = _by_mixed_precision(where, source.get("within"))
    else:
        name = str(source["setting"])
        find = lambda run: run.settings.get(name)  # noqa: E731
    words, is_items, constant = source.get("words"), source.get("items"), source.get("is")

    def found(run: Run) -> str | float | None:
        word = find(run)
        if word is None:
            return None
        if constant is not None:
            return constant if isinstance(constant, str) else float(constant)
        if words is not None:
            return _translated(str(word), words)
        if source.get("product"):
            # -1 means the remaining devices, whose number is unknown here.
            sizes = re.findall(r"-?\d+", str(word))
            return float(math.prod(map(int, sizes))) if sizes and "-" not in str(word) else None
        return count_items(str(word)) if is_items else word

    return found


def _translated(word: str, words: Mapping[Any, Any]) -> str | None:
    """Return the value of ``word``; the keys ``true`` and ``false`` stand for each spelling of a switch."""
    # YAML reads a bare True or 1 as no text.
    exact = next((str(value) for key, value in words.items() if str(key) == word), None)
    switch = is_on(word)
    if exact is not None or switch is None:
        return exact
    return next((str(value) for key, value in words.items() if str(key).lower() == str(switch).lower()), None)


def _by_pattern(text: str, where: str, within: str | None = None) -> Find:
    pattern, section = compile_pattern(text, where), _section(where, within)

    def found(run: Run) -> str | None:
        part = section(run)
        word = _first_group(pattern, part) if part is not None else None
        return None if word is None else _word(word)

    return found


def _largest(text: str, where: str) -> Find:
    """Return the finder of the largest number among the matches of a pattern."""
    pattern = compile_pattern(text, where)

    def found(run: Run) -> float | None:
        numbers = [_as_number(_word(_first_of_groups(match))) for match in pattern.finditer(run.text)]
        return max((number for number in numbers if number is not None), default=None)

    return found


def _by_switch(name: str, where: str, within: str | None) -> Find:
    """Return the finder of a command's switch, or of the argument of that name: its value, ``True`` without one.

    ``--batch-size 32``, ``--batch_size=32``, ``batch_size=32`` and ``batch_size: 32`` are alike.
    """
    if not re.fullmatch(r"[A-Za-z]\w*(?:-\w+)*", name):
        raise InputError(f"{where}: switch: '{name}' is no name such as batch-size (without its dashes)")
    words = re.sub("[-_]", "[-_]", name)
    # A backslash continues the command in the next line.
    value = r"['\"]?([^\s,;'\")\]}\\-][^\s,;'\")\]}]*)"
    pattern = compile_pattern(
        rf"--{words}(?![\w-])(?:(?:=| +){value})?|(?<![\w.-]){words} *[=:] *{value}", f"{where}: switch"
    )
    section = _section(where, within)

    def found(run: Run) -> str | None:
        part = section(run)
        match = pattern.search(part) if part is not None else None
        if match is None:
            return None
        return (match[1] or match[2] or b"True").decode("utf-8", "replace")

    return found


def _by_mixed_precision(where: str, within: str | None) -> Find:
    section = _section(where, within)

    def found(run: Run) -> str | None:
        part = section(run)
        mixed = mentions_mixed_precision(part) if part is not None else None
        return None if mixed is None else str(mixed)

    return found


def _section(where: str, within: str | None) -> Callable[[Run], bytes | None]:
    if within is None:
        return lambda run: run.text
    pattern = compile_pattern(str(within), f"{where}: within")
    return lambda run: _first_group(pattern, run.text)


def _first_group(pattern: re.Pattern[bytes], text: bytes) -> bytes | None:
    # A plain word is found many times faster than a pattern; to know the words takes longer than a small text.
    if len(text) > _LARGE_BYTES and not can_match(pattern, text):
        return None
    match = pattern.search(text)
    return None if match is None else _first_of_groups(match)


def _first_of_groups(match: re.Match[bytes]) -> bytes:
    # A pattern without a group is one that says something by being there.
    return next((bytes(group) for group in match.groups() if group), bytes(match[0]))


def _word(text: bytes) -> str:
    return text.decode("utf-8", "replace").strip().strip("'\"")


def _precision(word: str | float | None) -> Precision | None:
    return Precision(word) if word in set(Precision) else None


def _as_number(found: str | float | None) -> float | None:
    """Return a printed number (``1,024``, ``2.5K``) as a float; ``None`` for a word."""
    if found is None or isinstance(found, float):
        return found
    match = _NUMBER.fullmatch(str(found).strip())
    if match is None:
        return None
    value = float(match[1].replace(",", "")) * {"": 1.0, "K": 1e3, "M": 1e6, "G": 1e9, "B": 1e9}[match[2]]
    return value if value < _LARGEST else None


def _as_count(value: float | None) -> int | None:
    """Return a positive whole number; ``None`` for others."""
    if value is None or not 0 < value < _LARGEST or abs(value - round(value)) > 1e-6 * value:
        return None
    return round(value)
