"""Llama: what the frameworks that train it promise of a run, and what those that do not say."""

import math

import pytest
from preloaded_worker import start

from frameworks import of_each
from trainmark.schema.case import Device, case_of
from trainmark.workload import find_gap, load_workloads

MODEL = "llama_tiny"
COMPILERS = {"pytorch": "none", "jax": "xla"}


@pytest.mark.training
@of_each(COMPILERS, rarely=["jax"])
def test_a_run_counts_tokens_and_is_looked_into(
    framework: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    flags = {"model": MODEL, "batch-per-device": 4, "sequence-length": 96, "accumulation": 2, "steps": 6}
    more = {"warmup-steps": 2, "compiler": COMPILERS[framework]}
    (ran,) = start(framework, tmp_path_factory.mktemp(framework), {**flags, **more})
    assert ran.code == 0, ran.stderr
    assert ran.last["work"] == {"tokens": 4 * 4 * 96, "sequences": 16}
    assert (ran.last["outcome"], ran.last["suspect"]) == ("ok", [])
    assert ran.parameters["actual"]["parameters"] == 125_248
    assert abs(ran.steps[0]["loss"] - math.log(512)) < 0.2
    optimizer = ran.parameters["optimizer"]
    assert (optimizer["learning_rate"], optimizer["weight_decay"], optimizer["clip_norm"]) == (3e-4, 0.1, 1)
    assert ran.last["after_window"]["learning_rate"] == pytest.approx(2.1e-4, rel=0.01)
    assert ran.last["after_window"]["gradient_factor"] == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("framework", ["tensorflow", "paddle"])
def test_what_trains_gpt_2_alone_says_so(framework: str) -> None:
    for model in (MODEL, "llama3.2_1b", "llama3.2_3b"):
        case = case_of(model=model, framework=framework, device="cpu", compiler="none")
        gap = find_gap(case, load_workloads().find(case).card, Device.CPU) or ""
        assert "trains only GPT-2" in gap


@pytest.mark.parametrize("framework", ["mxnet", "mindspore", "oneflow"])
def test_what_trains_no_language_model_says_so_of_the_case_alone(framework: str) -> None:
    for model, lacking in {
        "gpt2_tiny": "GPT-2 or Llama",
        MODEL: "GPT-2 or Llama",
        "bert_tiny": "BERT",
    }.items():
        case = case_of(model=model, framework=framework, device="cpu", compiler="none")
        gap = find_gap(case, load_workloads().find(case).card, Device.CPU) or ""
        assert gap.endswith(f"worker has no {lacking} yet")
