"""Documents are read alike whatever was imported before: each test starts a fresh interpreter."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

STORED = sorted((Path(__file__).parents[2] / "docs" / "results").rglob("results.json"))

READ = """
import sys
from pathlib import Path
from trainmark.schema.results import Results
for path in sys.argv[1:]:
    Results.model_validate_json(Path(path).read_bytes())
"""

CASE = """
import json, sys
from pydantic import ValidationError
from trainmark.schema.case import Case
try:
    print(Case.model_validate(json.loads(sys.argv[1])).id)
except ValidationError as error:
    print(*(found["msg"] for found in error.errors()), sep="\\n")
"""

MODULES = (
    "schema.results",
    "schema.suite",
    "schema.plan",
    "tasks.recommendation.axes",
    "tasks",
    "suite.matrix",
    "workload.card",
    "store",
)


def python(code: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_every_stored_result_is_read_with_one_import() -> None:
    assert len(STORED) > 10
    python(READ, *map(str, STORED))


@pytest.mark.parametrize("first", MODULES)
def test_a_case_is_read_alike_whichever_module_is_imported_first(first: str) -> None:
    code = f"import trainmark.{first}\n{CASE}"
    assert python(code, json.dumps({"model": "dlrm"})) == (
        "pytorch-dlrm-fp32-b32-1n1g-synthetic-none-2322444rows-emb128"
    )


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (
            {"task": "image-clasification", "model": "resnet50_v1.5"},
            "unknown task 'image-clasification'; did you mean 'image-classification'? "
            "(known: causal-lm, image-classification, masked-lm, program, recommendation)",
        ),
        (
            {"model": "gpt2_124m", "sequence_lenght": 512},
            "task 'causal-lm' has no axis 'sequence_lenght'; did you mean 'sequence_length'? (known: workload, "
            "framework, model, task, precision, batch_per_device, nodes, devices_per_node, data, loader, "
            "sequence_length, accumulation, parallel, activation_checkpointing, packing, compiler, device, "
            "options, where)",
        ),
    ],
)
def test_an_unknown_task_or_axis_is_named_in_one_line(case: dict[str, object], message: str) -> None:
    assert python(CASE, json.dumps(case)) == message
