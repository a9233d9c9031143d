"""The first screen: which cases it shows, with which baseline, and what it says about doubts."""

import re
from pathlib import Path

import pytest
import sample_results as sample

from trainmark.cli.main import main
from trainmark.errors import InputError
from trainmark.files import write_atomically
from trainmark.report import Language, render_markdown
from trainmark.report.blocks import Bullets, Section, Style, Table
from trainmark.report.writing import compose
from trainmark.schema.case import case_of
from trainmark.schema.energy import EnergySource, EnergyUse
from trainmark.schema.measurement import About, GateName, Suspicion
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import Results
from trainmark.schema.suite import Requirement
from trainmark.store import read_results
from trainmark.suite import load_suite

STORED = Path(__file__).parents[2] / "docs" / "results"


def glance(results: Results, baseline: str | None = None) -> Section:
    report = compose(results, Path("/nowhere"), Language.EN, baseline=baseline)
    return report.sections[0]


def rows(section: Section) -> list[list[str]]:
    """Return the cells' texts, each with its detail."""
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    return [
        [f"{''.join(span.text for span in cell.spans)} {cell.detail}".strip() for cell in row]
        for row in table.rows
    ]


def reasons(section: Section) -> list[str]:
    (bullets,) = (block for block in section.blocks if isinstance(block, Bullets))
    return ["".join(span.text for span in item) for item in bullets.items]


def stored(name: str) -> Results:
    return read_results(STORED / name / "results.json")


def test_six_frameworks_are_compared_with_the_first_case_of_the_suite_on_equal_settings() -> None:
    found = rows(glance(stored("frameworks")))
    assert [row[0].split()[0] for row in found] == [
        "pytorch", "tensorflow", "mxnet", "paddle", "jax", "mindspore",
    ]  # fmt: skip
    assert {" ".join(row[0].split()[1:]) for row in found} == {"synthetic fp32 b8 1n1g"}
    assert found[0][1:3] == ["195.59 [184.02, 211.25]", "1 (baseline)"]
    assert found[1][1:3] == ["162.20† [146.95, 186.05]", "0.83† [0.76, 0.93]"]
    assert {row[3] for row in found} == {"compute"}


def test_models_with_their_own_units_have_a_row_each_and_no_ratio() -> None:
    section = glance(stored("h200-language"))
    assert [row[1].split()[1] for row in rows(section)] == [
        "tokens/s", "tokens/s", "sequences/s", "samples/s", "samples/s",
    ]  # fmt: skip
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    assert "ratio" not in [column.title for column in table.columns]


def with_energy(results: Results) -> Results:
    """Return the results with 0.5 J an image in each run of the first case, and no counters elsewhere."""
    first, *rest = results.cases
    use = EnergyUse(
        source=EnergySource.GPUS, joules=4000.0, watts=185.0, per_unit_j=0.5, unit="image", devices=1
    )
    runs = tuple(run.model_copy(update={"energy": use}) for run in first.runs)
    return results.model_copy(update={"cases": (first.model_copy(update={"runs": runs}), *rest)})


def test_energy_is_on_the_first_screen_where_it_was_measured() -> None:
    results = sample.two_sizes()
    with_it, without = (glance(one).blocks[0] for one in (with_energy(results), results))
    assert isinstance(with_it, Table)
    assert isinstance(without, Table)
    titles = [column.title for column in with_it.columns]
    assert titles.index("energy") == titles.index("bound by") - 1
    assert [row[titles.index("energy")] for row in rows(glance(with_energy(results)))] == [
        "500 mJ / image",
        "-",
    ]
    assert "energy" not in [column.title for column in without.columns]


def test_published_figures_are_in_the_report_with_their_deviation() -> None:
    report = compose(sample.ngc_v100(), Path("/nowhere"), Language.EN)
    section = next(one for one in report.sections if one.anchor == "published")
    found = {row[0]: row[1:] for row in rows(section)}
    measured, published, deviation, source = found["amp-fp16 b256 1n1g"]
    # The figure that a team could not reach: its own log has another memory format.
    assert (measured, published) == ("790.0 images/s", "1156 images/s")
    assert deviation.startswith("-31.7 % [-3")
    assert source.startswith("ngc-pytorch-resnet50-v100-32gb-amp-1gpu ")
    assert found["amp-fp16 b256 4n8g"][2].startswith("+0.0 % [")


def test_a_case_without_a_published_figure_has_no_section() -> None:
    report = compose(stored("h200"), Path("/nowhere"), Language.EN)
    assert "published" not in [section.anchor for section in report.sections]


def test_the_reader_chooses_the_baseline() -> None:
    found = rows(glance(stored("frameworks"), "framework=jax,data=synthetic,devices_per_node=1"))
    assert [row[2] for row in found if row[0].startswith("jax")] == ["1 (baseline)"]
    assert [row[2] for row in found if row[0].startswith("pytorch")] == ["10.06 [7.07, 14.12]"]


def test_the_suite_chooses_the_baseline_and_the_reader_overrules_it() -> None:
    results = sample.two_sizes()
    second = results.cases[1]
    chosen = results.model_copy(update={"baseline": second.id})
    labelled = {row[2]: row[0] for row in rows(glance(chosen))}
    assert labelled["1 (baseline)"] == rows(glance(results, second.id))[1][0]
    first = {row[2]: row[0] for row in rows(glance(chosen, results.cases[0].id))}
    assert first["1 (baseline)"] != labelled["1 (baseline)"]


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--baseline", "framework=jaxx"], "--baseline framework=jaxx: no case has this value"),
        (["--baseline", "framwork=jax"], "'framwork' is not an axis"),
        (["--baseline", "framework=pytorch"], "and a baseline is one: add conditions"),
        (["--baseline", ""], "has no condition"),
        (["--baseline", "framework=jax", "--to", "csv"], "--baseline is for Markdown and HTML"),
    ],
)
def test_a_baseline_that_cannot_be_meant_is_one_line_and_exit_2(
    words: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_atomically(tmp_path / "results.json", sample.two_sizes().to_json())
    to = [] if "--to" in words else ["--to", "md"]
    assert main(["report", str(tmp_path), *to, *words]) == 2
    reported = capsys.readouterr()
    assert complaint in reported.err
    assert (reported.err.count("\n"), reported.out) == (1, "")


def test_a_baseline_without_a_number_is_refused_with_its_outcome(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = sample.ngc_v100()
    write_atomically(tmp_path / "results.json", results.to_json())
    failed = next(case for case in results.cases if case.estimate is None)
    assert main(["report", str(tmp_path), "--to", "md", "--baseline", failed.id]) == 2
    assert f"{failed.id} has no number (OOM)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (
            "baseline: precision=fp16x",
            "suite.yaml:3: baseline: the expression precision=fp16x: no case has this value",
        ),
        (
            "baseline: model=resnet50_v1.5",
            "suite.yaml:3: baseline: the expression 'model=resnet50_v1.5' matches 2",
        ),
    ],
)
def test_a_suite_whose_baseline_is_no_case_names_the_line(line: str, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text(f"name: s\naxes: {{precision: [fp32, amp-fp16]}}\n{line}\n")
    with pytest.raises(InputError, match="baseline") as error:
        load_suite(path)
    assert complaint in str(error.value)


def test_models_that_are_not_compared_are_shown_by_their_fastest_case(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trainmark.report.sections.summary.MOST_ROWS", 3)
    cases = [
        (case, sample.ok_runs(case, 100.0 + 10 * i, 3))
        for i, case in enumerate(
            case_of(model=model, compiler=compiler)
            for model in ("resnet50_v1.5", "mobilenet_v1")
            for compiler in ("torch.compile-fused", "cuda-graph", "none")
        )
    ]
    section = glance(sample.results([*cases[:3], *reversed(cases[3:])]))

    assert all("none" in row[0].split() for row in rows(section))
    assert [row[1].split()[0] for row in rows(section)] == ["120.0", "150.0"]
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    assert "2 of 6 measured cases are shown, each the fastest of its kind" in table.footnotes[0]


def test_at_most_eight_rows_are_shown_and_the_note_says_of_how_many() -> None:
    cases = [
        (case, sample.ok_runs(case, 100.0 + 10 * i, 3))
        for i, case in enumerate(
            case_of(precision=precision, framework=framework, batch_per_device=batch)
            for precision in ("fp32", "tf32", "amp-fp16", "amp-bf16")
            for framework in ("pytorch", "jax")
            for batch in (32, 64, 128)
        )
    ]
    section = glance(sample.results(cases))
    found = rows(section)
    assert len(found) == 8
    assert all("b32" in row[0] for row in found)
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    assert "8 of 24 measured cases are shown" in table.footnotes[0]


def test_what_to_distrust_is_named_with_its_number() -> None:
    assert reasons(glance(stored("frameworks")))[-1] == "The runs were made in 6 different environments."
    unfinished = reasons(glance(stored("h100-scaling")))
    assert unfinished[0].startswith("This suite is not finished")
    failed = reasons(glance(sample.ngc_v100()))
    assert failed[0] == "Runs without a result: 1 timeout, 2 OOM."


def test_results_without_any_doubt_say_how_often_the_machine_was_watched() -> None:
    found = reasons(glance(sample.one_case(3)))
    assert found[0] == "No check found a reason to doubt these numbers."
    assert "(37 samples over" in found[1]


def failed_program() -> Results:
    """A program by its command line whose only run gave no number."""
    case = sample.foreign_program().cases[0].case
    reason = (
        "train.log is unknown: no line of it repeats with an increasing counter; the program printed nothing"
    )
    return sample.results([(case, (sample.failed_run(case, Outcome.INVALID, reason),))])


def test_the_reason_of_the_only_kind_of_failure_is_on_the_first_screen() -> None:
    (only,) = reasons(glance(failed_program()))
    assert only.startswith("Runs without a result: 1 invalid (train.log is unknown: no line of it repeats")


def test_a_program_without_a_measured_run_has_no_steps_of_a_protocol(tmp_path: Path) -> None:
    assert "warm-up steps" not in render_markdown(failed_program(), tmp_path)
    assert "warm-up steps" in render_markdown(sample.only_failures(), tmp_path)


def test_failed_runs_alone_give_no_table() -> None:
    section = glance(sample.only_failures())
    assert [type(block) for block in section.blocks] == [Bullets]


@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md", "docs/how-to/report.md"])
def test_pictures_show_finished_results_whose_runs_name_their_program(page: str) -> None:
    text = (STORED.parents[1] / page).read_text(encoding="utf-8")
    shown = set(re.findall(r"pictures/([\w-]+)-(?:1300|400)\.png", text))
    assert shown
    for name in (name for name in shown if not name.startswith("example-")):
        results = stored(name)
        assert results.complete
        runs = [run for case in results.cases for run in case.runs if run.measurement is not None]
        assert all(run.identity is not None for run in runs)


def notes(section: Section) -> str:
    (table,) = (block for block in section.blocks if isinstance(block, Table))
    return " ".join(table.footnotes)


def test_a_row_that_differs_from_its_baseline_in_more_than_its_framework_is_named() -> None:
    """JAX ran out of memory in FP32, so its row of that model is TF32 while the baseline is FP32."""
    section = glance(sample.precisions_of_two_frameworks())
    (unlike,) = (row for row in rows(section) if "tf32" in row[0])

    assert unlike[0].startswith("jax gpt2_124m")
    assert unlike[2] == "2.304 [2.292, 2.316]"
    assert f"{unlike[0]} also differs from its baseline in precision" in notes(section)
    assert notes(section).count("also differs") == 1


def test_an_interval_of_a_ratio_is_not_rounded_to_a_point() -> None:
    found = [
        row[2] for row in rows(glance(sample.precisions_of_two_frameworks())) if "baseline" not in row[2]
    ]

    assert len(found) == 3
    for text in found:
        _, low, high = re.findall(r"[\d.]+", text)
        assert low != high, text


def test_commands_in_advice_are_code_and_have_no_backticks() -> None:
    case = case_of(device="cpu")
    busy = Suspicion(code=GateName.CPU_SHARED, sentence="others took 90 % of the cores", about=About.MACHINE)
    runs = tuple(run.model_copy(update={"suspicions": (busy,)}) for run in sample.ok_runs(case, 100.0, 3))
    results = sample.results([(case, runs)])
    (overview,) = (
        one for one in compose(results, Path("/nowhere"), Language.EN).sections if one.anchor == "overview"
    )
    spans = [
        span
        for block in overview.blocks
        if isinstance(block, Bullets)
        for item in block.items
        for span in item
    ]

    assert "trainmark run --wait-quiet MINUTES" in [span.text for span in spans if span.style is Style.CODE]
    assert not [span.text for span in spans if "`" in span.text]


def test_a_label_leaves_out_an_axis_that_all_cases_of_its_tasks_have_in_common() -> None:
    found = [row[0] for row in rows(glance(sample.precisions_of_two_frameworks()))]

    assert found == [
        "pytorch resnet50_v1.5 fp32 b32 1n1g", "jax resnet50_v1.5 fp32 b32 1n1g",
        "pytorch gpt2_124m 1024tok fp32 b32 1n1g", "jax gpt2_124m 1024tok tf32 b32 1n1g",
        "pytorch bert_base 128tok fp32 b32 1n1g", "jax bert_base 128tok fp32 b32 1n1g",
    ]  # fmt: skip


def test_what_the_suite_requires_is_on_the_first_screen_with_its_verdict() -> None:
    results = stored("demo")
    unit = results.cases[0].unit
    required_of = results.model_copy(
        update={"require": (Requirement(throughput=f"1000000 {unit}"),), "findings": None}
    )
    for language, words in ((Language.EN, "MISSED: "), (Language.ZH, "未达到：")):
        section = compose(required_of, Path("/nowhere"), language).sections[0]
        required = next(block for block in section.blocks if isinstance(block, Bullets))
        lines = ["".join(span.text for span in item) for item in required.items]
        assert any(line.startswith(words) for line in lines)
        assert any(" is required" in line for line in lines) is (language is Language.EN)
