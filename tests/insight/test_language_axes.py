"""Language models in ``explain``: printed settings, published pairs, arithmetic limits and units."""

import math
from pathlib import Path

import pytest

from trainmark.errors import InputError
from trainmark.insight import (
    ExplainedRun,
    Explanation,
    StatedRecipe,
    explain,
    load_effects,
    recipe_from,
    render_text,
    run_from_log,
)
from trainmark.insight.difference import Basis
from trainmark.insight.evidence import Strength, published_pairs
from trainmark.insight.physics import physical_limit
from trainmark.insight.recipe import Reading
from trainmark.insight.sides import run_of_figure, side_of_figure, side_of_run
from trainmark.logs.events import read_parameters
from trainmark.reference import find_reference, load_references
from trainmark.schema.recipe import AxisValue, Condition, RecipeAxis

MEGATRON = """\
------------------------ arguments ------------------------
  context_parallel_size ........................... 1
  data_parallel_size .............................. 4
  global_batch_size ............................... 256
  micro_batch_size ................................ 2
  optimizer ....................................... adam
  pipeline_model_parallel_size .................... 4
  recompute_granularity ........................... full
  seq_length ...................................... 4096
  tensor_model_parallel_size ...................... 2
  use_flash_attn .................................. True
  virtual_pipeline_model_parallel_size ............ None
-------------------- end of arguments ---------------------
"""
MAXTEXT = """\
Config param attention: dot_product
Config param gradient_accumulation_steps: 1
Config param ici_fsdp_parallelism: -1
Config param ici_tensor_parallelism: 1
Config param max_target_length: 2048
Config param per_device_batch_size: 12.0
Config param remat_policy: minimal
"""


def recipe(**values: AxisValue) -> StatedRecipe:
    return StatedRecipe({axis: Reading(value, "stated") for axis, value in values.items()})


def values(text: str) -> dict[str, AxisValue]:
    found = recipe_from(read_parameters(text.splitlines()))
    return {str(axis): reading.value for axis, reading in found.readings.items()}


def test_arguments_that_megatron_prints_are_axes() -> None:
    assert values(MEGATRON) == {
        "sequence_length": 4096,
        "micro_batch": 2,
        "global_batch": 256,
        "data_parallel": 4,
        "tensor_parallel": 2,
        "pipeline_parallel": 4,
        "context_parallel": 1,
        "optimizer": "adam",
        "activation_checkpointing": "full",
        "attention": "flash",
    }


def test_settings_that_maxtext_prints_are_axes() -> None:
    assert values(MAXTEXT) == {
        "sequence_length": 2048,
        "micro_batch": 12.0,
        "accumulation_steps": 1,
        "attention": "dot_product",
        "tensor_parallel": 1,
        "activation_checkpointing": "selective",
    }


def test_a_row_of_dots_in_a_sentence_is_no_setting() -> None:
    assert read_parameters(["waiting for the server ...... done", "loading ... 3"]) == {}


def test_a_longer_sequence_is_limited_by_the_operations_of_its_tokens() -> None:
    short, long = (recipe(model="llama3_8b", sequence_length=length) for length in (2048, 65536))

    limit = physical_limit(RecipeAxis.SEQUENCE_LENGTH, long, short, None)

    assert limit is not None
    attention = 12 * 32 * 4096 / 2
    matrices = 6 * 7_504_658_432
    assert limit.high == pytest.approx(
        (matrices + attention * 65536) / (matrices + attention * 2048), rel=1e-3
    )
    assert limit.low == 1.0
    assert "6N + causal attention of llama3_8b" in limit.sentence


def test_full_checkpointing_costs_at_most_a_third() -> None:
    full, none = (recipe(activation_checkpointing=value) for value in ("full", "none"))

    faster = physical_limit(RecipeAxis.ACTIVATION_CHECKPOINTING, full, none, None)
    slower = physical_limit(RecipeAxis.ACTIVATION_CHECKPOINTING, none, full, None)

    assert faster is not None
    assert slower is not None
    assert (faster.low, faster.high) == pytest.approx((1.0, 4 / 3))
    assert (slower.low, slower.high) == pytest.approx((3 / 4, 1.0))


def test_a_pipelines_bubble_follows_from_its_micro_batches() -> None:
    sizes = {
        "pipeline_parallel": 8,
        "global_batch": 64,
        "micro_batch": 1,
        "devices": 32,
        "tensor_parallel": 2,
    }
    deep, flat = recipe(**sizes), recipe(**{**sizes, "pipeline_parallel": 1})

    limit = physical_limit(RecipeAxis.PIPELINE_PARALLEL, deep, flat, None)

    assert limit is not None
    assert limit.high == pytest.approx(1 + 7 / 32)
    assert physical_limit(RecipeAxis.PIPELINE_PARALLEL, recipe(pipeline_parallel=8), flat, None) is None


def test_padding_is_limited_by_the_tokens_that_are_none() -> None:
    limit = physical_limit(
        RecipeAxis.PADDING_TOKENS, recipe(padding_tokens=0.5), recipe(padding_tokens=0.1), None
    )

    assert limit is not None
    assert (limit.low, limit.high) == pytest.approx((1.0, 1.8))


def test_pairs_of_a_page_are_isolated_evidence_unless_their_batch_differs() -> None:
    figures = load_references()
    one, other = (
        find_reference(f"llm-foundry-mpt-30b-h100-80gb-amp-bf16-seq{length}-8gpu") for length in (8192, 4096)
    )
    here, there = (run_of_figure(figure).recipe for figure in (one, other))

    found = {
        effect.id: effect for effect in published_pairs(RecipeAxis.SEQUENCE_LENGTH, here, there, figures)
    }

    isolated = found[f"sequence_length-{one.id}-{other.id}"]
    assert isolated.strength is Strength.ISOLATED
    assert isolated.span() == pytest.approx(2 * [(other.value or 0) / (one.value or 1)])
    assert all(effect.also for effect in found.values() if effect.strength is Strength.BUNDLED)


def of_figures(here: str, there: str) -> Explanation:
    one, other = find_reference(here), find_reference(there)
    return explain(run_of_figure(one), side_of_figure(other), load_effects(), load_references())


def test_compilation_and_fp8_are_factors_of_torchtitans_table() -> None:
    plain, compiled, fp8 = (
        f"torchtitan-2024.12-llama3.1-8b-h100-{word}8gpu" for word in ("bf16-", "bf16-torch.compile-", "fp8-")
    )

    narrow = of_figures(compiled, fp8)

    assert narrow.factors[0].name == Condition.PRECISION
    assert narrow.factors[0].value == pytest.approx(8532 / 6667)
    assert narrow.open == pytest.approx((1.0, 1.0))
    assert any(effect.id == "compile-torchtitan-8gpu" for effect in load_effects())
    both = {factor.name: factor.value for factor in of_figures(plain, fp8).factors}
    assert both["compiler"] == pytest.approx(6667 / 5762)
    assert both["open"] * both.get(Condition.PRECISION, 1.0) == pytest.approx(8532 / 6667)


def test_the_ratio_of_two_devices_is_only_a_limit_if_their_recipes_differ() -> None:
    found = of_figures(
        "megatron-bridge-26.02.01-qwen3-235b-a22b-gb300-mxfp8-seq4096-256gpu",
        "megatron-bridge-26.02-qwen3-235b-a22b-b200-mxfp8-seq4096-256gpu",
    )

    device = found.differences[0]
    assert (device.axis, device.basis) == (Condition.DEVICE, Basis.BUNDLED)
    assert any("expert_parallel" in (match.effect.also or "") for match in device.evidence)
    assert device.share == (0.0, 1.0)
    assert [factor.name for factor in found.factors] == ["open"]


def test_a_narrower_precision_without_evidence_is_limited_by_the_peaks() -> None:
    here = ExplainedRun(
        "here", recipe(model="llama3_8b", precision="bf16", device="H100", devices=8), 1000.0, "tokens/s"
    )
    there = ExplainedRun(
        "there", recipe(model="llama3_8b", precision="fp8", device="H100", devices=8), 1200.0, "tokens/s"
    )

    explanation = explain(here, side_of_run(there), (), ())

    found = explanation.differences[0]
    assert (found.axis, found.basis) == (Condition.PRECISION, Basis.REMAINDER)
    assert found.high == pytest.approx(1.2)
    assert explanation.factors[-1].candidates[0].name == Condition.PRECISION


def test_sequences_are_converted_to_tokens_by_their_length() -> None:
    here = ExplainedRun("here", recipe(sequence_length=2048, devices=8), 10.0, "samples/s")
    there = ExplainedRun("there", recipe(sequence_length=2048, devices=8), 40960.0, "tokens/s")

    explanation = explain(here, side_of_run(there), (), ())

    assert explanation.ratio == pytest.approx(2.0)
    assert "note   here: 10 samples/s x 2048 tokens of a sequence" in render_text(explanation)
    back = explain(there, side_of_run(here), (), ())
    assert back.ratio == pytest.approx(0.5)
    unknown = ExplainedRun("here", recipe(devices=8), 10.0, "samples/s")
    with pytest.raises(InputError, match=r"is in samples/s, but there is in tokens/s"):
        explain(unknown, side_of_run(there), (), ())


def test_two_megatron_logs_name_what_they_print(tmp_path: Path) -> None:
    lines = [
        f" iteration {number:8d}/     100 | consumed samples: {256 * number:12d} | elapsed time per iteration (ms): "
        "{time:.1f} | learning rate: 1.0E-04 | global batch size:   256 | lm loss: 6.5E+00 |"
        for number in range(1, 61)
    ]
    runs = []
    for name, time, text in (
        ("slow.log", 1300.0, MEGATRON),
        ("fast.log", 1000.0, MEGATRON.replace("........ full", "........ None")),
    ):
        (tmp_path / name).write_text(text + "\n".join(line.format(time=time) for line in lines) + "\n")
        runs.append(run_from_log(tmp_path / name))

    explanation = explain(runs[0], side_of_run(runs[1]), load_effects(), load_references())

    assert explanation.ratio == pytest.approx(1.3, rel=1e-3)
    found = explanation.differences[0]
    assert found.axis == RecipeAxis.ACTIVATION_CHECKPOINTING
    assert found.high == pytest.approx(1.3, rel=0.01)
    assert math.prod(factor.value for factor in explanation.factors) == pytest.approx(explanation.ratio)
