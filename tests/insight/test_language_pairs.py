"""Pairs of trainings of language models with a cause that is known from public threads and tables."""

import bz2
import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest
from language_pairs import NONE, Pair, load_pairs, score

from trainmark.insight import ExplainedRun, StatedRecipe, explain, load_effects, render_text, run_from_log
from trainmark.insight.difference import Basis
from trainmark.insight.recipe import Reading, recipe_from
from trainmark.insight.sides import side_of_run
from trainmark.programs import stated_settings
from trainmark.schema.recipe import AxisValue, Condition, RecipeAxis

TITAN = "[rank0]:[titan] 2025-01-07 10:00:00,000 - root - INFO - "


@pytest.mark.parametrize("pair", load_pairs(), ids=lambda pair: str(pair.name))
def test_the_known_cause_of_a_pair_is_ranked_first(pair: Pair, tmp_path: Path) -> None:
    found = score(pair, tmp_path)

    assert found.is_right, (found.first, render_text(found.explanation))


def test_a_gap_is_attributed_in_full_only_where_the_source_measured_the_pair_itself(tmp_path: Path) -> None:
    certain = [found for pair in load_pairs() if (found := score(pair, tmp_path)).certain]

    assert certain
    for found in certain:
        first = found.explanation.differences[0]
        assert found.first == found.pair.cause
        assert first.basis is Basis.ISOLATED
        sides = {found.pair.here.get("figure"), found.pair.there.get("figure")}
        assert {
            side.reference
            for match in first.evidence[:1]
            for side in (match.effect.before, match.effect.after)
            if side
        } == sides


def test_most_pairs_name_the_cause_itself_and_not_what_changes_with_it(tmp_path: Path) -> None:
    scores = [score(pair, tmp_path) for pair in load_pairs()]

    assert len(scores) >= 10
    assert sum(found.first == found.pair.cause for found in scores) >= 0.7 * len(scores)
    assert any(pair.cause == NONE for pair in load_pairs())


def titan(*sentences: str) -> dict[str, AxisValue]:
    lines = [
        "Starting job: Llama 3 8B training",
        *sentences,
        "Trainer is initialized with local batch size 1, global batch size 8, gradient accumulation steps 1, "
        "sequence length 4096, total steps 400 (warmup 2)",
        "step: 10  loss:  8.1309  grad_norm:  1.2345  memory: 47.60GiB(60.12%)  tps: 5,000",
    ]
    return {str(axis): value for axis, value, _ in stated_settings([f"{TITAN}{line}" for line in lines])}


def test_a_sentence_of_torchtitan_states_what_is_on_and_its_absence_what_is_off() -> None:
    shape = {"sequence_length": 4096, "micro_batch": 1, "global_batch": 8}

    assert titan() == {"compiler": "none", "activation_checkpointing": "none", "precision": "bf16", **shape}
    assert titan(
        "Float8 tensorwise scaled training active",
        "Applied selective activation checkpointing to the model",
        "Compiling each TransformerBlock with torch.compile",
    ) == {"compiler": "torch.compile", "activation_checkpointing": "selective", "precision": "fp8", **shape}
    assert titan("Float8 training active with recipe mxfp8")["precision"] == "mxfp8"


def test_a_log_without_its_start_states_no_default() -> None:
    line = f"{TITAN}step: 10  loss:  8.1309  grad_norm:  1.2345  memory: 47.60GiB(60.12%)  tps: 5,000"

    assert stated_settings([line]) == ()
    assert stated_settings(["Compiling each TransformerBlock with torch.compile"]) == ()


def test_a_setting_of_nanogpt_is_that_of_the_command_and_not_of_its_file() -> None:
    lines = [
        "Overriding config with config/train_shakespeare_char.py:",
        "block_size = 256 # context of up to 256 previous characters",
        "Overriding: block_size = 64",
        "tokens per iteration will be: 768",
        "number of parameters: 0.80M",
        "iter 0: loss 4.1828, time 7961.94ms, mfu -100.00%",
    ]

    recipe = recipe_from({}, lines)

    assert recipe.value(RecipeAxis.SEQUENCE_LENGTH) == 64
    assert recipe.readings[RecipeAxis.SEQUENCE_LENGTH].where == "line 3: Overriding: block_size = 64"
    assert recipe.value(RecipeAxis.COMPILER) == "none"
    assert recipe.value(RecipeAxis.ATTENTION) == "sdpa"


@pytest.mark.parametrize(
    ("settings", "compiler"),
    [
        (["Overriding: compile = True"], "torch.compile"),
        (["Overriding: compile = False"], "none"),
        (["compile = False # no GPU", "Overriding: compile = True"], "torch.compile"),
        (["compile = True"], "torch.compile"),
        (["Overriding: compile = False", "compiling the model... (takes a ~minute)"], "torch.compile"),
    ],
)
def test_nanogpt_compiles_if_its_settings_say_so(settings: list[str], compiler: str) -> None:
    lines = [
        *settings,
        "tokens per iteration will be: 768",
        "number of parameters: 0.80M",
        "iter 0: loss 4.1828, time 7961.94ms, mfu -100.00%",
    ]

    assert recipe_from({}, lines).value(RecipeAxis.COMPILER) == compiler


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress, bytes])
def test_the_statements_of_a_packed_log_are_read(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    steps = "".join(
        f"iter {at}: loss 4.1828, time {100 + at % 3}.00ms, mfu 12.00%\n" for at in range(0, 600, 10)
    )
    text = (
        f"Overriding: compile = True\ntokens per iteration will be: 768\nnumber of parameters: 0.80M\n{steps}"
    )
    (tmp_path / "a.log").write_bytes(pack(text.encode()))

    assert run_from_log(tmp_path / "a.log").recipe.value(RecipeAxis.COMPILER) == "torch.compile"


def test_a_setting_that_is_an_axis_is_named_once(tmp_path: Path) -> None:
    runs = []
    for name, compiles, layers in (("a.log", False, 12), ("b.log", True, 24)):
        steps = "".join(
            f"iter {at}: loss 4.1, time {100 + at % 3}.00ms, mfu 12.00%\n" for at in range(0, 600, 10)
        )
        head = f"Overriding: compile = {compiles}\nOverriding: n_layer = {layers}\n"
        head += "tokens per iteration will be: 768\nnumber of parameters: 0.80M\n"
        (tmp_path / name).write_text(head + steps)
        runs.append(run_from_log(tmp_path / name))

    found = explain(runs[0], side_of_run(runs[1]), (), ())

    assert [str(one.axis) for one in found.differences] == ["compiler", "setting n_layer"]
    assert RecipeAxis.COMPILER not in found.same


def test_llama_factory_states_attention_and_checkpointing() -> None:
    start = "[INFO|2025-01-28 13:36:26] llamafactory.model.model_utils."
    lines = [
        f"{start}checkpointing:157 >> Gradient checkpointing enabled.",
        f"{start}attention:157 >> Using torch SDPA for faster training and inference.",
    ]

    assert [(axis, value) for axis, value, _ in stated_settings(lines)] == [
        (RecipeAxis.ACTIVATION_CHECKPOINTING, "full"),
        (RecipeAxis.ATTENTION, "sdpa"),
    ]


def run(name: str, rate: float, **values: AxisValue) -> ExplainedRun:
    recipe = StatedRecipe({axis: Reading(value, "stated") for axis, value in values.items()})
    return ExplainedRun(name, recipe, rate, "tokens/s")


def test_what_makes_the_run_faster_is_listed_after_what_may_make_it_slower() -> None:
    sizes = {"global_batch": 2048, "micro_batch": 16, "devices": 8}
    here = run("here", 100.0, pipeline_parallel=1, tensor_parallel=8, **sizes)
    there = run("there", 130.0, pipeline_parallel=8, tensor_parallel=1, **sizes)

    found = explain(here, side_of_run(there), load_effects(), ())

    assert [(one.axis, one.opposite) for one in found.differences] == [
        (RecipeAxis.TENSOR_PARALLEL, False),
        (RecipeAxis.PIPELINE_PARALLEL, True),
    ]
    text = render_text(found)
    assert text.index("tensor_parallel: 8 here") < text.index("Differences with the opposite effect")
    assert text.index("Differences with the opposite effect") < text.index("1. pipeline_parallel: 1 here")


def test_an_equal_total_of_more_devices_is_a_gap_of_each_device() -> None:
    here = run("here", 57_248.0, devices=32, global_batch=32)
    there = run("there", 57_156.0, devices=8, global_batch=8)

    found = explain(here, side_of_run(there), load_effects(), ())

    assert not found.in_noise
    assert found.per_device == pytest.approx(3.994, abs=0.001)
    assert [(factor.name, round(factor.value, 3)) for factor in found.factors] == [
        (Condition.DEVICES, 0.25),
        ("open", 3.994),
    ]
    assert all(one.share is None for one in found.differences)
    text = render_text(found)
    assert "Per device, the other run is 3.994 times as fast (32 devices here, 8 there)." in text
    assert "no gap" not in text


def test_a_global_batch_that_follows_from_the_devices_is_no_cause() -> None:
    here = run("here", 1000.0, devices=32, global_batch=32)
    for batch, basis in ((8, Basis.REASONED), (16, Basis.REMAINDER)):
        found = explain(here, side_of_run(run("there", 900.0, devices=8, global_batch=batch)), (), ())

        (difference,) = (one for one in found.differences if one.axis == RecipeAxis.GLOBAL_BATCH)
        assert difference.basis is basis


def test_an_effect_of_another_sequence_length_gives_way_to_one_of_the_same() -> None:
    here = run("here", 100.0, attention="unfused", sequence_length=2048, optimizer="adam")
    there = run("there", 140.0, attention="flash", sequence_length=2048, optimizer="sgd")

    found = explain(here, side_of_run(there), load_effects(), ())

    first = found.differences[0]
    assert (first.axis, first.basis) == (RecipeAxis.ATTENTION, Basis.ELSEWHERE)
    assert (first.low, first.high) == pytest.approx((205 / 149, 196 / 142))


def test_the_statements_are_read_from_a_log(tmp_path: Path) -> None:
    pair = next(pair for pair in load_pairs() if pair.name == "torchtitan-compile")
    score(pair, tmp_path)

    recipe = run_from_log(tmp_path / "torchtitan-compile-there.log").recipe

    assert recipe.value(RecipeAxis.COMPILER) == "torch.compile"
    assert recipe.readings[RecipeAxis.COMPILER].where.endswith(
        "Compiling each TransformerBlock with torch.compile"
    )
