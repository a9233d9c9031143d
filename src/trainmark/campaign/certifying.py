"""Check that frameworks do equal work: run three steps in each and compare them."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import BoundedSemaphore

from trainmark import equivalence, tasks, worker
from trainmark.campaign.best_search import candidates
from trainmark.campaign.observation_run import INPUTS, Inputs, Observed, observe
from trainmark.campaign.resume import CERTIFICATE, EQUIVALENCE, read_certificate
from trainmark.campaign.run_environment import CannotStart, RunEnvironment, at_once
from trainmark.environment import EnvironmentState, entries, state_of
from trainmark.equivalence import (
    Reference,
    certify,
    equal_work_of,
    golden_bytes,
    golden_rounding,
    has_golden,
    party,
)
from trainmark.errors import InputError, nearest
from trainmark.files import extension_folders, write_run_file
from trainmark.measure.pooling import fingerprint
from trainmark.node import LocalHost
from trainmark.placement import device_of
from trainmark.schema.case import Case, Device, case_of
from trainmark.schema.certificate import Certificate, CheckedVariant, Party
from trainmark.schema.observation import Followed, Observation
from trainmark.schema.outcome import Outcome
from trainmark.schema.precision import Precision
from trainmark.schema.suite import Limits, Suite
from trainmark.tasks import TASKS
from trainmark.workload import BuiltinSource, find_gap, load_workloads

ACCUMULATION = "accumulation"
"""The axis that the check sets to more than one part, which some frameworks do not support in FP16."""

CORES_OF_A_CHECK, CORES_ON_A_GPU = 4, 1
"""How many cores each training process of a check gets that runs at the same time as others."""

Announce = Callable[[str], None]
"""Receives a short text about the next check."""


@dataclass(frozen=True, slots=True)
class TrainingVariant:
    """One variant in which a framework trains: values of the task's axes, and a compiler."""

    framework: str
    axes: tuple[tuple[str, str], ...]
    compiler: str


@dataclass(frozen=True, slots=True)
class Question:
    """The question whether frameworks compute the same step of ``model`` on one device, in all listed variants.

    ``rules`` are the values of the task's axes that change the computation of a step, such as the optimizer. In another
    ``precision`` than FP32 each framework is compared with the golden observation alone.
    """

    model: str
    frameworks: tuple[str, ...]
    device: Device
    rules: tuple[tuple[str, str], ...] = ()
    variants: tuple[TrainingVariant, ...] = ()
    precision: Precision = Precision.FP32


def questions(run_env: RunEnvironment, cases: Iterable[Case]) -> list[Question]:
    """Return the checks that these cases need before they run: one per model.

    Models of one framework are checked if trainmark has a golden observation of them. Cases with different rules, such
    as another optimizer, are separate questions. Only trainmark's own workers can be checked; the work of other
    programs is unknown. Variants that a framework does not support are left out.
    """
    found: dict[tuple[str, Device, tuple[tuple[str, str], ...]], list[Case]] = {}
    for case in cases:
        if TASKS[case.task].equal_work and isinstance(run_env.workload(case).card.source, BuiltinSource):
            about = (case.model, case.device, tuple(case.fixed_axes.items()))
            found.setdefault(about, []).extend(_settled(case, run_env))
    found_questions = []
    for (model, device, rules), members in found.items():
        frameworks = tuple(dict.fromkeys(case.framework for case in members))
        variants = tuple(dict.fromkeys(_variant_of(case) for case in members if _is_there(case, run_env)))
        has_partner = len(frameworks) > 1 or (bool(variants) and has_golden(model, dict(rules)))
        if has_partner:
            found_questions.append(Question(model, frameworks, device, rules, variants))
            found_questions += _in_low_precisions(found_questions[-1], members, run_env)
    return found_questions


def _in_low_precisions(of: Question, members: Sequence[Case], run_env: RunEnvironment) -> Iterator[Question]:
    """Yield the question for each precision of these cases whose rounding is known, besides that in FP32."""
    there = [case for case in members if _is_there(case, run_env)]
    for precision in dict.fromkeys(Precision(case.precision) for case in there):
        known = golden_rounding(of.model, dict(of.rules), precision) is not None
        if precision is Precision.FP32 or not known:
            continue
        of_these = [case for case in there if case.precision == precision]
        question = replace(of, precision=precision)
        frameworks = tuple(
            framework
            for framework in dict.fromkeys(case.framework for case in of_these)
            if _can_do(observed_case(question, framework, run_env), run_env)
        )
        variants = dict.fromkeys(_variant_of(case) for case in of_these if case.framework in frameworks)
        if frameworks:
            yield replace(question, frameworks=frameworks, variants=tuple(variants))


@dataclass(frozen=True, slots=True)
class Slots:
    """The training processes of checks that may run at the same time: at most ``count``, each with its threads.

    ``threads`` is None where a process runs alone: it uses as many as in a run.
    """

    count: int
    threads: int | None
    free: BoundedSemaphore

    @classmethod
    def of(cls, cores: int, cores_of_each: int) -> "Slots":
        """Return as many slots as ``cores`` allow, all of them free."""
        count = max(1, cores // cores_of_each)
        return cls(count, None if count == 1 else cores_of_each, BoundedSemaphore(count))

    @classmethod
    def one(cls) -> "Slots":
        """Return one slot with all cores."""
        return cls.of(1, 1)


def answer(
    question: Question,
    run_env: RunEnvironment,
    folder: Path,
    limits: Limits,
    announce: Announce,
    saved: Path | None = None,
    slots: Slots | None = None,
) -> Certificate:
    """Run the check in each framework, save everything under ``folder``, and return the certificate.

    A framework's step and its variants are trained at the same time, as far as there are ``slots``; without them one
    after another.

    A certificate from an earlier call, in ``folder`` or in ``saved``, is reused if nothing that affects the result has
    changed and no check lacked time or memory; one that holds is stored in ``saved``. A framework that cannot be
    checked is in ``absent`` with the reason. Raises ``TrainmarkError`` or OSError if nothing can be written.
    """
    rules = dict(question.rules)
    reference = Reference.of(question.model, rules, question.precision)
    basis = _basis(question, run_env)
    stored = read_certificate(folder / CERTIFICATE)
    if stored is not None and stored.basis == basis and not _lacked(stored, Outcome.TIMEOUT, Outcome.OOM):
        return stored
    folder.mkdir(parents=True, exist_ok=True)
    copy = None if saved is None else saved / f"{basis.partition(':')[2]}.json"
    if copy is not None and (earlier := read_certificate(copy)) is not None:
        write_run_file(folder / CERTIFICATE, copy.read_text(encoding="utf-8"))
        return earlier
    inputs = Inputs((folder / INPUTS).absolute())
    check = _Check(question, run_env, folder, limits, announce, slots or Slots.one(), reference, inputs)
    # A killed process may have left an incomplete file.
    inputs.remove()
    try:
        found = {framework: check.framework(framework) for framework in question.frameworks}
    finally:
        inputs.remove()
    observed = [each for each in found.values() if not isinstance(each, str)]
    certificate = certify(
        question.model,
        [steps for steps, _ in observed],
        [party for _, party in observed],
        {framework: reason for framework, reason in found.items() if isinstance(reason, str)},
        datetime.now(UTC),
        basis,
        reference,
    )
    text = certificate.to_json()
    write_run_file(folder / CERTIFICATE, text)
    if copy is not None and certificate.holds:
        with suppress(OSError):
            copy.parent.mkdir(parents=True, exist_ok=True)
            write_run_file(copy, text)
    return certificate


@dataclass(frozen=True, slots=True)
class _Check:
    """A question whose steps are being trained; its frameworks and variants read the same inputs."""

    question: Question
    run_env: RunEnvironment
    folder: Path
    limits: Limits
    announce: Announce
    slots: Slots
    reference: Reference
    inputs: Inputs

    def framework(self, framework: str) -> tuple[Observation, Party] | str:
        """Return a framework's steps, checked in all of its variants; the reason if it cannot be checked."""
        question, slots = self.question, self.slots
        form = equal_work_of(question.model, dict(question.rules)).observation
        narrow = "" if question.precision is Precision.FP32 else f" in {question.precision.value}"
        self.announce(
            f"{framework}: checking that its {question.model} computes the described training step{narrow}"
        )
        bases = observed_cases(question, framework, self.run_env)
        own = [variant for variant in question.variants if variant.framework == framework]
        with ThreadPoolExecutor(slots.count) as pool:
            # Where there are slots, a variant does not wait for the steps that it is compared with.
            ahead = [variant for variant in own if slots.count > 1 and variant != _variant_of(bases[0])]
            started = {variant: pool.submit(self._follow, bases[0], variant) for variant in ahead}
            for base in bases:
                with slots.free:
                    place = self.folder / framework
                    observed = observe(
                        base, self.run_env, place, self.inputs, self.limits, form, self.slots.threads
                    )
                if not (isinstance(observed, str) and observed.startswith(Outcome.UNSUPPORTED.value)):
                    break
            if isinstance(observed, str):
                pool.shutdown(wait=False, cancel_futures=True)
                return observed
            wanted = [variant for variant in own if variant != _variant_of(base)]
            late = [variant for variant in wanted if variant not in started]
            started |= {variant: pool.submit(self._follow, base, variant) for variant in late}
            variants = [
                self._checked(observed.steps, variant, started[variant].result()) for variant in wanted
            ]
        return observed.steps, party(
            observed.steps, _axes(base), observed.version, observed.device, variants, self.reference
        )

    def _follow(self, base: Case, variant: TrainingVariant) -> Observed[Followed] | str:
        """Run a framework's step in another variant; return its report, or the reason why there is none."""
        axes = dict(variant.axes)
        case = base.varied(**axes, compiler=variant.compiler)
        place = self.folder / "-".join((variant.framework, *axes.values(), variant.compiler))
        with self.slots.free:
            words = ", ".join((*axes.values(), f"compiler {variant.compiler}"))
            self.announce(f"{variant.framework}: checking {words}")
            return observe(case, self.run_env, place, self.inputs, self.limits, Followed, self.slots.threads)

    def _checked(
        self, first: Observation, variant: TrainingVariant, followed: Observed[Followed] | str
    ) -> CheckedVariant:
        """Return the check of a variant's steps against the ``first`` ones."""
        axes = dict(variant.axes)
        if isinstance(followed, str):
            return CheckedVariant(axes=axes, compiler=variant.compiler, absent=followed)
        return self.reference.check_variant(first, followed.steps, axes, variant.compiler)


def certificates(
    run_env: RunEnvironment,
    cases: Sequence[Case],
    out: Path,
    limits: Limits,
    announce: Announce,
    saved: Path | None = None,
) -> tuple[Certificate, ...]:
    """Return the certificates that these cases need, computed or stored: one per model, device and optimizer.

    Where there are cores enough, several steps are trained at the same time: nothing is timed. A certificate for which
    memory was too small then is computed again alone. ``saved`` is the folder for certificates of every suite.
    """
    found = questions(run_env, cases)
    on_gpus = all(question.device is Device.CUDA for question in found)
    slots = Slots.of(run_env.machine.cores, CORES_ON_A_GPU if on_gpus else CORES_OF_A_CHECK)
    with at_once(run_env, slots.count) as (pool, own_env):

        def answered(question: Question, slots: Slots) -> Certificate:
            place = out / EQUIVALENCE / _name(question)
            return answer(question, own_env, place, limits, announce, saved, slots)

        answers = list(pool.map(lambda question: answered(question, slots), found))
    for index, certificate in enumerate(answers):
        if slots.count > 1 and _lacked(certificate, Outcome.OOM):
            (out / EQUIVALENCE / _name(found[index]) / CERTIFICATE).unlink()
            answers[index] = answered(found[index], Slots.one())
    return tuple(answers)


def _lacked(certificate: Certificate, *outcomes: Outcome) -> bool:
    """Return whether a check has no result because of one of these outcomes: another call may have one."""
    variants = [variant.absent for party in certificate.parties for variant in party.variants]
    reasons = (*certificate.absent.values(), *variants)
    ends = tuple(outcome.value for outcome in outcomes)
    return any(reason is not None and reason.startswith(ends) for reason in reasons)


def certify_environments(
    frameworks: Sequence[str], models: Sequence[str], home: Path, announce: Announce
) -> tuple[Certificate, ...]:
    """Return a certificate for each model, of the named frameworks, or of all whose environments are ready.

    The check uses their workers on a CPU with the default optimizer. Raises ``InputError`` for an unknown name, and if
    there is nothing to compare: no framework, or only one and a model without a golden observation.
    """
    there_are = [model for task in TASKS.values() if task.equal_work for model in task.models]
    for model in models:
        if model not in there_are:
            raise InputError(f"--model {model}: no such model{nearest(model, there_are)}")
    known = [entry for entry in entries() if state_of(entry, home) is EnvironmentState.READY]
    requested = list(dict.fromkeys(frameworks)) or [entry.framework for entry in known]
    if not requested:
        raise InputError("the check of equal work needs a framework, and no environment is ready")
    if len(requested) < 2 and (lone := [model for model in models if not has_golden(model)]):
        raise InputError(
            f"the check of equal work needs at least two frameworks for {lone[0]}, which has no golden observation; "
            f"only {requested[0]} is given"
        )
    cases = tuple(
        case_of(framework=framework, model=model, device=Device.CPU)
        for model in models or there_are
        for framework in requested
    )
    suite = Suite(name=EQUIVALENCE, cases=cases)
    run_env = RunEnvironment(suite, load_workloads(), (LocalHost(),), home)
    with TemporaryDirectory(prefix="trainmark-") as folder:
        return certificates(run_env, cases, Path(folder), suite.limits, announce)


def _name(question: Question) -> str:
    device = "" if question.device is Device.AUTO else f"-{question.device.value}"
    default = case_of(model=question.model).fixed_axes
    rules = "".join(f"-{value}" for axis, value in question.rules if value != default[axis])
    precision = "" if question.precision is Precision.FP32 else f"-{question.precision.value}"
    return f"{question.model}{device}{rules}{precision}"


def _basis(question: Question, run_env: RunEnvironment) -> str:
    """Return a digest of everything that affects the result: question, environments, workers and tolerances."""
    digest = hashlib.sha256(repr(question).encode())
    packages = (Path(path) for package in (equivalence, tasks, worker) for path in package.__path__)
    for folder in (*packages, *extension_folders("worker")):
        for file in sorted(folder.rglob("*.py")):
            digest.update(str(file.relative_to(folder)).encode() + file.read_bytes())
    digest.update(golden_bytes(question.model, dict(question.rules)))
    for framework in question.frameworks:
        place = run_env.setting(observed_case(question, framework, run_env))
        known = place.reason if isinstance(place, CannotStart) else fingerprint(place.manifest)
        digest.update(known.encode())
    return f"sha256:{digest.hexdigest()}"


def observed_case(question: Question, framework: str, run_env: RunEnvironment) -> Case:
    """Return the case in which a framework's step is observed: no compiler, its first supported variant."""
    return observed_cases(question, framework, run_env)[0]


def observed_cases(question: Question, framework: str, run_env: RunEnvironment) -> list[Case]:
    """Return the cases in which a framework's step may be observed; at least one.

    In a low precision these are the supported variants, those of the suite first: whether a CPU has the instructions
    for one of them is known only to the framework.
    """
    case = case_of(
        framework=framework, model=question.model, precision=question.precision, device=question.device
    ).varied(**dict(question.rules))
    flags = equal_work_of(question.model, dict(question.rules)).flags()
    if question.precision is not Precision.FP32 and ACCUMULATION in flags:
        case = case.varied(accumulation=flags[ACCUMULATION])
    cases = [case.varied(**values) for values in _each(TASKS[case.task].variant_axes, case)]
    supported = [found for found in cases if _can_do(found, run_env)]
    if question.precision is Precision.FP32:
        return supported[:1] or [case]
    own = [dict(variant.axes) for variant in question.variants if variant.framework == framework]
    return sorted(supported, key=lambda found: _axes(found) not in own) or [case]


def _each(axes: Sequence[str], case: Case) -> Iterator[dict[str, str]]:
    """Yield each combination of the values that the enumerated axes of a case can have."""
    values = [[value.value for value in type(case.value(axis))] for axis in axes]
    return (dict(zip(axes, chosen, strict=True)) for chosen in product(*values))


def _can_do(case: Case, run_env: RunEnvironment) -> bool:
    known = run_env.workload(case).card.axes
    listed = [(axis, known[axis].values) for axis in TASKS[case.task].variant_axes if axis in known]
    there = all(values is None or str(case.value(axis)) in values for axis, values in listed)
    return there and _is_there(case, run_env)


def _settled(case: Case, run_env: RunEnvironment) -> list[Case]:
    """Return the case, or, if it has open axes, each of its candidates."""
    if not case.left_open:
        return [case]
    return candidates(case, run_env.workload(case).card, device_of(case, run_env.machine))


def _is_there(case: Case, run_env: RunEnvironment) -> bool:
    return find_gap(case, run_env.workload(case).card, device_of(case, run_env.machine)) is None


def _variant_of(case: Case) -> TrainingVariant:
    return TrainingVariant(case.framework, tuple(_axes(case).items()), case.compiler)


def _axes(case: Case) -> dict[str, str]:
    return {axis: str(case.value(axis)) for axis in TASKS[case.task].variant_axes}
