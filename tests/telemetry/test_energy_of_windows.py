"""The energy of a window by a counter that is read once a second: the power, read more often, says when it was used."""

import json
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_gpu_samples import FakeError, FakeNvml

from trainmark.node.machine import Nvml
from trainmark.node.telemetry import sample_gpu, to_line
from trainmark.node.telemetry_summary import summarise
from trainmark.schema.telemetry import CpuSample, GpuName, GpuSample, Header, MemorySample, Sample

REAL = json.loads((Path(__file__).parent / "data" / "power-h200.json").read_text(encoding="utf-8"))


def sample(at_s: float, power_w: float | None, energy_j: float | None) -> Sample:
    gpu = GpuSample(0, 1980, None, power_w, None, 1.0, None, (), (), None, energy_j)
    return Sample(
        at_s, at_s, 0.1, 1, CpuSample(None, None, None, None), MemorySample(1, None, 1), (gpu,), None
    )


def energy(path: Path, samples: list[Sample], window: tuple[float, float]) -> float | None:
    header = Header(1, 1, 0.1, 2, (GpuName(0, "GPU-0", "a"),))
    path.write_bytes(b"".join([to_line(header), *map(to_line, samples)]))
    (gpu,) = summarise(path, window).gpus
    return gpu.energy_j


def independent() -> float:
    """Return the joules of the real window by the trapezoids of the power, 20 times a second."""
    begin, end = REAL["window_s"]
    within = [
        (at, watts) for at, watts in zip(REAL["at_s"], REAL["power_w"], strict=True) if begin <= at <= end
    ]
    joules: float = sum((b - a) * (low + high) / 2 for (a, low), (b, high) in pairwise(within))
    joules += (within[0][0] - begin) * within[0][1] + (end - within[-1][0]) * within[-1][1]
    return joules


@pytest.mark.parametrize("first", range(20))
def test_a_real_window_of_a_second_has_its_energy(tmp_path: Path, first: int) -> None:
    """Take every second reading of a real recording, and the counter of every twentieth, from each beginning."""
    rows = list(zip(REAL["at_s"], REAL["power_w"], REAL["counter_j"], strict=True))[first:]
    samples = [
        sample(at, watts, joules if number % 20 == 0 else None)
        for number, (at, watts, joules) in enumerate(rows)
        if number % 2 == 0
    ]

    found = energy(tmp_path / "t.jsonl", samples, tuple(REAL["window_s"]))

    assert found is not None
    assert found == pytest.approx(independent(), rel=0.05)


def test_a_short_window_of_high_power_is_not_thinned_by_the_time_around_it(tmp_path: Path) -> None:
    """Read 700 W for 1.2 seconds between stretches of 100 W: a straight line between readings gives less."""
    power = [700.0 if 20 < tenth <= 32 else 100.0 for tenth in range(61)]
    used = [sum(power[1 : tenth + 1]) / 10 for tenth in range(61)]
    samples = [
        sample(tenth / 10, power[tenth], used[tenth] if tenth % 10 == 5 or tenth == 60 else None)
        for tenth in range(61)
    ]

    assert energy(tmp_path / "t.jsonl", samples, (2.05, 3.2)) == pytest.approx(1.15 * 700, rel=0.02)


def test_a_window_after_the_last_reading_of_the_counter_has_none(tmp_path: Path) -> None:
    samples = [sample(at / 10, 500.0, 50.0 * at if at in (0, 10, 20) else None) for at in range(31)]

    assert energy(tmp_path / "t.jsonl", samples, (0.5, 2.0)) == pytest.approx(750.0)
    assert energy(tmp_path / "t.jsonl", samples, (0.5, 3.0)) is None


def test_without_power_the_counter_alone_needs_readings_in_the_window(tmp_path: Path) -> None:
    samples = [sample(float(at), None, 500.0 * at) for at in range(11)]

    assert energy(tmp_path / "t.jsonl", samples, (2.5, 8.5)) == pytest.approx(3000.0)
    assert energy(tmp_path / "t.jsonl", samples, (2.5, 4.5)) is None


class InstantNvml(FakeNvml):
    """A driver that knows the power of the moment, if ``code`` is 0."""

    def __init__(self, code: int) -> None:
        super().__init__([])
        self._code = code

    def nvmlDeviceGetFieldValues(self, handle: object, fields: list[int]) -> list[Any]:
        if self._code == 1:
            raise FakeError("Unknown Error")
        return [SimpleNamespace(nvmlReturn=self._code, value=SimpleNamespace(uiVal=700_000)) for _ in fields]


@pytest.mark.parametrize(("code", "watts"), [(0, 700.0), (1, 123.456), (3, 123.456)])
def test_the_power_is_that_of_the_moment_where_the_driver_knows_it(code: int, watts: float) -> None:
    found = sample_gpu(Nvml(InstantNvml(code)), 0, object(), (), Path("/proc"))

    assert found.power_w == watts


def test_the_number_of_the_field_is_that_of_the_real_binding() -> None:
    pynvml = pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")
    from trainmark.node.telemetry import POWER_INSTANT

    assert pynvml.NVML_FI_DEV_POWER_INSTANT == POWER_INSTANT
