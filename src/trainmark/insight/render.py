"""An explanation as text for a reader, and as a JSON object."""

from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import Any

from trainmark.insight.bound import bound_line
from trainmark.insight.difference import RANKED, Basis, RecipeDifference
from trainmark.insight.evidence import Effect, Match, Nearness, Strength
from trainmark.insight.explanation import NO_GAP, Explanation, Nearer
from trainmark.insight.factors import OPEN, Candidate, Factor, FactorEvidence
from trainmark.insight.profiles import comparison_lines, kind_differences
from trainmark.insight.sides import ExplainedRun
from trainmark.printable import folded, terminal_width
from trainmark.schema.recipe import AxisName, Condition

_SAME = "same architecture, framework, model and precision"
_BASIS = {
    Basis.OWN: "measured in the run's own records",
    Basis.ISOLATED: f"measured with nothing else changed (according to its source), {_SAME}",
    Basis.BUNDLED: f"measured on the {_SAME}, but other things changed as well",
    Basis.PHYSICS: "by arithmetic",
    Basis.REMAINDER: "the only recorded difference left: it explains the open part if nothing unrecorded differs",
    Basis.BOUNDED: "an upper bound from the run's own records: the time it waited for data (without the load of the"
    " loader on the host)",
    Basis.ELSEWHERE: "measured only under other conditions: the direction is known, but not the size here",
}
_BOTH_PLACES = (Basis.OWN, Basis.PHYSICS)
_WIDTH = 110
_NOTE = len("note   ")


def render_text(explanation: Explanation) -> str:
    """Return the explanation for a terminal: the gap, the ranked differences, the unexplained rest, the axes."""
    lines = [*_gap(explanation), ""]
    ranked = [difference for difference in explanation.differences if difference.basis in RANKED]
    causes = [difference for difference in ranked if not difference.opposite]
    if causes:
        lines += ["Differences, the largest known effect first", ""]
        for number, difference in enumerate(causes, start=1):
            lines += [*_difference(number, difference), ""]
    lines += _unranked(explanation)
    against = [difference for difference in ranked if difference.opposite]
    if against:
        lines += ["Differences with the opposite effect; they explain none of the gap", ""]
        for number, difference in enumerate(against, start=len(causes) + 1):
            lines += [*_difference(number, difference), ""]
    lines += _product(explanation)
    lines += _profiles(explanation)
    lines += _nearer(explanation)
    lines += _lists(explanation)
    lines += _sources(explanation)
    return "\n".join(lines).rstrip() + "\n"


def _gap(explanation: Explanation) -> Iterator[str]:
    run, other, ratio = explanation.run, explanation.other, explanation.ratio
    if run.throughput is None:
        yield f"here   {run.name}: no throughput"
    else:
        rule = f" (rule {run.rule})" if run.rule else ""
        yield f"here   {run.name}: {run.throughput:.2f} {run.unit or ''}{rule}"
    if run.bound is not None:
        yield from _wrapped("bound  by ", bound_line(run.bound))
    yield f"there  {other.name}: {other.text}"
    if other.run is not None and other.run.bound is not None:
        yield from _wrapped("bound  by ", bound_line(other.run.bound))
    what = "reference" if other.run is None else "other run"
    if ratio is None:
        yield "The two have no ratio; the differences below have no shares."
    elif not explanation.has_gap and not explanation.in_noise:
        yield f"The two differ by {abs(ratio - 1):.1%} in total."
    elif abs(ratio - 1) < NO_GAP:
        yield f"The two differ by {abs(ratio - 1):.1%}: there is no gap to explain."
    elif explanation.in_noise:
        noise = f"±{explanation.noise:.1%} by {'its' if other.run is None else 'their'} records"
        whose = "the run's own noise" if other.run is None else "the noise of the two"
        yield f"The two differ by {abs(ratio - 1):.1%}, within {whose} ({noise}): no gap to explain."
    elif ratio > 1:
        yield f"The {what} is {ratio:.3f} times as fast."
    else:
        yield f"The run is {1 / ratio:.3f} times as fast as the {what}."
    if explanation.per_device is not None:
        here, there = (side.recipe.value(Condition.DEVICES) for side in (run, other))
        faster, factor = (
            (f"the {what}", explanation.per_device)
            if explanation.per_device >= 1
            else ("the run", 1 / explanation.per_device)
        )
        yield f"Per device, {faster} is {factor:.3f} times as fast ({here} devices here, {there} there)."
    yield from (folded(f"note   {doubt}", _NOTE) for doubt in (*explanation.notes, *run.doubts))
    if explanation.assumed_device:
        yield f"The log does not name its device; the {what}'s is assumed ({explanation.assumed_device})."


def _difference(number: int, difference: RecipeDifference) -> Iterator[str]:
    yield f"{number}. {difference.axis}: {difference.here.value} here, {difference.there.value} there"
    yield f"   here      {difference.here.where}"
    if difference.basis in _BOTH_PLACES and difference.there.where:
        yield f"   there     {difference.there.where}"
    effect = f"{_factor(difference.low, difference.high)}; {_basis(difference)}"
    yield from _wrapped("   effect    ", effect)
    if difference.share is not None:
        yield f"   gap       {_share(difference.share)} of the gap (of its logarithm, because effects multiply)"
    elif difference.opposite:
        yield "   gap       none of the gap: it has the opposite effect"
    # One source may hold for several conditions, none of which is that of the run.
    for text in dict.fromkeys(_evidence(match) for match in difference.evidence):
        yield from _wrapped("   evidence  ", text)
    yield from (f"   test      {text}" for text in _tests(difference))


def _basis(difference: RecipeDifference) -> str:
    """Return the basis of an effect in words, with its arithmetic."""
    if difference.says is None:
        return _BASIS[difference.basis]
    basis = "measured here" if difference.basis is Basis.OWN else _BASIS[difference.basis]
    return f"{basis}: {difference.says}"


def _factor(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "no figure"
    if low == 1.0 < high:
        return f"x{high:.3f} at most"
    if low < 1.0 == high:
        return f"x{low:.3f} at most"
    return _range((low, high))


def _share(share: tuple[float, float]) -> str:
    low, high = (f"{end:.0%}" for end in share)
    return low if low == high else f"{low} to {high}"


def _evidence(match: Match) -> str:
    effect = match.effect
    if match.low is None:
        return f"{effect.strength}: {effect.says}"
    also = f"; also changed: {effect.also}" if effect.also else ""
    control = effect.control_factor()
    controlled = f"; {effect.control.what}: x{control:.2f}" if effect.control and control is not None else ""
    note = f" {effect.note}" if effect.note else ""
    return (
        f"{effect.strength} {_factor(match.low, match.high)}{_bundle(match)}{_mismatches(match)}: {_numbers(effect)}"
        f"{_where(effect)}{also}{controlled}.{note}"
    )


def _bundle(match: Match) -> str:
    """Return the factor of a whole bundle, where that of the axis is only a part of it."""
    whole = match.effect.span()
    if match.effect.strength is not Strength.BUNDLED or match.effect.also_belongs or whole is None:
        return ""
    factor = 1 / whole[0] if match.inverted else whole[0]
    return f" (x{factor:.2f} with all changes)"


def _mismatches(match: Match) -> str:
    if not match.mismatches:
        return ""
    place = "other conditions: " if match.nearness is Nearness.ELSEWHERE else ""
    return f" ({place}{', '.join(match.mismatches)})"


def _numbers(effect: Effect) -> str:
    if effect.before is None or effect.after is None:
        return "the source gives only the factor"
    return f"{effect.before.text()} to {effect.after.text()}"


def _where(effect: Effect) -> str:
    source = effect.source
    parts = [f"{source.document}, {source.section}"] if source else []
    parts += [f"of {source.date}"] if source and source.date else []
    parts += [f"hardware: {effect.hardware}"] if effect.hardware else []
    parts += [f"software: {effect.software}"] if effect.software else []
    return "".join(f"; {part}" for part in parts)


def _tests(difference: RecipeDifference) -> Iterator[str]:
    change = difference.change
    if change.flag:
        yield f"run {change.program} again with {change.flag} and nothing else changed"
    if change.suite:
        yield f"or as a suite axis: {change.suite}" if change.flag else f"as a suite axis: {change.suite}"


def _unranked(explanation: Explanation) -> Iterator[str]:
    for basis, title in (
        (Basis.REASONED, "Differences whose effect has not been measured"),
        (Basis.UNKNOWN, "Differences whose effect is unknown"),
    ):
        found = [difference for difference in explanation.differences if difference.basis is basis]
        if not found:
            continue
        yield title
        for difference in found:
            yield f"  {difference.axis}: {difference.here.value} here, {difference.there.value} there"
            yield f"    here {difference.here.where}"
            yield from (f"    {match.effect.says}" for match in difference.evidence if match.effect.says)
            if difference.says:
                yield f"    {difference.says}"
            yield from (f"    test: {text}" for text in _tests(difference))
        yield ""


def _product(explanation: Explanation) -> Iterator[str]:
    """Yield the ratio as a product of factors, each with its interval and evidence; what is open comes last."""
    if not explanation.factors or explanation.ratio is None:
        return
    yield f"The ratio as a product: x{explanation.ratio:.3f}"
    width = max(len(factor.name) for factor in explanation.factors)
    for factor in explanation.factors:
        candidates = ""
        if factor.name == OPEN and factor.candidates:
            candidates = f"; may be: {', '.join(map(_candidate, factor.candidates))}"
        yield from _wrapped(
            f"  {factor.name:{width}}  ", f"{_factor_text(factor)}; {factor.evidence}{candidates}"
        )
    if len(explanation.factors) == 1:
        yield "  No evidence explains any part of it."
    elif _claims_too_much(explanation):
        yield "  The known factors claim more than the gap: one is smaller here, or another cause works against them."
    elif any(factor.evidence is FactorEvidence.PUBLISHED for factor in explanation.factors):
        yield "  Only a test shows whether published evidence applies here."
    yield ""


def _profiles(explanation: Explanation) -> Iterator[str]:
    """Yield the two profiles kind by kind; if one side has none, how to get it."""
    here = explanation.run.profile
    there = None if explanation.other.run is None else explanation.other.run.profile
    if here is not None and there is not None:
        yield "Where a step goes (one profiled run of each; a profiler slows the step)"
        yield from comparison_lines(here, there)
        yield ""
    elif (here or there) is not None and explanation.other.figure is None:
        name = explanation.other.name if there is None else explanation.run.name
        yield f"Only one side has a profile; `trainmark run SUITE --resume --profile` adds that of {name}."
        yield ""


def _profile_document(run: ExplainedRun | None) -> dict[str, Any] | None:
    side = None if run is None else run.profile
    if side is None:
        return None
    document = side.case.model_dump(mode="json")
    return document | {"measured_step_s": side.measured_step_s, "samples_per_step": side.samples}


def _profiles_document(explanation: Explanation) -> list[dict[str, Any]] | None:
    """Return both profiles' seconds by kind, the largest difference first; None unless both sides have a profile."""
    here = explanation.run.profile
    there = None if explanation.other.run is None else explanation.other.run.profile
    if here is None or there is None:
        return None
    return [
        {
            "kind": one.kind.value,
            "here_s": one.here_s,
            "there_s": one.there_s,
            "difference_s": one.difference_s,
            "share": one.share,
        }
        for one in kind_differences(here, there)
    ]


def _factor_text(factor: Factor) -> str:
    low, value, high = (f"{number:.3f}" for number in (factor.low, factor.value, factor.high))
    return f"x{value}" if low == high else f"x{value} [{low}, {high}]"


def _candidate(candidate: Candidate) -> str:
    return candidate.name if candidate.high is None else f"{candidate.name} (x{candidate.high:.3f} at most)"


def _claims_too_much(explanation: Explanation) -> bool:
    """Return whether what is open is on the other side of 1 than the gap."""
    rest, ratio = explanation.factors[-1], explanation.ratio or 1.0
    return rest.high < 1 if ratio > 1 else rest.low > 1


def _wrapped(head: str, text: str) -> list[str]:
    indent, width = " " * len(head), min(_WIDTH, max(terminal_width() or _WIDTH, 2 * len(head)))
    return wrap(text, width, initial_indent=head, subsequent_indent=indent, break_on_hyphens=False)


def _range(ends: tuple[float, float]) -> str:
    low, high = (f"x{end:.2f}" for end in ends)
    return low if low == high else f"{low} to {high}"


def _nearer(explanation: Explanation) -> Iterator[str]:
    if not explanation.nearer:
        return
    yield "Published figures of the same case and machine with a recipe closer to this run's"
    for nearer in explanation.nearer:
        yield f"  {_nearer_line(nearer, explanation.run.throughput)}"
    yield ""


def _nearer_line(nearer: Nearer, throughput: float | None) -> str:
    reference = nearer.reference
    against = ""
    if throughput is not None and reference.value is not None:
        against = f"; the run reaches {throughput / reference.value:.1%} of it"
    axes = _names(nearer.differences) or "no axis"
    return f"{reference.id}: {reference.text}{against}; differs from the run in {axes}"


def _lists(explanation: Explanation) -> Iterator[str]:
    there = "reference" if explanation.other.run is None else "other run"
    for title, axes in (
        ("Same in both", explanation.same),
        ("Stated by the run only", explanation.only_here),
        (f"Stated by the {there} only", explanation.only_there),
        ("Stated by neither", explanation.neither),
    ):
        if axes:
            yield f"{title}: {_names(axes)}"


def _sources(explanation: Explanation) -> Iterator[str]:
    figure = explanation.other.figure
    if figure is None:
        return
    source = figure.source
    yield ""
    yield f"The reference: {source.document}, {source.section}"
    yield from (f"  recipe from {text}" for text in source.recipe_from)


def _names(axes: Iterable[AxisName]) -> str:
    return ", ".join(axes)


def to_document(explanation: Explanation) -> dict[str, Any]:
    """Return the explanation as a JSON object; factors are numbers, shares are of the gap's logarithm."""
    run, other = explanation.run, explanation.other
    there: dict[str, Any] = {"id": other.name, "value": other.throughput, "unit": other.unit}
    if other.run is not None:
        there |= {"data_wait": other.run.data_wait, "bound": _bound_document(other.run)}
        there |= {"profile": _profile_document(other.run)}
    return {
        "run": {
            "name": run.name,
            "throughput": run.throughput,
            "unit": run.unit,
            "rule": run.rule,
            "program": run.recipe.program,
            "data_wait": run.data_wait,
            "noise": run.noise,
            "doubts": run.doubts,
            "bound": _bound_document(run),
            "profile": _profile_document(run),
        },
        "reference" if other.figure is not None else "against": there,
        "ratio": explanation.ratio,
        "in_noise": explanation.in_noise,
        "per_device": explanation.per_device,
        "assumed_device": explanation.assumed_device,
        "notes": explanation.notes,
        "differences": [_difference_document(difference) for difference in explanation.differences],
        "accounted": explanation.accounted,
        "open": explanation.open,
        "factors": [_factor_document(factor) for factor in explanation.factors],
        "profiles": _profiles_document(explanation),
        "nearer": [
            {
                "id": nearer.reference.id,
                "value": nearer.reference.value,
                "differences": list(nearer.differences),
            }
            for nearer in explanation.nearer
        ],
        "same": list(explanation.same),
        "stated_by_run_only": list(explanation.only_here),
        "stated_by_reference_only": list(explanation.only_there),
        "stated_by_neither": list(explanation.neither),
    }


def _bound_document(run: ExplainedRun) -> dict[str, Any] | None:
    return None if run.bound is None else run.bound.model_dump(mode="json")


def _factor_document(factor: Factor) -> dict[str, Any]:
    document: dict[str, Any] = {
        "name": factor.name,
        "evidence": factor.evidence.value,
        "value": factor.value,
        "interval": [factor.low, factor.high],
    }
    if factor.name == OPEN:
        document["candidates"] = [
            {"name": candidate.name, "at_most": candidate.high} for candidate in factor.candidates
        ]
    return document


def _difference_document(difference: RecipeDifference) -> dict[str, Any]:
    return {
        "axis": difference.axis,
        "of": difference.of.value,
        "here": {"value": difference.here.value, "where": difference.here.where},
        "there": {"value": difference.there.value, "where": difference.there.where},
        "basis": difference.basis.value,
        "factor": None if difference.low is None else [difference.low, difference.high],
        "share_of_gap": difference.share,
        "evidence": [
            {
                "id": match.effect.id,
                "strength": match.effect.strength.value,
                "nearness": match.nearness.name.lower(),
                "factor": None if match.low is None else [match.low, match.high],
                "text": _evidence(match),
            }
            for match in difference.evidence
        ],
        "test": {
            "program": difference.change.program,
            "flag": difference.change.flag,
            "suite": difference.change.suite,
        },
    }
