"""Checks of equal work run at the same time where the machine has cores for several."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest

from trainmark.campaign import certifying
from trainmark.campaign.certifying import Question, Slots, certificates
from trainmark.campaign.resume import CERTIFICATE, EQUIVALENCE
from trainmark.campaign.run_environment import RunEnvironment
from trainmark.node import LocalHost
from trainmark.schema.case import Case, case_of
from trainmark.schema.certificate import Certificate
from trainmark.schema.plan import NodeResources
from trainmark.schema.suite import Limits, Suite
from trainmark.workload import load_workloads

CASES = (
    case_of(framework="pytorch", model="mobilenet_v1", device="cpu"),
    case_of(framework="pytorch", model="gpt2_tiny", device="cpu"),
)


def certificate_of(model: str, reason: str | None = None) -> Certificate:
    """Return a certificate of nothing; with a ``reason`` PyTorch could not be checked."""
    return Certificate(
        trainmark_version="0",
        model=model,
        made_at=datetime(2026, 11, 26, tzinfo=UTC),
        batch=4,
        steps=3,
        parties=(),
        pairs=(),
        absent={} if reason is None else {"pytorch": reason},
    )


Answer = Callable[[Question, RunEnvironment, Path], Certificate]


def certified(
    cores: int, cases: tuple[Case, ...], out: Path, answer: Answer, monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Return the models of the certificates, each of which ``answer`` makes in place of a worker."""
    host = LocalHost(machine=NodeResources(cores=cores, gpus=0))
    run_env = RunEnvironment(Suite(name="s", cases=cases), load_workloads(), (host,), out / "home")

    def made(question: Question, own_env: RunEnvironment, folder: Path, *_rest: object) -> Certificate:
        return answer(question, own_env, folder)

    monkeypatch.setattr(certifying, "answer", made)
    found = certificates(run_env, cases, out, Limits(), lambda _what: None)
    return [certificate.model for certificate in found]


def test_two_checks_run_at_once_on_eight_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = threading.Barrier(2)

    def answer(question: Question, _env: RunEnvironment, _folder: Path) -> Certificate:
        # Neither goes on before the other one has begun.
        both.wait(timeout=30)
        return certificate_of(question.model)

    assert certified(8, CASES, tmp_path, answer, monkeypatch) == ["mobilenet_v1", "gpt2_tiny"]


@pytest.mark.parametrize(("slots", "at_once"), [(3, 3), (2, 2), (1, 0)])
def test_a_frameworks_step_and_its_variants_are_trained_at_once_as_far_as_there_are_slots(
    slots: int, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = case_of(framework="pytorch", model="mobilenet_v1", device="cpu")
    cases = (case, case.varied(layout="nhwc"), case.varied(compiler="torch.compile"))
    run_env = RunEnvironment(
        Suite(name="s", cases=cases), load_workloads(), (LocalHost(),), tmp_path / "home"
    )
    monkeypatch.setattr(certifying, "_is_there", lambda *_: True)
    (question,) = certifying.questions(run_env, cases)
    meeting, overlapping = threading.Barrier(max(at_once, 2)), []

    def observe(_case: Case, _env: RunEnvironment, folder: Path, *_rest: object) -> object:
        if at_once == 3 or folder.name != "pytorch":
            try:
                meeting.wait(timeout=30 if at_once else 0.2)
                overlapping.append(folder.name)
            except threading.BrokenBarrierError:
                pass
        of_base = SimpleNamespace(steps=None, version="0", device="cpu")
        return of_base if folder.name == "pytorch" else "failed: x"

    monkeypatch.setattr(certifying, "observe", observe)
    monkeypatch.setattr(certifying, "party", lambda *_: None)
    monkeypatch.setattr(certifying, "certify", lambda *_: certificate_of("mobilenet_v1"))
    certifying.answer(
        question, run_env, tmp_path / "out", Limits(), lambda _what: None, slots=Slots.of(slots, 1)
    )
    assert len(overlapping) == at_once


def test_checks_follow_one_another_on_two_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = threading.Lock()

    def answer(question: Question, _env: RunEnvironment, _folder: Path) -> Certificate:
        assert one.acquire(blocking=False)
        one.release()
        return certificate_of(question.model)

    assert certified(2, CASES, tmp_path, answer, monkeypatch) == ["mobilenet_v1", "gpt2_tiny"]


def test_a_check_that_lacked_memory_among_others_is_run_again_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def answer(question: Question, _env: RunEnvironment, folder: Path) -> Certificate:
        tried.append(question.model)
        stored = folder / CERTIFICATE
        assert not stored.exists(), "a stored certificate would have been reused"
        folder.mkdir(parents=True, exist_ok=True)
        stored.write_text("{}", encoding="utf-8")
        lacking = question.model == "gpt2_tiny" and tried.count("gpt2_tiny") == 1
        return certificate_of(question.model, "oom: CUDA out of memory" if lacking else None)

    assert certified(8, CASES, tmp_path, answer, monkeypatch) == ["mobilenet_v1", "gpt2_tiny"]
    assert sorted(tried) == ["gpt2_tiny", "gpt2_tiny", "mobilenet_v1"]
    assert (tmp_path / EQUIVALENCE / "gpt2_tiny-cpu" / CERTIFICATE).exists()


def test_an_error_ends_the_other_checks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = threading.Event()

    def answer(question: Question, env: RunEnvironment, _folder: Path) -> Certificate:
        if question.model == "mobilenet_v1":
            failed.set()
            raise OSError("the disk is full")
        failed.wait(timeout=30)
        while True:
            # As run_plan does about twice a second.
            env.watch(None)  # type: ignore[arg-type]

    with pytest.raises(OSError, match="the disk is full"):
        certified(8, CASES, tmp_path, answer, monkeypatch)


@pytest.mark.parametrize(
    ("reason", "checks"), [("timeout: after 120 s", 2), ("oom: 1 GiB", 2), ("failed: x", 1)]
)
def test_a_check_that_lacked_time_is_made_again_by_the_next_call(
    reason: str, checks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = LocalHost(machine=NodeResources(cores=2, gpus=0))
    run_env = RunEnvironment(Suite(name="s", cases=CASES[:1]), load_workloads(), (host,), tmp_path / "home")
    (question,) = certifying.questions(run_env, CASES[:1])
    made: list[Path] = []

    def observe(_case: Case, _env: RunEnvironment, folder: Path, *_rest: object) -> str:
        made.append(folder)
        return reason

    monkeypatch.setattr(certifying, "observe", observe)
    for _ in range(2):
        found = certifying.answer(question, run_env, tmp_path / "out", Limits(), lambda _what: None)
        assert found.absent == {"pytorch": reason}

    assert len(made) == checks
