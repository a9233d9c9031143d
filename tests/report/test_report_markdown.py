"""The Markdown report: golden files, the tables of the original documents, and text that stays text."""

import csv
import io
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import sample_results as sample
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from trainmark.printable import printable
from trainmark.report import Language, render_csv, render_markdown, render_table
from trainmark.report.blocks import (
    Bullets,
    Cell,
    Code,
    Column,
    Paragraph,
    Report,
    Section,
    Table,
    cell,
    plain,
)
from trainmark.report.writing import to_markdown
from trainmark.schema.case import Case, case_of
from trainmark.schema.measurement import Answer, GateCheck, GateName, Parameters, Steadiness
from trainmark.schema.outcome import Outcome
from trainmark.schema.precision import Precision
from trainmark.schema.results import Results, RunResult
from trainmark.schema.telemetry import TelemetrySummary
from trainmark.store import read_results

Golden = Callable[[str, str], None]

EXAMPLES = {
    "ngc-v100": sample.ngc_v100,
    "two-frameworks": sample.two_frameworks,
    "equal-work": sample.with_certificate,
    "unequal-work": lambda: sample.with_certificate(equal=False),
    "only-failures": sample.only_failures,
    "one-case": sample.one_case,
    "no-baseline": sample.no_baseline,
    "real-and-synthetic": sample.real_and_synthetic,
    "hostile": sample.hostile,
    "two-units": sample.two_units,
    "cluster": sample.cluster,
}


def rendered(results: Results, folder: Path, language: Language = Language.EN) -> str:
    sample.write_runs(folder, results)
    return render_markdown(results, folder, language)


def rows(text: str, first: str) -> list[list[str]]:
    """Return the cells of the table whose heading line begins with ``first``."""
    lines = iter(text.splitlines())
    found = [next(line for line in lines if line.startswith(f"| {first}"))]
    for line in lines:
        if not line.startswith("|"):
            break
        found.append(line)
    return [[word.strip() for word in line.strip("|").split(" | ")] for line in found]


@pytest.mark.parametrize("language", list(Language))
@pytest.mark.parametrize("name", EXAMPLES)
def test_the_whole_report_is_as_agreed(
    name: str, language: Language, tmp_path: Path, assert_golden: Golden
) -> None:
    assert_golden(f"{name}.{language}.md", rendered(EXAMPLES[name](), tmp_path, language))


def test_the_main_table_has_devices_down_and_precision_by_batch_across(tmp_path: Path) -> None:
    table = rows(rendered(sample.ngc_v100(), tmp_path), "nodes")
    assert table[0] == [
        "nodes",
        "devices",
        "fp32, batch 128",
        "fp32, batch 256",
        "amp-fp16, batch 128",
        "amp-fp16, batch 256",
    ]
    assert [row[:2] for row in table[2:]] == [["1", "1"], ["1", "8"], ["4", "32"]]
    assert [row[5].split()[0] for row in table[2:]] == ["790.0", "5889.1†", "21259.8"]


STORED = Path(__file__).parents[2] / "docs" / "results"


def test_a_column_is_not_named_after_a_precision_or_a_batch_that_is_unknown(tmp_path: Path) -> None:
    results = read_results(STORED / "makemore" / "results.json")
    texts = {language: render_table(results, language=language) for language in (Language.EN, Language.ZH)}

    assert "batch 16" in texts[Language.EN]
    assert "批大小 16" in texts[Language.ZH]
    assert not any("unknown, " in text or "unknown，" in text for text in texts.values())


def test_processes_outside_the_run_are_named_below_the_telemetry_and_not_in_its_table(tmp_path: Path) -> None:
    text = render_markdown(read_results(STORED / "makemore" / "results.json"), tmp_path, Language.EN)

    (line, _) = (line for line in text.splitlines() if "`foreign`" in line)
    assert line.startswith("- `foreign` makemore b16: python start.py (PID 3387)")


def test_a_case_without_a_number_shows_its_outcome_and_never_a_zero(tmp_path: Path) -> None:
    table = rows(rendered(sample.ngc_v100(), tmp_path), "nodes")
    assert table[4][4] == "OOM"


def test_several_frameworks_stand_side_by_side_in_one_table_a_batch_size(tmp_path: Path) -> None:
    text = rendered(sample.two_frameworks(), tmp_path)
    assert "### batch per device 160" in text
    assert "### batch per device 128" in text
    table = rows(text, "nodes")
    assert table[0] == ["nodes", "devices", "tensorflow", "pytorch"]
    assert [row[1] for row in table[2:]] == ["1", "2", "4", "8", "16", "32"]
    assert table[6][2] == "OOM"
    assert "no evidence that the frameworks did the same work" in text


def test_a_layout_that_belongs_to_its_framework_is_in_its_column(tmp_path: Path) -> None:
    table = rows(rendered(sample.with_certificate(), tmp_path), "nodes")
    assert table[0] == ["nodes", "devices", "tensorflow (nhwc, graph)", "pytorch (nchw)"]


def test_frameworks_with_a_certificate_are_reported_as_equal(tmp_path: Path) -> None:
    text = rendered(sample.with_certificate(), tmp_path)
    assert "no evidence" not in text
    assert "pytorch, tensorflow were verified to compute the same training step" in text
    assert "| pytorch = tensorflow | 3.5e-07 |" in text
    assert "≠" not in text


def test_unequal_work_is_printed_and_marked_with_the_layer(tmp_path: Path) -> None:
    results = sample.with_certificate(equal=False)
    text = rendered(results, tmp_path)
    table = rows(text, "nodes")
    assert table[0] == ["nodes", "devices", "tensorflow (nhwc, graph) ≠", "pytorch (nchw) ≠"]
    assert table[2][2].startswith("336.2")
    assert "NOT the same work" in text
    assert "stage2.block0.b padding ((0, 0), (0, 0)) instead of ((1, 1), (1, 1))" in text
    assert not results.holds


def test_one_row_a_way_to_differ_where_all_cases_run_on_equally_many_devices(tmp_path: Path) -> None:
    cases = [
        Case.model_validate({"layout": layout, "precision": p})
        for layout in ("nchw", "nhwc")
        for p in ("fp32", "tf32")
    ]
    text = rendered(sample.results([(case, sample.ok_runs(case, 400.0, 3)) for case in cases]), tmp_path)
    table = rows(text, "layout")
    assert table[0] == ["layout", "fp32, batch 32", "tf32, batch 32"]
    assert [row[0] for row in table[2:]] == ["nchw", "nhwc"]


def test_a_missing_baseline_gives_no_speedup(tmp_path: Path) -> None:
    text = rendered(sample.no_baseline(), tmp_path)
    speedups = rows(text.split("## Scaling")[1], "nodes")
    assert [row[2:] for row in speedups[2:]] == [["OOM", "-", "-"], ["2792", "-", "-"]]
    assert "- : no speedup, because" in text


def test_fewer_than_three_runs_have_no_interval_and_the_report_says_so(tmp_path: Path) -> None:
    two = rendered(sample.one_case(2), tmp_path / "two")
    three = rendered(sample.one_case(3), tmp_path / "three")
    assert "an interval needs at least 3" in two
    assert re.search(r"\| 1 \| 1\d+ \|", two)
    assert "an interval needs at least 3" not in three
    assert re.search(r"\| 1 \| 1\d+ \[\d+, \d+\] \|", three)


def test_how_often_the_machine_was_inspected_is_in_the_table_of_runs_and_in_its_sum(tmp_path: Path) -> None:
    results = sample.results([(case_of(), sample.ok_runs(case_of(), 300.0, 3))])
    (case,) = results.cases
    reason = "its window of 0.15 s is shorter than two sampling periods of 0.1 s"
    unchecked = GateCheck(gate=GateName.CPU_SHARED, answer=Answer.UNCHECKED, reason=reason)
    runs = (
        *case.runs[:-1],
        case.runs[-1].model_copy(update={"gates": (unchecked,), "cpu_s_per_sample": 0.0123}),
    )
    changed = results.model_copy(update={"cases": (case.model_copy(update={"runs": runs}),)})
    text = rendered(changed, tmp_path)
    table = rows(text.split("## All runs")[1], "case")
    looks, cpu = table[0].index("watched"), table[0].index("CPU time per sample (ms)")
    assert [row[looks] for row in table[2 : 2 + len(runs)]] == [
        *["37 samples over 3.7 s"] * (len(runs) - 1),
        "not watched",
    ]
    assert table[1 + len(runs)][cpu] == "12.3"
    measured = len(runs)
    assert f"{measured - 1} of {measured} runs (37 samples over 3.7 s in the run with the fewest)" in text
    assert f"During 1 of {measured} runs it was not watched" in text
    assert "(37 samples over 3.7 s" in render_table(changed)


def test_checks_of_the_work_that_had_nothing_to_look_at_are_named(tmp_path: Path) -> None:
    results = sample.one_case()
    (case,) = results.cases
    assert "checks of the work" not in rendered(results, tmp_path)
    lacking = (("loss",), ("loss", "numbers of the samples"), ())
    runs = tuple(
        run.model_copy(update={"measurement": run.measurement.model_copy(update={"work_not_checked": names})})
        for run, names in zip(sample.ok_runs(case.case, 90.0, 3), lacking, strict=True)
        if run.measurement
    )
    cases = (case.model_copy(update={"runs": runs}),)
    changed = results.model_copy(update={"cases": cases})
    sentence = "In 2 of 3 runs of the built-in workers these checks of the work had no data"
    assert sentence in rendered(changed, tmp_path)
    assert "so they do not count as clean: loss, numbers of the samples." in render_table(changed)


def test_a_report_of_an_older_version_says_nothing_of_what_was_inspected(tmp_path: Path) -> None:
    results = sample.one_case()
    (case,) = results.cases
    runs = tuple(run.model_copy(update={"gates": None}) for run in case.runs)
    old = results.model_copy(update={"cases": (case.model_copy(update={"runs": runs}),)})
    assert "watched during the measured window" not in rendered(old, tmp_path)


def test_a_suspect_result_carries_a_sign_a_footnote_and_its_reason(tmp_path: Path) -> None:
    text = rendered(sample.ngc_v100(), tmp_path)
    assert "5889.1†" in text
    assert "- † in doubt" in text
    assert sample.THROTTLED.sentence in text


def test_a_window_that_was_not_steady_is_in_doubt_and_says_by_how_much(tmp_path: Path) -> None:
    text = rendered(sample.real_and_synthetic(), tmp_path)
    assert "8587†" in text
    assert (
        "no, in 1 of 6 runs: settled after 35 measured steps; the mean step time differs from the steady one by 4.3 %"
        in text
    )


def test_a_window_that_never_settled_says_so(tmp_path: Path) -> None:
    drifting = Steadiness(steady=False, settled_after=None, bias=0.002)
    runs = sample.ok_runs(case_of(), 80.0, 3)
    late = sample.measurement(79.0, case_of(), steadiness=drifting)
    runs = (*runs[:2], runs[2].model_copy(update={"measurement": late}))
    text = rendered(sample.results([(case_of(), runs)]), tmp_path)
    assert "no, in 1 of 3 runs: the step time did not settle in the window" in text


def test_only_work_that_was_done_on_several_devices_is_in_the_scaling_table(tmp_path: Path) -> None:
    alone, one, two = case_of(precision=Precision.BF16), case_of(), case_of(devices_per_node=2)
    results = sample.results([(case, sample.ok_runs(case, 80.0, 3)) for case in (alone, one, two)])
    table = rows(rendered(results, tmp_path).split("## Scaling")[1], "precision")
    assert [row[:3] for row in table[2:]] == [["fp32", "1", "1"], ["fp32", "1", "2"]]


def test_a_case_without_options_has_no_sign_for_them_in_its_name(tmp_path: Path) -> None:
    cases = [case_of(), case_of(options={"workers": 4})]
    text = rendered(sample.results([(case, sample.ok_runs(case, 80.0, 3)) for case in cases]), tmp_path)
    assert "| fp32 b32 1n1g | 20 |" in text
    assert "| workers=4 fp32 b32 1n1g | 20 |" in text


def test_real_data_is_set_against_synthetic_data_of_the_same_case(tmp_path: Path) -> None:
    table = rows(rendered(sample.real_and_synthetic(), tmp_path).split("## Real data")[1], "devices")
    assert [(row[0], row[1], row[4].split(" [")[0]) for row in table[2:]] == [
        ("1", "imagenet (native)", "99.7 %"),
        ("8", "imagenet (native)", "85.1 %"),
        ("1", "imagenet (dali-gpu)", "97.2 %†"),
        ("8", "imagenet (dali-gpu)", "92.6 %†"),
    ]


def test_the_largest_batch_is_shown_with_the_number_that_it_became(tmp_path: Path) -> None:
    case = case_of(batch_per_device="max")
    runs = tuple(
        run.model_copy(update={"parameters": Parameters(batch_per_device=144)})
        for run in sample.ok_runs(case, 368.9, 3)
    )
    assert "fp32, batch max (144)" in rendered(sample.results([(case, runs)]), tmp_path)


def test_a_ratio_of_two_batches_that_were_each_the_largest_says_so(tmp_path: Path) -> None:
    def of(devices: int, batch: int, throughput: float) -> tuple[Case, tuple[RunResult, ...]]:
        case = case_of(batch_per_device="max", devices_per_node=devices)
        found = {"parameters": Parameters(batch_per_device=batch)}
        return case, tuple(run.model_copy(update=found) for run in sample.ok_runs(case, throughput, 3))

    separate = rendered(sample.results([of(1, 144, 368.9), of(2, 136, 700.0)]), tmp_path)
    assert "1.90§" in separate
    assert "94.9 %§" in separate
    note = "- § the two sides use different values, chosen by their own short runs: batch per device 136 against 144."
    assert separate.count(note) == 1
    (_, of_two) = csv.DictReader(
        io.StringIO(render_csv(sample.results([of(1, 144, 368.9), of(2, 136, 700.0)])))
    )
    assert of_two["speedup_settled_apart"] == "batch_per_device=136/144"
    assert "§" not in rendered(sample.results([of(1, 144, 368.9), of(2, 144, 700.0)]), tmp_path)


def test_a_suite_that_is_not_finished_says_so_first(tmp_path: Path) -> None:
    overview = rendered(sample.only_failures(), tmp_path).split("## Throughput")[0]
    assert "This suite is not finished" in overview
    assert "No run succeeded" in overview


def test_gates_that_are_off_and_runs_of_unknown_identity_are_reported(tmp_path: Path) -> None:
    results = sample.ngc_v100()
    first, *others = results.cases
    older = first.model_copy(
        update={"runs": (first.runs[0].model_copy(update={"identity": None}), *first.runs[1:])}
    )
    changed = results.model_copy(update={"cases": (older, *others), "gates_off": (GateName.CPU_SHARED,)})
    text = rendered(changed, tmp_path)
    assert "The suite disables these checks, so no run is marked suspect because of them: cpu-shared." in text
    assert "For 1 run (made by an older trainmark) it is not recorded which program ran" in text


def test_an_empty_suite_is_still_a_report(tmp_path: Path) -> None:
    assert "0 cases, 0 runs (0 ok)" in rendered(sample.results([]), tmp_path)


def test_only_files_that_exist_are_linked(tmp_path: Path) -> None:
    results = sample.ngc_v100()
    sample.write_runs(tmp_path, results)
    (tmp_path / results.cases[0].runs[0].directory / "train.log").unlink()
    links = re.findall(r"\]\((runs/[^)]*)\)", render_markdown(results, tmp_path))
    assert len(links) == sum(len(case.runs) for case in results.cases) - 1 + 3  # 3 runs are linked twice
    assert all((tmp_path / link).is_file() for link in links)


def test_environments_that_differ_stand_side_by_side_with_their_cases(tmp_path: Path) -> None:
    one, other = case_of(), case_of(batch_per_device=64)
    moved = tuple(run.model_copy(update={"manifest": "sha256:2"}) for run in sample.ok_runs(other, 90.0, 3))
    manifests = {
        "sha256:1": sample.MANIFEST,
        "sha256:2": sample.manifest(*[{"cpu": {"model": "Other", "cores": 2}, "accelerators": {}}] * 2),
    }
    results = sample.results([(one, sample.ok_runs(one, 80.0, 3)), (other, moved)], manifests=manifests)
    text = rendered(results, tmp_path)
    assert "made in 2 different environments" in text
    assert "| cases | fp32 b32 1n1g | fp32 b64 1n1g |" in text
    assert "8 × Tesla V100-SXM2-32GB, 2 nodes of Other (2 cores)" in text


def test_a_manifest_of_another_shape_shows_what_it_has(tmp_path: Path) -> None:
    results = sample.results(
        [(case_of(), ())], manifests={"x": {"host": {"chip": "M9", "gone": None}, "nodes": 7}}
    )
    text = rendered(results, tmp_path)
    assert "| `host.chip` | M9 |" in text
    assert "unknown hardware (no manifest)" in text


def test_telemetry_is_shown_as_a_range_over_the_runs_of_a_case(tmp_path: Path) -> None:
    case = case_of()
    runs = tuple(
        run.model_copy(
            update={
                "telemetry": (
                    TelemetrySummary(
                        samples=9 + run.repeat, cpu_other_mean=0.01 * run.repeat, tree_rss_bytes_max=2**31
                    ),
                )
            }
        )
        for run in sample.ok_runs(case, 80.0, 3)
    )
    text = rendered(sample.results([(case, runs)]), tmp_path)
    assert "| `samples` | 10 – 12 |" in text
    assert "| `cpu_other_mean` | 0.0100 – 0.0300 |" in text
    assert "| `tree_rss_bytes_max` | 2.000 GiB |" in text


def test_commands_that_differ_in_seed_and_folder_alone_are_shown_once(tmp_path: Path) -> None:
    runs = tuple(
        run.model_copy(
            update={"commands": (f"train.py --steps=2 --seed={run.repeat} --to={run.directory}/x",)}
        )
        for run in sample.ok_runs(case_of(), 80.0, 3)
    )
    text = rendered(sample.results([(case_of(), runs)]), tmp_path)
    of_all = "the commands of its 3 repeats differ at most in the seed and the output folder:"
    assert f"fp32 b32 1n1g, repeat 1; {of_all}" in text
    assert text.count("train.py --steps=2") == 1


def test_commands_that_differ_in_more_than_their_folder_are_all_shown(tmp_path: Path) -> None:
    case = case_of()
    first, second = sample.ok_runs(case, 80.0, 2)
    second = second.model_copy(update={"commands": ("python train.py --seed 2",)})
    text = rendered(sample.results([(case, (first, second))]), tmp_path)
    assert "fp32 b32 1n1g, repeat 1:" in text
    assert "python train.py --seed 2" in text


def test_every_outcome_has_its_own_word_in_every_language(tmp_path: Path) -> None:
    bad = [outcome for outcome in Outcome if outcome is not Outcome.OK]
    cases = [case_of(batch_per_device=i + 1) for i in range(len(bad))]
    results = sample.results(
        [(c, (sample.failed_run(c, o, "why"),)) for c, o in zip(cases, bad, strict=True)]
    )
    for language in Language:
        table = rows(rendered(results, tmp_path, language), "devices" if language is Language.EN else "卡数")
        assert len(set(table[2][1:])) == len(bad)
    assert [o.label for o in bad] == rows(rendered(results, tmp_path), "devices")[2][1:]


def page(*blocks: Paragraph | Bullets | Table | Code) -> str:
    empty = Report(language="en", title="t", subtitle="s", lead="l", sections=(), colophon="c")
    return to_markdown(replace(empty, sections=(Section("s", "s", blocks),)))


TEXT = st.one_of(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1),
    st.text("\\`*_[]()<>|~$&#;-+=.!:/\n\t 1axg", min_size=1),
).filter(lambda text: printable(text).strip())
PARSER = MarkdownIt("commonmark").enable(["table", "strikethrough"])


def leaves(markdown: str) -> tuple[str, list[str]]:
    """Return the text between the first heading and the rule at the end, and the kinds of its tokens."""
    kinds, words = [], []
    for token in PARSER.parse(markdown)[9:-4]:
        for inner in token.children or [token]:
            kinds.append(inner.type)
            if inner.type in ("text", "code_inline", "fence", "text_special"):
                words.append(inner.content)
    return "".join(words), kinds


@given(TEXT)
def test_any_text_stays_text_in_a_paragraph(text: str) -> None:
    shown, kinds = leaves(page(Paragraph(plain(text))))
    assert shown == " ".join(printable(text).split())
    assert set(kinds) <= {"paragraph_open", "paragraph_close", "text", "text_special"}


@given(TEXT)
def test_any_text_stays_text_in_a_list(text: str) -> None:
    shown, kinds = leaves(page(Bullets((plain(text),))))
    assert shown == " ".join(printable(text).split())
    assert kinds.count("list_item_open") == 1
    assert not {"link_open", "html_inline", "em_open", "strong_open", "heading_open", "s_open"} & set(kinds)


@given(TEXT, TEXT)
def test_any_text_stays_text_in_a_table(one: str, other: str) -> None:
    table = Table("", (Column("a"), Column("b")), ((cell(one), Cell(plain(other))),))
    shown, kinds = leaves(page(table))
    assert shown == "ab" + " ".join(printable(one).split()) + " ".join(printable(other).split())
    assert kinds.count("td_open") == 2
    assert not {"link_open", "html_inline", "em_open", "strong_open", "code_inline", "s_open"} & set(kinds)


@given(TEXT)
def test_any_command_stays_a_listing(text: str) -> None:
    listing = Code("how", text)
    tokens = [token for token in PARSER.parse(page(listing)) if token.type == "fence"]
    assert [token.content.strip("\n") for token in tokens] == [printable(text).strip("\n")]


def test_two_units_never_share_a_table(tmp_path: Path) -> None:
    text = rendered(sample.two_units(), tmp_path)
    sections = {part.split("\n")[0]: part for part in text.split("\n## ")}
    for name in ("Throughput", "Scaling", "Real data against synthetic data", "All runs"):
        tables = sections[name].split("\n### ")[1:]
        units = [
            unit for table in tables for unit in ("images/s", "sequences/s") if unit in table.split("|")[0]
        ]
        assert set(units) == {"images/s", "sequences/s"}, name
        for table, unit in zip(tables, units, strict=True):
            shown = set(re.findall(r"[a-z]+/s\b", table))
            assert shown == {unit}, (name, table)


def test_a_case_without_a_number_is_with_those_of_its_model(tmp_path: Path) -> None:
    text = rendered(sample.two_units(), tmp_path)
    assert re.search(r"### [^\n]*sequences/s\n\n[^#]*OOM", text.split("## Throughput")[1].split("\n## ")[0])


def test_a_description_is_text_in_every_dialect_of_markdown(tmp_path: Path) -> None:
    """A backslash before ``<`` is text's escape in CommonMark, and no escape at all in Markdown's first dialect."""
    described = sample.one_case().model_copy(update={"description": "a <script>alert(1)</script> &lt; \\<b>"})
    text = rendered(described, tmp_path)
    assert "a &lt;script>alert(1)&lt;/script> &amp;lt; \\\\&lt;b>" in text
    assert "<" not in re.sub(r"(?s)```.*?```|`[^`]*`", "", text)


def test_a_doubt_that_all_runs_of_a_case_have_is_one_row(tmp_path: Path) -> None:
    text = rendered(sample.foreign_program(), tmp_path).split("## Suspect runs")[1]
    found = rows(text.split("\n## ")[0], "case")
    assert [row[:3] for row in found[2:]] == [
        ["word_language_model b16", "1, 2, 3", "the work"],
        ["word_language_model b32", "1, 2, 3", "the work"],
    ]


def test_the_number_of_runs_is_no_section_if_no_case_is_finished(tmp_path: Path) -> None:
    results = sample.waited_for()
    assert "## Number of runs" in rendered(results, tmp_path)
    unfinished = [
        case.model_copy(
            update={"repeats": case.repeats.model_copy(update={"half_width": None, "ended_by": None})}
        )
        for case in results.cases
        if case.repeats is not None
    ]
    results = results.model_copy(update={"cases": tuple(unfinished)})
    assert "## Number of runs" not in rendered(results, tmp_path)
