"""Rules whose result is a published figure, and the chance that a random figure is one."""

from dataclasses import dataclass
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal

from trainmark.logs.model import ParsedLog
from trainmark.measure.rules.catalog import conventional_rules, rules_for
from trainmark.measure.rules.model import RuleKind, RuleResult

_NEAR = Decimal("0.05")
ROUNDED = (ROUND_HALF_UP, ROUND_HALF_EVEN)


@dataclass(frozen=True, slots=True)
class Tried:
    """The rules' results: the publishers' and trainmark's, then the conventional ones, which match only rounded."""

    usual: list[RuleResult]
    conventional: list[RuleResult]

    @property
    def all(self) -> list[RuleResult]:
        """All results, in the order in which their rules are tried."""
        return [*self.usual, *self.conventional]

    def matching(self, published: Decimal) -> list[RuleResult]:
        """Return the results that equal ``published`` when printed with as many digits."""
        return [
            *(r for r in self.usual if r.value and is_printed(r.value, published, *_cuts(r))),
            *(r for r in self.conventional if r.value and is_printed(r.value, published, *ROUNDED)),
        ]


def try_rules(log: ParsedLog) -> Tried:
    """Return the results of all rules that give a number for ``log``, those of its format's publishers first."""
    usual = [rule.compute(log) for rule in rules_for(log.format)]
    known = {result.rule for result in usual}
    conventional = [rule.compute(log) for rule in conventional_rules() if rule.name not in known]
    return Tried(
        *([result for result in group if result.value is not None] for group in (usual, conventional))
    )


def reproduces(value: float, published: Decimal) -> bool:
    """Return whether ``value`` printed with the digits of ``published``, rounded or truncated, is ``published``."""
    return is_printed(value, published, *ROUNDED, ROUND_DOWN)


def chance_of_a_match(tried: Tried, published: Decimal) -> float:
    """Return the share of all figures within ±5 % of ``published``, with as many digits, that match some rule."""
    grain = _grain(published)
    given: set[Decimal] = set()
    for result in tried.all:
        if result.value is not None:
            modes = _cuts(result) if result in tried.usual else ROUNDED
            given |= _prints(result.value, grain, *modes)
    near = sum(1 for figure in given if abs(figure - published) <= published * _NEAR)
    figures = 2 * (published * _NEAR // grain) + 1
    return min(1.0, near / float(figures))


def is_printed(value: float, published: Decimal, *modes: str) -> bool:
    """Return whether ``value`` is ``published`` when printed with as many digits by one of the rounding ``modes``."""
    return published in _prints(value, _grain(published), *modes)


def _prints(value: float, grain: Decimal, *modes: str) -> set[Decimal]:
    # Twelve digits, so that the order of a float sum does not matter; no log prints more.
    exact = Decimal(f"{value:.12g}")
    return {exact.quantize(grain, mode) for mode in modes}


def _cuts(result: RuleResult) -> tuple[str, ...]:
    """Return the roundings that a publisher may have used for a rule's result; trainmark's own rule only rounds."""
    return ROUNDED if result.rule == RuleKind.WINDOW else (*ROUNDED, ROUND_DOWN)


def _grain(published: Decimal) -> Decimal:
    return Decimal(1).scaleb(min(int(published.as_tuple().exponent), 0))
