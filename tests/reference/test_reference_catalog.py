"""The published figures: every cell of the documents, typed rightly, with its source, and found by its name."""

import math
import re
from collections import Counter
from pathlib import Path

import pytest

from trainmark.errors import InputError
from trainmark.measure.device_peaks import find_peak, load_peaks
from trainmark.reference import (
    CellStatus,
    Reference,
    Statistic,
    find_reference,
    load_references,
    read_figures,
    select,
)
from trainmark.schema.recipe import RecipeAxis
from trainmark.workload.cards import shipped
from trainmark.workload.source import GitSource

SEEDS = Path(__file__).parents[3] / "shared" / "seeds"


def test_every_cell_of_the_five_documents_is_there() -> None:
    cells = Counter(reference.source.document_id for reference in load_references())

    assert cells["000"] == 12  # 3 rows of 4 columns
    assert cells["001"] == 6 + 4 * 6 * 5  # the first table, and four tables of 6 rows and 5 frameworks
    assert cells["002"] == 30 + 5 + 5 + 2 * 5 + 3 * 3  # runs, means, FP32, FP16 twice, real and synthetic
    assert cells["003"] == 6 + 4
    assert cells["004"] == 1


@pytest.mark.skipif(not SEEDS.is_dir(), reason="the seed documents are not beside this checkout")
def test_every_number_of_a_document_is_printed_in_it() -> None:
    texts = {path.name[:3]: path.read_text(encoding="utf-8") for path in SEEDS.glob("*.txt")}

    for reference in load_references():
        if reference.source.document_id is not None:
            assert reference.printed in texts[reference.source.document_id], reference.id


def test_published_speedups_follow_from_their_values() -> None:
    groups: dict[tuple[object, ...], list[Reference]] = {}
    for reference in load_references():
        if reference.speedup is not None:
            groups.setdefault((reference.source.section, reference.framework), []).append(reference)

    assert len(groups) == 7
    for figures in groups.values():
        base = next(figure.value for figure in figures if figure.devices == 1)
        for figure in figures:
            assert base is not None
            assert figure.value is not None
            assert figure.speedup == pytest.approx(figure.value / base, abs=0.00501), figure.id


def test_an_oom_or_todo_cell_is_an_outcome_and_not_a_number() -> None:
    oom = find_reference("five-frameworks-tensorflow-resnet50-v100-16gb-bs160-16gpu")
    todo = find_reference("five-frameworks-mxnet-resnet50-v100-16gb-bs128-8gpu")

    assert (oom.status, oom.value) == (CellStatus.OOM, None)
    assert (todo.status, todo.value) == (CellStatus.MISSING, None)


def test_a_cell_whose_status_contradicts_its_print_is_refused() -> None:
    group = {
        "source": {"document": "d", "section": "s"},
        "framework": "pytorch",
        "model": "m",
        "unit": "images/s",
        "figures": [{"id": "wrong", "printed": "OOM", "devices": 1}],
    }

    with pytest.raises(InputError, match=r"mine\.yaml: wrong: .*contradicts the printed cell 'OOM'"):
        list(read_figures({"groups": [group]}, "mine.yaml"))


def test_an_unknown_key_is_refused_with_its_document() -> None:
    with pytest.raises(InputError, match=r"mine\.yaml: group 1: unknown key 'hardwear'"):
        list(read_figures({"groups": [{"hardwear": {}, "figures": []}]}, "mine.yaml"))


def test_every_figure_and_every_recipe_has_a_source() -> None:
    for reference in load_references():
        assert reference.source.document, reference.id
        assert reference.source.section, reference.id
        assert not reference.recipe or reference.source.recipe_from, reference.id


def test_figures_of_programs_that_have_a_card_are_of_the_cards_commit() -> None:
    programs = ("pytorch-bert", "tensorflow-bert", "oneflow-gpt", "oneflow-wide-deep", "hugectr-wide-deep")
    prefixes = ("perf-paddle-bert", *(f"dlperf-{program}" for program in programs))
    sources = [workload.card.source for workload in shipped()]
    commits = {source.commit for source in sources if isinstance(source, GitSource)}
    figures = [reference for reference in load_references() if reference.id.startswith(prefixes)]

    assert len(figures) == 26 + 25 + 13 + 6 + 12 + 8
    assert {figure.software.program_commit for figure in figures} <= commits


def test_figures_of_the_vendor_name_the_file_that_was_read() -> None:
    vendor = [reference for reference in load_references() if reference.id.startswith("ngc-")]

    assert len(vendor) == 28 + 24 + 26
    assert all(reference.source.path for reference in vendor)


def test_the_vendors_mixed_precision_recipe_differs_from_its_older_one_in_the_layout() -> None:
    new = find_reference("ngc-pytorch-resnet50-v100-32gb-amp-1gpu")
    old = find_reference("ngc-pytorch-19.10-resnet50-v100-32gb-amp-1gpu")

    assert (new.value, new.recipe["layout"]) == (1156.0, "nhwc")
    assert (old.value, old.recipe["layout"]) == (849.63, "nchw")


def test_a_figures_own_recipe_overrides_its_groups() -> None:
    one, eight = (find_reference(f"ngc-pytorch-resnet50-v100-32gb-amp-{n}gpu") for n in (1, 8))

    assert one.recipe[RecipeAxis.ACCUMULATION_STEPS] == 8
    assert eight.recipe[RecipeAxis.ACCUMULATION_STEPS] == 1
    assert eight.recipe[RecipeAxis.WORKERS] == one.recipe[RecipeAxis.WORKERS] == 8


def test_the_thirty_printed_runs_give_the_printed_means() -> None:
    for topology, mean in (
        ("1n1g", 362.41),
        ("1n4g", 1391.34),
        ("1n8g", 2720.16),
        ("2n8g", 5085.58),
        ("4n8g", 9496.91),
    ):
        prefix = f"dlperf-tensorflow-resnet50-v100-16gb-fp32-bs128-{topology}"
        runs = [figure.value for figure in load_references() if figure.id.startswith(f"{prefix}-run")]

        assert len(runs) == 6
        assert round(math.fsum(value for value in runs if value is not None) / 6, 2) == mean
        assert find_reference(f"{prefix}-mean").value == mean


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(InputError, match=r"did you mean 'ngc-pytorch-resnet50-v100-32gb-amp-1gpu'\?"):
        find_reference("ngc-pytorch-resnet50-v100-32gb-amp-1gpus")


def test_words_select_figures_with_any_punctuation() -> None:
    found = select(
        load_references(), framework="PyTorch", device="V100 32GB", model="resnet-50", precision="amp"
    )

    assert {figure.id for figure in found} >= {
        "ngc-pytorch-resnet50-v100-32gb-amp-1gpu",
        "perf-pytorch-21.03-resnet50-v100-32gb-amp-bs256-32gpu",
    }
    assert {figure.framework for figure in found} == {"pytorch"}
    assert {figure.hardware.device_memory_gb for figure in found} == {32}


def test_a_word_without_a_matching_figure_is_refused_with_suggestions() -> None:
    with pytest.raises(InputError, match=r"framework 'pytroch'; did you mean 'pytorch'\?"):
        select(load_references(), framework="pytroch")


def test_the_sample_row_of_the_template_is_marked_as_an_example() -> None:
    assert find_reference("template-mxnet-mobilenetv1-sample-row").statistic is Statistic.EXAMPLE


def test_a_device_is_found_by_its_drivers_name() -> None:
    peak = find_peak("Tesla V100-SXM2-32GB")

    assert peak is not None
    assert (peak.architecture, peak.fp16_tflops, peak.tf32_tflops) == ("volta", 125, None)
    assert find_peak("a device of next year") is None


def test_peaks_grow_with_narrower_formats_and_name_their_source() -> None:
    for peak in load_peaks():
        known = [x for x in (peak.fp32_tflops, peak.tf32_tflops, peak.fp16_tflops) if x is not None]
        assert known == sorted(known)
        assert peak.read_in


def test_every_measured_figure_except_the_sample_row_has_a_recipe() -> None:
    figures = [r for r in load_references() if not r.id.startswith("tpu-recipes-")]
    without = [r.id for r in figures if not r.recipe and r.status is not CellStatus.MISSING]

    assert without == ["template-mxnet-mobilenetv1-sample-row"]


def test_the_older_figures_of_the_vendor_name_their_commit() -> None:
    older = [r for r in load_references() if r.id.startswith("ngc-pytorch-20.06-")]

    assert {r.source.commit for r in older} == {"46ff3707e04683e41b79af0f94a74e45f8016786"}


def test_the_compared_bert_columns_state_their_differences() -> None:
    paddle, tensorflow, pytorch = (
        find_reference(f"perf-{framework}-bert-base-v100-32gb-amp-bs96-1gpu").recipe
        for framework in ("paddle", "tensorflow", "pytorch")
    )

    assert [r[RecipeAxis.MAX_PREDICTIONS] for r in (paddle, tensorflow, pytorch)] == [80, 20, 20]
    assert [r[RecipeAxis.OPTIMIZER] for r in (paddle, tensorflow, pytorch)] == ["adam", "lamb", "lamb"]
    assert [r[RecipeAxis.ACCUMULATION_STEPS] for r in (paddle, tensorflow, pytorch)] == [88, 704, 704]


def of_short_sequences() -> list[Reference]:
    """Return the figures with an MFU in 16 bits whose attention is a small part of the operations."""
    with_share = [r for r in load_references() if r.mfu and "fp8" not in (r.precision or "")]
    return [r for r in with_share if int(r.recipe[RecipeAxis.SEQUENCE_LENGTH]) <= 2048]


@pytest.mark.parametrize("reference", of_short_sequences(), ids=lambda r: r.id)
def test_a_stated_mfu_follows_from_tokens_and_peak(reference: Reference) -> None:
    """Six operations a parameter and token, of the size in the model's name, are about what the figure says."""
    size, unit = re.fullmatch(r"mpt_(\d+)([bm])", reference.model).groups()  # type: ignore[union-attr]
    parameters = float(size) * {"b": 1e9, "m": 1e6}[unit]
    peak = find_peak(reference.hardware.device or "")
    assert peak is not None
    assert peak.bf16_tflops is not None
    assert reference.value is not None
    assert reference.mfu is not None

    least = 6 * parameters * reference.value / (reference.devices * peak.bf16_tflops * 1e12)

    assert 0.5 * reference.mfu < least < 1.1 * reference.mfu


def test_peaks_are_positive_numbers() -> None:
    for peak in load_peaks():
        numbers = [
            getattr(peak, name) for name in peak.__slots__ if name.endswith(("_tflops", "_gb", "_per_s"))
        ]
        assert all(number is None or (isinstance(number, int | float) and number > 0) for number in numbers)
