"""Showing that frameworks do equal work: the three steps of the equivalence check, run in each and compared."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

from trainmark import equivalence, tasks, worker
from trainmark.campaign.best_search import candidates
from trainmark.campaign.certificates import CERTIFICATE, FOLDER, read_certificate
from trainmark.campaign.observation_run import observe
from trainmark.campaign.run_environment import CannotStart, Site
from trainmark.environment import EnvironmentState, entries, fingerprint, state_of
from trainmark.equivalence import certify, equal_work_of, follows, party
from trainmark.errors import InputError, nearest
from trainmark.extensions import folders
from trainmark.files import write_atomically
from trainmark.node import LocalHost
from trainmark.placement import device_of
from trainmark.schema.case import Case, Device, Precision
from trainmark.schema.certificate import Certificate, CheckedVariant, Party
from trainmark.schema.observation import Followed, Observation
from trainmark.schema.suite import Limits, Suite
from trainmark.tasks import TASKS, case_of, fixed_axes_of, task_of
from trainmark.workload import BuiltinSource, find_gap, load_workloads

INPUTS = "inputs.npz"

Announce = Callable[[str], None]
"""Hears, in some words, what is looked at next."""


@dataclass(frozen=True, slots=True)
class Way:
    """By which of its ways, and by which compiler, a framework trains; ``axes`` are the task's, with their values."""

    framework: str
    axes: tuple[tuple[str, str], ...]
    compiler: str


@dataclass(frozen=True, slots=True)
class Question:
    """Whether these frameworks train ``model`` by the same step, on this device, in all these ways.

    ``rules`` are the values of the task's axes that change what a step computes, such as the optimizer.
    """

    model: str
    frameworks: tuple[str, ...]
    device: Device
    rules: tuple[tuple[str, str], ...] = ()
    ways: tuple[Way, ...] = ()


def questions(site: Site, cases: Iterable[Case]) -> list[Question]:
    """Return what must be shown before these cases stand in one table: each model that several frameworks train.

    What they train by another rule, as by another optimizer, is another question.

    Only trainmark's own workers can be asked; what other programs do is not known to be equal. A way that a
    framework does not have is none of its ways.
    """
    found: dict[tuple[str, Device, tuple[tuple[str, str], ...]], list[Case]] = {}
    for case in cases:
        if task_of(case).equal_work and isinstance(site.workload(case).card.source, BuiltinSource):
            about = (case.model, case.device, tuple(fixed_axes_of(case).items()))
            found.setdefault(about, []).extend(_settled(case, site))
    asked = []
    for (model, device, rules), together in found.items():
        frameworks = tuple(dict.fromkeys(case.framework for case in together))
        ways = tuple(dict.fromkeys(_way(case) for case in together if _is_there(case, site)))
        if len(frameworks) > 1:
            asked.append(Question(model, frameworks, device, rules, ways))
    return asked


def answer(question: Question, site: Site, folder: Path, limits: Limits, announce: Announce) -> Certificate:
    """Run the check in each framework, keep everything under ``folder``, and return the certificate.

    A certificate that an earlier call left there counts if nothing has changed since that decides the answer. A
    framework that cannot be looked at is in ``absent`` with the reason. Raises ``TrainmarkError`` or OSError when
    nothing can be written.
    """
    rules = dict(question.rules)
    basis, form = _basis(question, site), equal_work_of(question.model, rules).observation
    kept = read_certificate(folder / CERTIFICATE)
    if kept is not None and kept.basis == basis:
        return kept
    folder.mkdir(parents=True, exist_ok=True)
    inputs = (folder / INPUTS).absolute()
    # Left by one that was killed, and perhaps not whole.
    inputs.unlink(missing_ok=True)
    observations: list[Observation] = []
    parties: list[Party] = []
    absent: dict[str, str] = {}
    try:
        for framework in question.frameworks:
            announce(f"{framework}: is its {question.model} the same work?")
            base = observed_case(question, framework, site)
            told = observe(base, site, folder / framework, inputs, limits, form)
            if isinstance(told, str):
                absent[framework] = told
                continue
            variants = [
                _variant(told.steps, base, way, site, folder, limits, announce)
                for way in question.ways
                if way.framework == framework and way != _way(base)
            ]
            observations.append(told.steps)
            parties.append(party(told.steps, _axes(base), told.version, told.device, variants, rules))
    finally:
        # A hundred megabytes that a seed makes anew.
        inputs.unlink(missing_ok=True)
    certificate = certify(question.model, observations, parties, absent, datetime.now(UTC), basis, rules)
    write_atomically(folder / CERTIFICATE, certificate.model_dump_json(indent=1) + "\n")
    return certificate


def _variant(
    base: Observation, case: Case, way: Way, site: Site, folder: Path, limits: Limits, announce: Announce
) -> CheckedVariant:
    """Return whether a framework's step in another of its ways is the one that was observed."""
    axes = dict(way.axes)
    announce(f"{way.framework}: the same in {', '.join((*axes.values(), f'compiler {way.compiler}'))}?")
    case = case.varied(**axes, compiler=way.compiler)
    place = folder / "-".join((way.framework, *axes.values(), way.compiler))
    told = observe(case, site, place, folder.absolute() / INPUTS, limits, Followed)
    if isinstance(told, str):
        return CheckedVariant(axes=axes, compiler=way.compiler, absent=told)
    return follows(base, told.steps, axes, way.compiler)


def certificates(
    site: Site, cases: Sequence[Case], out: Path, limits: Limits, announce: Announce
) -> tuple[Certificate, ...]:
    """Return the certificates that these cases need, run or kept, one a model, device and optimizer."""
    return tuple(
        answer(question, site, out / FOLDER / _name(question), limits, announce)
        for question in questions(site, cases)
    )


def certify_environments(
    frameworks: Sequence[str], models: Sequence[str], home: Path, announce: Announce
) -> tuple[Certificate, ...]:
    """Return a certificate for each model, of the frameworks named, or of all whose environments are ready.

    It is about their workers on a CPU, with the optimizer that nobody has to ask for. Raises ``InputError`` for an
    unknown name, and when there are not two.
    """
    there_are = [model for task in TASKS.values() if task.equal_work for model in task.models]
    for model in models:
        if model not in there_are:
            raise InputError(f"--model {model}: no such model{nearest(model, there_are)}")
    known = [entry for entry in entries() if state_of(entry, home) is EnvironmentState.READY]
    asked = list(dict.fromkeys(frameworks)) or [entry.framework for entry in known]
    if len(asked) < 2:
        there = ", ".join(entry.framework for entry in known) or "none"
        named = f"only {asked[0]} is named; " if frameworks else ""
        raise InputError(f"equal work is between two frameworks at least; {named}ready here: {there}")
    cases = tuple(
        case_of(framework=framework, model=model, device=Device.CPU)
        for model in models or there_are
        for framework in asked
    )
    suite = Suite(name=FOLDER, cases=cases)
    site = Site(suite, load_workloads(), (LocalHost(),), home)
    with TemporaryDirectory(prefix="trainmark-") as folder:
        return certificates(site, cases, Path(folder), suite.limits, announce)


def _name(question: Question) -> str:
    device = "" if question.device is Device.AUTO else f"-{question.device.value}"
    default = fixed_axes_of(case_of(model=question.model))
    rules = "".join(f"-{value}" for axis, value in question.rules if value != default[axis])
    return f"{question.model}{device}{rules}"


def _basis(question: Question, site: Site) -> str:
    """Return a digest of what decides the answer: who is asked what, where, by which workers and tolerances."""
    digest = hashlib.sha256(repr(question).encode())
    packages = (Path(path) for package in (equivalence, tasks, worker) for path in package.__path__)
    for folder in (*packages, *folders("worker")):
        for file in sorted(folder.rglob("*.py")):
            digest.update(str(file.relative_to(folder)).encode() + file.read_bytes())
    for framework in question.frameworks:
        place = site.setting(observed_case(question, framework, site))
        known = place.reason if isinstance(place, CannotStart) else fingerprint(place.manifest)
        digest.update(known.encode())
    return f"sha256:{digest.hexdigest()}"


def observed_case(question: Question, framework: str, site: Site) -> Case:
    """Return the case in which a framework's step is looked into: FP32, no compiler, the first way that there is."""
    case = case_of(
        framework=framework, model=question.model, precision=Precision.FP32, device=question.device
    ).varied(**dict(question.rules))
    cases = (case.varied(**ways) for ways in _each(task_of(case).variant_axes, case))
    return next((found for found in cases if _can_do(found, site)), case)


def _each(axes: Sequence[str], case: Case) -> Iterator[dict[str, str]]:
    """Yield each combination of the values that enumerated axes of a case can have."""
    values = [[value.value for value in type(case.value(axis))] for axis in axes]
    return (dict(zip(axes, chosen, strict=True)) for chosen in product(*values))


def _can_do(case: Case, site: Site) -> bool:
    known = site.workload(case).card.axes
    listed = [(axis, known[axis].values) for axis in task_of(case).variant_axes if axis in known]
    there = all(values is None or str(case.value(axis)) in values for axis, values in listed)
    return there and _is_there(case, site)


def _settled(case: Case, site: Site) -> list[Case]:
    """Return the case, or where it leaves axes open each case that its short runs may find the best."""
    if not case.left_open:
        return [case]
    return candidates(case, site.workload(case).card, device_of(case, site.machine))


def _is_there(case: Case, site: Site) -> bool:
    return find_gap(case, site.workload(case).card, device_of(case, site.machine)) is None


def _way(case: Case) -> Way:
    return Way(case.framework, tuple(_axes(case).items()), case.compiler)


def _axes(case: Case) -> dict[str, str]:
    return {axis: str(case.value(axis)) for axis in task_of(case).variant_axes}
