"""Where Python writes no compiled modules beside the sources, the worker stores them in a folder of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

START = Path(__file__).resolve().parents[2] / "src" / "trainmark" / "worker" / "start.py"


def modules_stored(folder: Path, **variables: str) -> list[str]:
    """Return the names of the compiled modules in ``folder`` after the worker was asked for its flags."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TRAINMARK"))
    }
    subprocess.run(
        [sys.executable, str(START), "--help"],
        env={**environment, **variables},
        capture_output=True,
        check=True,
        timeout=60,
    )
    return sorted(path.name.partition(".")[0] for path in folder.rglob("*.pyc"))


def test_the_worker_stores_compiled_modules_where_python_writes_none(tmp_path: Path) -> None:
    folder = tmp_path / "bytecode"
    assert "arguments" in modules_stored(folder, PYTHONDONTWRITEBYTECODE="1", TRAINMARK_BYTECODE=str(folder))


@pytest.mark.parametrize(
    "variables", [{"PYTHONDONTWRITEBYTECODE": "1"}, {}], ids=["no folder", "writes them"]
)
def test_python_writes_them_or_not_as_it_is_asked_to_otherwise(
    tmp_path: Path, variables: dict[str, str]
) -> None:
    folder = tmp_path / "bytecode"
    given = {} if variables else {"TRAINMARK_BYTECODE": str(folder)}
    assert modules_stored(folder, **variables, **given) == []
