"""The hot path in Python: how many functions of the worker one eager step calls."""

from typing import Any

import pytest
from worker_process import beside

from frameworks import in_frameworks

pytestmark = pytest.mark.training

CALLS = {"pytorch": 45, "paddle": 43, "tensorflow": 54}
"""In a step of GPT-2 without a compiler. A host that hands operators over one by one pays for each further call."""


@pytest.mark.parametrize(
    "framework", [pytest.param(framework, marks=in_frameworks(framework)) for framework in CALLS]
)
def test_an_eager_step_calls_no_more_of_the_workers_functions(framework: str) -> None:
    calls: Any = beside(
        framework,
        f"""
from trainmark_worker.models.{framework}_causal_lm import open_training
words = "--framework={framework} --model=gpt2_tiny --sequence-length=16 --batch-per-device=2 --device=cpu --threads=1"
training, calls = open_training(parse([*words.split(), "--steps=5", "--warmup-steps=1"], 1), ALONE), []
training.step(0)
training.actual()
training.step(1)
def count(frame, event, _):
    if event == "call" and "/trainmark/worker/" in frame.f_code.co_filename:
        calls.append(frame.f_code.co_name)
sys.setprofile(count)
training.step(2)
sys.setprofile(None)
print(json.dumps(calls))
""",
    )

    assert len(calls) <= CALLS[framework], calls
