"""Doubts about what a run did, and which GPUs the gates look at."""

import json
from collections.abc import Mapping

import pytest

from trainmark.campaign.suspicion import version_suspicions, work_suspicions
from trainmark.logs.events import parse_events
from trainmark.measure.energy import gpus_of
from trainmark.node.machine import collect
from trainmark.schema.case import case_of
from trainmark.schema.manifest import AcceleratorFacts, FrameworkVersions, GpuFacts, Manifest
from trainmark.schema.measurement import About, Measurement, Steadiness
from trainmark.schema.suite import Protocol
from trainmark.workload import load_workloads


def test_only_the_gpus_that_a_run_computes_on_are_inspected() -> None:
    assert gpus_of(case_of(device="cpu"), None) == ()
    assert gpus_of(case_of(device="cuda", devices_per_node=2), manifest()) == (0, 1)
    assert gpus_of(case_of(device="cuda"), None) is None
    assert gpus_of(case_of(device="cuda"), with_gpus("T400", "A100")) is None, (
        "CUDA's first one is the faster"
    )
    assert gpus_of(case_of(device="cuda"), with_gpus("A100", "A100")) == (0,)


@pytest.mark.parametrize(
    ("shown", "models", "order", "used"),
    [
        ("2,3", 1, None, (2, 3)),
        ("3, 1", 1, None, (3, 1)),
        ("GPU-2,GPU-00", 1, None, (2, 0)),
        ("GPU-3,GPU-1", 2, None, (3, 1)),
        ("2,3", 2, None, None),
        ("2,3", 2, "PCI_BUS_ID", (2, 3)),
        ("2", 1, None, None),
        ("2,9", 1, None, None),
        ("GPU-,GPU-2", 1, None, None),
        ("MIG-77,MIG-78", 1, None, None),
        ("", 1, None, None),
    ],
)
def test_the_gpus_that_cuda_is_shown_are_those_of_a_run(
    shown: str, models: int, order: str | None, used: tuple[int, ...] | None
) -> None:
    variables = {"CUDA_VISIBLE_DEVICES": shown} | ({} if order is None else {"CUDA_DEVICE_ORDER": order})
    names = [f"model {number % models}" for number in range(4)]
    case = case_of(device="cuda", devices_per_node=2)

    assert gpus_of(case, with_gpus(*names, variables=variables)) == used


def with_gpus(*names: str, variables: Mapping[str, str] | None = None) -> Manifest:
    (node,) = manifest(**(variables or {})).nodes
    named = tuple(GpuFacts(name=name, uuid=f"GPU-{at}{'0' * (at == 0)}") for at, name in enumerate(names))
    gpus = AcceleratorFacts(gpus=named)
    return Manifest(nodes=(node.model_copy(update={"accelerators": gpus}),))


def manifest(**variables: str) -> Manifest:
    return collect(None, environ=variables)


def test_a_programs_own_way_of_counting_its_steps_is_no_doubt() -> None:
    case = case_of(workload="ngc-pytorch-convnets-21.03", precision="amp-fp16")
    card = load_workloads().find(case).card
    protocol = Protocol.model_validate({"name": "dlperf", "steps": 100, "warmup_steps": 20})
    counted = {
        steps: work_suspicions(case, card, protocol, measured(steps), parse_events([])) for steps in (79, 78)
    }
    assert counted[79] == ()
    assert [doubt.code for doubt in counted[78]] == ["steps-differ"]


@pytest.mark.parametrize(
    ("records", "last_step", "doubts"),
    [
        (40, 390, []),
        (41, 400, []),
        (20, 190, ["steps-differ"]),
        (20, None, ["steps-differ"]),
        (20, 20, ["steps-differ"]),
    ],
    ids=["from 0", "from 10", "ended early", "no step in the log", "each step"],
)
def test_a_record_for_every_tenth_step_is_no_doubt(
    records: int, last_step: int | None, doubts: list[str]
) -> None:
    case = case_of(workload="makemore", framework="pytorch", task="program", device="cpu")
    card = load_workloads().find(case).card
    protocol = Protocol.model_validate({"name": "adaptive", "steps": 400})
    measurement = measured(records).model_copy(update={"warmup_steps": 0})

    found = work_suspicions(case, card, protocol, measurement, parse_events([]), last_step)

    assert [doubt.code for doubt in found] == doubts


def test_a_number_of_the_whole_run_says_nothing_about_its_steps() -> None:
    case = case_of(workload="nanogpt", framework="pytorch", task="program", device="cpu")
    card = load_workloads().find(case).card
    protocol = Protocol.model_validate({"name": "adaptive", "steps": 200})
    summary = measured(0).model_copy(update={"warmup_steps": 0, "rule": "summary"})

    assert work_suspicions(case, card, protocol, summary, parse_events([])) == ()
    (doubt,) = work_suspicions(case, card, protocol, measured(0), parse_events([]))
    assert doubt.code == "steps-differ"


@pytest.mark.parametrize(("measured_steps", "doubts"), [(70, []), (69, ["steps-differ"])])
def test_a_warm_up_of_the_logs_format_is_no_doubt(measured_steps: int, doubts: list[str]) -> None:
    case = case_of(workload="llama2-c", framework="pytorch", task="program", device="cpu")
    card = load_workloads().find(case).card
    protocol = Protocol.model_validate({"name": "adaptive", "steps": 80})
    measurement = measured(measured_steps).model_copy(update={"warmup_steps": 10})

    found = work_suspicions(case, card, protocol, measurement, parse_events([]), measured_steps + 9)

    assert [doubt.code for doubt in found] == doubts


def test_an_axis_that_a_run_tells_with_its_settings_is_held_against_its_name() -> None:
    case = case_of(model="bert_tiny", optimizer="lamb")
    card = load_workloads().find(case).card
    protocol = Protocol.model_validate({"name": "dlperf", "steps": 100, "warmup_steps": 20})
    found = {}
    for name in ("Lamb", "AdamW"):
        line = {"step": "PARAMETER", "data": {"optimizer": {"name": name, "epsilon": 1e-6}}}
        events = parse_events([f"DLLL {json.dumps(line)}"])
        found[name] = [doubt.code for doubt in work_suspicions(case, card, protocol, measured(80), events)]
    assert found == {"Lamb": [], "AdamW": ["optimizer-differs"]}


def test_a_framework_that_was_changed_after_the_campaign_began_is_a_doubt() -> None:
    there = collect(FrameworkVersions(framework="pytorch", version="2.13.0+cpu", python="3.11.9"), environ={})
    line = {"step": "PARAMETER", "data": {"framework_version": "2.14.0+cpu"}}
    events = parse_events([f"DLLL {json.dumps(line)}"])
    (doubt,) = version_suspicions(events, there)
    assert (doubt.code, doubt.about) == ("framework-version-differs", About.WORK)
    assert "pytorch 2.14.0+cpu, but its environment had 2.13.0+cpu" in doubt.sentence
    assert version_suspicions(events, manifest()) == version_suspicions(parse_events([]), there) == ()


def measured(steps: int) -> Measurement:
    return Measurement(
        unit="images/s", rule="window", throughput=1.0, samples=None, window_s=None, measured_steps=steps,
        warmup_steps=20, first_step_s=None, compile_s=None, step_times=None, data_wait=None, peak_memory_bytes=(),
        final_loss=None, steadiness=Steadiness(steady=None, settled_after=None, bias=None), suspicions=(),
    )  # fmt: skip
