"""Results in a notebook, executed by a real kernel."""

import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.process, pytest.mark.filterwarnings("ignore")]

nbclient: Any = pytest.importorskip("nbclient")
nbformat: Any = pytest.importorskip("nbformat")
pytest.importorskip("ipykernel")

STORED = Path(__file__).parents[2] / "docs" / "results"
LOG = r'"".join(f"iter {step}: loss 2.{step:04}, time 100.00ms, mfu 10.0%\n" for step in range(60))'


def shown(*cells: str) -> list[dict[str, Any]]:
    """Execute a notebook; return the data that the last line of each cell shows, by its MIME type."""
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    spec = {"name": "python3", "display_name": "Python", "language": "python"}
    book.metadata["kernelspec"] = spec
    done = nbclient.NotebookClient(book, timeout=120).execute()
    results = [[one for one in cell.outputs if one.output_type == "execute_result"] for cell in done.cells]
    return [dict(outputs[-1].data) if outputs else {} for outputs in results]


def test_results_and_readings_show_themselves_as_tables_and_plots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "src"))

    python, results, runs, reading, comparison, frame = shown(
        "import sys; import trainmark as tm; sys.executable",
        f"results = tm.load({str(STORED / 'h200')!r}); results",
        "results.runs",
        f"tm.parse({LOG}, gpus=1, batch=480)",
        "tm.compare(results, results)",
        "results.to_pandas()",
    )

    assert python["text/plain"] == repr(sys.executable)
    assert "<table>" in results["text/html"]
    assert "<svg" in results["text/html"]
    for one in (runs, reading, comparison, frame):
        assert "<table" in one["text/html"]
