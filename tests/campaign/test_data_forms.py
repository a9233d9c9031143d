"""A data set by one name, in the form that each program takes: converted once, or where the suite says."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fakes import CARD, Bench, Silent
from trainmark.dataset.images import (
    Form,
    ImageFolderSpec,
    convert,
    describe,
    describe_converted,
    make_image_folder,
)
from trainmark.errors import InputError
from trainmark.schema.outcome import Outcome

PICTURES = ImageFolderSpec(images=12, classes=3, width=64, height=48)
MAKE = {"images": 12, "classes": 3, "width": 64, "height": 48}


def taking(form: str) -> dict[str, Any]:
    """Return a card whose program takes its images in a form, and is told them as a model's name."""
    axes = CARD["axes"] | {"data": {"flags": ["--model={value}"]}, "loader": {}}
    return {"axes": axes, "data_formats": {"native": form}}


@dataclass
class Hearing(Silent):
    """An audience that remembers what was prepared."""

    heard: list[tuple[str, int, int]] = field(default_factory=list)

    def preparing(self, what: str, done: int, total: int) -> None:
        self.heard.append((what, done, total))


def reported(bench: Bench) -> str:
    """Return what the program of the only case was told as its data."""
    (events,) = bench.out.glob("runs/*/1/events.jsonl")
    parameters = json.loads(events.read_text().splitlines()[0].removeprefix("DLLL "))
    return str(parameters["data"]["model"])


def test_a_set_that_was_made_without_validation_pictures_gets_them_and_is_trained_on_as_before(
    bench: Bench,
) -> None:
    folder = bench.folder / "home/datasets/photos-i12-c3-s0-w64-h48"
    before = make_image_folder(folder, PICTURES, jobs=1)
    bench.write({"data": "photos"}, card=taking("image-folder"), datasets={"photos": {"make": MAKE}})

    assert bench.run().cases[0].outcome is Outcome.OK
    assert reported(bench) == str(folder / "train")
    assert describe(folder).digest == before.digest
    train, val = ({path.name for path in (folder / split).iterdir()} for split in ("train", "val"))
    assert train == val


@pytest.mark.parametrize("form", ["tfrecord", "recordio"])
def test_a_made_data_set_is_converted_once_to_the_form_that_the_program_takes(
    bench: Bench, form: str
) -> None:
    bench.write({"data": "photos"}, card=taking(form), datasets={"photos": {"make": MAKE}})
    hearing = Hearing()
    assert bench.run(hearing).cases[0].outcome is Outcome.OK
    folder = Path(reported(bench))
    assert folder.parent == bench.folder / "home" / "datasets"
    assert folder.name.endswith(f".{form}")
    assert describe_converted(folder).form == form
    assert {what for what, _, _ in hearing.heard} == {
        "making data set 'photos'",
        f"converting data set 'photos' to {form}",
    }
    assert hearing.heard[-1][1:] == (15, 15)

    again = Hearing()
    other = Bench(bench.folder, "second")
    assert other.run(again).cases[0].outcome is Outcome.OK
    assert again.heard == []


def test_the_pictures_of_a_path_are_converted_into_trainmarks_home_by_their_path(bench: Bench) -> None:
    places = []
    for name in ("here", "there"):
        make_image_folder(bench.folder / name, PICTURES.model_copy(update={"seed": len(name)}), jobs=1)
        bench.write({"data": "photos"}, card=taking("tfrecord"), datasets={"photos": {"path": name}})
        its = Bench(bench.folder, f"out-{name}")
        assert its.run().cases[0].outcome is Outcome.OK
        places.append(reported(its))
    assert len(set(places)) == 2
    assert all(Path(place).parent == bench.folder / "home" / "datasets" for place in places)


def test_a_form_that_is_already_there_is_taken_from_where_the_suite_says(bench: Bench) -> None:
    make_image_folder(bench.folder / "photos", PICTURES, jobs=1)
    convert(bench.folder / "photos", bench.folder / "records", Form.RECORDIO)
    datasets = {"photos": {"path": "photos", "formats": {"recordio": "records"}}}
    bench.write({"data": "photos"}, card=taking("recordio"), datasets=datasets)
    assert bench.run().cases[0].outcome is Outcome.OK
    assert reported(bench) == str(bench.folder / "records")
    assert not (bench.folder / "home" / "datasets").exists()


def test_records_alone_serve_the_programs_that_take_them_and_no_others(bench: Bench) -> None:
    make_image_folder(bench.folder / "photos", PICTURES, jobs=1)
    convert(bench.folder / "photos", bench.folder / "records", Form.TFRECORD)
    datasets = {"photos": {"formats": {"tfrecord": "records"}}}
    bench.write({"data": "photos"}, card=taking("tfrecord"), datasets=datasets)
    assert bench.run().cases[0].outcome is Outcome.OK
    bench.write({"data": "photos"}, card=taking("image-folder"), datasets=datasets)
    case = Bench(bench.folder, "second").run().cases[0]
    assert (case.outcome, case.reason) == (
        Outcome.FAILED,
        "data set 'photos': is available only as tfrecord; add the 'path' of its image-folder, from which others are "
        "converted",
    )


@pytest.mark.parametrize(
    ("holds", "reason"),
    [
        ("nothing", "{}: no such folder"),
        ("pictures", "{}: holds no TFRecord shards (train-00000-of-00008) and no RecordIO file (train.rec)"),
        ("recordio", "{}: holds recordio, but tfrecord is needed"),
        (
            "a shard too few",
            "{0}: train-00003-of-00008 is missing; 'trainmark data verify {0}' lists all problems",
        ),
    ],
)
def test_a_form_that_cannot_be_had_fails_its_case_in_one_line(bench: Bench, holds: str, reason: str) -> None:
    records = bench.folder / "records"
    make_image_folder(bench.folder / "photos", PICTURES, jobs=1)
    if holds == "pictures":
        make_image_folder(records, PICTURES, jobs=1)
    elif holds != "nothing":
        convert(bench.folder / "photos", records, Form.RECORDIO if holds == "recordio" else Form.TFRECORD)
    if holds == "a shard too few":
        (records / "train-00003-of-00008").unlink()
    datasets = {"photos": {"path": "photos", "formats": {"tfrecord": "records"}}}
    bench.write({"data": "photos"}, card=taking("tfrecord"), datasets=datasets)
    case = bench.run().cases[0]
    assert (case.outcome, case.reason) == (
        Outcome.FAILED,
        f"data set 'photos': {reason.format(records)}",
    )


def test_a_damaged_picture_stops_the_conversion_and_fails_the_case(bench: Bench) -> None:
    folder = make_image_folder(bench.folder / "photos", PICTURES, jobs=1).directory
    picture = folder / "train/n00000001/n00000001_1.JPEG"
    picture.write_bytes(picture.read_bytes()[:500])
    (folder / "dataset.json").unlink()
    bench.write({"data": "photos"}, card=taking("tfrecord"), datasets={"photos": {"path": "photos"}})
    case = bench.run().cases[0]
    assert case.outcome is Outcome.FAILED
    assert case.reason == (
        f"data set 'photos': {picture}: truncated: 500 bytes end before the pixels begin; repair or remove it first"
    )


def test_a_form_that_does_not_exist_is_a_mistake_in_the_suite(bench: Bench) -> None:
    with pytest.raises(InputError, match=r"datasets.photos.formats.tfrecords.*did you mean 'tfrecord'"):
        bench.write({"data": "photos"}, datasets={"photos": {"path": "p", "formats": {"tfrecords": "x"}}})


def ofrecord(folder: Path) -> Path:
    """Return a folder with the names that OneFlow's own tool gives its parts."""
    (folder / "train").mkdir(parents=True)
    (folder / "train" / "part-00000").write_bytes(b"records")
    return folder


def test_ofrecord_is_taken_from_where_the_suite_says(bench: Bench) -> None:
    given = ofrecord(bench.folder / "records")
    bench.write(
        {"data": "photos"}, card=taking("ofrecord"), datasets={"photos": {"formats": {"ofrecord": "records"}}}
    )
    assert bench.run().cases[0].outcome is Outcome.OK
    assert reported(bench) == str(given)


@pytest.mark.parametrize(
    ("dataset", "reason"),
    [
        (
            {"make": MAKE},
            "is missing as ofrecord, and cannot be converted to it: add 'formats: {{ofrecord: FOLDER}}'",
        ),
        ({"formats": {"ofrecord": "nowhere"}}, "{}/nowhere: no such folder"),
        ({"formats": {"ofrecord": "empty"}}, "{}/empty: holds no OFRecord (train/part-00000)"),
    ],
)
def test_ofrecord_that_is_not_there_is_neither_made_nor_converted(
    bench: Bench, dataset: dict[str, Any], reason: str
) -> None:
    (bench.folder / "empty").mkdir()
    bench.write({"data": "photos"}, card=taking("ofrecord"), datasets={"photos": dataset})
    case = bench.run().cases[0]
    assert (case.outcome, case.reason) == (
        Outcome.FAILED,
        f"data set 'photos': {reason.format(bench.folder)}",
    )
    assert not list(bench.folder.glob("home/datasets/*"))


def test_nothing_converts_to_ofrecord(bench: Bench) -> None:
    make_image_folder(bench.folder / "photos", PICTURES, jobs=1)
    with pytest.raises(
        InputError, match="trainmark cannot convert to ofrecord; OneFlow-Benchmark's tool does"
    ):
        convert(bench.folder / "photos", bench.folder / "records", Form.OFRECORD)
