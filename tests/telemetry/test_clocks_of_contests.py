"""``benchmarks/clocks.py``. ``FakeNvml`` is a FAKE where no GPU is: its figures were measured nowhere."""

import importlib.util
import sys
import time
from pathlib import Path
from typing import Any

import pytest

CLOCKS = Path(__file__).parents[2] / "benchmarks" / "clocks.py"
TAKES_S = 0.5


class FakeNvml:
    """A GPU that takes 500 W, at 1700 MHz; its energy counter may be missing."""

    NVML_CLOCK_SM = 1

    class NVMLError(Exception):
        pass

    def __init__(self, counts: bool) -> None:
        self._counts = counts
        self.opened: list[int] = []

    def nvmlInit(self) -> None: ...

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        self.opened.append(index)
        return index

    def nvmlDeviceGetCount(self) -> int:
        return 4

    def nvmlDeviceGetUUID(self, gpu: object) -> str:
        return f"GPU-{gpu}2ab-0000"

    def nvmlDeviceGetClockInfo(self, gpu: object, kind: int) -> int:
        return 1700

    def nvmlDeviceGetTotalEnergyConsumption(self, gpu: object) -> float:
        if not self._counts:
            raise self.NVMLError
        return time.perf_counter() * 500e3


def clocks(nvml: FakeNvml | None, monkeypatch: pytest.MonkeyPatch, device: str = "cuda") -> Any:
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    spec = importlib.util.spec_from_file_location("clocks", CLOCKS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Clocks(device)


def block() -> float:
    """Return other seconds than it takes, as a whole run of a program does."""
    time.sleep(TAKES_S)
    return 100.0


@pytest.mark.parametrize("device", [("", 0), ("3,1", 3), ("GPU-22ab", 2)])
def test_power_is_averaged_over_time_on_the_training_gpu(
    device: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    visible, opened = device
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    nvml = FakeNvml(counts=True)

    seconds, summary = clocks(nvml, monkeypatch).during(block)

    assert (seconds, summary["sm_mhz"]) == (100.0, 1700.0)
    # The counter is read before and after: by a little more time than the block took, and not by what it says.
    assert 500 <= summary["power_w"] < 1000
    assert nvml.opened[-1] == opened


@pytest.mark.parametrize("visible", ["GPU-9", "MIG-1", "-1", "7b"])
def test_a_gpu_that_is_not_found_has_no_summary(visible: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert clocks(FakeNvml(counts=True), monkeypatch).during(block) == (100.0, {})


def test_fields_that_the_driver_does_not_report_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert clocks(FakeNvml(counts=False), monkeypatch).during(block) == (100.0, {"sm_mhz": 1700.0})


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_a_block_without_a_gpu_or_nvml_has_only_its_time(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvml = FakeNvml(counts=True) if device == "cpu" else None
    assert clocks(nvml, monkeypatch, device).during(block) == (100.0, {})
