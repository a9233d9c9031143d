"""The state of a data set's folder before its creation: absent, unfinished or complete."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

from trainmark.errors import InputError
from trainmark.schema.frozen import Frozen

WORK_NAME = ".making"
"""The work folder inside an unfinished data set."""


def refuse_unfinished(directory: Path, made: object | None, verb: str) -> None:
    """Raise ``InputError`` if the creation of a data set was interrupted; ``verb`` is the command that resumes it."""
    if made is None and (directory / WORK_NAME).exists():
        raise InputError(
            f"{directory}: its creation was interrupted; run 'trainmark data {verb}' again with the same options"
        )


class DatasetState(StrEnum):
    """The progress of a data set's creation."""

    ABSENT = "absent"
    UNFINISHED = "unfinished"
    COMPLETE = "complete"


def find_state(
    directory: Path,
    spec: Frozen,
    spec_name: str,
    read_manifest: Callable[[Path], Any],
    describe: Callable[[Path], object],
    what: str,
) -> DatasetState:
    """Return the state of the data set of ``spec``; raise ``InputError`` if the folder contains anything else.

    ``spec_name`` is the file with the spec of an unfinished data set. ``read_manifest`` returns the manifest (with its
    ``spec``) of a complete one, or None; ``describe`` raises if files of a complete one are missing. ``what`` names the
    missing content in the message for a foreign folder ("no tokens").
    """
    if not directory.exists():
        return DatasetState.ABSENT
    if not directory.is_dir():
        raise InputError(f"{directory}: is a file")
    made = read_manifest(directory)
    if made is not None and made.spec != spec:
        raise InputError(
            f"{directory}: holds another data set ({made.spec.model_dump()}); choose another folder"
        )
    if made is not None:
        describe(directory)
        return DatasetState.COMPLETE
    spec_file = directory / WORK_NAME / spec_name
    if spec_file.is_file():
        if spec_file.read_text(encoding="utf-8") != spec.model_dump_json():
            raise InputError(f"{directory}: another data set is being made here; choose another folder")
        return DatasetState.UNFINISHED
    if any(entry.name != WORK_NAME for entry in directory.iterdir()):
        raise InputError(
            f"{directory}: is not empty, and holds {what} that trainmark made; choose another folder"
        )
    return DatasetState.ABSENT
