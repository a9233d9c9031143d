"""``benchmarks/parse.py`` writes logs that are read whole, of every format that it measures."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

_ROOT = Path(__file__).resolve().parents[2]


def _benchmark() -> ModuleType:
    spec = importlib.util.spec_from_file_location("parse_benchmark", _ROOT / "benchmarks" / "parse.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_BENCHMARK = _benchmark()


@pytest.mark.parametrize("name", _BENCHMARK.format_names())
def test_a_log_of_each_measured_format_is_read_and_makes_a_number(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    _BENCHMARK.write_log(path, name, 100_000, steps=100)

    found = _BENCHMARK.read_once(str(path), name, "trainmark")

    fewest = {"hf-trainer": 0, "nvidia-ssd": 0, "ngc-pytorch-convnets+ranks": 100}  # of one of eight ranks
    fewest |= {"dino": 20, "torchvision-references": 20}  # means of 20 steps
    assert found["records"] >= fewest.get(name, 300)
    assert _BENCHMARK.read_once(str(path), name, "lines")["records"] > 0
