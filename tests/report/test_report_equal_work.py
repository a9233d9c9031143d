"""What the tables say of equal work: the certificate of this model and device, for the columns that it covers."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import sample_results as sample

from trainmark.insight.equality import judge_equality
from trainmark.report import Language, render_markdown, render_table
from trainmark.schema.case import Case
from trainmark.schema.certificate import Certificate, Check, CheckedVariant, Pair, Party, Subject
from trainmark.schema.precision import Precision
from trainmark.schema.results import Results, RunResult, Verdict

STORED = Path(__file__).parents[2] / "docs" / "results"
MODEL = "mobilenet_v1"
SHOWN = "were verified to compute the same training step"
Axes = dict[str, Any]
PYTORCH: Axes = {"framework": "pytorch"}
TENSORFLOW: Axes = {"framework": "tensorflow", "layout": "nhwc"}
GRAPH: Axes = {**TENSORFLOW, "compiler": "graph"}


def case(**axes: Any) -> Case:
    return Case.model_validate({"model": MODEL, "device": "cpu", **axes})


def measured(one: Case, device: str | None = None) -> tuple[Case, tuple[RunResult, ...]]:
    """Return the case with three runs; ``device`` is what the worker says, as a rule what was asked for."""
    reported = device or one.device.value
    return one, tuple(sample.on_device(run, reported) for run in sample.ok_runs(one, 90.0, 3))


def of(cases: Sequence[Mapping[str, Any]], *certificates: Certificate) -> Results:
    return sample.results([measured(case(**axes)) for axes in cases], certificates=certificates)


def check(subject: Subject = Subject.LOGITS, holds: bool = True) -> Check:
    return Check(subject=subject, deviation=1e-6 if holds else 0.3, tolerance=1e-4)


def party(framework: str, layout: str = "nchw", device: str = "cpu", *variants: CheckedVariant) -> Party:
    changes = {"device": device, "variants": variants}
    return sample.party(framework, "1.0", layout, check(Subject.MOMENTUM)).model_copy(update=changes)


def graph(**changes: Any) -> CheckedVariant:
    return CheckedVariant.model_validate(
        {"layout": "nhwc", "compiler": "graph", "checks": (check(Subject.UPDATES),)} | changes
    )


def certificate(*parties: Party, unequal: Sequence[tuple[str, str]] = (), **changes: Any) -> Certificate:
    """Return a certificate of these parties and all their pairs; those in ``unequal`` differ in their logits."""
    names = [found.framework for found in parties]
    pairs = [(one, other) for i, one in enumerate(names) for other in names[i + 1 :]]
    values = {
        "model": MODEL,
        "parties": parties,
        "pairs": tuple(Pair(frameworks=pair, checks=(check(holds=pair not in unequal),)) for pair in pairs),
    }
    return sample.certificate(equal=True).model_copy(update={**values, **changes})


BOTH = (party("pytorch"), party("tensorflow", "nhwc"))
ON_GPU = (party("pytorch", "nchw", "cuda"), party("tensorflow", "nhwc", "cuda"))


def report(results: Results, language: Language = Language.EN) -> str:
    return (
        render_markdown(results, Path("/nowhere"), language)
        .split("\n## Equal work")[0]
        .split("\n## Scaling")[0]
    )


def columns(text: str) -> list[list[str]]:
    """Return the framework columns of each table, as their titles have them."""
    heads = re.findall(
        r"^\| (?:nodes \| )?(?:devices|precision|device|model|layout)[^\n]*$", text, re.MULTILINE
    )
    return [[word.strip() for word in head.strip("|").split("|")][1:] for head in heads]


# The certificate of this model and device.


def test_a_certificate_that_fails_on_the_gpu_is_not_hidden_by_one_that_holds_on_the_cpu() -> None:
    gpu = [{**PYTORCH, "device": "cuda"}, {**TENSORFLOW, "device": "cuda"}]
    fails = certificate(*ON_GPU, unequal=[("pytorch", "tensorflow")])
    for certificates in ([certificate(*BOTH), fails], [fails, certificate(*BOTH)]):
        text = report(of(gpu, *certificates))
        assert SHOWN not in text
        assert "mobilenet_v1 on cuda: NOT the same work. pytorch, tensorflow differ in logits" in text
        assert columns(text) == [["pytorch (nchw) ≠", "tensorflow (nhwc) ≠"]]


def test_each_device_has_its_own_sentence_and_its_own_marks() -> None:
    both = [{**axes, "device": device} for device in ("cpu", "cuda") for axes in (PYTORCH, TENSORFLOW)]
    spread: list[Axes] = [*both, *({**axes, "devices_per_node": 2} for axes in both)]
    fails = certificate(*ON_GPU, unequal=[("pytorch", "tensorflow")])
    text = report(of(spread, fails, certificate(*BOTH)))
    assert f"mobilenet_v1 on cpu: pytorch, tensorflow {SHOWN}" in text
    assert "mobilenet_v1 on cuda: NOT the same work" in text
    assert columns(text) == [
        ["pytorch (nchw)", "tensorflow (nhwc)"],
        ["pytorch (nchw) ≠", "tensorflow (nhwc) ≠"],
    ]


def test_a_certificate_of_another_device_shows_nothing() -> None:
    text = report(of([{**PYTORCH, "device": "cuda"}, {**TENSORFLOW, "device": "cuda"}], certificate(*BOTH)))
    assert "no evidence that the frameworks did the same work" in text
    assert "≠" not in text


def test_a_certificate_of_another_model_shows_nothing() -> None:
    other = certificate(*BOTH, model="resnet50_v1.5", unequal=[("pytorch", "tensorflow")])
    text = report(of([PYTORCH, TENSORFLOW], other))
    assert "no evidence that the frameworks did the same work" in text
    assert "≠" not in text


def test_where_the_device_was_left_open_the_workers_word_decides() -> None:
    open_ = [case(**axes, device="auto") for axes in (PYTORCH, TENSORFLOW)]
    for device, shown in (("cpu", True), ("cuda", False)):
        results = sample.results([measured(one, device) for one in open_], certificates=(certificate(*BOTH),))
        assert (f"mobilenet_v1 on {device}: pytorch, tensorflow {SHOWN}" in report(results)) is shown


def test_a_certificate_that_saw_nobody_speaks_where_no_other_does() -> None:
    nobody = certificate(pairs=(), absent={"pytorch": "timeout: 900 s", "tensorflow": "timeout: 900 s"})
    alone, next_to = (of([PYTORCH, TENSORFLOW], *found) for found in ([nobody], [nobody, certificate(*BOTH)]))
    assert "it could not be checked whether" in report(alone)
    assert columns(report(alone)) == [["pytorch (nchw) ≠", "tensorflow (nhwc) ≠"]]
    assert SHOWN in report(next_to)
    assert "≠" not in report(next_to)


# Every column, or none.


def test_another_program_next_to_two_that_were_compared_is_named() -> None:
    external = {"workload": "paddleclas", "framework": "paddle"}
    text = report(of([PYTORCH, TENSORFLOW, external], certificate(*BOTH)))
    assert SHOWN not in text
    assert "mobilenet_v1 on cpu: the eager FP32 steps of pytorch, tensorflow were compared and agree" in text
    assert "the work of paddleclas/paddle (nchw, none) was not verified" in text
    assert "≠" not in text


def test_another_program_of_a_framework_that_was_compared_is_not_covered_by_it() -> None:
    external = {"workload": "ngc-tensorflow", **TENSORFLOW}
    text = report(of([PYTORCH, external], certificate(*BOTH)))
    assert SHOWN not in text
    assert "no evidence that the frameworks did the same work" in text


def test_a_framework_that_the_certificate_does_not_know_is_named() -> None:
    text = report(of([PYTORCH, TENSORFLOW, {"framework": "jax"}], certificate(*BOTH)))
    assert SHOWN not in text
    assert "no evidence that jax (nchw, none) did the same work" in text


def test_a_framework_that_could_not_be_inspected_is_named_and_marked() -> None:
    absent = {"jax": "failed: exit code 1"}
    text = report(of([PYTORCH, TENSORFLOW, {"framework": "jax"}], certificate(*BOTH, absent=absent)))
    assert (
        "> **mobilenet_v1 on cpu: it could not be checked whether jax (nchw, none) did the same work" in text
    )
    assert columns(text) == [["pytorch (nchw)", "tensorflow (nhwc)", "jax (nchw) ≠"]]


def test_a_difference_from_a_framework_without_a_number_marks_nobody() -> None:
    three = certificate(*BOTH, party("jax"), unequal=[("pytorch", "jax"), ("tensorflow", "jax")])
    text = report(of([PYTORCH, TENSORFLOW], three))
    assert f"mobilenet_v1 on cpu: pytorch, tensorflow {SHOWN}" in text
    assert "≠" not in text


def test_a_framework_that_is_not_as_described_is_distinguished_from_two_that_differ() -> None:
    wrong = party("tensorflow", "nhwc").model_copy(update={"checks": (check(Subject.DECAY, holds=False),)})
    text = report(of([PYTORCH, TENSORFLOW], certificate(party("pytorch"), wrong)))
    assert "NOT the same work. tensorflow differs from the description in weight decay; see" in text
    assert columns(text) == [["pytorch (nchw)", "tensorflow (nhwc) ≠"]]


# Layouts and compilers.


def test_the_caption_speaks_of_the_eager_step_alone_where_the_table_holds_nothing_else() -> None:
    text = report(of([PYTORCH, TENSORFLOW], certificate(*BOTH)))
    assert f"{SHOWN}: their eager FP32 steps agree on equal weights and an equal batch; see" in text


def test_a_compiler_that_was_compared_with_the_eager_step_is_covered() -> None:
    followed = certificate(party("pytorch"), party("tensorflow", "nhwc", "cpu", graph()))
    text = report(of([PYTORCH, GRAPH], followed))
    assert f"{SHOWN}: their eager FP32 steps agree" in text
    assert "and every other variant in these tables agrees with its framework's eager variant" in text


def test_a_compiler_that_was_not_compared_is_named_and_not_claimed() -> None:
    text = report(of([PYTORCH, GRAPH], certificate(*BOTH)))
    assert SHOWN not in text
    assert "no evidence that tensorflow (nhwc, graph) did the same work: this variant" in text
    assert "≠" not in text


def test_a_layout_that_was_not_compared_is_named_next_to_one_that_was() -> None:
    cases = [
        {**axes, "devices_per_node": n}
        for n in (1, 2)
        for axes in (PYTORCH, {**PYTORCH, "layout": "nhwc"}, TENSORFLOW)
    ]
    text = report(of(cases, certificate(*BOTH)))
    assert SHOWN not in text
    assert "no evidence that pytorch (nhwc, none) did the same work" in text


def test_a_compiler_that_does_other_steps_marks_its_framework_alone() -> None:
    other = graph(checks=(check(Subject.UPDATES, holds=False),))
    text = report(
        of([PYTORCH, GRAPH], certificate(party("pytorch"), party("tensorflow", "nhwc", "cpu", other)))
    )
    assert "NOT the same work. tensorflow (nhwc, graph) differs from its eager step in updates; see" in text
    assert columns(text) == [["pytorch (nchw)", "tensorflow (nhwc, graph) ≠"]]


def test_a_compiler_of_another_table_does_not_speak_against_the_eager_step() -> None:
    other = graph(checks=(check(Subject.UPDATES, holds=False),))
    text = report(
        of([PYTORCH, TENSORFLOW], certificate(party("pytorch"), party("tensorflow", "nhwc", "cpu", other)))
    )
    assert SHOWN in text
    assert "≠" not in text


def test_a_compiler_that_could_not_be_inspected_is_named_and_marked() -> None:
    unseen = graph(checks=(), absent="timeout: 900 s")
    results = of([PYTORCH, GRAPH], certificate(party("pytorch"), party("tensorflow", "nhwc", "cpu", unseen)))
    text = report(results)
    assert "it could not be checked whether tensorflow (nhwc, graph) did the same work" in text
    assert columns(text)[0][1] == "tensorflow (nhwc, graph) ≠"
    assert "| tensorflow | nhwc | graph |" in render_markdown(results, Path("/nowhere"))
    assert "not checked timeout: 900 s" in render_markdown(results, Path("/nowhere"))


def test_mixed_precision_is_reported_as_not_compared() -> None:
    mixed = [{**axes, "precision": "amp-bf16"} for axes in (PYTORCH, TENSORFLOW)]
    assert "Only FP32 was compared; the arithmetic of amp-bf16 is different" in report(
        of(mixed, certificate(*BOTH))
    )
    assert "Only FP32 was compared" not in report(of([PYTORCH, TENSORFLOW], certificate(*BOTH)))
    assert "Only FP32 was compared" not in report(of(mixed))


def test_a_row_of_another_precision_is_not_shown_equal_by_the_certificate() -> None:
    mixed = [{**axes, "precision": "amp-bf16"} for axes in (PYTORCH, TENSORFLOW)]
    text = report(of(mixed, certificate(*BOTH)))
    assert SHOWN not in text
    unlike = "pytorch (nchw, none, amp-bf16), tensorflow (nhwc, none, amp-bf16)"
    assert f"no evidence that {unlike} did the same work: this variant was not compared" in text
    assert "≠" not in text
    both = report(of([PYTORCH, TENSORFLOW, *mixed], certificate(*BOTH)))
    assert "the eager FP32 steps of pytorch, tensorflow were compared and agree" in both


def test_a_precision_does_not_hide_that_the_fp32_step_is_another() -> None:
    mixed = [{**axes, "precision": "amp-bf16"} for axes in (PYTORCH, TENSORFLOW)]
    text = report(of(mixed, certificate(*BOTH, unequal=[("pytorch", "tensorflow")])))
    assert "NOT the same work" in text


LAMB = {"optimizer": "lamb"}


def bert(framework: str, **axes: Any) -> Axes:
    return {"model": "bert_tiny", "framework": framework, **axes}


def of_bert(*frameworks: str, unequal: Sequence[tuple[str, str]] = (), **changes: Any) -> Certificate:
    parties = [party(name).model_copy(update={"axes": {}}) for name in frameworks]
    return certificate(*parties, unequal=unequal, model="bert_tiny", axes={}, **changes)


OF_ADAMW = of_bert("pytorch", "jax")
BY_ADAMW = [bert("pytorch"), bert("jax")]
BY_LAMB = [bert("pytorch", **LAMB), bert("jax", **LAMB)]


def test_lambs_rows_are_not_shown_equal_by_adamws_certificate() -> None:
    assert f"bert_tiny on cpu: jax, pytorch {SHOWN}" in report(of(BY_ADAMW, OF_ADAMW))
    text = report(of(BY_LAMB, OF_ADAMW))
    assert SHOWN not in text
    assert "no evidence that pytorch (none, lamb), jax (none, lamb) did the same work" in text


def test_each_optimizer_has_the_certificate_that_is_about_it() -> None:
    of_lamb = OF_ADAMW.model_copy(update={"rules": LAMB})
    wrong_of_lamb = of_bert("pytorch", "jax", unequal=[("pytorch", "jax")], rules=LAMB)

    both = report(of([*BY_ADAMW, *BY_LAMB], OF_ADAMW, of_lamb))
    assert f"bert_tiny (adamw) on cpu: jax, pytorch {SHOWN}" in both
    assert f"bert_tiny (lamb) on cpu: jax, pytorch {SHOWN}" in both
    assert f"bert_tiny (lamb) on cpu: jax, pytorch {SHOWN}" in report(of(BY_LAMB, of_lamb))
    assert SHOWN in report(of(BY_ADAMW, OF_ADAMW, wrong_of_lamb))
    assert SHOWN not in report(of(BY_ADAMW, of_lamb))

    results = of([*BY_ADAMW, *BY_LAMB], OF_ADAMW, wrong_of_lamb)
    text = report(results)
    assert f"bert_tiny (adamw) on cpu: jax, pytorch {SHOWN}" in text
    assert "bert_tiny (lamb) on cpu: NOT the same work. pytorch (lamb), jax (lamb) differ in logits" in text
    adamw, lamb = judge_equality(results.cases, results.certificates)
    assert (adamw.rules, {work.verdict for work in adamw.works}) == (("adamw",), {Verdict.EQUAL})
    assert (lamb.rules, {work.verdict for work in lamb.works}) == (("lamb",), {Verdict.DIFFERENT})


def test_frameworks_by_different_optimizers_are_never_reported_to_be_equal() -> None:
    of_others = of_bert("paddle", "tensorflow", rules=LAMB)
    others = [bert("paddle", **LAMB), bert("tensorflow", **LAMB)]
    text = report(of([*BY_ADAMW, *others], OF_ADAMW, of_others))
    assert f"bert_tiny (adamw) on cpu: jax, pytorch {SHOWN}" in text
    assert f"bert_tiny (lamb) on cpu: paddle, tensorflow {SHOWN}" in text

    unlike = [bert("pytorch"), bert("jax", **LAMB)]
    results = of(unlike, OF_ADAMW)
    text = report(results)
    assert SHOWN not in text
    for rules in ("adamw", "lamb"):
        assert f"bert_tiny ({rules}) on cpu: no evidence that the frameworks did the same work" in text
    found = judge_equality(results.cases, results.certificates)
    assert {work.verdict for finding in found for work in finding.works} == {Verdict.VARIANT}
    wrong = of_bert("pytorch", "jax", unequal=[("pytorch", "jax")])
    assert "bert_tiny (adamw) on cpu: NOT the same work. pytorch, jax differ in logits" in report(
        of(unlike, wrong)
    )


def test_a_certificate_of_lamb_that_saw_nobody_is_not_hidden_by_adamws() -> None:
    nobody = of_bert(rules=LAMB, absent={"pytorch": "timeout: 900 s", "jax": "timeout: 900 s"})
    text = report(of([*BY_ADAMW, *BY_LAMB], OF_ADAMW, nobody))
    assert "it could not be checked whether pytorch (none, lamb), jax (none, lamb) did the same work" in text
    assert f"bert_tiny (adamw) on cpu: jax, pytorch {SHOWN}" in text


# The rest of the report, and the terminal.


def test_a_remark_is_about_frameworks_of_its_own_table(tmp_path: Path) -> None:
    text = render_markdown(sample.with_certificate(), tmp_path)
    section = text.split("## Equal work")[1].split("\n## ")[0]
    assert "jax" not in section
    reported = "pytorch keeps the unbiased variance, paddle the biased one"
    allowed = Check(subject=Subject.BATCH_VARIANCES, deviation=0, tolerance=1e-3, remark=reported)
    pair = Pair(frameworks=("pytorch", "paddle"), checks=(allowed,))
    of_both = certificate(party("pytorch"), party("paddle"), pairs=(pair,))
    assert f"- {reported}\n" in render_markdown(of([PYTORCH, {"framework": "paddle"}], of_both), tmp_path)


def test_the_terminal_says_why_the_exit_code_is_1() -> None:
    fails = certificate(*BOTH, unequal=[("pytorch", "tensorflow")])
    results = of([PYTORCH, TENSORFLOW], fails)
    assert not results.holds
    assert "mobilenet_v1 on cpu: NOT the same work. pytorch, tensorflow differ in logits" in render_table(
        results
    )
    assert SHOWN in render_table(of([PYTORCH, TENSORFLOW], certificate(*BOTH)))


def test_the_report_says_between_which_values_the_inputs_of_the_activations_lie() -> None:
    reaching = [
        one.model_copy(update={"reach": reach})
        for one, reach in zip(BOTH, ((-0.9, 8.5), (-0.7, 8.1)), strict=True)
    ]
    reported = render_markdown(of([PYTORCH, TENSORFLOW], certificate(*reaching)), Path("/nowhere"))
    assert "values of -0.7 or less and of 8.1 or more" in reported
    without = render_markdown(of([PYTORCH, TENSORFLOW], certificate(*BOTH)), Path("/nowhere"))
    assert "The inputs of every activation" not in without


def test_one_framework_alone_is_compared_with_nobody() -> None:
    text = report(of([PYTORCH, {**PYTORCH, "layout": "nhwc"}], certificate(*BOTH)))
    assert SHOWN not in text
    assert "no evidence" not in text


@pytest.mark.parametrize("language", list(Language))
def test_every_sentence_exists_in_every_language(language: Language) -> None:
    failing = graph(checks=(check(Subject.UPDATES, holds=False),))
    wrong = party("tensorflow", "nhwc", "cpu", failing).model_copy(
        update={"checks": (check(Subject.DECAY, holds=False),)}
    )
    shown = certificate(party("pytorch"), wrong, party("paddle"), absent={"jax": "why"})
    cases = [
        PYTORCH,
        GRAPH,
        {"framework": "jax"},
        {"framework": "paddle", "compiler": "to_static"},
        {"workload": "x", "framework": "mxnet"},
    ]
    text = report(of(cases, shown), language)
    for name in ("jax", "graph", "to_static", "x/mxnet"):
        assert name in text


def test_results_from_before_layouts_were_compared_claim_no_more_than_they_show() -> None:
    document = json.loads((STORED / "h200-frameworks" / "results.json").read_text())
    for observed in (observed for found in document["certificates"] for observed in found["parties"]):
        observed.pop("variants", None)
    text = report(Results.model_validate(document))
    assert SHOWN not in text
    assert "the eager FP32 steps of jax, pytorch were compared and agree" in text
    (unshown,) = re.findall(r"no evidence that (.*) did the same work: this variant", text)
    own = ("pytorch (nhwc, torch.compile", "jax (nhwc, xla")
    assert {f"{name}{beyond})" for name in own for beyond in ("", ", tf32", ", amp-bf16")} == set(
        re.findall(r"\w+ \([^)]*\)", unshown)
    )


# One framework, and the golden observation.


def golden(holds: bool = True, **changes: Any) -> Certificate:
    """Return the certificate of PyTorch alone, compared with the golden observation."""
    pairs = (Pair(frameworks=("pytorch", "golden"), checks=(check(holds=holds),)),)
    return certificate(party("pytorch"), **{"pairs": pairs, **changes})


def test_one_framework_that_equals_the_golden_observation_is_reported_as_such() -> None:
    results = of([PYTORCH], golden())
    text = report(results)
    assert "mobilenet_v1 on cpu: pytorch computes the training step of the golden observation" in text
    assert "no evidence" not in text
    (finding,) = judge_equality(results.cases, results.certificates)
    assert finding.holds
    assert results.holds


def test_one_framework_that_differs_from_the_golden_observation_is_an_alert() -> None:
    results = of([PYTORCH], golden(holds=False))
    text = report(results)
    assert "mobilenet_v1 on cpu: NOT the same work. pytorch, golden differ in logits" in text
    assert "computes the training step" not in text
    assert not results.holds


def test_one_framework_that_could_not_be_checked_is_an_alert() -> None:
    text = report(of([PYTORCH], golden(parties=(), pairs=(), absent={"pytorch": "timeout: 900 s"})))
    assert "it could not be checked whether pytorch" in text


def test_one_framework_without_a_certificate_has_no_sentence() -> None:
    other_device = [{**PYTORCH, "device": "cuda"}]
    for results in (of([PYTORCH]), of(other_device, golden()), of([PYTORCH], certificate(*BOTH))):
        text = report(results)
        assert "golden" not in text
        assert "no evidence" not in text


def test_another_precision_than_the_certificates_is_named_for_one_framework_too() -> None:
    text = report(of([{**PYTORCH, "precision": "amp-fp16"}], golden()))
    assert "Only FP32 was compared; the arithmetic of amp-fp16 is different." in text


# Low precisions, which have certificates of their own.

IN_BF16 = {**PYTORCH, "precision": "amp-bf16"}


def narrow(holds: bool = True) -> Certificate:
    return golden(holds).model_copy(update={"precision": Precision.AMP_BF16})


def test_a_row_of_a_certified_precision_is_shown_equal_within_its_rounding() -> None:
    results = of([IN_BF16], golden(), narrow())
    text = report(results)
    assert "mobilenet_v1 (amp-bf16) on cpu: pytorch computes the training step of the golden" in text
    assert "within the rounding of amp-bf16" in text
    assert "Only FP32 was compared" not in text
    (finding,) = judge_equality(results.cases, results.certificates)
    assert (finding.precision, finding.holds) == (Precision.AMP_BF16, True)
    assert results.holds


def test_a_low_precision_that_differs_is_an_alert_although_fp32_is_equal() -> None:
    results = of([PYTORCH, IN_BF16], golden(), narrow(holds=False))
    text = report(results)
    assert "mobilenet_v1 on cpu: pytorch computes the training step of the golden observation" in text
    assert "mobilenet_v1 (amp-bf16) on cpu: NOT the same work. pytorch, golden differ in logits" in text
    assert not results.holds


def test_fp32_that_differs_speaks_against_a_low_precision_too() -> None:
    text = report(of([IN_BF16], golden(holds=False), narrow()))
    assert "NOT the same work" in text
    assert "within the rounding" not in text


def test_a_compiler_that_exists_only_in_a_low_precision_is_judged_in_that() -> None:
    """Read a suite of a recorded step that has no FP32: the FP32 check lacks it, the check of its precision has it."""
    absent = CheckedVariant(axes={"layout": "nchw"}, compiler="fused-cudnn", checks=(), absent="only in FP16")
    checked = CheckedVariant(axes={"layout": "nchw"}, compiler="fused-cudnn", checks=(check(),))
    in_fp32, in_bf16 = (
        one.model_copy(update={"parties": (party("pytorch", "nchw", "cpu", variant),)})
        for one, variant in ((golden(), absent), (narrow(), checked))
    )
    results = of([{**IN_BF16, "compiler": "fused-cudnn"}], in_fp32, in_bf16)

    (finding,) = judge_equality(results.cases, results.certificates)

    assert [work.verdict for work in finding.works] == [Verdict.EQUAL]
    assert "could not be checked" not in report(results)
    assert results.holds


@pytest.mark.parametrize(("reason", "holds"), [("timeout: 900 s", False), ("only in FP16", True)])
def test_an_fp32_check_that_time_was_lacking_for_is_not_replaced_by_another_precision(
    reason: str, holds: bool
) -> None:
    absent = CheckedVariant(axes={"layout": "nchw"}, compiler="torch.compile", checks=(), absent=reason)
    checked = CheckedVariant(axes={"layout": "nchw"}, compiler="torch.compile", checks=(check(),))
    in_fp32, in_bf16 = (
        one.model_copy(update={"parties": (party("pytorch", "nchw", "cpu", variant),)})
        for one, variant in ((golden(), absent), (narrow(), checked))
    )

    assert of([PYTORCH, IN_BF16], in_fp32, in_bf16).holds is holds


def test_a_step_without_fp32_that_another_precision_observed_itself_is_checked() -> None:
    absent = CheckedVariant(axes={"layout": "nchw"}, compiler="fused-cudnn", checks=(), absent="only in FP16")
    observed = party("pytorch").model_copy(update={"axes": {"layout": "nchw"}, "compiler": "fused-cudnn"})
    in_fp32 = golden().model_copy(update={"parties": (party("pytorch", "nchw", "cpu", absent),)})
    in_bf16 = narrow().model_copy(update={"parties": (observed,)})

    assert of([{**IN_BF16, "compiler": "fused-cudnn"}], in_fp32, in_bf16).holds


def test_a_precision_without_a_certificate_is_still_named() -> None:
    text = report(of([IN_BF16, {**PYTORCH, "precision": "amp-fp16"}], golden(), narrow()))
    assert "Only FP32 was compared; the arithmetic of amp-fp16 is different." in text


# Sizes that the compared steps do not have.

UNCHECKED = "not checked at "


def test_sizes_without_a_comparison_are_named_and_not_clean() -> None:
    sizes: list[Axes] = [{**axes, "batch_per_device": 64} for axes in (PYTORCH, TENSORFLOW)]
    (finding,) = judge_equality(of(sizes, certificate(*BOTH)).cases, [certificate(*BOTH)])
    assert [(size.axis, size.checked, size.of_cases) for size in finding.unchecked_sizes] == [
        ("batch_per_device", 8, (64,)),
        ("image_size", 96, (224,)),
    ]
    text = report(of(sizes, certificate(*BOTH)))
    assert (
        f"mobilenet_v1 on cpu: {UNCHECKED}batch per device 64; image size 224 px, as the compared steps have "
        "batch per device 8; image size 96 px: a mistake that takes effect only at other sizes is not excluded."
    ) in text
    assert "未在" in report(of(sizes, certificate(*BOTH)), Language.ZH)


def test_the_sizes_of_the_compared_steps_need_no_remark() -> None:
    sizes: list[Axes] = [{**axes, "batch_per_device": 8, "image_size": 96} for axes in (PYTORCH, TENSORFLOW)]
    text = report(of(sizes, certificate(*BOTH)))
    assert SHOWN in text
    assert UNCHECKED not in text


def test_work_that_nothing_was_shown_of_has_no_sizes() -> None:
    other = [{**PYTORCH, "device": "cuda"}, {**TENSORFLOW, "device": "cuda"}]
    assert UNCHECKED not in report(of(other, certificate(*BOTH)))
    fails = certificate(*BOTH, unequal=[("pytorch", "tensorflow")])
    assert UNCHECKED not in report(of([PYTORCH, TENSORFLOW], fails))


def test_many_sizes_are_named_by_the_smallest_and_the_largest() -> None:
    batches: list[Axes] = [
        {**axes, "batch_per_device": batch, "image_size": 96}
        for batch in (8, 16, 32, 64, 128)
        for axes in (PYTORCH, TENSORFLOW)
    ]
    assert f"{UNCHECKED}batch per device 16 to 128, as" in report(of(batches, certificate(*BOTH)))
