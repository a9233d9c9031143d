"""Memory is flat: what reading a log takes does not grow with the log, where averages are undone either."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]
_SMALL_MB = 3
_GROWN = 1.25
"""Pieces, blocks and the columns' own first values vary; a column in memory alone would be 1.4 times the small peak."""

_MEASURE = """
import importlib.util, json, sys, tracemalloc
from pathlib import Path

from trainmark.logs import model, read
from trainmark.programs.log_formats.mlperf import parts

read._LARGEST_BLOCK_BYTES = 1  # never touched, and more than all that is
model.BUFFERED_VALUES = 1 << 12  # or what a column keeps in memory at first would be all of these logs
parts.LONG_EVENTS, parts.PART_EVENTS = 1 << 12, 1 << 11  # or all these logs were short
spec = importlib.util.spec_from_file_location("parse_benchmark", sys.argv[1])
benchmark = importlib.util.module_from_spec(spec)
spec.loader.exec_module(benchmark)
path = Path(sys.argv[3])
found = []
for size in (1, *map(int, sys.argv[4:])):  # the first loads what a process loads once
    benchmark.write_log(path, sys.argv[2], size * 1_000_000, steps=2_000)
    tracemalloc.start()
    benchmark.read_once(str(path), sys.argv[2], "trainmark")
    found.append(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
print(json.dumps(found[1:]))
"""


def _peaks(name: str, path: Path) -> list[int]:
    """Return the most memory, in bytes, that reading a small and a large log of format ``name`` took."""
    arguments = (_ROOT / "benchmarks" / "parse.py", name, path, _SMALL_MB, _LARGE_MB[name])
    command = [sys.executable, "-c", _MEASURE, *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)
    peaks: list[int] = json.loads(done.stdout)
    return peaks


_LARGE_MB = {"lightning": 15, "timm": 15, "mlperf": 40}
"""Averages that are undone, those whose batches are compared besides, and events that pair, of which many fit in what
reading a piece takes; the benchmark prints the peaks of all."""


@pytest.mark.process
@pytest.mark.parametrize("name", _LARGE_MB)
def test_a_larger_log_takes_no_more_memory(name: str, tmp_path: Path) -> None:
    small, large = _peaks(name, tmp_path / "a.log")

    assert large < _GROWN * small
