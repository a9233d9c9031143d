"""Cards from files: what is read, what is refused with its line, and which card a case gets."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from trainmark.documents import documents_of
from trainmark.errors import InputError
from trainmark.measure.rules import find_rule
from trainmark.programs import find_format
from trainmark.schema.case import Case, Device, case_of
from trainmark.schema.precision import Precision
from trainmark.schema.suite import Launcher
from trainmark.tasks import is_neutral
from trainmark.worker.core.arguments import parse
from trainmark.workload import (
    BuiltinSource,
    Program,
    UnsupportedByCard,
    Values,
    Workload,
    commit_of,
    find_gap,
    load_workloads,
    read_card,
)
from trainmark.workload.card import TypedOption
from trainmark.workload.cards import shipped

CARD: dict[str, Any] = {
    "name": "mine",
    "description": "a program of my own",
    "framework": "jax",
    "environment": "system",
    "source": {"kind": "folder", "path": "code"},
    "launcher": "process",
    "log_format": "trainmark",
    "command": ["{source}/train.py", "--steps", "{steps}"],
    "axes": {"precision": {"values": {"fp32": [], "bf16": ["--bf16"]}}},
    "options": {"deep": ["--deep={value}"]},
    "task": "image-classification",
}


GIT: dict[str, Any] = {"kind": "git", "url": "https://example.org/code", "commit": "0123456789" * 4}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    return tmp_path


def written(folder: Path, **change: Any) -> Path:
    path = folder / "card.yaml"
    path.write_text(yaml.safe_dump(CARD | change, sort_keys=False))
    return path


VALUES = Values(steps=20, warmup_steps=5, threads=2, loader_workers=1, seed=1, data="synthetic")


def program_words(case: Case, workload: Workload, folder: Path, values: Values = VALUES) -> tuple[str, ...]:
    program = Program(case, workload, values)
    return program.words(case, program.texts(case, folder))


@pytest.mark.parametrize("workload", shipped(), ids=lambda found: f"{found.card.name}-{found.card.framework}")
def test_every_card_that_is_shipped_reads(workload: Workload) -> None:
    # A card that describes its log itself was checked when it was read.
    assert not isinstance(workload.card.log_format, str) or find_format(workload.card.log_format)
    assert workload.card.rule is None or find_rule(workload.card.rule)
    if isinstance(workload.card.source, BuiltinSource):
        assert Path(workload.card.command[0].replace("{source}", str(workload.source))).exists()
    else:
        assert not workload.source.is_absolute()


def test_a_folder_counts_from_the_cards_own_file(folder: Path) -> None:
    workload = read_card(written(folder))
    assert (workload.source, workload.card.launcher) == (folder / "code", Launcher.PROCESS)


def test_a_case_gets_the_card_of_its_workload_and_framework(folder: Path) -> None:
    workloads = load_workloads([written(folder)])
    assert workloads.find(case_of(workload="mine", framework="jax")).source == folder / "code"
    assert workloads.find(case_of()).card.name == "trainmark"
    with pytest.raises(
        InputError, match=r"workload 'mine' has no card for framework 'pytorch' \(it has: jax\)"
    ):
        workloads.find(case_of(workload="mine"))
    with pytest.raises(InputError, match="no workload 'mien'; did you mean 'mine'"):
        workloads.find(case_of(workload="mien", framework="jax"))


def test_a_card_of_the_users_takes_the_place_of_a_built_in_one(folder: Path) -> None:
    path = written(folder, name="trainmark", framework="pytorch")
    assert load_workloads([path]).find(case_of()).source == folder / "code"


def test_two_cards_of_one_suite_for_the_same_case_are_refused(folder: Path) -> None:
    one, other = written(folder), folder / "other.yaml"
    other.write_text(one.read_text())
    with pytest.raises(
        InputError, match=r"other\.yaml: workload 'mine' for jax has a card already: .*card\.yaml"
    ):
        load_workloads([one, other])


MISTAKES: list[tuple[dict[str, Any], str]] = [
    (
        {"axes": {"precison": {}}},
        r"card\.yaml:\d+: axes\.precison: is not an axis; did you mean 'precision'\?",
    ),
    (
        {"fixed": {"lay_out": "nchw"}},
        r"card\.yaml:\d+: fixed\.lay_out: is not an axis; did you mean 'layout'\?",
    ),
    ({"launcher": "mpi"}, r"card\.yaml:8: launcher: input should be 'process', 'torchrun', "),
    ({"launcher": "multiproc"}, r"card\.yaml:8: launcher: 'multiproc' needs a 'starter'"),
    ({"starter": "x.py"}, r"card\.yaml:8: launcher: 'process' does not use a 'starter'"),
    (
        {"command": ["{sorce}/train.py"]},
        r"card\.yaml:10: command: \{sorce\} is not a placeholder; did you mean 'source'",
    ),
    (
        {"combinations": [{"when": {"loder": "x"}, "words": ["--x"]}]},
        r"card\.yaml:\d+: combinations\[0\]\.when\.loder: is not an axis; did you mean 'loader'",
    ),
    (
        {"prepare": [{"description": "x", "words": ["x", "{dta}"]}]},
        r"card\.yaml:\d+: prepare\[0\]\.words: \{dta\} is not a placeholder; did you mean 'data'",
    ),
    (
        {"source": GIT | {"commit": "main"}},
        r"card\.yaml:\d+: source\.commit: should be a whole commit, 40 hexa",
    ),
    ({"source": GIT | {"commit": "A" * 40}}, r"source\.commit: should be a whole commit"),
    (
        {"source": GIT | {"url": "ext::sh -c touch% /tmp/x"}},
        r"source\.url: should be an https://, ssh:// or file://",
    ),
    ({"source": GIT | {"url": "https://me:secret@example.org/x"}}, r"source\.url: .* without a password"),
    ({"source": GIT | {"url": "--upload-pack=x"}}, r"source\.url: should be"),
    ({"source": GIT | {"url": "ssh://-oProxyCommand=x/y"}}, r"source\.url: should be"),
    ({"source": GIT | {"folder": "../up"}}, r"source\.folder: should be a folder inside the repository"),
    ({"image": {"reference": "Ubuntu 20"}}, r"image\.reference: string should match"),
    ({"source": {"kind": "svn", "path": "x"}}, r"card\.yaml:\d+: source: "),
    (
        {"source": {"kind": "folder", "path": "away"}},
        r"card\.yaml:\d+: source\.path: no such folder: .*/away",
    ),
    ({"command": "train.py"}, r"card\.yaml:10: command: input should be a valid tuple"),
    ({"name": "../up"}, r"card\.yaml:1: name: string should match pattern"),
    (
        {"expects": ["/etc/passwd"]},
        r"card\.yaml:\d+: expects\[0\]: '/etc/passwd' is not a path within the run",
    ),
    ({"expects": ["x", "a/../../b"]}, r"card\.yaml:\d+: expects\[1\]: 'a/../../b' is not a path within"),
    ({"environment_variables": {"A=B": "c"}}, r"card\.yaml:\d+: environment_variables"),
]


@pytest.mark.parametrize(("change", "message"), MISTAKES, ids=[str(change) for change, _ in MISTAKES])
def test_a_mistake_is_reported_with_its_line_and_key(
    folder: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_card(written(folder, **change))
    assert "\n" not in str(caught.value)


def test_a_missing_key_is_reported_by_name(folder: Path) -> None:
    path = folder / "card.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in CARD.items() if key != "framework"}))
    with pytest.raises(InputError, match="framework: field required"):
        read_card(path)


def test_a_card_that_is_no_mapping_is_an_error(folder: Path) -> None:
    path = folder / "card.yaml"
    path.write_text("- a\n- b\n")
    with pytest.raises(InputError, match=r"card\.yaml:1: "):
        read_card(path)


def test_the_values_of_an_axis_are_all_that_the_program_can_do(folder: Path) -> None:
    workload = read_card(written(folder))
    case = case_of(workload="mine", framework="jax", precision=Precision.BF16)
    assert program_words(case, workload, folder)[1:] == ("--steps", "20", "--bf16")
    with pytest.raises(
        UnsupportedByCard, match=r"has no precision 'tf32' \(it has: fp32, bf16\)|did you mean"
    ):
        program_words(case.model_copy(update={"precision": Precision.TF32}), workload, folder)


def test_options_are_passed_in_the_words_of_the_card(folder: Path) -> None:
    workload = read_card(written(folder))
    case = case_of(workload="mine", framework="jax", options={"deep": True})
    assert program_words(case, workload, folder)[-1] == "--deep=true"
    with pytest.raises(UnsupportedByCard, match="has no option 'deap'; did you mean 'deep'"):
        program_words(case.model_copy(update={"options": {"deap": 1}}), workload, folder)


def test_the_built_in_worker_takes_every_word_that_its_card_gives_it(folder: Path) -> None:
    workload = load_workloads().find(case_of())
    card = workload.card
    text = {"schedule": "step", "bn_weight_decay": True, "loss_scale": 128, "gradients": "flat"}
    options = {name: text.get(name, 1) for name in card.options}
    points: list[dict[str, Any]] = [
        {axis: value} for axis, rule in card.axes.items() for value in rule.choices or ()
    ]
    for point in [*points, *({"precision": precision} for precision in Precision), {"options": options}]:
        words = program_words(Case.model_validate(point), workload, folder)
        settings = parse(words[1:], world_size=1)
        assert all(getattr(settings, axis) == value for axis, value in point.items() if axis != "options")
        if "options" in point:
            recipe: Any = settings.recipe
            assert (recipe.schedule, recipe.bn_weight_decay, recipe.loss_scale) == ("step", True, 128)
            assert (recipe.epochs, recipe.warmup_epochs, recipe.momentum) == (1, 1, 1.0)
            assert settings.gradients == "flat"


def test_an_option_can_list_its_values(folder: Path) -> None:
    workload = read_card(
        written(folder, options={"checkpoints": {"true": [], "false": ["--no-checkpoints"]}})
    )
    case = case_of(workload="mine", framework="jax", options={"checkpoints": False})
    assert program_words(case, workload, folder)[-1] == "--no-checkpoints"
    assert "--no-checkpoints" not in program_words(
        case.model_copy(update={"options": {"checkpoints": True}}), workload, folder
    )
    with pytest.raises(UnsupportedByCard, match=r"has no checkpoints '1' \(it has: true, false\)"):
        program_words(case.model_copy(update={"options": {"checkpoints": 1}}), workload, folder)


DEPENDING = [
    {"when": {"data": "!synthetic", "loader": "dali"}, "words": ["--dali", "{dataset}"]},
    {"when": {"nodes": "!1"}, "words": ["--rank={node}"]},
]


@pytest.mark.parametrize(
    ("axes", "expected"),
    [
        ({}, []),
        ({"loader": "dali"}, []),
        ({"loader": "dali", "data": "photos"}, ["--dali", "/photos"]),
        ({"data": "photos", "nodes": 2}, ["--rank=1"]),
    ],
)
def test_words_can_depend_on_several_axes(folder: Path, axes: dict[str, Any], expected: list[str]) -> None:
    rules = CARD["axes"] | {"data": {}, "loader": {"values": {"native": [], "dali": []}}, "nodes": {}}
    workload = read_card(written(folder, axes=rules, combinations=DEPENDING))
    given = replace(VALUES, dataset="/photos", node=1)
    case = Case.model_validate({"workload": "mine", "framework": "jax", **axes})
    assert list(program_words(case, workload, folder, given)[3:]) == expected


@pytest.mark.parametrize(("counts", "batch"), [("per-device", "32"), ("per-node", "128"), ("global", "256")])
def test_a_program_is_given_the_batch_that_it_counts(folder: Path, counts: str, batch: str) -> None:
    axes = {
        "batch_per_device": {"flags": ["-b", "{value}"], "counts": counts},
        "nodes": {},
        "devices_per_node": {},
    }
    scaling = {"learning_rate": 0.256, "batch": 256}
    workload = read_card(written(folder, axes=axes, scaling=scaling, command=["{learning_rate}"]))
    case = case_of(workload="mine", framework="jax", batch_per_device=32, nodes=2, devices_per_node=4)
    assert program_words(case, workload, folder) == ("0.256", "-b", batch)


def test_a_card_without_a_commit_wants_one_from_the_case(folder: Path) -> None:
    source = {name: value for name, value in GIT.items() if name != "commit"}
    workload = read_card(written(folder, source=source))
    case = case_of(workload="mine", framework="jax")
    with pytest.raises(
        UnsupportedByCard,
        match=r"does not say which commit of https://example\.org/code; give the",
    ):
        commit_of(case, workload.card)
    named = case.model_copy(update={"options": {"commit": "b" * 40}})
    assert commit_of(named, workload.card) == "b" * 40
    assert program_words(named, workload, folder) == program_words(case, workload, folder)
    assert named.id != case.id, "another commit is another case"


def test_a_case_can_name_another_commit_than_its_card(folder: Path) -> None:
    card = read_card(written(folder, source=GIT)).card
    case = case_of(workload="mine", framework="jax", options={"commit": "c" * 40})
    assert commit_of(case.model_copy(update={"options": {}}), card) == GIT["commit"]
    assert commit_of(case, card) == "c" * 40


def test_a_programs_gap_is_reported_for_the_device_that_it_would_compute_on() -> None:
    card = load_workloads().find(case_of(workload="oneflow-benchmark", framework="oneflow")).card
    case = case_of(workload="oneflow-benchmark", framework="oneflow")
    assert find_gap(case, card, Device.CPU) == "the program trains on NVIDIA GPUs only"
    assert find_gap(case, card, Device.CUDA) is None


EXTERNAL = [found for found in shipped() if not isinstance(found.card.source, BuiltinSource)]


@pytest.mark.parametrize("workload", EXTERNAL, ids=lambda found: found.card.name)
def test_every_value_and_option_of_an_external_card_gives_words_without_braces(
    tmp_path: Path, workload: Workload
) -> None:
    card = workload.card
    plain: dict[str, Any] = {"workload": card.name, "framework": card.framework, "task": card.task}
    plain |= {"batch_per_device": 16} if is_neutral(card.task) else {"data": "imagenet"}
    plain |= card.fixed
    plain |= {axis: rule.choices[0] for axis, rule in card.axes.items() if rule.choices}
    points: list[dict[str, Any]] = [
        {axis: value} for axis, rule in card.axes.items() for value in rule.choices or ()
    ]
    choices = {
        name: (text.default,)
        if isinstance(text, TypedOption)
        else tuple(text)
        if isinstance(text, dict)
        else (1,)
        for name, text in card.options.items()
    }
    points += [{"options": {option: value}} for option, values in choices.items() for value in values]
    for point in [{}, *points]:
        case = Case.model_validate(plain | point)
        words = program_words(case, workload, tmp_path, replace(VALUES, dataset="/imagenet"))
        assert not [word for word in words if "{" in word or "}" in word]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"axes": {"precision": {"values": {"fp23": []}}}}, r"yaml:\d+: .*no case has precision 'fp23'; did you mean"),
        ({"axes": {"precision": {"only": ["amp-f16"]}}}, r"no case has precision 'amp-f16'; did you mean 'amp-fp16'"),
        ({"fixed": {"device": "gpu"}}, r"no case has device 'gpu'"),
        (
            {"gaps": [{"when": {"precision": "!amp_bf16"}, "reason": "not there"}]},
            r"no case has precision 'amp_bf16'; did you mean 'amp-bf16'",
        ),
        ({"command": ["{source}/train.py", "--lr={learning_rate}"]}, r"card\.yaml:\d+: .*from the card's 'scaling'"),
        ({"command": ["{source}/train.py", "--batch={value}"]}, r"card\.yaml:\d+: .*an axis or an option"),
        ({"task": "image_clasification"}, r"card\.yaml:\d+: task: 'image_clasification' is not a task; did you mean"),
    ],
)  # fmt: skip
def test_what_would_only_fail_in_a_run_is_refused_when_the_card_is_read(
    folder: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        read_card(written(folder, **change))


def test_a_shipped_card_is_found_by_its_name() -> None:
    """A card is found without parsing the others."""
    assert [workload.card.name for workload in EXTERNAL] == [
        document.name for document in documents_of("programs/cards")
    ]


def test_a_suite_reads_only_the_shipped_cards_that_it_uses() -> None:
    code = (
        "from trainmark.workload import load_workloads; from trainmark.workload import cards; "
        "from trainmark.schema.case import case_of; load_workloads().find(case_of()); "
        "print(cards.shipped.cache_info().currsize, cards.shipped_of.cache_info().currsize)"
    )

    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout == "0 1\n"
