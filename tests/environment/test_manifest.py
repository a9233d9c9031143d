"""The manifest: it survives its file, its fingerprint says what forbids pooling, its differences name paths."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from trainmark.measure.pooling import count_environments, differences, fingerprint
from trainmark.node.machine import Roots, collect, collect_node
from trainmark.schema.manifest import (
    AcceleratorFacts,
    ContainerFacts,
    CpuFacts,
    FrameworkVersions,
    GpuFacts,
    Manifest,
    Node,
)

VM = Path(__file__).parent / "recorded" / "linux-vm"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TORCH = FrameworkVersions(framework="pytorch", version="2.13.0", python="3.11.7")


def node(**changes: Any) -> Node:
    roots = Roots(VM / "proc", VM / "sys", VM / "etc", VM)
    made = collect_node(TORCH, roots=roots, environ={"OMP_NUM_THREADS": "2"}, nvml=None, now=NOW)
    return made.model_copy(update=changes)


def test_a_manifest_survives_its_file() -> None:
    gpu = GpuFacts(name="a", memory_bytes=1)
    accelerators = AcceleratorFacts("1", "13.0", (gpu, gpu), (("X", "NV1"), ("NV1", "X")))
    manifest = Manifest(nodes=(node(accelerators=accelerators, container=ContainerFacts("docker")),))
    assert Manifest.model_validate_json(manifest.model_dump_json()) == manifest


def test_an_unknown_key_in_a_manifest_is_refused() -> None:
    document = Manifest(nodes=(node(),)).model_dump(mode="json")
    document["nodes"][0]["colour"] = "blue"
    with pytest.raises(ValidationError):
        Manifest.model_validate(document)


def test_names_times_and_variables_do_not_forbid_pooling() -> None:
    plain = fingerprint(Manifest(nodes=(node(),)))
    same = node(
        hostname="other", collected=NOW + timedelta(days=1), variables={}, container=ContainerFacts("docker")
    )
    assert fingerprint(Manifest(nodes=(same,))) == plain


def gpu_node(**facts: Any) -> Node:
    return node(
        accelerators=AcceleratorFacts("550", "12.4", (GpuFacts(**{"name": "a", "uuid": "GPU-1", **facts}),))
    )


def test_another_card_of_the_same_kind_does_not_forbid_pooling_and_another_power_limit_does() -> None:
    one = fingerprint(Manifest(nodes=(gpu_node(),)))
    assert fingerprint(Manifest(nodes=(gpu_node(uuid="GPU-2", pci="1"),))) == one
    assert fingerprint(Manifest(nodes=(gpu_node(power_limit_w=300.0),))) != one


@pytest.mark.parametrize(
    "change",
    [
        {"framework": TORCH.model_copy(update={"version": "2.12.0"})},
        {"framework": TORCH.model_copy(update={"nccl": "2.27.3"})},
        {"accelerators": AcceleratorFacts(driver="550")},
        {"environment_lock": "sha256:1"},
    ],
)
def test_hardware_driver_framework_and_lock_forbid_pooling(change: dict[str, Any]) -> None:
    assert fingerprint(Manifest(nodes=(node(**change),))) != fingerprint(Manifest(nodes=(node(),)))


def test_a_choice_of_other_cpus_forbids_pooling_and_other_cpus_of_a_job_do_not() -> None:
    def on(allowed: str, pinned: str | None) -> str:
        return fingerprint(Manifest(nodes=(node(cpu=CpuFacts(allowed=allowed, pinned=pinned)),)))

    assert on("0-1", "0-1") != on("2-3", "2-3")
    assert on("0-1", "0-1") != on("0-1", None)
    assert on("0-1", None) == on("2-3", None)


def test_the_order_of_the_nodes_does_not_count_but_their_number_does() -> None:
    one, other = node(), node(environment_lock="sha256:1")
    both = fingerprint(Manifest(nodes=(one, other)))
    assert fingerprint(Manifest(nodes=(other, one))) == both
    assert fingerprint(Manifest(nodes=(one,))) != both


def test_more_nodes_of_one_kind_are_no_other_environment() -> None:
    one, other = node(), node(hostname="b", collected=NOW + timedelta(1))
    scaled = {str(number): Manifest(nodes=nodes) for number, nodes in enumerate([(one,), (one, other)])}
    assert count_environments(scaled) == 1
    newer = node(environment_lock="sha256:1")
    assert count_environments({**scaled, "third": Manifest(nodes=(newer, other))}) == 2
    assert count_environments({"of a later version": {}, "another": {}}) == 2


def test_differences_name_the_path_and_both_sides() -> None:
    one = Manifest(nodes=(node(),))
    other = Manifest(
        nodes=(node(hostname="b", collected=NOW + timedelta(1), accelerators=AcceleratorFacts(driver="1")),)
    )
    assert differences(one, other) == [
        ("nodes[0].accelerators.driver", None, "1"),
        ("nodes[0].hostname", "vm", "b"),
    ]
    assert differences(one, one) == []


def test_this_machine_has_a_manifest() -> None:
    manifest = collect(None, environ={**os.environ, "OMP_NUM_THREADS": "1"})
    here = manifest.nodes[0]
    assert here.cpu.threads
    assert here.memory.total_bytes
    assert here.variables["OMP_NUM_THREADS"] == "1"
    assert "HOME" not in here.variables
