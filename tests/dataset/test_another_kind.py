"""A sound data set of another kind than is wanted: it is told what it is and what converts it, never to be removed."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from trainmark.cli.main import main
from trainmark.dataset import ProblemKind, clicks, images, masked, tokens
from trainmark.dataset.manifest import CONTENT_BY_SCHEMA
from trainmark.errors import InputError
from trainmark.tasks.image_classification.axes import Form as PictureForm


def _photos(folder: Path) -> None:
    images.make_image_folder(folder, images.ImageFolderSpec(images=2, classes=1, width=32, height=32), jobs=1)


def _records(folder: Path) -> None:
    _photos(folder.parent / "photos-before")
    images.convert(folder.parent / "photos-before", folder, PictureForm.TFRECORD)


def _masked(folder: Path) -> None:
    spec = masked.MaskedSpec(sequences=4, sequence_length=16, predictions=2, vocabulary=300, shards=2)
    masked.make_masked(folder, spec)


MAKE: Mapping[str, Callable[[Path], object]] = {
    "trainmark.dataset/1": _photos,
    "trainmark.converted/1": _records,
    "trainmark.tokens/1": lambda folder: tokens.make_tokens(folder, tokens.TokenSpec(tokens=100)),
    "trainmark.clicks/1": lambda folder: clicks.make_clicks(folder, clicks.ClickSpec(samples=20)),
    "trainmark.masked/1": _masked,
}

READ: Mapping[str, Callable[[Path], object]] = {
    "trainmark.dataset/1": images.describe,
    "trainmark.tokens/1": tokens.describe,
    "trainmark.clicks/1": clicks.describe,
    "trainmark.masked/1": masked.describe,
}

DESCRIPTIONS = {
    "trainmark.dataset/1": "an image folder, not {}; 'trainmark data convert' converts it",
    "trainmark.converted/1": "record files of pictures, not {}; nothing converts them again",
    "trainmark.tokens/1": "tokens, not {}; nothing converts them",
    "trainmark.clicks/1": "clicks, not {}; 'trainmark data convert-clicks' converts them",
    "trainmark.masked/1": "sequences with hidden words, not {}; nothing converts them",
}


def test_every_schema_has_a_description() -> None:
    assert set(CONTENT_BY_SCHEMA) == set(MAKE) == set(DESCRIPTIONS)


@pytest.mark.parametrize("there", MAKE)
def test_a_set_of_another_kind_is_reported_with_its_conversion(there: str, tmp_path: Path) -> None:
    folder = tmp_path / "there"
    MAKE[there](folder)
    for wanted, read in READ.items():
        if wanted == there:
            read(folder)
            continue
        with pytest.raises(InputError) as error:
            read(folder)
        assert (
            str(error.value)
            == f"{folder}: holds {DESCRIPTIONS[there].format(CONTENT_BY_SCHEMA[wanted].noun)}"
        )


@pytest.mark.parametrize(
    ("there", "verb"),
    [
        ("trainmark.tokens/1", "convert"),
        ("trainmark.clicks/1", "convert"),
        ("trainmark.masked/1", "convert"),
        ("trainmark.tokens/1", "convert-clicks"),
        ("trainmark.dataset/1", "convert-clicks"),
    ],
)
def test_a_conversion_of_another_kind_names_the_right_command(
    there: str, verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "there"
    MAKE[there](folder)
    assert main(["data", verb, str(folder), str(tmp_path / "dest"), "--to", "tfrecord"]) == 2
    wanted = CONTENT_BY_SCHEMA["trainmark.dataset/1" if verb == "convert" else "trainmark.clicks/1"].noun
    error = " ".join(capsys.readouterr().err.split())
    assert f"holds {DESCRIPTIONS[there].format(wanted)}" in error
    assert "remove" not in error
    assert not (tmp_path / "dest").exists()


@pytest.mark.parametrize("there", ["trainmark.tokens/1", "trainmark.masked/1"])
def test_a_set_without_files_is_verified_by_its_manifest(
    there: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    MAKE[there](tmp_path / "there")
    for path in (tmp_path / "there").glob("train*"):
        path.unlink()
    assert main(["data", "verify", str(tmp_path / "there")]) == 1
    assert f"{ProblemKind.MISSING}" in capsys.readouterr().out


def test_a_set_of_a_later_version_is_reported_as_such(tmp_path: Path) -> None:
    (tmp_path / "dataset.json").write_text('{"schema": "trainmark.tokens/2"}')
    with pytest.raises(
        InputError, match=r"schema 'trainmark.tokens/2' is not 'trainmark.tokens/1': another ver"
    ):
        tokens.describe(tmp_path)
