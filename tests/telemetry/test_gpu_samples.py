"""GPU samples through NVML. ``FakeNvml`` is a FAKE where no GPU is: its figures were measured nowhere."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.node.machine import Nvml
from trainmark.node.telemetry import CLOCK_REASONS, SLOWDOWNS, VIOLATIONS, decode_clock_reasons, sample_gpu

PROC = Path("/proc")


class FakeError(Exception):
    """Stands for ``pynvml.NVMLError``."""


class FakeNvml:
    """The functions of ``pynvml`` that a sample asks. ``pids`` compute on the GPU."""

    NVMLError = FakeError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids

    def nvmlDeviceGetClockInfo(self, handle: object, kind: int) -> int:
        return 1000 * kind

    def nvmlDeviceGetPowerUsage(self, handle: object) -> int:
        return 123456

    def nvmlDeviceGetTemperature(self, handle: object, sensor: int) -> int:
        raise FakeError("Not Supported")

    def nvmlDeviceGetUtilizationRates(self, handle: object) -> Any:
        return SimpleNamespace(gpu=97, memory=40)

    def nvmlDeviceGetMemoryInfo(self, handle: object) -> Any:
        return SimpleNamespace(used=2**30, total=2**34)

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: object) -> int:
        raise FakeError("Function Not Found")

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: object) -> int:
        return 0x44

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: object) -> int:
        return 2500

    def nvmlDeviceGetViolationStatus(self, handle: object, policy: int) -> Any:
        return SimpleNamespace(referenceTime=10**6, violationTime=policy * 10**9)

    def nvmlDeviceGetComputeRunningProcesses(self, handle: object) -> list[Any]:
        return [SimpleNamespace(pid=pid, usedGpuMemory=None) for pid in self._pids]


def test_a_sample_holds_units_and_nulls_and_falls_back_to_the_older_name_of_clock_reasons() -> None:
    sample = sample_gpu(Nvml(FakeNvml([])), 0, object(), (), PROC)
    assert (sample.sm_clock_mhz, sample.memory_clock_mhz, sample.power_w) == (1000, 2000, 123.456)
    assert (sample.temperature_c, sample.utilisation, sample.memory_used_bytes) == (None, 0.97, 2**30)
    assert sample.clock_reasons == ("sw_power_cap", "hw_thermal_slowdown")
    assert sample.energy_j == 2.5
    assert sample.violations_s == {"power": 0.0, "thermal": 1.0, "board_limit": 3.0, "reliability": 5.0}


def test_counters_that_take_milliseconds_are_read_only_when_they_are_due() -> None:
    sample = sample_gpu(Nvml(FakeNvml([1])), 0, object(), (), PROC, slow=False)
    assert (sample.energy_j, sample.violations_s) == (None, None)
    assert (sample.power_w, sample.memory_used_bytes, sample.foreign_pids) == (123.456, 2**30, (1,))


def test_the_numbers_of_the_policies_are_those_of_the_real_binding() -> None:
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    for name, number in VIOLATIONS.items():
        assert getattr(pynvml, f"NVML_PERF_POLICY_{name.upper()}") == number


def test_a_foreign_process_on_the_gpu_is_listed_and_an_invisible_one_is_counted() -> None:
    stranger, run, unseen = 1, os.getppid(), 2**22 + 1
    sample = sample_gpu(Nvml(FakeNvml([stranger, run, unseen, os.getpid()])), 0, object(), (run,), PROC)
    assert sample.foreign_pids == (stranger,)
    assert sample.unseen_processes == 1
    assert sample.run_processes == 1


def test_a_gpu_without_any_counter_gives_nulls() -> None:
    bare = SimpleNamespace(NVMLError=FakeError, NVML_CLOCK_SM=1, NVML_CLOCK_MEM=2, NVML_TEMPERATURE_GPU=0)
    sample = sample_gpu(Nvml(bare), 3, object(), (), PROC)
    assert sample.index == 3
    assert (sample.sm_clock_mhz, sample.power_w, sample.clock_reasons, sample.foreign_pids) == (None,) * 4


def test_the_reasons_bits_are_those_of_the_real_binding() -> None:
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    for bit, name in CLOCK_REASONS.items():
        constant = "nvmlClocksEventReason" + "".join(word.capitalize() for word in name.split("_"))
        assert getattr(pynvml, constant) == bit


@pytest.mark.parametrize(
    "function",
    [name for name in vars(FakeNvml) if name.startswith("nvml")],
)
def test_every_function_of_the_fake_is_one_of_the_real_binding(function: str) -> None:
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    assert callable(getattr(pynvml, function))


@given(st.integers(min_value=0, max_value=2**64 - 1))
def test_every_set_bit_gets_one_word(bits: int) -> None:
    words = decode_clock_reasons(bits)
    assert len(words) == len(set(words)) == bits.bit_count()
    assert set(CLOCK_REASONS.values()) >= SLOWDOWNS
