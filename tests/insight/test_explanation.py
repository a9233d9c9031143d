"""``explain``: the layout comes first, nothing is claimed beyond its evidence, and what is open is said."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from insight_ngc_log import SETTINGS, ngc_log
from typer.testing import CliRunner

from corpora import CORPUS
from trainmark.cli.explain import app
from trainmark.errors import InputError
from trainmark.insight import (
    ExplainedRun,
    Explanation,
    choose_reference,
    explain,
    load_effects,
    render_text,
    run_from_log,
    to_document,
)
from trainmark.insight.difference import Basis, OwnCause
from trainmark.insight.factors import OPEN, FactorEvidence
from trainmark.insight.log_head import data_wait
from trainmark.insight.recipe import Reading, StatedRecipe
from trainmark.insight.sides import PublishedRule, side_of_figure, side_of_run
from trainmark.logs.plausibility import Stall
from trainmark.reference import find_reference, load_references
from trainmark.schema.recipe import AxisName, Condition, RecipeAxis

CORPUS_LOG = (
    CORPUS / "logs" / "ResNet50V1.5" / "OtherReports" / "PyTorch" / "V100-LOG" / "pytorch_gpu1_amp_bs256.txt"
)
DGX1_32GB_AMP = "ngc-pytorch-resnet50-v100-32gb-amp-1gpu"
GOLDEN = Path(__file__).parent / "golden" / "explanation.txt"

runner = CliRunner()


def explained(run: ExplainedRun, name: str = DGX1_32GB_AMP) -> Explanation:
    return explain(run, side_of_figure(find_reference(name)), load_effects(), load_references())


def write(tmp_path: Path, text: str) -> Path:
    log = tmp_path / "run.txt"
    log.write_text(text)
    return log


def test_the_layout_is_named_first_with_its_share_of_the_gap_and_its_test(tmp_path: Path) -> None:
    explanation = explained(run_from_log(write(tmp_path, ngc_log())))

    first = explanation.differences[0]
    assert first.axis == "layout"
    assert (first.here.value, first.there.value) == ("nchw", "nhwc")
    assert first.here.where == "line 1: memory_format : nchw"
    assert first.basis is Basis.ISOLATED
    assert first.change.flag == "--memory-format nhwc"
    assert first.change.suite == "layout: [nchw, nhwc]"
    assert first.share is not None
    assert 0 < first.share[0] < first.share[1] < 1


def test_the_explanation_matches_its_golden_file(tmp_path: Path) -> None:
    text = render_text(explained(run_from_log(write(tmp_path, ngc_log()))))

    assert text == GOLDEN.read_text(encoding="utf-8")


def test_explained_and_unexplained_factors_multiply_to_the_gap(tmp_path: Path) -> None:
    explanation = explained(run_from_log(write(tmp_path, ngc_log(rate=790.0))))

    assert explanation.ratio == pytest.approx(1156 / 790, rel=1e-3)
    assert explanation.accounted is not None
    assert explanation.open is not None
    assert explanation.accounted[0] * explanation.open[1] == pytest.approx(explanation.ratio)
    assert explanation.open[0] > 1


def with_device(run: ExplainedRun, device: str) -> ExplainedRun:
    return replace(run, recipe=run.recipe.with_readings({Condition.DEVICE: Reading(device, "flag")}))


def test_on_an_a100_too_the_layout_comes_first_before_a_smaller_cause_that_is_known(tmp_path: Path) -> None:
    run = run_from_log(write(tmp_path, ngc_log(rate=1900.0)))
    stall = Stall(record=30, share=0.1, factor=1.08)
    stalled = replace(with_device(run, "A100"), stall=stall, by_publishers=())

    explanation = explained(stalled, "ngc-pytorch-resnet50-a100-80gb-amp-1gpu")

    first, second = explanation.differences[:2]
    assert (first.axis, second.axis) == ("layout", OwnCause.STALL)
    assert second.basis is Basis.OWN
    assert second.share is not None


def test_a_stall_in_the_log_itself_is_a_cause_with_its_share(tmp_path: Path) -> None:
    lines = ngc_log(steps=60).splitlines()
    slow = next(number for number, line in enumerate(lines) if "Iteration: 40 " in line)
    lines[slow] = lines[slow].replace("train.total_ips : 800.00", "train.total_ips : 20.00")

    explanation = explained(run_from_log(write(tmp_path, "\n".join(lines) + "\n")))

    stall = next(d for d in explanation.differences if d.axis == OwnCause.STALL)
    assert stall.here.where == "record 40"
    assert stall.low == pytest.approx(79 / 40, rel=1e-6)


def test_evidence_that_claims_more_than_the_gap_gives_no_certain_share_and_leaves_an_open_factor_below_1(
    tmp_path: Path,
) -> None:
    run = run_from_log(write(tmp_path, ngc_log(rate=1000.0)))
    stalled = replace(run, stall=Stall(record=30, share=0.4, factor=1.5))

    explanation = explained(stalled)

    shares = [d.share for d in explanation.differences if d.share and d.basis is not Basis.BOUNDED]
    assert [low for low, _ in shares] == [0.0] * len(shares)
    assert max(high for _, high in shares) <= 1
    assert explanation.open is not None
    assert explanation.open[1] < 1
    assert "claim more than the gap" in render_text(explanation)


def test_the_factors_multiply_to_the_ratio_and_the_last_is_what_is_open(tmp_path: Path) -> None:
    explanation = explained(run_from_log(write(tmp_path, ngc_log(rate=790.0))))

    assert math.prod(factor.value for factor in explanation.factors) == pytest.approx(explanation.ratio)
    layout, *_, rest = explanation.factors
    assert (layout.name, layout.evidence) == ("layout", FactorEvidence.PUBLISHED)
    assert layout.low < layout.value < layout.high
    assert (rest.name, rest.evidence) == (OPEN, FactorEvidence.UNKNOWN)
    candidates = {candidate.name: candidate.high for candidate in rest.candidates}
    assert candidates["accumulation_steps"] is None
    assert candidates["loader"] == pytest.approx(1 / 0.99, rel=1e-3)


def test_bundled_evidence_is_divided_by_its_own_control(tmp_path: Path) -> None:
    """NVIDIA's figures for eight A100s: 1.75 of AMP with the layout, 1.36 of TF32 without it."""
    before, after = "ngc-pytorch-20.06-resnet50-a100-40gb-amp-8gpu", "ngc-pytorch-resnet50-a100-80gb-amp-8gpu"
    controls = "ngc-pytorch-20.06-resnet50-a100-40gb-tf32-8gpu", "ngc-pytorch-resnet50-a100-80gb-tf32-8gpu"
    tf32, nhwc = (find_reference(name).value or 0.0 for name in controls)
    figure = find_reference(before)
    settings = SETTINGS | {"world_size": "8", "distributed": "True"}
    log = run_from_log(write(tmp_path, ngc_log(settings=settings)), device="A100-SXM4-40GB")
    run = replace(log, throughput=figure.value, stall=None, by_publishers=())

    explanation = explained(run, after)

    layout, rest = explanation.factors[0], explanation.factors[-1]
    assert explanation.ratio is not None
    assert explanation.ratio == pytest.approx(1.752, abs=1e-3)
    assert layout.name == "layout"
    assert layout.value == pytest.approx(explanation.ratio / (nhwc / tf32))
    assert layout.value == pytest.approx(1.29, abs=0.01)
    assert rest.value == pytest.approx(nhwc / tf32, abs=0.01)
    shares = {d.axis: d.share for d in explanation.differences if d.share}
    assert shares["layout"][1] < 0.5


def test_bundled_evidence_without_a_control_is_a_limit_and_no_factor(tmp_path: Path) -> None:
    run = replace(with_device(run_from_log(write(tmp_path, ngc_log())), "V100"), stall=None, by_publishers=())
    fp32 = "ngc-pytorch-19.10-resnet50-v100-32gb-fp32-1gpu"

    explanation = explain(run, side_of_figure(find_reference(fp32)), load_effects(), ())

    precision = next(d for d in explanation.differences if d.axis == Condition.PRECISION)

    assert precision.basis is Basis.BUNDLED
    assert precision.high == 1.0
    assert not precision.is_sized


def test_a_cause_with_the_opposite_effect_has_no_share_and_leaves_more_open(tmp_path: Path) -> None:
    run = run_from_log(write(tmp_path, ngc_log(settings=SETTINGS | {"memory_format": "nhwc"})))
    older = explained(run, "ngc-pytorch-19.10-resnet50-v100-32gb-amp-1gpu")

    layout = next(d for d in older.differences if d.axis == "layout")
    assert older.ratio is not None
    assert older.open is not None
    assert layout.share is None
    assert layout.high is not None
    assert layout.high < 1
    assert older.open[0] == pytest.approx(older.ratio / layout.high)


def test_the_references_own_statistic_is_a_cause(tmp_path: Path) -> None:
    run = run_from_log(write(tmp_path, ngc_log(rate=790.0)))
    by_summary = replace(run, by_publishers=(PublishedRule("NVIDIA's own report", "summary", 850.0),))

    statistic = next(d for d in explained(by_summary).differences if d.axis == OwnCause.STATISTIC)

    assert statistic.basis is Basis.OWN
    assert statistic.low == pytest.approx(850.0 / 790.0, rel=1e-3)


def test_another_device_gets_the_ratio_of_published_figures(tmp_path: Path) -> None:
    run = with_device(run_from_log(write(tmp_path, ngc_log())), "V100")

    device = next(
        d
        for d in explained(run, "ngc-pytorch-resnet50-a100-80gb-amp-1gpu").differences
        if d.axis == Condition.DEVICE
    )

    assert device.basis is Basis.BUNDLED
    assert any(match.high == pytest.approx(2470 / 1156) and match.effect.also for match in device.evidence)


def test_a_gap_within_the_runs_own_noise_needs_no_cause(tmp_path: Path) -> None:
    run = replace(run_from_log(write(tmp_path, ngc_log(rate=1120.0))), noise=0.05)

    explanation = explained(run)

    assert explanation.in_noise
    assert "within the run's own noise" in render_text(explanation)
    assert all(difference.share is None for difference in explanation.differences)


@pytest.mark.parametrize(
    "line",
    [
        "[2023/07/28 06:51:13] ppcls INFO: epoch:0 train step:9 batch_cost: 0.500 s, reader_cost: 0.050 s, ips: 1.",
        "global step 10, epoch: 1, batch: 10, avg_reader_cost: 0.050 sec, avg_batch_cost: 0.500 sec, ips: 1",
        "mmengine - INFO - Epoch(train) [1][50/100] lr: 1e-2 eta: 0:01:00 time: 0.500 data_time: 0.050 memory: 1",
        "2022-02-10 - mmseg - INFO - Iter [8/40] lr: 8e-03, eta: 0:01:06, time: 0.500, data_time: 0.050, memory: 1",
    ],
)
def test_printed_data_wait_times_are_read(line: str) -> None:
    assert data_wait([line] * 6) == pytest.approx(0.1)
    assert data_wait([line] * 3) is None


def test_evidence_from_another_architecture_gets_no_share(tmp_path: Path) -> None:
    run = run_from_log(write(tmp_path, ngc_log()))
    on_h200 = ExplainedRun(
        "x",
        run.recipe.with_readings({Condition.DEVICE: Reading("T4", "flag")}),
        run.throughput,
        run.unit,
        run.rule,
    )

    layout = next(d for d in explained(on_h200).differences if d.axis == "layout")

    assert layout.basis is Basis.ELSEWHERE
    assert layout.share is None


def test_the_h200_measurement_is_shown_as_of_another_architecture(tmp_path: Path) -> None:
    layout = explained(run_from_log(write(tmp_path, ngc_log()))).differences[0]

    h200 = next(match for match in layout.evidence if match.effect.id == "layout-h200")
    assert h200.mismatches == ("architecture hopper",)
    assert layout.high is not None
    assert h200.low is not None
    assert layout.high < h200.low


def test_the_runs_own_wait_for_data_bounds_what_the_loader_can_explain(tmp_path: Path) -> None:
    explanation = explained(run_from_log(write(tmp_path, ngc_log(wait=0.02))))

    loader = next(d for d in explanation.differences if d.axis is RecipeAxis.LOADER)
    assert loader.basis is Basis.BOUNDED
    assert loader.high == pytest.approx(1 / 0.98, rel=1e-3)


def test_a_loader_that_no_side_uses_is_no_difference(tmp_path: Path) -> None:
    run = run_from_log(write(tmp_path, ngc_log()))
    idle: dict[AxisName, Reading] = {
        RecipeAxis.DATA: Reading("synthetic", ""),
        RecipeAxis.WORKERS: Reading(14, ""),
    }
    one = replace(run, recipe=run.recipe.with_readings(idle))
    two = replace(run, recipe=one.recipe.with_readings({RecipeAxis.WORKERS: Reading(2, "")}))

    found = explain(one, side_of_run(two), load_effects(), load_references())

    assert not found.differences
    assert RecipeAxis.WORKERS not in found.same


def test_a_difference_without_evidence_is_listed_as_unknown(tmp_path: Path) -> None:
    explanation = explained(run_from_log(write(tmp_path, ngc_log())))

    unknown = {d.axis for d in explanation.differences if d.basis is Basis.UNKNOWN}
    assert unknown == {RecipeAxis.ACCUMULATION_STEPS, RecipeAxis.LABEL_SMOOTHING, "mixup"}
    assert all(d.share is None for d in explanation.differences if d.basis is Basis.UNKNOWN)


def test_the_vendors_older_figure_with_the_same_layout_is_named(tmp_path: Path) -> None:
    explanation = explained(run_from_log(write(tmp_path, ngc_log())))

    assert [nearer.reference.id for nearer in explanation.nearer] == [
        "ngc-pytorch-19.10-resnet50-v100-32gb-amp-1gpu"
    ]
    assert explanation.nearer[0].differences == ()


def test_axes_that_neither_side_states_are_listed(tmp_path: Path) -> None:
    explanation = explained(run_from_log(write(tmp_path, ngc_log())))

    assert Condition.DRIVER in explanation.neither
    assert Condition.CONTAINER in explanation.only_there
    assert RecipeAxis.PREFETCH in explanation.only_here


def test_a_program_of_no_known_model_lacks_no_axis() -> None:
    run = ExplainedRun("one", StatedRecipe(), 100.0, "steps/s")

    found = explain(run, side_of_run(replace(run, throughput=50.0)), load_effects(), load_references())

    assert found.neither == ()


def test_equal_numbers_have_no_gap_to_explain(tmp_path: Path) -> None:
    explanation = explained(run_from_log(write(tmp_path, ngc_log(rate=1156.0))))

    assert "no gap to explain" in render_text(explanation)
    assert all(difference.share is None for difference in explanation.differences)


def test_equal_recipes_leave_the_whole_gap_unexplained(tmp_path: Path) -> None:
    reference = find_reference(DGX1_32GB_AMP)
    recipe = StatedRecipe({axis: Reading(value, "x") for axis, value in reference.recipe.items()})
    explanation = explained(ExplainedRun("same", recipe, 578.0, "images/s"))

    assert explanation.differences == ()
    assert explanation.open == (2.0, 2.0)


def test_the_default_reference_is_the_fastest_figure_of_the_case(tmp_path: Path) -> None:
    recipe = run_from_log(write(tmp_path, ngc_log())).recipe
    device: dict[AxisName, Reading] = {Condition.DEVICE: Reading("V100", "flag")}
    memory: dict[AxisName, Reading] = {Condition.DEVICE_MEMORY_GB: Reading(32, "flag")}

    any_v100 = choose_reference(
        ExplainedRun("x", recipe.with_readings(device), 800.0, "images/s"), load_references()
    )
    larger = choose_reference(
        ExplainedRun("x", recipe.with_readings(device | memory), 800.0, "images/s"), load_references()
    )

    assert any_v100.id == "ngc-pytorch-resnet50-v100-16gb-amp-1gpu"
    assert larger.id == DGX1_32GB_AMP


def test_a_run_without_a_device_has_no_default_reference(tmp_path: Path) -> None:
    with pytest.raises(
        InputError,
        match=r"does not state its device: add --device, .* \(the closest of its model: .*ngc-pytorch-resnet50-",
    ):
        choose_reference(run_from_log(write(tmp_path, ngc_log())), load_references())


def test_a_case_without_a_published_figure_needs_a_named_reference(tmp_path: Path) -> None:
    log = write(tmp_path, ngc_log(settings=SETTINGS | {"world_size": "3"}))

    with pytest.raises(
        InputError, match=r"no published figure for the case of run\.txt: choose one"
    ) as raised:
        choose_reference(run_from_log(log, device="Tesla V100-SXM2-32GB"), load_references())

    # The nearest ones agree in framework, precision, device, its memory and the batch.
    names = str(raised.value).partition("(the closest of its model: ")[2].partition(")")[0].split(", ")
    assert len(names) == 3
    assert all("pytorch" in name and "v100-32gb-amp" in name for name in names)


def test_a_model_that_nobody_published_is_answered_with_the_nearest_name() -> None:
    recipe = StatedRecipe({Condition.MODEL: Reading("llama3-8b", "flag")})

    with pytest.raises(InputError, match=r"no figure is of the model 'llama3-8b'; did you mean 'llama3"):
        choose_reference(ExplainedRun("x", recipe, 800.0, "tokens/s"), load_references())


def test_another_model_is_refused(tmp_path: Path) -> None:
    log = write(tmp_path, ngc_log(settings=SETTINGS | {"arch": "resnext101-32x4d"}))

    with pytest.raises(InputError, match=r"trains resnext101-32x4d, but .* is for resnet50_v1\.5"):
        explained(run_from_log(log))


BERT_LOG = CORPUS / "logs" / "Bert" / "V100_LOG" / "PaddleNLP_bert_base_seqlen128_bs96_fp32_DP_N1C8_log"


@pytest.mark.skipif(not BERT_LOG.is_file(), reason="the corpus of real logs is not beside this checkout")
def test_a_published_bert_log_is_compared_with_its_table_by_its_publishers_rule() -> None:
    explanation = explained(run_from_log(BERT_LOG), "perf-paddle-bert-base-v100-32gb-fp32-bs96-8gpu")
    other = explained(run_from_log(BERT_LOG), "perf-pytorch-bert-base-v100-32gb-fp32-bs96-8gpu")

    assert explanation.differences[0].axis == OwnCause.STATISTIC
    assert explanation.differences[0].there.value.startswith("trimmed-skip-10")  # type: ignore[union-attr]
    assert {"max_predictions_per_seq", "optimizer"} <= {d.axis for d in other.differences}


def test_another_unit_is_refused() -> None:
    with pytest.raises(InputError, match=r"is in sequences/s, .* is in images/s"):
        explained(ExplainedRun("bert.log", StatedRecipe(), 100.0, "sequences/s"))


def test_a_log_without_a_throughput_still_shows_the_differences_and_exits_with_1(tmp_path: Path) -> None:
    log = write(tmp_path, ngc_log(steps=1).rsplit("DLL", 1)[0])

    result = runner.invoke(app, [str(log), "--reference", DGX1_32GB_AMP])

    assert result.exit_code == 1
    assert "layout: nchw here, nhwc there" in result.stdout
    assert "no throughput" in result.stderr


def test_what_a_log_does_not_state_is_given(tmp_path: Path) -> None:
    lines = "".join(
        f"Epoch: [0][{step:5d}/5005]\tTime  {0.32 + step % 3 / 1000:.3f} (  0.320)\tData  0.001 (  0.010)\t"
        "Loss 6.9e+00 (6.9e+00)\tAcc@1   0.00 (  0.1)\tAcc@5   0.40 (  0.5)\n"
        for step in range(0, 500, 10)
    )
    log = write(tmp_path, lines)
    unstated = runner.invoke(app, [str(log), "--reference", DGX1_32GB_AMP])
    assert unstated.exit_code == 1
    assert "add --gpus and --batch" in unstated.stderr

    given = ["--gpus", "8", "--batch", "32", "--precision", "amp-fp16", "--model", "resnet50"]
    result = runner.invoke(app, [str(log), "--reference", DGX1_32GB_AMP, *given])

    assert result.exit_code == 0, result.output
    assert "The reference is 1.4" in result.stdout
    assert "(8 devices here, 1 there)" in result.stdout
    with pytest.raises(
        InputError, match=r"does not state its model, precision, .*: add --model, --precision"
    ):
        runner.invoke(app, [str(log), "--gpus", "8", "--batch", "32"], catch_exceptions=False)


def test_a_ratio_of_logs_without_their_number_of_devices_is_noted(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(
        "".join(
            f"DLL 2023-01-02 03:04:{step // 3:02d}.{step % 3}00000 - Epoch: 0 Iteration: {step}  "
            f"train.compute_ips : {800 + step % 5}.00 images/s train.total_ips : 790.00 images/s train.lr : 0.1 \n"
            for step in range(1, 60)
        )
    )

    result = runner.invoke(app, [str(log), "--reference", DGX1_32GB_AMP])

    assert "does not state its number of devices, the other has 1: a part of the ratio" in result.stdout


def test_the_command_prints_the_explanation_as_json(tmp_path: Path) -> None:
    log = write(tmp_path, ngc_log())

    result = runner.invoke(app, [str(log), "--reference", DGX1_32GB_AMP, "--json"])

    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["differences"][0]["axis"] == "layout"
    assert document["differences"][0]["test"]["flag"] == "--memory-format nhwc"
    assert document["reference"] == {"id": DGX1_32GB_AMP, "value": 1156.0, "unit": "images/s"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["run.txt", "--reference", "ngc-pytorch-resnet50-v100-32gb-amp-2gpu"],
            "did you mean 'ngc-pytorch-resnet50",
        ),
        (["nothing.txt", "--reference", DGX1_32GB_AMP], "no such log file"),
        (["run.txt", "--reference", DGX1_32GB_AMP, "--rule", "windows"], "did you mean 'window'"),
    ],
)
def test_invalid_input_is_reported_in_one_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    write(tmp_path, ngc_log())

    result = runner.invoke(app, [str(tmp_path / arguments[0]), *arguments[1:]])

    assert isinstance(result.exception, InputError)
    assert message in str(result.exception)


@pytest.mark.skipif(not CORPUS_LOG.is_file(), reason="the corpus of real logs is not beside this checkout")
def test_the_published_log_names_its_layout_first() -> None:
    explanation = explained(run_from_log(CORPUS_LOG))

    assert explanation.differences[0].axis == "layout"
    assert explanation.differences[0].here.where == "line 3: memory_format : nchw"
    assert explanation.ratio == pytest.approx(1.463, abs=0.001)
    assert explanation.open is not None
    assert explanation.open[0] > 1.05


def two_logs(
    tmp_path: Path, here: dict[str, Any], there: dict[str, Any]
) -> tuple[ExplainedRun, ExplainedRun]:
    """Return two runs of one program as read from their logs."""
    paths = tmp_path / "here.txt", tmp_path / "there.txt"
    for path, options in zip(paths, (here, there), strict=True):
        path.write_text(ngc_log(**options))
    return run_from_log(paths[0]), run_from_log(paths[1])


def test_the_wait_for_data_of_two_runs_is_its_part_of_their_gap(tmp_path: Path) -> None:
    """Both runs compute for 0.9 of the time of the faster one's step; the slower one waits for its data."""
    here, there = two_logs(tmp_path, {"rate": 200.0, "wait": 0.775}, {"rate": 800.0, "wait": 0.1})

    explanation = explain(here, side_of_run(there), load_effects(), load_references())

    first = explanation.differences[0]
    assert (first.axis, first.basis) == (OwnCause.DATA_WAIT, Basis.OWN)
    assert (first.here.value, first.there.value) == ("77.5% of a step", "10.0% of a step")
    assert first.low == pytest.approx(0.9 / 0.225, rel=1e-3)
    assert explanation.open == pytest.approx((1.0, 1.0), abs=2e-3)
    text = render_text(explanation)
    assert "The other run is 4.000 times as fast." in text
    assert "there  there.txt: 800.00 images/s" in text


def test_a_recipe_that_differs_between_two_runs_is_named_with_its_evidence(tmp_path: Path) -> None:
    nhwc = {**SETTINGS, "memory_format": "nhwc"}
    here, there = two_logs(tmp_path, {"rate": 790.0}, {"rate": 1150.0, "settings": nhwc})

    explanation = explain(here, side_of_run(there), load_effects(), load_references())

    assert explanation.differences[0].axis == "layout"
    assert explanation.nearer == ()
    document = to_document(explanation)
    assert document["against"]["id"] == "there.txt"
    assert "reference" not in document
    assert "Stated by the other run only" not in render_text(explanation)


def test_two_runs_that_differ_within_their_noise_have_no_gap(tmp_path: Path) -> None:
    here, there = two_logs(tmp_path, {"rate": 800.0}, {"rate": 803.0})

    assert "no gap to explain" in render_text(explain(here, side_of_run(there), (), ()))


def test_runs_of_two_models_or_units_are_refused(tmp_path: Path) -> None:
    here, there = two_logs(tmp_path, {}, {})
    model = Reading("mobilenet_v1", "line 1")
    other = replace(there, recipe=there.recipe.with_readings({Condition.MODEL: model}))

    with pytest.raises(InputError, match=r"here\.txt trains resnet50.*, but there\.txt trains mobilenet_v1"):
        explain(here, side_of_run(other), (), ())
    with pytest.raises(InputError, match=r"here\.txt is in images/s, but there\.txt is in tokens/s"):
        explain(here, side_of_run(replace(there, unit="tokens/s")), (), ())


def test_the_command_explains_one_log_against_another(tmp_path: Path) -> None:
    for name, rate in (("a", 400.0), ("b", 800.0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.txt").write_text(ngc_log(rate=rate))
    one, other = (str(tmp_path / name / "train.txt") for name in ("a", "b"))

    found = runner.invoke(app, [one, "--against", other])
    both = runner.invoke(app, [one, "--against", other, "--reference", DGX1_32GB_AMP])

    assert found.exit_code == 0, found.output
    assert f"there  {other}: 800.00 images/s" in found.stdout
    assert "The other run is 2.000 times as fast." in found.stdout
    assert isinstance(both.exception, InputError)
    assert "--reference and --against exclude each other" in str(both.exception)
