"""A tiny framework, as a wheel that needs no index: environments are made for real, by venv and pip, in seconds."""

from pathlib import Path

import pytest
from tiny_framework import make_wheel

from trainmark.environment import CreationRequest, FrameworkEntry, Variant, find_entry

SMOKE = """
import json
import tinyframework
print("TRAINMARK " + json.dumps({"device": "cpu", "loss_before": 2.0, "loss_after": tinyframework.step(2.0)}))
"""

ENVIRONMENT = """
import_name: tinyframework
imports: [tinyframework]
python: ["3.11", "3.12", "3.13"]
env_vars: {TINY_THREADS: "2"}
versions: {version: tinyframework.__version__, cuda: tinyframework.cuda, nccl: tinyframework.nccl}
variants:
  cpu: {requirements: [tinyframework==1.0], env_vars: {TINY_HEAP: kept}, hint: "it is nowhere"}
"""


@pytest.fixture
def catalog(tmp_path: Path) -> Path:
    catalog = tmp_path / "catalog"
    folder = catalog / "tinyframework"
    folder.mkdir(parents=True)
    (folder / "smoke.py").write_text(SMOKE)
    (folder / "environment.yaml").write_text(ENVIRONMENT)
    (folder / "cpu.lock").write_text("# a lock\ntinyframework==1.0\n")
    return catalog


@pytest.fixture
def tiny(catalog: Path) -> FrameworkEntry:
    return find_entry("tinyframework", catalog)


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    body = "import os\n__version__ = '1.0+tiny'\ncuda = None\n"
    body += "def nccl(): return (2, 27, 3)\n"
    body += "def step(loss): return loss / int(os.environ['TINY_THREADS'])\n"
    return make_wheel(tmp_path, "1.0", body)


@pytest.fixture
def tiny_request(tiny: FrameworkEntry, wheel: Path) -> CreationRequest:
    return CreationRequest(tiny, Variant.CPU, wheels=(wheel,))
