"""Whether frameworks that stand side by side did equal work, as far as the results' certificates show it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from trainmark.schema.case import BUILT_IN, Case, Device, Precision
from trainmark.schema.certificate import Certificate, Check, Party
from trainmark.schema.findings import Difference, EqualityFinding, Verdict, Work
from trainmark.schema.results import CaseResult
from trainmark.tasks import case_of, fixed_axes_of, task_of
from trainmark.worker.tasks.causal_lm.facts import STREAM


@dataclass(frozen=True, slots=True)
class _Work:
    """A program's training step in one of its ways, whatever the cases that did it.

    ``rules`` are what a certificate may be about, such as the optimizer, ``beyond`` what none is: another precision,
    and the type in which a language model's blocks are added up, where that is not FP32.
    """

    workload: str
    framework: str
    device: str | None
    way: tuple[str, ...]
    rules: "_Rules"
    beyond: tuple[str, ...]

    @classmethod
    def of(cls, result: CaseResult) -> "_Work":
        case = result.settled
        return cls(
            case.workload,
            case.framework,
            _device(result),
            (*(str(case.value(axis)) for axis in task_of(case).variant_axes), case.compiler),
            tuple(fixed_axes_of(case).items()),
            (*_beyond(case), *_added_in(result)) if case.workload == BUILT_IN else (),
        )

    @property
    def name(self) -> str:
        return self.framework if self.workload == BUILT_IN else f"{self.workload}/{self.framework}"


_Rules = tuple[tuple[str, str], ...]
"""The values of a task's ``rules``, by the names of these axes."""

_Cases = dict[_Work, list[str]]
"""The ids of the cases that did each work."""


def judge_equality(
    cases: Iterable[CaseResult], certificates: Sequence[Certificate]
) -> tuple[EqualityFinding, ...]:
    """Return one finding a model, device (as asked for) and rules, where several frameworks have numbers.

    What trains by other rules, as by another optimizer, is never equal to what trains by these.
    """
    groups: dict[tuple[str, Device], _Cases] = {}
    for result in cases:
        if result.estimate is not None:
            works = groups.setdefault((result.case.model, result.case.device), {})
            works.setdefault(_Work.of(result), []).append(result.id)
    return tuple(
        finding
        for (model, _), works in groups.items()
        if len({work.framework for work in works}) > 1
        for finding in _judged(model, works, certificates)
    )


def _judged(model: str, works: _Cases, certificates: Sequence[Certificate]) -> Iterator[EqualityFinding]:
    """Yield what is said of a model's works, of those that train by the same rules by the certificate of these."""
    kinds = dict.fromkeys(work.rules for work in works)
    for rules in kinds:
        alike = {work: cases for work, cases in works.items() if work.rules == rules}
        of_these = [certificate for certificate in certificates if _rules_of(certificate) == rules]
        # One that is about other rules says less than one about these, and more than none.
        about = _speaking(model, alike, of_these) or _speaking(model, works, certificates)
        none = EqualityFinding(
            model=model,
            works=_documents(model, alike, {work: _without(work) for work in alike}),
            differences=(),
            observed=(),
            by_variant=False,
        )
        readings = [_read(model, alike, works, certificate) for certificate in about]
        # Of two for the same question, the one that speaks against somebody; else the one that shows more.
        found = max(readings, key=_weight, default=none)
        named = tuple(value for _, value in rules) if len(kinds) > 1 else _unusual(model, rules)
        yield found.model_copy(update={"rules": named})


def _weight(finding: EqualityFinding) -> tuple[bool, int]:
    against = any(work.verdict.speaks_against for work in finding.works)
    return against, len(finding.with_verdict(Verdict.EQUAL))


def _speaking(model: str, works: Iterable[_Work], certificates: Sequence[Certificate]) -> list[Certificate]:
    """Return the certificates that are about these works: of their model, and of a framework on their device.

    A certificate without any party does not say its device; it speaks where no other does.
    """
    of_model = [certificate for certificate in certificates if certificate.model == model]
    seen = [found for found in of_model if any(_party(found, work) for work in works)]
    return seen or [found for found in of_model if not found.parties]


def _read(model: str, works: _Cases, beside: Iterable[_Work], certificate: Certificate) -> EqualityFinding:
    """Return what one certificate says of works that train by the same rules.

    Told are the differences between the frameworks that stand ``beside`` each other, by whatever rules.
    """
    parties = {work: party for work in works if (party := _party(certificate, work)) is not None}
    there = {work.framework for work in beside if _party(certificate, work) is not None}
    pairs = [pair for pair in certificate.pairs if there.issuperset(pair.frameworks)]
    about = _rules_of(certificate)
    rules = _unusual(model, about)
    checks: dict[tuple[str, ...], tuple[Check, ...]] = {
        **{(party.framework,): party.checks for party in parties.values()},
        **{pair.frameworks: pair.checks for pair in pairs},
    }
    between = [
        Difference(frameworks=names, rules=rules, check=check)
        for names, made in checks.items()
        for check in made
        if not check.holds
    ]
    unequal = {name for difference in between for name in difference.frameworks}
    compared = {name for pair in pairs for name in pair.frameworks} - unequal
    observed = {work.framework for work in parties if work.rules == about} & compared
    own = {work: _as_party(work, party, about) for work, party in parties.items()}
    verdicts = {
        **{work: _without(work, certificate) for work in works},
        **{work: verdict for work, (verdict, _) in own.items()},
        **{work: Verdict.DIFFERENT for work in parties if work.framework in unequal},
    }
    if len(observed) < 2:  # Whatever it is equal to does not stand beside it.
        verdicts |= {work: Verdict.VARIANT for work in works if verdicts[work] is Verdict.EQUAL}
    by_variant = any(
        verdicts[work] is Verdict.EQUAL and not _is_observed(work, party) for work, party in parties.items()
    )
    of_ways = (
        Difference(frameworks=(work.framework,), way=work.way, rules=rules, check=check)
        for work, (_, wrong) in own.items()
        for check in wrong
    )
    return EqualityFinding(
        model=model,
        works=_documents(model, works, verdicts),
        differences=(*between, *of_ways),
        observed=tuple(sorted(observed)),
        by_variant=by_variant,
    )


def _documents(model: str, works: _Cases, verdicts: dict[_Work, Verdict]) -> tuple[Work, ...]:
    return tuple(
        Work(
            name=work.name,
            framework=work.framework,
            way=(*work.way, *_unusual(model, work.rules), *work.beyond),
            device=work.device,
            cases=tuple(cases),
            verdict=verdicts[work],
        )
        for work, cases in works.items()
    )


def _as_party(work: _Work, party: Party, rules: _Rules) -> tuple[Verdict, list[Check]]:
    """Return how a work stands to its framework's step that was observed by ``rules``; with the checks that fail."""
    equal = Verdict.VARIANT if work.beyond or work.rules != rules else Verdict.EQUAL
    if _is_observed(work, party):
        return equal, []
    variant = next((found for found in party.variants if found.way == work.way), None)
    if variant is None:
        return Verdict.VARIANT, []
    if variant.absent is not None:
        return Verdict.UNSEEN, []
    wrong = [check for check in variant.checks if not check.holds]
    return Verdict.DIFFERENT if wrong else equal, wrong


def _without(work: _Work, certificate: Certificate | None = None) -> Verdict:
    """Return the verdict on a work for which a certificate has no party."""
    if work.workload != BUILT_IN:
        return Verdict.PROGRAM
    absent = certificate is not None and work.framework in certificate.absent
    return Verdict.UNSEEN if absent else Verdict.FRAMEWORK


def _is_observed(work: _Work, party: Party) -> bool:
    return work.way == party.way


def _party(certificate: Certificate, work: _Work) -> Party | None:
    wanted = (work.framework, work.device)
    found = (party for party in certificate.parties if (party.framework, party.device) == wanted)
    return next(found, None) if work.workload == BUILT_IN else None


def _rules_of(certificate: Certificate) -> _Rules:
    return tuple((fixed_axes_of(case_of(model=certificate.model)) | dict(certificate.rules)).items())


def _unusual(model: str, rules: _Rules) -> tuple[str, ...]:
    """Return the values of rules that are not what a model is trained by where nobody asks."""
    usual = fixed_axes_of(case_of(model=model))
    return tuple(value for axis, value in rules if value != usual[axis])


def _device(result: CaseResult) -> str | None:
    """Return what the case's ranks computed on, as the worker said; else as it was asked for."""
    said = (run.parameters.device for run in result.runs if run.measurement)
    device = next(filter(None, said), None)
    if device is None and result.case.device is not Device.AUTO:
        return result.case.device.value
    return device


def _beyond(case: Case) -> tuple[str, ...]:
    """Return the precision that is not that of a certificate."""
    return () if case.precision is Precision.FP32 else (case.precision.value,)


def _added_in(result: CaseResult) -> tuple[str, ...]:
    """Return the type that the workers saw blocks being added up in; under one precision frameworks differ in it."""
    seen = (run.parameters.actual or {} for run in result.runs if run.measurement)
    kind = next((actual[STREAM] for actual in seen if STREAM in actual), None)
    return () if kind in (None, "float32") else (f"residual {kind}",)
