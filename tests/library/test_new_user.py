"""The path of a new user: the wheel in an empty environment, a suite, a run, the report, a notebook, three tools."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from frameworks import in_pytorch

ROOT = Path(__file__).parents[2]
EXTRAS = "frames,junit,openmetrics,run"

NOTEBOOK = """
import sys, nbclient, nbformat
cells = ["import trainmark as tm; results = tm.load('results/suite'); results", "results.to_pandas()"]
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
book.metadata["kernelspec"] = {"name": "python3", "display_name": "Python"}
done = nbclient.NotebookClient(book, timeout=120).execute()
sys.stdout.write("".join(cell.outputs[-1].data["text/html"] for cell in done.cells))
"""

READ_BACK = """
import json, sys
from junitparser import JUnitXml
from prometheus_client.parser import text_string_to_metric_families
from pyarrow import parquet
((test,),) = JUnitXml.fromfile("results.xml")
families = {one.name: one for one in text_string_to_metric_families(open("metrics.prom").read())}
(row,) = parquet.read_table("tables/cases.parquet").to_pylist()
(sample,) = families["trainmark_throughput_images_per_second"].samples
json.dump({"junit": test.name, "metric": sample.value, "parquet": row["throughput_median"]}, sys.stdout)
"""


class NewMachine:
    """An empty folder with an empty environment, in which words are run without any variable of the tests."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "venv" / "bin"
        own = ("PYTHONPATH", "VIRTUAL_ENV", "TRAINMARK_REQUIRE_ENVS", "PYTHONDONTWRITEBYTECODE")
        self.variables: Mapping[str, str] = {
            **{name: value for name, value in os.environ.items() if name not in own},
            "TRAINMARK_HOME": str(folder / "home"),
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
        }

    def run(self, *words: str | Path, code: int = 0) -> str:
        """Run a command there and return its output; its exit code must be ``code``."""
        ran = subprocess.run(
            words, cwd=self.folder, env=self.variables, capture_output=True, text=True, check=False
        )
        assert ran.returncode == code, f"{words}: {ran.stdout[-2000:]}{ran.stderr[-3000:]}"
        return ran.stdout


def wheel(folder: Path) -> Path:
    """Return the wheel of this working tree."""
    source = folder / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    words = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w"]
    subprocess.run([*words, str(folder), str(source)], check=True)
    (made,) = folder.glob("*.whl")
    return made


@pytest.mark.process
@pytest.mark.rare
@pytest.mark.training
@in_pytorch
def test_a_new_user_installs_measures_reads_and_exports(tmp_path: Path) -> None:
    pytest.importorskip("pip")
    uv = pytest.importorskip("uv").find_uv_bin()
    machine = NewMachine(tmp_path)
    subprocess.run([uv, "venv", "-q", "--python", sys.executable, tmp_path / "venv"], check=True)
    python = machine.bin / "python"
    package = f"{wheel(tmp_path)}[{EXTRAS}]"
    machine.run(uv, "pip", "install", "-q", "--python", python, package, "ipykernel", "nbclient")
    # A framework's environment, which `trainmark env create` makes in minutes, is there already.
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "envs").symlink_to(os.environ["TRAINMARK_TEST_ENVS"])

    assert str(tmp_path / "venv") in machine.run(python, "-c", "import trainmark; print(trainmark.__file__)")
    machine.run("trainmark", "init", "--framework", "pytorch", "--precision", "fp32", "--batch", "2")
    suite = tmp_path / "suite.yaml"
    usual, short = "steps: 40, warmup_steps: 10, max_repeats: 5", "steps: 12, warmup_steps: 4, max_repeats: 3"
    assert usual in suite.read_text()
    suite.write_text(suite.read_text().replace(usual, short))
    only = ("--only", "devices_per_node=1")
    assert "mobilenet" in machine.run("trainmark", "plan", "suite.yaml", *only)
    printed = machine.run("trainmark", "run", "suite.yaml", *only)
    assert "images/s" in printed

    (case,) = json.loads(machine.run("trainmark", "report", "results/suite", "--to", "json", *only))["cases"]
    assert case["estimate"]["median"] > 0
    page = (tmp_path / "results" / "suite" / "report.html").read_text()
    assert "At a glance" in page
    shown = machine.run(python, "-c", NOTEBOOK)
    assert "<svg" in shown
    assert case["id"] in shown

    for target, output in (
        ("parquet", "tables"),
        ("junit", "results.xml"),
        ("openmetrics", "metrics.prom"),
    ):
        machine.run("trainmark", "export", "results/suite", "--to", target, "--output", output, *only)
    read = json.loads(machine.run(python, "-c", READ_BACK))
    assert read == {
        "junit": case["id"],
        "metric": case["estimate"]["median"],
        "parquet": case["estimate"]["median"],
    }
    # What is not installed is one line with the command that installs it.
    machine.run("trainmark", "export", "results/suite", "--to", "wandb", "--output", "new", code=2)
