"""Suites from YAML: what expands to what, and what each mistake is told."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trainmark.errors import InputError
from trainmark.schema.case import Case, axes_of, case_of
from trainmark.schema.precision import Precision
from trainmark.schema.suite import Protocol, Suite
from trainmark.suite import dump_suite, load_suite, select
from trainmark.suite.matrix import Matrix, expand
from trainmark.tasks import TASKS
from trainmark.worker.core.arguments import parse

SUITE = """\
name: sample
protocol: {name: dlperf, steps: 30, warmup_steps: 5}
limits: {memory: 8GiB}
defaults: {model: resnet50_v1.5}
axes:
  precision: [fp32, amp-bf16]
  batch_per_device: [8, 16]
zip:
  - nodes: [1, 1, 4]
    devices_per_node: [1, 2, 8]
exclude:
  - {precision: fp32, batch_per_device: 16}
include:
  - {framework: pytorch, layout: nhwc}
"""


def load(tmp_path: Path, text: str) -> Suite:
    path = tmp_path / "suite.yaml"
    path.write_text(text)
    return load_suite(path)


def test_a_case_that_differs_in_a_count_is_what_it_is_alone(tmp_path: Path) -> None:
    for case in load(tmp_path, SUITE).cases:
        alone = Case.model_validate({axis: case.value(axis) for axis in case.axes})

        assert (case, case.id, case.texts) == (alone, alone.id, alone.texts)


def test_the_matrix_is_the_product_less_the_excluded_plus_the_included(tmp_path: Path) -> None:
    cases = load(tmp_path, SUITE).cases
    assert [(c.precision.value, c.batch_per_device, c.topology, c.value("layout").value) for c in cases] == [
        ("fp32", 8, "1n1g", "nchw"),
        ("fp32", 8, "1n2g", "nchw"),
        ("fp32", 8, "4n8g", "nchw"),
        ("amp-bf16", 8, "1n1g", "nchw"),
        ("amp-bf16", 8, "1n2g", "nchw"),
        ("amp-bf16", 8, "4n8g", "nchw"),
        ("amp-bf16", 16, "1n1g", "nchw"),
        ("amp-bf16", 16, "1n2g", "nchw"),
        ("amp-bf16", 16, "4n8g", "nchw"),
        ("fp32", 32, "1n1g", "nhwc"),
    ]


def test_a_preset_protocol_keeps_what_the_suite_does_not_change(tmp_path: Path) -> None:
    protocol = load(tmp_path, SUITE).protocol
    assert (protocol.steps, protocol.warmup_steps, protocol.min_repeats, protocol.max_repeats) == (
        30,
        5,
        5,
        5,
    )


def test_memory_is_read_with_its_unit(tmp_path: Path) -> None:
    assert load(tmp_path, SUITE).limits.memory == 8 * 2**30


def test_the_suite_as_resolved_reads_back_to_the_same_suite(tmp_path: Path) -> None:
    suite = load(tmp_path, SUITE)
    (tmp_path / "elsewhere").mkdir()
    again = tmp_path / "elsewhere" / "suite.yaml"
    again.write_text(dump_suite(suite))
    assert load_suite(again) == suite


def test_the_suite_as_resolved_names_what_its_task_has_by_default_today(tmp_path: Path) -> None:
    suite = load(tmp_path, "name: x\naxes: {model: [wide_deep, bert_base]}\n")
    clicks, text = yaml.safe_load(dump_suite(suite))["cases"]
    assert (clicks["vocabulary"], clicks["embedding_width"], clicks["table_gradients"]) == (
        2322444,
        16,
        "dense",
    )
    assert (text["sequence_length"], text["predictions"], text["padding"]) == (128, 20, 0)


def test_a_value_that_is_the_tasks_default_and_not_the_models_reads_back(tmp_path: Path) -> None:
    suite = load(tmp_path, "name: x\ndefaults: {model: dlrm}\naxes: {embedding_width: [16, 128]}\n")
    again = tmp_path / "again.yaml"
    again.write_text(dump_suite(suite))
    assert [case.value("embedding_width") for case in load_suite(again).cases] == [16, 128]


@pytest.mark.parametrize(("length", "usual"), [(128, 20), (512, 80), (48, 7), (4, 1)])
def test_the_hidden_words_follow_the_length_unless_they_are_given(
    length: int, usual: int, tmp_path: Path
) -> None:
    assert case_of(model="bert_tiny", sequence_length=length).value("predictions") == usual
    assert TASKS["masked-lm"].make is not None
    made = TASKS["masked-lm"].make.model_validate({"sequences": 1, "sequence_length": length})
    assert made.model_dump()["predictions"] == usual
    own = parse(("--framework=pytorch", "--model=bert_tiny", f"--sequence-length={length}"), 1)
    assert vars(own)["predictions"] == usual
    text = f"name: x\ndefaults: {{model: bert_base, sequence_length: {length}}}\n"
    suite = load(tmp_path, f"{text}axes: {{predictions: [19, 20, 80]}}\ninclude: [{{batch_per_device: 8}}]\n")
    again = tmp_path / "again.yaml"
    again.write_text(dump_suite(suite))
    assert [case.value("predictions") for case in suite.cases] == [19, 20, 80, usual]
    assert load_suite(again) == suite


def test_an_axis_that_varies_in_two_groups_is_an_error_and_loses_no_case(tmp_path: Path) -> None:
    group = "  - {model: [%s], batch_per_device: [8, 16]}\n"
    other = "  - {model: [%s], precision: [fp32, amp-bf16]}\n"
    text = f"name: x\nzip:\n{group % 'gpt2_tiny, gpt2_124m'}{other % 'llama_tiny, llama3.2_1b'}"
    with pytest.raises(InputError, match=r"suite.yaml:4: zip\[1\].model: is listed in an earlier group too"):
        load(tmp_path, text)


def test_paths_count_from_the_suites_file(tmp_path: Path) -> None:
    text = SUITE + "datasets: {photos: {path: data/photos}}\ncards: [cards/mine.yaml]\n"
    suite = load(tmp_path, text)
    assert suite.datasets["photos"].path == str(tmp_path / "data/photos")
    assert suite.cards == (str(tmp_path / "cards/mine.yaml"),)


ENVIRONMENTS = "environment:\n  pytorch: system\n"


def test_each_framework_may_have_an_environment_of_its_own(tmp_path: Path) -> None:
    suite = load(tmp_path, SUITE + ENVIRONMENTS)
    assert suite.environment == {"pytorch": "system"}
    again = tmp_path / "again.yaml"
    again.write_text(dump_suite(suite))
    assert load_suite(again) == suite


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            "pytroch: system",
            ":16: environment.pytroch: no case of this suite has this framework; did you mean",
        ),
        (
            "jax: system",
            ":16: environment.jax: no case of this suite has this framework (the suite's: pytorch)",
        ),
        ("pytorch: 3", ":16: environment.pytorch: input should be a valid string, but it is 3"),
        ("py torch: system", ":16: environment.py torch: string should match pattern"),
        ("- pytorch", ":15: environment: input should be a valid string, but it is ['pytorch']"),
    ],
)
def test_an_environment_that_no_framework_can_have_is_an_error_with_its_line(
    tmp_path: Path, wrong: str, message: str
) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, SUITE + ENVIRONMENTS.replace("pytorch: system", wrong))
    assert f"suite.yaml{message}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_equal_cases_stand_once(tmp_path: Path) -> None:
    suite = load(tmp_path, "name: x\naxes: {precision: [fp32]}\ninclude: [{precision: fp32}]\n")
    assert len(suite.cases) == 1


MISTAKES = [
    ("precision: [fp32", "precison: [fp32", ":6: axes.precison: is not an axis; did you mean 'precision'?"),
    ("amp-bf16]", "amp-bf61]", ":6: axes.precision[1]: 'amp-bf61' is not known; did you mean 'amp-bf16'?"),
    ("[8, 16]", "[8, x]", ":7: axes.batch_per_device[1]: input should be a valid integer, but it is 'x'"),
    ("[8, 16]", "[8, 0]", ":7: axes.batch_per_device[1]: input should be greater than 0, but it is 0"),
    ("[8, 16]", "[8, yes]", ":7: axes.batch_per_device[1]: input should be a valid integer, but it is True"),
    ("steps: 30", "steps: 30.5", ":2: protocol.steps: input should be a valid integer, but it is 30.5"),
    ("[8, 16]", "[]", ":7: axes.batch_per_device: has no values"),
    ("steps: 30", "steps: 4", ":2: protocol: steps (4) must be more than warmup_steps (5)"),
    ("warmup_steps: 5", "warmup_steps: 0", ":2: protocol: warmup_steps must be at least 1"),
    ("memory:", "memry:", ":3: limits.memry: is not a key here; did you mean 'memory'?"),
    ("8GiB", "8 pounds", ":3: limits.memory: '8 pounds' is not an amount of memory"),
    ("axes:", "axs:", ":5: axs: is not a key of a suite; did you mean 'axes'?"),
    ("dlperf", "dlpref", ":2: protocol.name: 'dlpref' is not known; did you mean 'dlperf'?"),
    (
        "dlperf",
        "fixed",
        ":2: protocol.name: 'fixed' is not known (known: adaptive, dlperf); for a fixed number of runs ",
    ),
    ("steps: 30", "repeat: 30", ":2: protocol.repeat: is not a key here; did you mean 'repeats'?"),
    ("steps: 30", "repeats: 0", ":2: protocol.repeats: input should be greater than 0, but it is 0"),
    (
        "name: sample",
        "name: sample\nlauncher: slurm",
        ":2: launcher: 'slurm' is not known (known: ranks",
    ),
    (
        "name: sample",
        "name: sample\nbudget: long",
        ":2: budget: 'long' is not a time; write seconds, or for ",
    ),
    ("[1, 2, 8]", "[1, 2]", ":9: zip[0]: axes that vary together need equally many values"),
    ("batch_per_device: 16}", "batch_per_device: 17}", ":12: exclude[0]: excludes nothing"),
    ("layout: nhwc", "data: photos", ":14: include[0].data: 'photos' is not a data set of this suite"),
    ("name: sample", "nome: sample", ":1: nome: is not a key of a suite; did you mean 'name'?"),
    ("name: sample\n", "", ":1: name: is missing"),
    ("name: sample", "name: sample\nname: again", ":2: name: is listed twice"),
    ("layout: nhwc}", "layout: nhwc", ":15: not valid YAML"),
    ("name: sample", "name: ../up", ":1: name: string should match pattern"),
]


@pytest.mark.parametrize(("right", "wrong", "message"), MISTAKES, ids=[wrong for _, wrong, _ in MISTAKES])
def test_a_mistake_is_reported_with_its_line_and_key(
    tmp_path: Path, right: str, wrong: str, message: str
) -> None:
    assert right in SUITE
    with pytest.raises(InputError) as caught:
        load(tmp_path, SUITE.replace(right, wrong, 1))
    assert f"suite.yaml{message}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_known_keys_of_a_protocol_are_those_that_it_takes(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, SUITE.replace("steps: 30", "runs: 30", 1))
    known = str(caught.value).rpartition("(known: ")[2].rstrip(")").split(", ")
    assert set(known) == {*Protocol.model_fields, "repeats"}
    repeated = Protocol.model_validate({"repeats": 4})
    assert (repeated.min_repeats, repeated.max_repeats) == (4, 4)


@pytest.mark.parametrize(
    "text", ["", "[]", "just words", "name: x\n", "name: x\naxes: {}\n", "name: x\ncases: []\n"]
)
def test_a_suite_without_cases_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(InputError, match=r"suite\.yaml:\d"):
        load(tmp_path, text)


def test_a_missing_suite_is_reported_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.yaml: cannot be read: No such file"):
        load_suite(tmp_path / "nothing.yaml")


def test_a_matrix_beyond_reason_is_refused_before_it_is_made(tmp_path: Path) -> None:
    numbers = list(range(1, 1001))
    text = f"name: x\naxes:\n  batch_per_device: {numbers}\n  image_size: {numbers}\n"
    with pytest.raises(InputError, match=r"suite\.yaml:1: the matrix has 1000000 cases"):
        load(tmp_path, text)


def test_aliases_without_end_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"suite\.yaml: nests too deep"):
        load(tmp_path, "name: x\naxes: &self {precision: *self}\n")
    laughs = "".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]\n" for i in range(1, 10))
    with pytest.raises(InputError, match=r"suite\.yaml: has more than 1000000 values"):
        load(tmp_path, f"l0: &l0 [ha]\n{laughs}")


def test_an_exclude_rule_sees_the_defaults(tmp_path: Path) -> None:
    text = "name: x\ndefaults: {layout: nhwc}\naxes: {batch_per_device: [8, 16]}\n"
    suite = load(tmp_path, f"{text}exclude: [{{layout: nhwc, batch_per_device: 16}}]\n")
    assert [case.batch_per_device for case in suite.cases] == [8]


def test_a_naming_scheme_that_calls_two_logs_alike_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"2: naming: 'ngc' gives the logs of two cases the name pytorch_gpu1_fp32_bs8\.txt"
    ):
        load(tmp_path, "name: x\nnaming: ngc\naxes: {layout: [nchw, nhwc], batch_per_device: [8]}\n")


SUITES = sorted((Path(__file__).parents[2] / "suites").glob("*.yaml"))


@pytest.mark.parametrize("path", SUITES, ids=[path.stem for path in SUITES])
def test_every_suite_that_is_shipped_reads(path: Path) -> None:
    suite = load_suite(path)
    assert suite.name == path.stem
    # With fewer steps each run is in doubt: nvjpeg may have read three batches more than it counts.
    measured = suite.protocol.steps - suite.protocol.warmup_steps
    assert measured >= 150 or not any(case.loader == "nvjpeg" for case in suite.cases)


def test_only_chooses_by_axes_and_by_name(tmp_path: Path) -> None:
    cases = load(tmp_path, SUITE).cases
    assert {c.batch_per_device for c in select(cases, "batch_per_device=8|16,precision!=fp32")} == {8, 16}
    assert [c.topology for c in select(cases, "*-fp32-b8-4n8g-*")] == ["4n8g"]
    with pytest.raises(InputError, match="did you mean 'precision'"):
        select(cases, "precison=fp32")
    with pytest.raises(InputError, match="no case has this value"):
        select(cases, "precision=tf32")
    with pytest.raises(InputError, match="has no condition"):
        select(cases, " , ")


def test_only_chooses_by_an_option_of_the_program() -> None:
    cases = [
        Case.model_validate(
            {"task": "program", "workload": "train", "framework": "unknown", "options": options}
        )
        for options in ({"batch": 128, "layout": "nchw"}, {"batch": 256, "layout": "nchw"}, {})
    ]
    assert select(cases, "batch=256,layout=nchw") == (cases[1],)
    assert select(cases, "batch!=128") == (cases[1], cases[2])
    with pytest.raises(InputError, match=r"no case has this value \(batch of the cases: 128, 256\)"):
        select(cases, "batch=64")
    with pytest.raises(InputError, match="'batches' is not an axis; did you mean 'batch'"):
        select(cases, "batches=64")


@given(
    st.lists(st.integers(1, 512), min_size=1, max_size=6, unique=True), st.sets(st.sampled_from(Precision))
)
def test_every_point_of_the_product_is_there_once(batches: list[int], precisions: set[Precision]) -> None:
    axes: dict[str, Sequence[Any]] = {
        "batch_per_device": batches,
        "precision": sorted(precisions) or [Precision.FP32],
    }
    points = expand(Matrix(axes), limit=1000)
    assert len({Case.model_validate(point).id for point in points}) == len(points)
    assert len(points) == len(batches) * max(1, len(precisions))


def test_two_cases_that_differ_on_any_axis_have_different_ids() -> None:
    other = {
        "workload": "mine", "framework": "jax", "model": "mobilenet_v1", "precision": "tf32", "batch_per_device": 7,
        "nodes": 2, "devices_per_node": 3, "data": "photos", "layout": "nhwc", "compiler": "xla", "image_size": 64,
        "device": "cpu", "options": {"momentum": 0.5}, "where": {"gpu": "A100"},
    }  # fmt: skip
    ids = [case_of().id, *(Case.model_validate({axis: value}).id for axis, value in other.items())]
    text = {"sequence_length": 64, "accumulation": 4, "predictions": 80, "optimizer": "lamb", "padding": 25}
    ids += [case_of(task="masked-lm", **{axis: value}).id for axis, value in text.items()]
    ids += [
        case_of(task="causal-lm", **{axis: text[axis]}).id for axis in ("sequence_length", "accumulation")
    ]
    decoders = {"parallel": "fsdp2", "activation_checkpointing": "full", "packing": "documents"}
    ids += [case_of(task="causal-lm", **{axis: value}).id for axis, value in decoders.items()]
    clicks = {"vocabulary": 1000, "embedding_width": 32, "table_gradients": "sparse"}
    ids += [case_of(task="recommendation", **{axis: value}).id for axis, value in clicks.items()]
    assert len(set(ids)) == len(ids)
    assert set(axes_of()) - set(other) - set(text) - set(decoders) - set(clicks) == {"loader", "task"}
    photos = [case_of(data="photos", loader=loader).id for loader in ("native", "dali-cpu")]
    assert len(set(photos)) == 2


def test_a_million_cases_with_options_have_a_million_ids() -> None:
    assert len(case_of(options={"momentum": 0.5}).id.rpartition("-o")[2]) == 16


def test_an_axis_of_another_task_is_an_error_with_the_nearest_own_axis(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text("name: s\naxes:\n  layuot: [nchw]\n")
    with pytest.raises(InputError, match="layuot: is not an axis; did you mean 'layout'"):
        load_suite(path)


def test_a_default_without_a_case_that_has_its_axis_is_an_error(tmp_path: Path) -> None:
    text = "name: s\ndefaults:\n  framework: pytorch\n  layout: nhwc\naxes:\n  model: [{models}]\n"
    mixed = load(tmp_path, text.format(models="gpt2_124m, resnet50_v1.5"))
    assert {case.task for case in mixed.cases} == {"causal-lm", "image-classification"}

    with pytest.raises(
        InputError,
        match=r"4: defaults\.layout: no case has this axis: it is one of .*image-classification.*, and the cases "
        "are of causal-lm",
    ):
        load(tmp_path, text.format(models="gpt2_124m"))


def test_a_data_set_is_checked_by_the_task_whose_data_it_is(tmp_path: Path) -> None:
    path = tmp_path / "suite.yaml"
    path.write_text("name: s\ndatasets:\n  photos: {make: {images: 10, sides: 3}}\naxes: {data: photos}\n")
    with pytest.raises(InputError, match=r"suite.yaml:3: datasets.photos.make.sides: is not a key here"):
        load_suite(path)
    path.write_text(
        "name: s\ndatasets:\n  photos: {path: x, formats: {tfrecords: y}}\naxes: {data: photos}\n"
    )
    with pytest.raises(InputError, match="'tfrecords' is not known; did you mean 'tfrecord'"):
        load_suite(path)


@pytest.mark.parametrize("name", ["bert-frameworks", "recommendation"])
def test_frameworks_that_are_compared_drop_nothing_so_that_their_updates_can_be_checked(name: str) -> None:
    suite = load_suite(next(path for path in SUITES if path.stem == name))
    assert {case.options.get("dropout") for case in suite.cases} == {0.0}


def test_a_shipped_card_states_the_framework_and_the_task_of_its_cases(tmp_path: Path) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(
        "name: x\ncases:\n- {workload: keras-demo-functional}\n- {workload: nanogpt, device: cpu}\n"
    )

    keras, nanogpt = load_suite(suite).cases

    assert (keras.framework, keras.task) == ("tensorflow", "program")
    assert (nanogpt.framework, nanogpt.task) == ("pytorch", "program")
    assert keras.batch_per_device == 32


REQUIRED = SUITE + 'require: [{efficiency: 0.9}, {throughput: 1000 images/s, only: "nodes=4"}]\n'


def test_what_a_suite_requires_reads_back(tmp_path: Path) -> None:
    suite = load(tmp_path, REQUIRED)
    assert [one.efficiency for one in suite.require] == [0.9, None]
    again = tmp_path / "again.yaml"
    again.write_text(dump_suite(suite))
    assert load_suite(again) == suite


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("{throughput: 1000}", "must have its unit, such as '21000 samples/s'"),
        ("{throughput: fast}", "must be a rate above 0 with its unit"),
        ("{efficiency: 90}", "1"),
        ("{}", "requires nothing: give throughput, per_device or efficiency"),
        ("{efficiency: 0.9, only: nodes=8}", "no case has this value (nodes of the cases: 1, 4)"),
        ("{eficiency: 0.9}", "did you mean 'efficiency'?"),
    ],
)
def test_a_requirement_that_selects_nothing_or_has_no_unit_is_an_error_with_its_line(
    entry: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as error:
        load(tmp_path, f"{SUITE}require: [{entry}]\n")
    assert message in str(error.value)
    assert ":15: require" in str(error.value)
