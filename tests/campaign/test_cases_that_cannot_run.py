"""Cases that cannot run: each has its outcome and its reason, and the other cases are measured."""

from pathlib import Path
from typing import Any

import pytest

from fakes import CARD, Bench, Listener
from made_environments import make_empty_environment
from trainmark.dataset.images import ImageFolderSpec, make_image_folder
from trainmark.errors import InputError
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import CaseResult

AXES: dict[str, Any] = CARD["axes"]
REPEATS = {"name": "adaptive", "steps": 12, "warmup_steps": 2, "repeats": 3}


def with_a_good_one(bench: Bench, case: dict[str, Any], **settings: Any) -> CaseResult:
    """Run a case and a good one; return the case's result."""
    bench.write(case, {}, **{"protocol": REPEATS, **settings})
    listener = Listener()
    results = bench.run(listener)
    bad, good = results.cases
    assert (good.outcome, len(good.runs)) == (Outcome.OK, 3)
    assert not results.holds
    assert [run.repeat for run in bad.runs] == [1], "what cannot start is not tried again and again"
    return bad


UNSUPPORTED: list[tuple[dict[str, Any], str]] = [
    ({"devices_per_node": 4096}, "4096 devices per node are required, but this machine has "),
    ({"nodes": 2}, "2 nodes are required, but only one host is known"),
    (
        {"precision": "tf32"},
        "workload 'fake' (fake) has no precision 'tf32'; did you mean 'fp32'? (it has: fp32, bf16)",
    ),
    (
        {"model": "gud"},
        "workload 'fake' (fake) has no model 'gud'; did you mean 'good'? (it has: good, other)",
    ),
    ({"compiler": "xla"}, "workload 'fake' can only do compiler none, not xla"),
    ({"layout": "nhwc"}, "workload 'fake' can only do layout nchw, not nhwc"),
    (
        {"options": {"behavior": "well"}},
        "workload 'fake' has no option 'behavior'; did you mean 'behaviour'?",
    ),
]


@pytest.mark.parametrize(("case", "reason"), UNSUPPORTED, ids=[next(iter(case)) for case, _ in UNSUPPORTED])
def test_what_the_machine_or_the_program_cannot_do_is_unsupported(
    bench: Bench, case: dict[str, Any], reason: str
) -> None:
    bad = with_a_good_one(bench, case)
    assert bad.outcome is Outcome.UNSUPPORTED
    assert (bad.reason or "").startswith(reason)
    assert bad.estimate is None


def test_a_gpu_that_is_not_there_is_unsupported(bench: Bench) -> None:
    bad = with_a_good_one(bench, {"device": "cuda"})
    if bad.outcome is Outcome.OK:
        pytest.skip("this machine has a GPU")
    assert (bad.outcome, bad.reason) == (
        Outcome.UNSUPPORTED,
        "a GPU is required, but this machine has none",
    )


def test_an_environment_without_the_framework_is_unsupported(bench: Bench) -> None:
    bench.write({"framework": "pytorch"}, card={"framework": "pytorch"})
    case = bench.run().cases[0]
    if case.outcome is Outcome.OK:
        pytest.skip("the Python of the tests has PyTorch")
    assert case.outcome is Outcome.UNSUPPORTED
    assert "'torch' does not import" in (case.reason or "")


def test_an_environment_that_is_not_made_yet_is_unsupported_with_the_way_out(bench: Bench) -> None:
    bench.write(
        {"workload": "trainmark", "framework": "pytorch", "model": "mobilenet_v1"}, environment="auto"
    )
    case = bench.run().cases[0]
    assert case.outcome is Outcome.UNSUPPORTED
    assert case.reason == "environment 'pytorch' is not created yet (trainmark env create pytorch)"


def test_an_environment_that_was_moved_is_unsupported_with_the_way_out(bench: Bench) -> None:
    make_empty_environment(bench.folder / "before", "pytorch")
    (bench.folder / "before").rename(bench.folder / "home")
    bad = with_a_good_one(
        bench,
        {"workload": "trainmark", "framework": "pytorch", "model": "mobilenet_v1"},
        environment={"pytorch": "auto", "fake": "system"},
    )
    assert bad.outcome is Outcome.UNSUPPORTED
    assert bad.reason == (
        f"environment 'pytorch' was moved to {bench.folder}/home/envs/pytorch, but a venv works only where it was "
        "created (trainmark env create pytorch)"
    )


NO_PYTHON = [
    (
        "envs/away/python",
        "{}/envs/away/python: is missing; the Python of a program must be at the same path on all its hosts",
    ),
    ("{}/card.yaml", "{}/card.yaml: not a Python interpreter that can be started"),
    ("/bin/true", "/bin/true: exited without an answer: not a Python interpreter"),
    ("/bin/false", "/bin/false: exit code 1"),
]


@pytest.mark.parametrize(("path", "reason"), NO_PYTHON, ids=[path for path, _ in NO_PYTHON])
def test_a_path_that_is_no_python_makes_the_cases_of_its_framework_unsupported_and_no_others(
    bench: Bench, path: str, reason: str
) -> None:
    bad = with_a_good_one(
        bench,
        {"workload": "trainmark", "framework": "pytorch", "model": "mobilenet_v1"},
        environment={"pytorch": path.format(bench.folder), "fake": "system"},
    )
    assert (bad.outcome, bad.reason) == (Outcome.UNSUPPORTED, reason.format(bench.folder))


DATA = {"axes": AXES | {"data": {"flags": []}}}


def test_a_data_set_that_is_missing_fails_its_case_with_the_way_out(bench: Bench) -> None:
    bad = with_a_good_one(bench, {"data": "photos"}, card=DATA, datasets={"photos": {"path": "nowhere"}})
    assert bad.outcome is Outcome.FAILED
    assert f"data set 'photos': {bench.folder}/nowhere: no such folder" in (bad.reason or "")


def test_an_empty_data_set_fails_its_case(bench: Bench) -> None:
    (bench.folder / "empty").mkdir()
    bad = with_a_good_one(bench, {"data": "photos"}, card=DATA, datasets={"photos": {"path": "empty"}})
    assert (bad.outcome, "holds no pictures" in (bad.reason or "")) == (Outcome.FAILED, True)


def test_a_data_set_that_cannot_be_made_fails_its_case(bench: Bench) -> None:
    make = {"images": 2, "classes": 5}
    bad = with_a_good_one(bench, {"data": "photos"}, card=DATA, datasets={"photos": {"make": make}})
    assert bad.outcome is Outcome.FAILED
    assert bad.reason == "data set 'photos': datasets.photos.make: images (2) is less than classes (5)"


def test_a_data_set_that_was_missing_is_used_once_it_is_there(bench: Bench) -> None:
    bench.write({"data": "photos"}, card=DATA, datasets={"photos": {"path": "photos"}})
    assert bench.run().cases[0].outcome is Outcome.FAILED
    make_image_folder(
        bench.folder / "photos", ImageFolderSpec(images=4, classes=2, width=64, height=48), jobs=1
    )
    results = bench.run(resume=True)
    assert (results.cases[0].outcome, len(results.cases[0].runs)) == (Outcome.OK, 1)


def test_data_is_not_made_for_a_case_that_cannot_run(bench: Bench) -> None:
    make = {"images": 4, "classes": 2}
    bench.write({"data": "photos", "nodes": 2}, card=DATA, datasets={"photos": {"make": make}})
    assert bench.run().cases[0].outcome is Outcome.UNSUPPORTED
    assert not (bench.folder / "home").exists()


REFUSED: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    (
        {"axes": AXES | {"precison": {}}},
        {},
        r"card\.yaml:\d+: axes\.precison: is not an axis; did you mean 'precision'",
    ),
    ({"launcher": "mpirum"}, {}, r"card\.yaml:\d+: launcher: input should be 'process', 'torchrun', "),
    ({"colour": "red"}, {}, r"card\.yaml:\d+: colour: extra inputs are not permitted"),
    ({"source": {"kind": "folder", "path": "no/where"}}, {}, r"card\.yaml:\d+: source\.path: no such folder"),
    ({"environment_variables": {"A B": "c"}}, {}, r"card\.yaml:\d+: environment_variables"),
    ({}, {"environment": "pytorhc"}, "did you mean 'pytorch'"),
    ({}, {"cards": ["cord.yaml"]}, r"cord\.yaml: cannot be read: No such file"),
]


@pytest.mark.parametrize(
    ("card", "settings", "reported"), REFUSED, ids=[reported[-30:] for _, _, reported in REFUSED]
)
def test_a_card_or_name_that_cannot_be_meant_is_reported_before_anything_runs(
    bench: Bench, card: dict[str, Any], settings: dict[str, Any], reported: str
) -> None:
    bench.write(card=card, **settings)
    with pytest.raises(InputError, match=reported) as caught:
        bench.run()
    assert "\n" not in str(caught.value)
    assert not bench.out.exists()


@pytest.mark.parametrize(
    ("case", "reported"),
    [
        ({"workload": "fkae"}, "no workload 'fkae'; did you mean 'fake'"),
        ({"framework": "fak"}, r"workload 'fake' has no card for framework 'fak'; did you mean 'fake'\?"),
    ],
)
def test_an_unknown_workload_in_the_last_case_stops_the_suite_before_the_first(
    bench: Bench, case: dict[str, Any], reported: str
) -> None:
    bench.write({}, case)
    with pytest.raises(InputError, match=reported):
        bench.run()
    assert not bench.out.exists()


def test_a_card_reaches_its_program_from_anywhere(bench: Bench, tmp_path: Path) -> None:
    (tmp_path / "program").symlink_to(CARD["source"]["path"])
    bench.write(card={"source": {"kind": "folder", "path": "program"}})
    assert bench.run().holds
