"""GPUs through NVML. ``FakeNvml`` is a FAKE: it stands where no GPU is, and its figures were measured nowhere."""

import sys
import types
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from trainmark.node.machine import Nvml, cuda_version, open_nvml, read_accelerators
from trainmark.schema.manifest import AcceleratorFacts


class FakeError(Exception):
    """Stands for ``pynvml.NVMLError``."""


class FakeNvml:
    """The functions of ``pynvml`` that a manifest asks, for two invented GPUs joined as ``links`` says."""

    NVMLError = FakeError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_NVLINK_MAX_LINKS, NVML_NVLINK_DEVICE_TYPE_SWITCH = 1, 2, 4, 2
    NVML_TOPOLOGY_INTERNAL, NVML_TOPOLOGY_SINGLE, NVML_TOPOLOGY_MULTIPLE = 0, 10, 20
    NVML_TOPOLOGY_HOSTBRIDGE, NVML_TOPOLOGY_NODE, NVML_TOPOLOGY_SYSTEM = 30, 40, 50

    def __init__(self, link_end: Callable[[int], str | None]) -> None:
        self._link_end = link_end

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"999.1"

    def nvmlSystemGetCudaDriverVersion(self) -> int:
        return 13010

    def nvmlDeviceGetName(self, handle: int) -> str:
        return "Fake GPU"

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return f"GPU-fake-{handle}"

    def nvmlDeviceGetPciInfo(self, handle: int) -> Any:
        return SimpleNamespace(busId=f"00000000:0{handle}:00.0")

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> Any:
        return SimpleNamespace(total=2**30, used=0)

    def nvmlDeviceGetEnforcedPowerLimit(self, handle: int) -> int:
        return 300500

    def nvmlDeviceGetMaxClockInfo(self, handle: int, kind: int) -> int:
        return 1000 * kind

    def nvmlDeviceGetMigMode(self, handle: int) -> list[int]:
        return [0, 1]

    def nvmlDeviceGetEccMode(self, handle: int) -> list[int]:
        raise FakeError("Not Supported")

    def nvmlDeviceGetPersistenceMode(self, handle: int) -> int:
        return 1

    def nvmlDeviceGetNvLinkState(self, handle: int, link: int) -> int:
        if self._link_end(handle) is None:
            raise FakeError("Not Supported")
        return int(link < 3)

    def nvmlDeviceGetNvLinkRemoteDeviceType(self, handle: int, link: int) -> int:
        return 2 if self._link_end(handle) == "switch" else 0

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle: int, link: int) -> Any:
        return SimpleNamespace(busId=self._link_end(handle))

    def nvmlDeviceGetTopologyCommonAncestor(self, one: int, other: int) -> int:
        return 40


def test_nvml_values_are_recorded_and_unsupported_ones_are_null() -> None:
    facts = read_accelerators(Nvml(FakeNvml(lambda handle: None)))
    assert (facts.driver, facts.cuda_driver) == ("999.1", "13.1")
    gpu = facts.gpus[1]
    assert (gpu.name, gpu.uuid, gpu.pci) == ("Fake GPU", "GPU-fake-1", "00000000:01:00.0")
    assert (gpu.power_limit_w, gpu.max_sm_clock_mhz, gpu.max_memory_clock_mhz) == (300.5, 1000, 2000)
    # The current mode, not the pending one; ECC is not supported; a function that is missing is a fact not had.
    assert (gpu.mig, gpu.ecc, gpu.persistence, gpu.vbios) == (False, None, True, None)


@pytest.mark.parametrize(
    ("link_end", "joined"),
    [
        (lambda handle: None, "NODE"),
        (lambda handle: "switch", "NV3"),
        (lambda handle: f"00000000:0{1 - handle}:00.0", "NV3"),
        (lambda handle: "00000000:07:00.0", "NODE"),
    ],
    ids=["no links", "through switches", "to each other", "to something else"],
)
def test_topology_reports_nvlink_or_pcie_between_gpus(
    link_end: Callable[[int], str | None], joined: str
) -> None:
    facts = read_accelerators(Nvml(FakeNvml(link_end)))
    assert facts.topology == (("X", joined), (joined, "X"))


def test_a_node_without_a_driver_has_no_gpus_and_no_error() -> None:
    assert read_accelerators(None) == AcceleratorFacts()


def test_a_driver_that_does_not_start_is_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("pynvml")

    def start() -> None:
        raise FakeError("Driver Not Loaded")

    module.__dict__.update(NVMLError=FakeError, nvmlInit=start)
    monkeypatch.setitem(sys.modules, "pynvml", module)
    with open_nvml() as nvml:
        assert nvml is None


@pytest.mark.parametrize(
    ("number", "version"), [(12040, "12.4"), (13000, "13.0"), (11080, "11.8"), (None, None)]
)
def test_the_drivers_cuda_version_is_read(number: int | None, version: str | None) -> None:
    assert cuda_version(number) == version
