"""Doubts of a described format: lines that show a problem, numbers of a line that must agree, resumed averages."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from trainmark.errors import InputError
from trainmark.logs.description.document import FormatDescription
from trainmark.logs.description.patterns import Expression, Settings, Sources, compile_pattern
from trainmark.logs.format import LogContext
from trainmark.logs.model import Problem, Severity, median

_KEYS = ("pattern", "code", "message", "severity", "times", "equal", "within", "value", "above")
_SHOWN: Mapping[str, Mapping[str, float]] = {
    "equal": {"left": 1.0, "right": 1.0},
    "times": {"times": 2},
    "value": {"value": 2.0, "above": 1.0},
}
"""The fields that a message may have, by the key that gives them."""
_OF_LOG = frozenset({"first_step"})
_WITHIN = 0.05

_Read = Callable[[LogContext], Settings]


class _Doubt(NamedTuple):
    """A problem that a log shows.

    By one match of the pattern, by so many ``times`` in the whole log, by two numbers of a line that are not ``equal``
    ``within`` a share, or by a value ``above`` another.
    """

    pattern: re.Pattern[bytes] | None
    code: str
    message: str
    severity: Severity
    times: int | None
    equal: tuple[Expression, Expression] | None
    within: float
    above: tuple[Expression, Expression] | None

    def check(self, context: LogContext, settings: _Read) -> Problem | None:
        """Return the problem if the log has it."""
        if self.above is not None:
            numbers = {} if context.first_step is None else {"first_step": float(context.first_step)}
            value, least = (side(context.text, settings(context))(numbers) for side in self.above)
            is_above = value is not None and least is not None and value > least
            return self._problem(value=value or 0.0, above=least or 0.0) if is_above else None
        assert self.pattern is not None
        if self.equal is not None:
            return self._compare(self.pattern, context, settings(context), *self.equal)
        if self.times is not None:
            found = len(self.pattern.findall(context.notes))
            return self._problem(times=found) if found >= self.times else None
        return self._problem() if self.pattern.search(context.text) else None

    def _compare(
        self,
        pattern: re.Pattern[bytes],
        context: LogContext,
        words: Settings,
        left: Expression,
        right: Expression,
    ) -> Problem | None:
        sides = [side(context.text, words) for side in (left, right)]
        pairs = []
        for match in pattern.finditer(context.tail):
            numbers = _numbers(match)
            one, other = (side(numbers) for side in sides)
            if one is not None and other:
                pairs.append((one, other))
        if not pairs or abs(median([one / other for one, other in pairs]) - 1) <= self.within:
            return None
        return self._problem(
            left=median([one for one, _ in pairs]), right=median([other for _, other in pairs])
        )

    def _problem(self, **values: float) -> Problem:
        return Problem(self.code, _filled(self.message, values), self.severity)


def make_doubts(
    text: FormatDescription, sources: Sources, start: re.Pattern[bytes] | None, settings: _Read | None
) -> tuple[Callable[[LogContext], tuple[Problem, ...]], re.Pattern[bytes] | None]:
    """Return the function that finds a log's doubts, and what it needs of the whole log (None for nothing).

    Raises ``InputError`` naming file and key. ``start`` is the compiled pattern of the start of a log.
    """
    checks = [
        _doubt(doubt, sources, f"{text.where}: doubts[{number}]") for number, doubt in enumerate(text.doubts)
    ]
    notes = [check.pattern.pattern for check in checks if check.pattern and check.times is not None]
    resumed_from = sources.number(text.resumed_from, f"{text.where}: resumed_from")
    read = settings or (lambda _context: {})

    def doubts(context: LogContext) -> tuple[Problem, ...]:
        found: dict[str, Problem] = {}
        for check in checks:
            if check.code not in found and (problem := check.check(context, read)):
                found[check.code] = problem
        resumed = _resumed(context, start, resumed_from) if text.averages_since_start else ()
        return (*found.values(), *resumed)

    return doubts, re.compile(b"|".join(notes), re.MULTILINE) if notes else None


def _doubt(keys: Mapping[str, Any], sources: Sources, where: str) -> _Doubt:
    searched = "value" if "value" in keys else "pattern"
    if set(keys) - set(_KEYS) or not {searched, "code", "message"} <= set(keys):
        raise InputError(
            f"{where}: expected pattern, code, message (and severity, times, or equal and within), or value, above"
        )
    severity, times = keys.get("severity", "doubt"), keys.get("times")
    if severity not in set(Severity):
        raise InputError(f"{where}: severity is '{severity}'; expected {' or '.join(Severity)}")
    if times is not None and (not isinstance(times, int) or times < 1):
        raise InputError(f"{where}: times is '{times}'; expected a whole number above 0")
    pattern = compile_pattern(str(keys["pattern"]), where) if searched == "pattern" else None
    names = frozenset(map(_field_of, pattern.groupindex if pattern else ()))
    return _Doubt(
        pattern,
        str(keys["code"]),
        _message(keys, where),
        Severity(severity),
        times,
        _pair(keys["equal"], sources, f"{where}: equal", names) if "equal" in keys else None,
        float(keys.get("within", _WITHIN)),
        _pair([keys["value"], keys.get("above", 0)], sources, f"{where}: value", _OF_LOG)
        if "value" in keys
        else None,
    )


def _message(keys: Mapping[str, Any], where: str) -> str:
    message = str(keys["message"])
    try:
        _filled(message, next((shown for key, shown in _SHOWN.items() if key in keys), {}))
    except KeyError as error:
        raise InputError(f"{where}: message: no field '{error.args[0]}'{error.args[1]}") from None
    except ValueError as error:
        raise InputError(f"{where}: message: cannot be filled in: {error}") from None
    return message


def _filled(message: str, values: Mapping[str, float]) -> str:
    """Return a message with its values; raise ``KeyError`` or ``ValueError`` if it cannot be filled in."""
    if "{" not in message and "}" not in message:
        return message
    from trainmark.logs.description.sample import Template

    return Template(message).fill_in(values)


def _pair(sides: Any, sources: Sources, where: str, more: frozenset[str]) -> tuple[Expression, Expression]:
    if not isinstance(sides, list) or len(sides) != 2:
        raise InputError(f"{where}: expected a list of two expressions")
    left, right = (sources.expression(str(side), where, more) for side in sides)
    return left, right


def _field_of(group: str) -> str:
    return group.removesuffix("_millions").removesuffix("_thousands")


def _numbers(match: re.Match[bytes]) -> dict[str, float]:
    """Return the numbers of a match by field; the digits before a comma are groups of their own."""
    words: dict[str, bytes] = {}
    for group, word in match.groupdict(b"").items():
        words[_field_of(group)] = words.get(_field_of(group), b"") + word
    found = {}
    for name, word in words.items():
        try:
            found[name] = float(word)
        except ValueError:
            continue
    return found


def _resumed(
    context: LogContext,
    start: re.Pattern[bytes] | None,
    resumed_from: Callable[[bytes, Settings], float | None],
) -> Iterator[Problem]:
    """Yield the doubt about a resumed run, whose averages since its start cover fewer steps than its counter shows.

    ``resumed_from`` reads the printed step from which a run resumed; where it finds none, a log with its ``start`` was
    resumed if the first record has a later step.
    """
    found = resumed_from(context.text, {})
    step, first = int(found) if found else 0, context.first_step or 0
    if not step and first > 2 * context.step_interval and start is not None and start.search(context.head):
        step = first - context.step_interval
    if step:
        sentence = f"the run resumed from iteration {step}: its averages cover fewer iterations than its counter shows"
        yield Problem("resumed", sentence)
