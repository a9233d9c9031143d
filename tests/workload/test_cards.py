"""Cards from files: what is read, what is refused with its line, and which card a case gets."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from trainmark.errors import InputError
from trainmark.suite import Case, Precision
from trainmark.worker.arguments import parse
from trainmark.workload import Launcher, UnsupportedByCard, Values, load_workloads, program_words, read_card
from trainmark.workload.cards import CATALOG

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
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "code").mkdir()
    return tmp_path


def written(folder: Path, **change: Any) -> Path:
    path = folder / "card.yaml"
    path.write_text(yaml.safe_dump(CARD | change, sort_keys=False))
    return path


def values(folder: Path) -> Values:
    return Values(20, 5, 2, 1, 1, folder / "events.jsonl", "synthetic")


@pytest.mark.parametrize("path", sorted(CATALOG.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_card_that_is_shipped_reads(path: Path) -> None:
    workload = read_card(path)
    assert workload.source.is_dir()
    assert (workload.source / "start.py").exists()
    assert Path(workload.card.command[0].replace("{source}", str(workload.source))).exists()


def test_a_folder_counts_from_the_cards_own_file(folder: Path) -> None:
    workload = read_card(written(folder))
    assert (workload.source, workload.card.launcher) == (folder / "code", Launcher.PROCESS)


def test_a_case_gets_the_card_of_its_workload_and_framework(folder: Path) -> None:
    workloads = load_workloads([written(folder)])
    assert workloads.find(Case(workload="mine", framework="jax")).source == folder / "code"
    assert workloads.find(Case()).card.name == "trainmark"
    with pytest.raises(
        InputError, match=r"workload 'mine' has no card for framework 'pytorch' \(it has: jax\)"
    ):
        workloads.find(Case(workload="mine"))
    with pytest.raises(InputError, match="no workload 'mien'; did you mean 'mine'"):
        workloads.find(Case(workload="mien", framework="jax"))


def test_a_card_of_the_users_takes_the_place_of_a_built_in_one(folder: Path) -> None:
    path = written(folder, name="trainmark", framework="pytorch")
    assert load_workloads([path]).find(Case()).source == folder / "code"


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
    ({"launcher": "mpi"}, r"card\.yaml:8: launcher: input should be 'process' or 'torchrun'"),
    ({"source": {"kind": "svn", "path": "x"}}, r"card\.yaml:\d+: source: "),
    (
        {"source": {"kind": "folder", "path": "away"}},
        r"card\.yaml:\d+: source\.path: no such folder: .*/away",
    ),
    ({"command": "train.py"}, r"card\.yaml:10: command: input should be a valid tuple"),
    ({"name": "../up"}, r"card\.yaml:1: name: string should match pattern"),
    ({"environment_variables": {"A=B": "c"}}, r"card\.yaml:\d+: environment_variables"),
]


@pytest.mark.parametrize(("change", "told"), MISTAKES, ids=[str(change) for change, _ in MISTAKES])
def test_a_mistake_is_told_with_its_line_and_key(folder: Path, change: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told) as caught:
        read_card(written(folder, **change))
    assert "\n" not in str(caught.value)


def test_a_missing_key_is_told_by_its_name(folder: Path) -> None:
    path = folder / "card.yaml"
    path.write_text(yaml.safe_dump({key: value for key, value in CARD.items() if key != "framework"}))
    with pytest.raises(InputError, match="framework: field required"):
        read_card(path)


def test_a_card_that_is_no_mapping_is_told(folder: Path) -> None:
    path = folder / "card.yaml"
    path.write_text("- a\n- b\n")
    with pytest.raises(InputError, match=r"card\.yaml:1: "):
        read_card(path)


def test_the_values_of_an_axis_are_all_that_the_program_can_do(folder: Path) -> None:
    workload = read_card(written(folder))
    case = Case(workload="mine", framework="jax", precision=Precision.BF16)
    assert program_words(case, workload, values(folder))[1:] == ("--steps", "20", "--bf16")
    with pytest.raises(
        UnsupportedByCard, match=r"has no precision 'tf32' \(it has: fp32, bf16\)|did you mean"
    ):
        program_words(case.model_copy(update={"precision": Precision.TF32}), workload, values(folder))


def test_options_are_passed_in_the_words_of_the_card(folder: Path) -> None:
    workload = read_card(written(folder))
    case = Case(workload="mine", framework="jax", options={"deep": True})
    assert program_words(case, workload, values(folder))[-1] == "--deep=true"
    with pytest.raises(UnsupportedByCard, match="has no option 'deap'; did you mean 'deep'"):
        program_words(case.model_copy(update={"options": {"deap": 1}}), workload, values(folder))


def test_the_built_in_worker_takes_every_word_that_its_card_gives_it(folder: Path) -> None:
    workload = load_workloads().find(Case())
    card, said = workload.card, {"schedule": "step", "bn_weight_decay": True, "loss_scale": 128}
    options = {name: said.get(name, 1) for name in card.options}
    points: list[dict[str, Any]] = [
        {axis: value} for axis, rule in card.axes.items() for value in rule.values or ()
    ]
    for point in [*points, *({"precision": precision} for precision in Precision), {"options": options}]:
        words = program_words(Case.model_validate(point), workload, values(folder))
        settings = parse(words[1:], world_size=1)
        assert all(getattr(settings, axis) == value for axis, value in point.items() if axis != "options")
        if "options" in point:
            recipe = settings.recipe
            assert (recipe.schedule, recipe.bn_weight_decay, recipe.loss_scale) == ("step", True, 128)
            assert (recipe.epochs, recipe.warmup_epochs, recipe.momentum) == (1, 1, 1.0)
