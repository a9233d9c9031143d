"""How many files of trainmark a command goes through: its budget is that of ``benchmarks/trips.py``."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TRIPS = Path(__file__).resolve().parents[2] / "benchmarks" / "trips.py"


@pytest.mark.process
@pytest.mark.rare
def test_a_parse_and_a_run_of_a_command_go_through_fewer_files_than_their_budgets() -> None:
    # Without the environment of a framework the worker is left out.
    variables = {name: value for name, value in os.environ.items() if name != "TRAINMARK_TEST_ENVS"}
    ran = subprocess.run(
        [sys.executable, str(TRIPS)], env=variables, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert [line.split(" | ")[0] for line in ran.stdout.splitlines()[2:]] == ["| parse", "| run"]
