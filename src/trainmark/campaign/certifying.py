"""Showing that frameworks do equal work: the three steps of the equivalence check, run in each and compared."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import ValidationError

import trainmark
from trainmark.campaign.collect import EVENTS
from trainmark.campaign.site import CannotStart, Site, plan_run
from trainmark.environment import State, entries, state_of
from trainmark.equivalence import Certificate, Observation, Party, certify, party, worker_flags, write_inputs
from trainmark.errors import InputError, nearest
from trainmark.execution import carry_out
from trainmark.files import write_atomically
from trainmark.logs.events import read_events
from trainmark.placement import Plan, Run, device_of, free_ports, this_machine
from trainmark.suite import Case, Device, Layout, Limits, Outcome, Precision, Protocol, Suite
from trainmark.worker.architectures import ARCHITECTURES
from trainmark.workload import BuiltinSource, Workload, find_gap, load_workloads

FOLDER = "equivalence"
CERTIFICATE = "certificate.json"
INPUTS = "inputs.npz"

Announce = Callable[[str], None]
"""Hears, in some words, what is looked at next."""


@dataclass(frozen=True, slots=True)
class Question:
    """Whether these frameworks train ``model`` by the same step, on this device."""

    model: str
    frameworks: tuple[str, ...]
    device: Device


def questions(site: Site, cases: Iterable[Case]) -> list[Question]:
    """Return what must be shown before these cases stand in one table: each model that several frameworks train.

    Only trainmark's own workers can be asked; what other programs do is not known to be equal.
    """
    found: dict[tuple[str, Device], dict[str, None]] = {}
    for case in cases:
        if isinstance(site.workload(case).card.source, BuiltinSource):
            found.setdefault((case.model, case.device), {})[case.framework] = None
    return [
        Question(model, tuple(frameworks), device)
        for (model, device), frameworks in found.items()
        if len(frameworks) > 1
    ]


def answer(question: Question, site: Site, folder: Path, limits: Limits, announce: Announce) -> Certificate:
    """Run the check in each framework, keep everything under ``folder``, and return the certificate.

    A certificate that an earlier call left there counts if it answers the same question. A framework that cannot
    be looked at is in ``absent`` with the reason. Raises ``TrainmarkError`` or OSError when nothing can be written.
    """
    kept = read_certificate(folder / CERTIFICATE)
    if kept is not None and _answers(kept, question):
        return kept
    folder.mkdir(parents=True, exist_ok=True)
    inputs = (folder / INPUTS).absolute()
    write_inputs(question.model, inputs)
    observations: list[Observation] = []
    parties: list[Party] = []
    absent: dict[str, str] = {}
    try:
        for framework in question.frameworks:
            announce(f"{framework}: is its {question.model} the same work?")
            seen = _observe(question, framework, site, inputs, limits)
            if isinstance(seen, str):
                absent[framework] = seen
            else:
                observations.append(seen[0])
                parties.append(seen[1])
    finally:
        # A hundred megabytes that a seed makes anew.
        inputs.unlink(missing_ok=True)
    certificate = certify(question.model, observations, parties, absent, datetime.now(UTC))
    write_atomically(folder / CERTIFICATE, certificate.model_dump_json(indent=1) + "\n")
    return certificate


def certificates(
    site: Site, cases: Sequence[Case], out: Path, limits: Limits, announce: Announce
) -> tuple[Certificate, ...]:
    """Return the certificates that these cases need, run or kept, one a model and device."""
    return tuple(
        answer(question, site, out / FOLDER / _name(question), limits, announce)
        for question in questions(site, cases)
    )


def kept_certificates(out: Path) -> tuple[Certificate, ...]:
    """Return the certificates that lie in a result directory."""
    found = (read_certificate(path) for path in sorted((out / FOLDER).glob(f"*/{CERTIFICATE}")))
    return tuple(certificate for certificate in found if certificate is not None)


def read_certificate(path: Path) -> Certificate | None:
    """Return a certificate; None where there is none that this version can read."""
    with suppress(OSError, ValidationError):
        return Certificate.model_validate_json(path.read_bytes())
    return None


def certify_environments(
    frameworks: Sequence[str], models: Sequence[str], home: Path, announce: Announce
) -> tuple[Certificate, ...]:
    """Return a certificate for each model, of the frameworks named, or of all whose environments are ready.

    It is about their workers on a CPU. Raises ``InputError`` for an unknown name, and when there are not two.
    """
    for model in models:
        if model not in ARCHITECTURES:
            raise InputError(f"--model {model}: no such model{nearest(model, ARCHITECTURES)}")
    known = [entry for entry in entries() if state_of(entry, home) is State.READY]
    asked = list(dict.fromkeys(frameworks)) or [entry.framework for entry in known]
    if len(asked) < 2:
        there = ", ".join(asked) or "none"
        raise InputError(f"equal work is between two frameworks at least; ready here: {there}")
    cases = tuple(
        Case(framework=framework, model=model, device=Device.CPU)
        for model in models or ARCHITECTURES
        for framework in asked
    )
    suite = Suite(name=FOLDER, cases=cases)
    site = Site(suite, load_workloads(), this_machine(), home)
    with TemporaryDirectory(prefix="trainmark-") as folder:
        return certificates(site, cases, Path(folder), suite.limits, announce)


def _name(question: Question) -> str:
    device = "" if question.device is Device.AUTO else f"-{question.device.value}"
    return f"{question.model}{device}"


def _answers(certificate: Certificate, question: Question) -> bool:
    known = {party.framework for party in certificate.parties}
    same = (certificate.model, certificate.trainmark_version) == (question.model, trainmark.__version__)
    return same and known == set(question.frameworks)


def _observe(
    question: Question, framework: str, site: Site, inputs: Path, limits: Limits
) -> tuple[Observation, Party] | str:
    """Return what a framework's three steps computed, or why that cannot be known."""
    case = Case(framework=framework, model=question.model, precision=Precision.FP32, device=question.device)
    case = case.model_copy(update={"layout": _layout(case, site.workload(case), site)})
    folder = inputs.parent / framework
    plan = _plan(case, site, folder, inputs)
    if isinstance(plan, CannotStart):
        return plan.reason
    folder.mkdir(exist_ok=True)
    record = carry_out(plan, folder, limits)
    if record.outcome is not Outcome.OK:
        return f"{record.outcome.value}: {record.reason}"
    events = read_events(folder / EVENTS)
    try:
        observation = Observation.model_validate(events.summary.get("equivalence"))
    except ValidationError as error:
        return f"the worker's answer cannot be read: {error.errors()[0]['msg']}"
    described = {name: _text(events.parameters, name) for name in ("framework_version", "device")}
    version, device = described["framework_version"], described["device"]
    return observation, party(observation, case.layout.value, version, device)


def _plan(case: Case, site: Site, folder: Path, inputs: Path) -> Plan | CannotStart:
    place = site.place(case)
    if isinstance(place, CannotStart):
        return place
    protocol = Protocol.model_validate({"name": "adaptive", "steps": 4, "warmup_steps": 1})
    run = Run(1, folder, "synthetic", free_ports(1))
    plan = plan_run(site, protocol, case, run, place.interpreter)
    if isinstance(plan, CannotStart):
        return plan
    # The worker takes the last of two equal flags.
    asked = worker_flags(case.model, inputs)
    return replace(
        plan,
        commands=tuple(replace(command, words=(*command.words, *asked)) for command in plan.commands),
    )


def _layout(case: Case, workload: Workload, site: Site) -> Layout:
    """Return the layout to look at: NCHW, or NHWC where the framework has no other on this device."""
    known = workload.card.axes.get("layout")
    there = Layout if known is None or known.values is None else [Layout(value) for value in known.values]
    device = device_of(case, site.machine)
    fitting = (
        layout
        for layout in there
        if find_gap(case.model_copy(update={"layout": layout}), workload.card, device) is None
    )
    return next(fitting, Layout.NCHW)


def _text(values: Mapping[str, object], name: str) -> str | None:
    value = values.get(name)
    return value if isinstance(value, str) else None
