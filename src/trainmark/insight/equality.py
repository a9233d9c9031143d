"""Findings on equal work: the frameworks of a result compared by the results' certificates."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from trainmark.schema.case import BUILT_IN, Case, Device, case_of
from trainmark.schema.certificate import GOLDEN, Certificate, Check, Party
from trainmark.schema.precision import Precision
from trainmark.schema.results import CaseResult, Difference, EqualityFinding, UncheckedSize, Verdict, Work
from trainmark.tasks import TASKS
from trainmark.worker.tasks.products import STREAM


@dataclass(frozen=True, slots=True)
class _Work:
    """A program's training step in one of its variants, independent of the cases that use it.

    ``rules`` are the axes that a certificate can have, such as the optimizer; ``beyond`` are those that it cannot:
    another precision, and a residual-stream type other than FP32.
    """

    workload: str
    framework: str
    device: str | None
    way: tuple[str, ...]
    precision: str
    rules: "_Rules"
    beyond: tuple[str, ...]

    @classmethod
    def of(cls, result: CaseResult) -> "_Work":
        case = result.settled
        return cls(
            case.workload,
            case.framework,
            _device(result),
            (*(str(case.value(axis)) for axis in TASKS[case.task].variant_axes), case.compiler),
            case.precision.value,
            tuple(case.fixed_axes.items()),
            (*_beyond(case), *_added_in(result)) if case.workload == BUILT_IN else (),
        )

    @property
    def name(self) -> str:
        return self.framework if self.workload == BUILT_IN else f"{self.workload}/{self.framework}"


_Rules = tuple[tuple[str, str], ...]
"""The values of a task's fixed axes, by name."""

_Cases = dict[_Work, list[str]]
"""The ids of the cases of each work."""


def judge_equality(
    cases: Iterable[CaseResult], certificates: Sequence[Certificate]
) -> tuple[EqualityFinding, ...]:
    """Return one finding per model, requested device and rules for which several frameworks have numbers.

    A model of one framework has one if that framework was compared with the golden observation.
    Works with different rules, such as another optimizer, are never equal. Those of a precision that has a certificate
    have a finding of their own.
    """
    groups: dict[tuple[str, Device], _Cases] = {}
    settled: dict[str, Case] = {}
    for result in cases:
        if result.estimate is not None:
            settled[result.id] = result.settled
            works = groups.setdefault((result.case.model, result.case.device), {})
            works.setdefault(_Work.of(result), []).append(result.id)
    return tuple(
        finding.model_copy(update={"unchecked_sizes": _unchecked_sizes(finding, certificates, settled)})
        for (model, _), works in groups.items()
        for finding in _judged(model, works, certificates)
        if len({work.framework for work in works}) > 1 or _is_checked(finding)
    )


def _is_checked(finding: EqualityFinding) -> bool:
    """Return whether a framework was compared with the golden observation, or that was tried."""
    return bool(finding.golden or finding.differences or finding.with_verdict(Verdict.UNSEEN))


def _unchecked_sizes(
    finding: EqualityFinding, certificates: Sequence[Certificate], cases: Mapping[str, Case]
) -> tuple[UncheckedSize, ...]:
    """Return the sizes of the equal works' cases that the compared steps do not have; they are the same for a model."""
    certificate = next((found for found in certificates if found.model == finding.model), None)
    equal = [cases[case] for work in finding.with_verdict(Verdict.EQUAL) for case in work.cases]
    if certificate is None:
        return ()
    checked = {"batch_per_device": certificate.batch, **certificate.axes}
    return tuple(
        UncheckedSize(axis=axis, checked=size, of_cases=tuple(sorted(others)))
        for axis, size in checked.items()
        if isinstance(size, int)
        if (others := {value for case in equal if isinstance(value := case.value(axis), int)} - {size})
    )


def _judged(model: str, works: _Cases, certificates: Sequence[Certificate]) -> Iterator[EqualityFinding]:
    """Yield a finding for each group of a model's works with the same rules, from the certificates for those rules.

    A precision that has certificates is another group. If the steps of its frameworks differ in FP32, that counts; a
    step that does not exist in FP32 is judged in its own precision alone.
    """
    groups: dict[tuple[_Rules, Precision], _Cases] = {}
    for work, cases in works.items():
        groups.setdefault((work.rules, _certified_precision(work, model, certificates)), {})[work] = cases
    several = len({rules for rules, _ in groups}) > 1
    in_fp32 = [certificate for certificate in certificates if certificate.precision is Precision.FP32]
    for (rules, precision), group in groups.items():
        found = _best(model, rules, group, works, in_fp32)
        if precision is not Precision.FP32 and not found.with_verdict(Verdict.DIFFERENT):
            narrow = [certificate for certificate in certificates if certificate.precision is precision]
            found = _best(model, rules, group, works, narrow).model_copy(update={"precision": precision})
        named = tuple(value for _, value in rules) if several else _unusual(model, rules)
        yield found.model_copy(update={"rules": named})


def _certified_precision(work: _Work, model: str, certificates: Sequence[Certificate]) -> Precision:
    """Return the precision of a work if a certificate of its model and rules has it, or else FP32."""
    found = (
        certificate.precision
        for certificate in certificates
        if certificate.model == model
        and certificate.precision.value == work.precision
        and _rules_of(certificate) == work.rules
        and work.workload == BUILT_IN
    )
    return next(found, Precision.FP32)


def _best(
    model: str, rules: _Rules, group: _Cases, works: _Cases, certificates: Sequence[Certificate]
) -> EqualityFinding:
    """Return the finding on a group of works by the certificate that tells most of them."""
    of_these = [certificate for certificate in certificates if _rules_of(certificate) == rules]
    # Prefer a certificate for these rules, then one for other rules, then none.
    about = _relevant(model, group, of_these) or _relevant(model, works, certificates)
    none = EqualityFinding(
        model=model,
        works=_documents(model, group, {work: _without(work) for work in group}),
        differences=(),
        observed=(),
        by_variant=False,
    )
    readings = [_read(model, group, works, certificate) for certificate in about]
    # Of several certificates, prefer one that shows a difference, then the one that shows more equal works.
    return max(readings, key=_weight, default=none)


def _weight(finding: EqualityFinding) -> tuple[bool, int]:
    against = any(work.verdict.speaks_against for work in finding.works)
    return against, len(finding.with_verdict(Verdict.EQUAL))


def _relevant(model: str, works: Iterable[_Work], certificates: Sequence[Certificate]) -> list[Certificate]:
    """Return the certificates for these works: of their model, with a party for one of them on its device.

    A certificate without any party has no device; it is used only if there is no other.
    """
    of_model = [certificate for certificate in certificates if certificate.model == model]
    with_party = [found for found in of_model if any(_party(found, work) for work in works)]
    return with_party or [found for found in of_model if not found.parties]


def _read(model: str, works: _Cases, all_works: Iterable[_Work], certificate: Certificate) -> EqualityFinding:
    """Return the finding of one certificate on works that train by the same rules.

    Its differences are between the frameworks of ``all_works``, whatever their rules.
    """
    parties = {work: party for work in works if (party := _party(certificate, work)) is not None}
    there = {work.framework for work in all_works if _party(certificate, work) is not None}
    pairs = [pair for pair in certificate.pairs if {*there, GOLDEN}.issuperset(pair.frameworks)]
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
    golden = {pair.frameworks[0] for pair in pairs if GOLDEN in pair.frameworks} & observed
    own = {work: _as_party(work, party, certificate) for work, party in parties.items()}
    verdicts = {
        **{work: _without(work, certificate) for work in works},
        **{work: verdict for work, (verdict, _) in own.items()},
        **{work: Verdict.DIFFERENT for work in parties if work.framework in unequal},
    }
    if len(observed) < 2 and not golden:  # The framework that it is equal to is not in the result.
        verdicts |= {work: Verdict.VARIANT for work in works if verdicts[work] is Verdict.EQUAL}
    by_variant = any(
        verdicts[work] is Verdict.EQUAL and not _is_observed(work, party) for work, party in parties.items()
    )
    of_variants = (
        Difference(frameworks=(work.framework,), way=work.way, rules=rules, check=check)
        for work, (_, wrong) in own.items()
        for check in wrong
    )
    return EqualityFinding(
        model=model,
        works=_documents(model, works, verdicts),
        differences=(*between, *of_variants),
        observed=tuple(sorted(observed)),
        by_variant=by_variant,
        golden=tuple(sorted(golden)),
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


def _as_party(work: _Work, party: Party, certificate: Certificate) -> tuple[Verdict, list[Check]]:
    """Return the verdict on a work against its framework's observed step, and the failed checks."""
    low = certificate.precision is not Precision.FP32
    beyond = work.precision != certificate.precision.value if low else bool(work.beyond)
    equal = Verdict.VARIANT if beyond or work.rules != _rules_of(certificate) else Verdict.EQUAL
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
    """Return the verdict on a work without a party in the certificate."""
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
    return tuple((case_of(model=certificate.model).fixed_axes | dict(certificate.rules)).items())


def _unusual(model: str, rules: _Rules) -> tuple[str, ...]:
    """Return the values of rules that differ from the model's defaults."""
    usual = case_of(model=model).fixed_axes
    return tuple(value for axis, value in rules if value != usual[axis])


def _device(result: CaseResult) -> str | None:
    """Return the device that the worker reported, or else the requested one."""
    reported = (run.parameters.device for run in result.runs if run.measurement)
    device = next(filter(None, reported), None)
    if device is None and result.case.device is not Device.AUTO:
        return result.case.device.value
    return device


def _beyond(case: Case) -> tuple[str, ...]:
    """Return the precision if it differs from that of certificates, FP32."""
    return () if case.precision is Precision.FP32 else (case.precision.value,)


def _added_in(result: CaseResult) -> tuple[str, ...]:
    """Return the observed type of the residual stream, in which frameworks may differ at one precision."""
    observed = (run.parameters.actual or {} for run in result.runs if run.measurement)
    kind = next((actual[STREAM] for actual in observed if STREAM in actual), None)
    return () if kind in (None, "float32") else (f"residual {kind}",)
