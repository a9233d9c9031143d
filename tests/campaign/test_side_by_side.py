"""Cases side by side on different hosts, hosts chosen by their labels, and the hosts of each run in its result."""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import combinations
from pathlib import Path

import pytest

from agents import agent_host, stand_in
from fakes import Bench, Listener
from trainmark.campaign import Progress, plan_campaign, run_campaign
from trainmark.campaign.host_pool import HostPool, pool_hosts
from trainmark.campaign.run_environment import CannotStart
from trainmark.campaign.schedule import Attempt, Schedule
from trainmark.errors import InputError
from trainmark.node import LocalHost, RemoteHost
from trainmark.schema.case import Case, case_of
from trainmark.schema.hosts import Traffic
from trainmark.schema.manifest import FrameworkVersions, Node
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import Results, RunResult
from trainmark.schema.suite import Protocol
from trainmark.suite import load_suite


def agents(folder: Path, *names: str) -> tuple[RemoteHost, ...]:
    return tuple(agent_host(name, folder / "disks" / name) for name in names)


def run_on(bench: Bench, hosts: Sequence[RemoteHost], listener: Listener | None = None) -> Results:
    try:
        return run_campaign(replace(bench.order(), hosts=tuple(hosts)), listener or Listener()).results
    finally:
        for host in hosts:
            host.close()


def of_bench(precision: str, behaviour: str = "well") -> dict[str, object]:
    return {"precision": precision, "options": {"behaviour": behaviour}}


@pytest.mark.process
def test_cases_run_at_the_same_time_on_different_hosts_and_say_on_which(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch)
    (tmp_path / "place").mkdir()
    meets = f"meets-at-{tmp_path / 'place'}"
    bench.write(of_bench("fp32", meets), of_bench("bf16", meets), {"model": "other"}, side_by_side=True)
    results = run_on(bench, agents(tmp_path, "first", "second"))

    runs = [run for case in results.cases for run in case.runs]
    assert [(run.outcome, run.reason) for run in runs] == [(Outcome.OK, None)] * 3
    assert {run.hosts for run in runs} == {("first",), ("second",)}
    assert not any(overlap(one, other) for one, other in combinations(runs, 2) if one.hosts == other.hosts)


def overlap(one: RunResult, other: RunResult) -> bool:
    first, second = sorted((one, other), key=lambda run: str(run.started_at))
    assert first.started_at is not None
    assert second.started_at is not None
    return first.started_at + timedelta(seconds=first.duration_s or 0) > second.started_at


def test_a_host_that_is_away_is_stood_in_for_by_another(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch)
    bench.write(of_bench("fp32"), of_bench("bf16"), side_by_side=True)
    (case, other) = run_on(bench, agents(tmp_path, "refused", "second")).cases
    assert [run.hosts for run in (*case.runs, *other.runs)] == [("second",)] * 2
    # Nor is an empty folder left on it.
    assert list((tmp_path / "disks").rglob("*")) == [tmp_path / "disks" / "second"]


@pytest.mark.process
def test_an_error_of_one_run_ends_the_others_and_the_campaign(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, monkeypatch)

    class Breaks(Listener):
        def run_ended(self, result: RunResult, standing: object) -> None:
            raise InputError("no more")

    bench.write(of_bench("fp32"), of_bench("bf16", "hangs"), side_by_side=True, limits={"timeout_s": 600})
    with pytest.raises(InputError, match="no more"):
        run_on(bench, agents(tmp_path, "first", "second"), Breaks())


def test_a_concurrent_run_that_ended_well_stays_when_the_campaign_is_stopped(bench: Bench) -> None:
    class Stops(Listener):
        def run_ended(self, result: RunResult, standing: object) -> None:
            # Once the other one has ended and been asked how, of which this thread was not told yet.
            deadline = time.monotonic() + 300
            while len(bench.pids()) < 2 or any(Path(f"/proc/{pid}").exists() for pid in bench.pids()):
                assert time.monotonic() < deadline
                time.sleep(0.01)
            raise KeyboardInterrupt

    bench.write(of_bench("fp32"), of_bench("bf16", "lasts-1"), side_by_side=True)
    ending = run_campaign(replace(bench.order(), hosts=(LocalHost("a"), LocalHost("b"))), Stops())
    assert ending.interrupted
    assert [case.outcome for case in ending.results.cases] == [Outcome.OK] * 2
    assert len(list(bench.out.glob("runs/*/*/outcome.json"))) == 2


def test_a_concurrent_prepare_step_is_ended_when_the_campaign_is_stopped(bench: Bench) -> None:
    started, limit_s = bench.folder / "begun", 60
    program = f"import pathlib, time; pathlib.Path({str(started)!r}).touch(); time.sleep(600)"
    step = {"description": "waiting", "where": "host", "words": [sys.executable, "-c", program]}

    class Stops(Listener):
        def run_begins(self, case: Case, repeat: int, standing: Progress) -> None:
            super().run_begins(case, repeat, standing)
            while len(self.started) == 2 and not started.exists():
                assert time.monotonic() < began + limit_s
                time.sleep(0.01)
            if len(self.started) == 2:
                raise KeyboardInterrupt

    cases = (of_bench("fp32"), of_bench("bf16"))
    bench.write(*cases, card={"prepare": [step]}, side_by_side=True, limits={"timeout_s": limit_s})
    order, began = replace(bench.order(), hosts=(LocalHost("a"), LocalHost("b"))), time.monotonic()
    assert run_campaign(order, Stops()).interrupted
    # Not by the limit, which would have ended it too.
    assert time.monotonic() < began + limit_s


def test_labels_choose_the_hosts_of_a_case(bench: Bench) -> None:
    suite = bench.write({"where": {"gpu": "A100"}}, {"where": "gpu=H100"}, {"where": "host=a"}, {})
    hosts = (LocalHost("v", labels={"gpu": "V100"}), LocalHost("a", labels={"gpu": "A100", "rack": "2"}))
    on_a100, nowhere, by_name, anywhere = plan_campaign(suite, suite.cases, bench.out, bench.folder, hosts)

    assert not isinstance(on_a100, CannotStart)
    assert not isinstance(by_name, CannotStart)
    assert not isinstance(anywhere, CannotStart)
    assert [plan.nodes[0].host for plan in (on_a100, by_name, anywhere)] == ["a", "a", "v"]
    assert nowhere == CannotStart(Outcome.UNSUPPORTED, "no host has the labels gpu=H100")


def test_a_case_with_labels_runs_on_such_a_host_and_its_id_says_so(bench: Bench) -> None:
    bench.write({"where": {"gpu": "A100"}}, {"where": {"gpu": "H100"}})
    hosts = (LocalHost("v"), LocalHost("a", labels={"gpu": "A100"}))
    found, nowhere = run_campaign(replace(bench.order(), hosts=hosts), Listener()).results.cases
    assert found.id.endswith("-on.gpu.A100")
    assert [run.hosts for run in found.runs] == [("a",)]
    assert (nowhere.outcome, nowhere.reason) == (Outcome.UNSUPPORTED, "no host has the labels gpu=H100")


def test_a_case_whose_labels_no_host_has_is_reported_and_the_others_go_on(bench: Bench) -> None:
    bench.write({"where": {"gpu": "H100"}}, {}, side_by_side=True)
    hosts = (LocalHost("a"), LocalHost("b"))
    nowhere, other = run_campaign(replace(bench.order(), hosts=hosts), Listener()).results.cases
    assert (nowhere.outcome, nowhere.reason) == (Outcome.UNSUPPORTED, "no host has the labels gpu=H100")
    assert other.outcome is Outcome.OK


def test_a_case_without_labels_is_called_and_written_as_before() -> None:
    assert "where" not in case_of().model_dump()
    assert "on." not in case_of().id
    assert case_of(where="rack=2,gpu=A100").labels == {"rack": "2", "gpu": "A100"}


def test_a_suite_keeps_its_labels_when_it_is_written_down(bench: Bench) -> None:
    from trainmark.suite import dump_suite, parse_suite

    suite = bench.write({"where": {"gpu": "A100"}}, side_by_side=True)
    assert parse_suite(dump_suite(suite), "suite.yaml") == suite
    assert load_suite(bench.suite).cases[0].where == "gpu=A100"


def made(**kinds: str) -> HostPool:
    hosts = {name: LocalHost(name, labels={"gpu": kind}) for name, kind in kinds.items()}
    return HostPool(hosts, kinds)


def test_a_case_stays_on_hosts_that_are_alike_and_goes_round_among_them() -> None:
    hosts, case = made(a="V100", b="A100", c="V100"), case_of()
    assert hosts.allowed(case) == ("a", "c")
    assert hosts.allowed(case_of(nodes=3)) == ("a", "b", "c")
    assert hosts.allowed(case_of(where="gpu=A100")) == ("b",)

    hosts.take(case, ("a",))
    hosts.give_back(("a",))
    assert hosts.free(case) == ("c",)
    hosts.take(case_of(batch_per_device=8), ("c",))
    assert hosts.free(case) == ("a",)
    assert hosts.free(case_of(nodes=2)) is None


def test_hosts_whose_ranks_are_given_other_variables_are_not_alike() -> None:
    eager, plain = Traffic(variables={"NCCL_PROTO": "LL"}), Traffic(user="me", port=22)
    first, *others = (LocalHost("a", traffic=eager), LocalHost("b"), LocalHost("c", traffic=plain))
    assert pool_hosts([first, *others]).allowed(case_of()) == ("a",)
    assert pool_hosts(others).allowed(case_of()) == ("b", "c")


class Installed(LocalHost):
    """This machine under another name, with an environment of its own lock."""

    def facts(self, framework: FrameworkVersions | None, lock: str | None, git_dir: Path | None) -> Node:
        found = super().facts(framework, lock, None)
        # What it has installed shows once a program's environment is looked into.
        return found.model_copy(update={"environment_lock": self.name}) if git_dir is not None else found


def test_the_runs_of_a_case_stay_on_hosts_with_the_environment_of_its_first(bench: Bench) -> None:
    protocol = {"name": "adaptive", "steps": 12, "warmup_steps": 2, "repeats": 2}
    bench.write(side_by_side=True, protocol=protocol)
    order = replace(bench.order(), hosts=(Installed("a"), Installed("b")))
    (case,) = run_campaign(order, Listener()).results.cases
    assert [(run.outcome, run.hosts) for run in case.runs] == [(Outcome.OK, ("a",))] * 2


def test_a_case_that_needs_many_hosts_is_not_passed_by_for_ever() -> None:
    protocol = Protocol.model_validate({"name": "dlperf", "order_seed": None})
    schedule = Schedule(protocol, ["small", "large"], [[], []])
    small = schedule.take(lambda _: True)
    assert small == 0
    schedule.done(small, Attempt(Outcome.OK, 1.0, 1.0))
    # Of the first pass there is the large one alone: the small one's second run waits for it.
    assert schedule.take(lambda case: case == 0) is None
    assert schedule.take(lambda case: case == 1) == 1
    assert schedule.take(lambda case: case == 0) == 0
