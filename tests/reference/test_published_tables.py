"""Published tables: every row of the collected pages, and what their own numbers say about each other."""

import csv
import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import published_tables_page
from trainmark.cli.reference import app
from trainmark.errors import InputError
from trainmark.reference.audit import Kind, Statement, audit, counted_models
from trainmark.reference.table import PublishedTable, find_tables, load_tables, read_table

ROOT = Path(__file__).parents[2]
COLLECTED = ROOT.parent / "shared" / "references"
SERIES = {
    "megatron_bridge.csv": ("megatron-bridge", "tokens_s_gpu"),
    "llm_foundry.csv": ("llm-foundry", "tokens_s"),
    "torchtitan.csv": ("torchtitan", "tokens_s_gpu"),
    "tpu_recipes.csv": ("tpu-recipes", "tokens_s_device"),
    "mlperf_v5.0.csv": ("mlperf", "samples_s"),
}
FACTS = {
    "schema": 1,
    "series": "page",
    "source": {"document": "Page", "section": "Table"},
    "framework": "pytorch",
    "unit": "tokens/s",
}


def table(rows: str, release: str = "1", **facts: Any) -> PublishedTable:
    return read_table(
        {**FACTS, "name": f"page-{release}", "release": release, **facts, "rows": rows}, "page.yaml"
    )


def texts(*tables: PublishedTable) -> list[tuple[str, str]]:
    return [(statement.kind, statement.text) for statement in audit(tables)]


@pytest.mark.skipif(not COLLECTED.is_dir(), reason="the collected tables are not beside this checkout")
@pytest.mark.parametrize("name", SERIES)
def test_every_collected_row_is_there_with_its_digits(name: str) -> None:
    series, column = SERIES[name]
    with (COLLECTED / name).open(encoding="utf-8") as lines:
        collected = Counter(row[column] for row in csv.DictReader(lines))
    own = Counter(row.rate for one in load_tables() if one.series.startswith(series) for row in one.rows)

    assert own == collected


@cache
def of_all_tables() -> tuple[Statement, ...]:
    return tuple(audit(load_tables()))


def found(kind: Kind, *words: str) -> list[Statement]:
    every = of_all_tables()
    return [
        one for one in every if one.kind is kind and all(word in f"{one.case} {one.text}" for word in words)
    ]


def test_the_changed_count_of_operations_is_found_with_its_arithmetic() -> None:
    (changed,) = found(Kind.CHANGED_COUNT)

    assert changed.tables == ("megatron-bridge-26.04.01", "megatron-bridge-26.06")
    assert "gpt_oss_120b" in changed.case
    assert "27.18 GFLOP per token in 26.04.01 (5 rows) and 32.59 in 26.06 (3 rows), +19.9%" in changed.text


def test_the_loss_of_a_recipe_between_two_releases_is_found() -> None:
    (loss,) = found(Kind.CHANGED_RATE, "gpt_oss_120b", "DGX-GB300", "26.06.01 (")

    assert loss.text == "33166 tokens/s of a device in 26.06, 20288 in 26.06.01 (-38.8%) by an equal recipe"


def test_nothing_else_is_called_a_contradiction_than_one_row() -> None:
    (row,) = found(Kind.CONTRADICTION)

    assert "SFT" in row.case
    assert row.text.startswith("1877 TFLOP/s / 4312 tokens/s of a device = 435.3 GFLOP per token")
    assert f"{1877e3 / 4312:.4g}" == "435.3"


def test_a_figure_of_one_device_has_the_rate_of_all() -> None:
    (table_,) = find_tables(["torchtitan-2024.12"])
    first = next(iter(table_.references()))

    assert (first.text, first.value) == ("5762 tokens/s per device", 5762 * 8)
    assert (first.nodes, first.recipe["activation_checkpointing"]) == (1, "selective")


def test_totals_that_do_not_fit_their_parts_are_a_contradiction() -> None:
    rows = "model,devices,rate,rate_per_device,samples_per_s,sequence_length\nm,8,8000,1200,7.8,1024\n"

    assert texts(table(rows)) == [
        (
            "contradiction",
            "1200 of one device x 8 devices = 9600, but the row prints 8000 of all (ratio 1.200)",
        )
    ]


def test_a_number_that_was_cut_instead_of_rounded_is_no_contradiction() -> None:
    assert texts(table("model,devices,rate,samples_per_s,sequence_length\nm,8,8100,7,1024\n")) == []


def test_more_than_the_device_can_do_is_a_contradiction() -> None:
    head = "model,device,devices,precision,rate,tflops_per_device,mfu\n"

    ((_, impossible), (_, other_peak)) = texts(table(head + "m,H100,8,bf16,100,1200,121.3\n"))[:2]
    assert impossible == "the MFU of 121.3 % is above 100 %"
    assert other_peak == "1200 TFLOP/s are more than the 989.4 TFLOP/s that H100 does at most in bf16"
    (wrong,) = texts(table(head + "m,H100,8,bf16,100,400,20.2\n"))
    assert (
        "400 TFLOP/s / 20.2 % = a peak of 1980 TFLOP/s, but H100 does 989.4 TFLOP/s in bf16 (ratio 2.00)"
        in wrong
    )


def test_a_row_of_another_measurement_is_found_by_its_operations_per_token() -> None:
    rows = (
        "model,devices,rate,tflops_per_device\nm,1,10001,450\nm,2,20003,450\nm,4,40007,450\nm,8,80009,460\n"
    )

    (odd,) = texts(table(rows))
    assert odd[1].startswith(
        "460 TFLOP/s / 10001.1 tokens/s of a device = 45.99 GFLOP per token, but the median"
    )


def test_coarse_rates_are_allowed_for() -> None:
    rows = [f"m{n},8,{1024 + 32 * n},{(1024 + 32 * n) * 0.45 * 1.01:.0f}" for n in range(12)]
    text = "model,devices,rate,tflops_per_device\n" + "\n".join(rows)

    assert texts(table(text, per_device=True)) == [
        (
            "coarse",
            "12 of 12 rates are multiples of 32: they are known to 32 tokens/s at best, 3.1% of the smallest",
        )
    ]


@pytest.mark.parametrize(
    ("many", "sentence"),
    [
        (
            "m,64,7000,8",
            "more devices train less in all: 1000 tokens/s of a device with 8, 109.375 with 64 (-89.1%)",
        ),
        (
            "m,64,80000,64",
            "a device is faster among more devices: 1000 tokens/s of a device with 8, 1250 with 64",
        ),
        ("m,64,80000,256", None),
    ],
)
def test_a_device_that_is_faster_at_scale_is_reported_unless_its_batch_is_larger(
    many: str, sentence: str | None
) -> None:
    statements = texts(table(f"model,devices,rate,global_batch\nm,8,8000,8\n{many}\n"))

    assert [text.startswith(sentence or "") for _, text in statements] == [True] * (sentence is not None)


def test_an_equal_case_is_compared_with_the_last_release_that_has_it() -> None:
    head = "model,devices,rate,tflops_per_device,tensor_parallel\n"
    first = table(f"{head}m,8,8000,45,2\n", "1.9")
    second = table(f"{head}other,8,8000,45,2\n", "1.10")
    third = table(f"{head}m,8,6000,45,2\nm,8,1,1,4\n", "2")

    statements = texts(first, second, third)
    assert ("changed-rate", "8000 tokens/s in 1.9, 6000 in 2 (-25.0%) by an equal recipe") in statements
    assert [kind for kind, _ in statements].count("changed-rate") == 1
    assert (first.order < second.order < third.order) is True


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"rows": "model,devices,rate,speed\nm,8,1,2\n"}, r"page\.yaml: rows: .*unknown column 'speed'"),
        ({"rows": "model,devices,rate\nm,8\n"}, r"page\.yaml: rows: .*row 1: 3 columns are expected"),
        ({"rows": "model,devices,rate\nm,8,1\nm,eight,1\n"}, r"row 2: devices: .*integer"),
        ({"rows": "model,devices,rate\nm,8,fast\n"}, r"row 1: rate: "),
        (
            {"rows": "model,devices,rate\nm,8,1\nm,8,2\n"},
            r"two rows are the same case: 'page-1-m-device-8gpu'",
        ),
        ({"schema": 2}, r"page\.yaml: schema: "),
        ({"page": 3}, r"page\.yaml: page: "),
    ],
)
def test_a_wrong_table_is_refused_with_its_place(change: dict[str, Any], sentence: str) -> None:
    document = {**FACTS, "name": "page-1", "release": "1", "rows": "model,devices,rate\nm,8,1\n", **change}

    with pytest.raises(InputError, match=sentence):
        read_table(document, "page.yaml")


def test_the_command_prints_tables_and_refuses_an_unknown_one() -> None:
    text = CliRunner().invoke(app, ["audit", "torchtitan", "tpu-recipes"]).stdout
    lines = CliRunner().invoke(app, ["audit", "megatron-bridge", "--json"]).stdout.splitlines()
    wrong = CliRunner().invoke(app, ["audit", "megatron"])

    assert "torchtitan-2024.12: 9 rows, 0 statements" in text
    assert "gemma3_12b                                   78.04, 78.04, 78.04" in text
    assert {json.loads(line)["tables"][-1] for line in lines} >= {"megatron-bridge-26.06.01"}
    assert isinstance(wrong.exception, InputError)
    assert "no published table 'megatron'" in str(wrong.exception)


def test_the_page_has_what_the_audit_finds() -> None:
    page = published_tables_page.SECTION

    assert page.page(published_tables_page.statements()) == page.path.read_text(encoding="utf-8")


def test_a_counted_model_has_the_range_of_its_rows() -> None:
    (one,) = counted_models(table("model,devices,rate,tflops_per_device\nm,1,1000,45\nm,2,2000,46\n"))

    assert (one.rows, one.low, one.middle, one.high) == (2, 45.0, 45.5, 46.0)


def test_operations_per_token_are_compared_with_6n_and_attention() -> None:
    """Megatron-Bridge's GPT-OSS 120B was counted otherwise until 26.04.01; all other known models fit one variant."""
    others = [statement for statement in of_all_tables() if statement.kind is Kind.CONVENTION]
    counts = {
        (table.series, one.counts) for table in load_tables() for one in counted_models(table) if one.counts
    }

    assert {statement.case for statement in others} == {"gpt_oss_120b, sequence length 4096"}
    assert [statement.tables[-1].rpartition("-")[2] for statement in others] == [
        "26.02",
        "26.02.01",
        "26.04",
        "26.04.01",
    ]
    assert "27.18 GFLOP per token (5 rows); 6 x 5.131 G active parameters = 30.79" in others[-1].text
    assert counts == {
        ("llm-foundry", "full"),
        ("megatron-bridge", "causal"),
        ("megatron-bridge", "other"),
    } | {("llm-foundry", "causal")}
