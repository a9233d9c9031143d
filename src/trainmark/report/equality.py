"""Whether what stands side by side in tables did equal work, as far as the results' certificates show it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from trainmark.equivalence import Certificate, Check, Party
from trainmark.report.axes import Grid
from trainmark.store import CaseResult
from trainmark.suite import Case, Device

BUILT_IN: str = Case.model_fields["workload"].default
"""The workload of trainmark's own workers: no other program is looked at."""


class Standing(StrEnum):
    """What a certificate says of one work. ``different`` and ``unseen`` speak against it.

    ``different``: a check does not hold. ``unseen``: it was to be looked at, and could not be. The rest was never
    to be looked at: ``program`` is another program than the built-in worker, ``framework`` one that no certificate
    for its model and device has, ``variant`` a layout or compiler that was not compared with the observed step.
    """

    SHOWN = "shown"
    DIFFERENT = "different"
    UNSEEN = "unseen"
    PROGRAM = "program"
    FRAMEWORK = "framework"
    VARIANT = "variant"

    @property
    def speaks_against(self) -> bool:
        """Whether a table marks the framework."""
        return self in (Standing.DIFFERENT, Standing.UNSEEN)


@dataclass(frozen=True, slots=True)
class Work:
    """What one column of a table did: a program's training step, in a layout and by a compiler.

    ``asked`` is the device that the case asks for, ``device`` the one that its runs say they computed on.
    """

    workload: str
    framework: str
    model: str
    asked: Device
    device: str | None
    layout: str
    compiler: str

    @property
    def name(self) -> str:
        """The framework, or of another program its name and the framework."""
        return self.framework if self.workload == BUILT_IN else f"{self.workload}/{self.framework}"

    @classmethod
    def of(cls, result: CaseResult) -> "Work":
        """Return what the case's runs did."""
        case = result.case
        return cls(
            case.workload,
            case.framework,
            case.model,
            case.device,
            _device(result),
            str(case.value("layout")) if "layout" in case.axes else "-",
            case.compiler,
        )


@dataclass(frozen=True, slots=True)
class Difference:
    """A check that does not hold: between two frameworks, of one against the description, or of a work."""

    about: tuple[str, ...] | Work
    check: Check


@dataclass(frozen=True, slots=True)
class Comparison:
    """Works of one model that stand side by side, on one device, and what the best certificate says of each.

    ``observed`` are the frameworks whose eager steps were compared with each other and are equal; ``by_variant``
    says whether a work is shown because its layout and compiler do the same steps as its framework's eager one.
    """

    model: str
    works: tuple[Work, ...]
    standings: tuple[Standing, ...]
    differences: tuple[Difference, ...]
    observed: tuple[str, ...]
    by_variant: bool

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices that the works computed on."""
        return tuple(sorted({work.device for work in self.works if work.device}))

    @property
    def holds(self) -> bool:
        """Whether all works were shown to be equal."""
        frameworks = {work.framework for work in self.works}
        shown = all(standing is Standing.SHOWN for standing in self.standings)
        return shown and len(frameworks) > 1 and frameworks.issubset(self.observed)

    def with_standing(self, standing: Standing) -> tuple[Work, ...]:
        """Return the works of which the certificate says this."""
        return tuple(
            work for work, found in zip(self.works, self.standings, strict=True) if found is standing
        )


def comparisons(grids: Iterable[Grid], certificates: Sequence[Certificate]) -> tuple[Comparison, ...]:
    """Return what is compared in tables: one comparison a model and device on which several frameworks have numbers."""
    groups: dict[tuple[str, Device], dict[Work, None]] = {}
    for grid in grids:
        works = dict.fromkeys(Work.of(result) for result in grid.cells.values() if result.estimate)
        frameworks: dict[str, set[str]] = {}
        for work in works:
            frameworks.setdefault(work.model, set()).add(work.framework)
        for work in works:
            if len(frameworks[work.model]) > 1:
                groups.setdefault((work.model, work.asked), {})[work] = None
    return tuple(_judged(model, tuple(works), certificates) for (model, _), works in groups.items())


def marked(grid: Grid, certificates: Sequence[Certificate]) -> frozenset[Work]:
    """Return the works of a table against which a certificate speaks."""
    found = comparisons((grid,), certificates)
    return frozenset(
        work
        for comparison in found
        for work, standing in zip(comparison.works, comparison.standings, strict=True)
        if standing.speaks_against
    )


def _judged(model: str, works: tuple[Work, ...], certificates: Sequence[Certificate]) -> Comparison:
    readings = [_read(model, works, certificate) for certificate in _speaking(model, works, certificates)]
    none = Comparison(model, works, tuple(_without(work) for work in works), (), (), by_variant=False)
    # Of two for the same question, the one that speaks against somebody; else the one that shows more.
    return max(readings, key=_weight, default=none)


def _weight(comparison: Comparison) -> tuple[bool, int]:
    against = any(standing.speaks_against for standing in comparison.standings)
    return against, comparison.standings.count(Standing.SHOWN)


def _speaking(model: str, works: tuple[Work, ...], certificates: Sequence[Certificate]) -> list[Certificate]:
    """Return the certificates that are about these works: of their model, and of a framework on their device.

    A certificate without any party does not say its device; it speaks where no other does.
    """
    of_model = [certificate for certificate in certificates if certificate.model == model]
    seen = [found for found in of_model if any(_party(found, work) for work in works)]
    return seen or [found for found in of_model if not found.parties]


def _read(model: str, works: tuple[Work, ...], certificate: Certificate) -> Comparison:
    """Return what one certificate says of the works; differences between others are not theirs."""
    parties = {work: party for work in works if (party := _party(certificate, work)) is not None}
    frameworks = {work.framework for work in parties}
    pairs = [pair for pair in certificate.pairs if frameworks.issuperset(pair.frameworks)]
    checks: list[tuple[tuple[str, ...], tuple[Check, ...]]] = [
        *(((party.framework,), party.checks) for party in parties.values()),
        *((pair.frameworks, pair.checks) for pair in pairs),
    ]
    between = {Difference(names, check): names for names, made in checks for check in made if not check.holds}
    unequal = {name for names in between.values() for name in names}
    own = {work: _as_party(work, party) for work, party in parties.items()}
    standings = {
        **{work: _without(work, certificate) for work in works},
        **{work: standing for work, (standing, _) in own.items()},
        **{work: Standing.DIFFERENT for work in parties if work.framework in unequal},
    }
    by_variant = [
        work
        for work, party in parties.items()
        if standings[work] is Standing.SHOWN and not _is_observed(work, party)
    ]
    return Comparison(
        model,
        works,
        tuple(standings[work] for work in works),
        (*between, *(Difference(work, check) for work, (_, wrong) in own.items() for check in wrong)),
        tuple(sorted({name for pair in pairs for name in pair.frameworks} - unequal)),
        bool(by_variant),
    )


def _as_party(work: Work, party: Party) -> tuple[Standing, list[Check]]:
    """Return how a work stands to its framework's observed step, with the checks that do not hold."""
    if _is_observed(work, party):
        return Standing.SHOWN, []
    way = (work.layout, work.compiler)
    variant = next((found for found in party.variants if (found.layout, found.compiler) == way), None)
    if variant is None:
        return Standing.VARIANT, []
    if variant.absent is not None:
        return Standing.UNSEEN, []
    wrong = [check for check in variant.checks if not check.holds]
    return Standing.DIFFERENT if wrong else Standing.SHOWN, wrong


def _without(work: Work, certificate: Certificate | None = None) -> Standing:
    """Return how a work stands for which a certificate has no party."""
    if work.workload != BUILT_IN:
        return Standing.PROGRAM
    absent = certificate is not None and work.framework in certificate.absent
    return Standing.UNSEEN if absent else Standing.FRAMEWORK


def _is_observed(work: Work, party: Party) -> bool:
    return (work.layout, work.compiler) == (party.layout, party.compiler)


def _party(certificate: Certificate, work: Work) -> Party | None:
    wanted = (work.framework, work.device)
    found = (party for party in certificate.parties if (party.framework, party.device) == wanted)
    return next(found, None) if work.workload == BUILT_IN else None


def _device(result: CaseResult) -> str | None:
    """Return what the case's ranks computed on, as the worker said; else as it was asked for."""
    said = (run.parameters.get("device") for run in result.runs if run.measurement)
    device = next((word for word in said if isinstance(word, str)), None)
    if device is None and result.case.device is not Device.AUTO:
        return result.case.device.value
    return device
