"""What lies in the folder where a data set is to be made: nothing, the unfinished one, the whole one, or another."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

from trainmark.errors import InputError
from trainmark.schema.frozen import Frozen

WORK_NAME = ".making"
"""The folder of an unfinished data set, in its own."""


def refuse_unfinished(directory: Path, made: object | None, verb: str) -> None:
    """Raise ``InputError`` where a data set was begun and has no manifest; ``verb`` of the command line goes on."""
    if made is None and (directory / WORK_NAME).exists():
        raise InputError(
            f"{directory}: its making was interrupted; run 'trainmark data {verb}' again with the same options"
        )


class State(StrEnum):
    """What lies where a data set is to be made."""

    ABSENT = "absent"
    UNFINISHED = "unfinished"
    COMPLETE = "complete"


def state_in(
    directory: Path,
    spec: Frozen,
    spec_name: str,
    read_manifest: Callable[[Path], Any],
    describe: Callable[[Path], object],
    what: str,
) -> State:
    """Return what lies there; raise ``InputError`` for anything but the data set of ``spec``, whole or unfinished.

    ``spec_name`` is the file that the spec of an unfinished one is kept in. ``read_manifest`` returns what a whole one
    says of itself (its ``spec``), or None; ``describe`` raises for a whole one whose files are gone. ``what`` names
    what the folder would hold.
    """
    if not directory.exists():
        return State.ABSENT
    if not directory.is_dir():
        raise InputError(f"{directory}: is a file")
    made = read_manifest(directory)
    if made is not None and made.spec != spec:
        raise InputError(
            f"{directory}: holds another data set ({made.spec.model_dump()}); choose another folder"
        )
    if made is not None:
        describe(directory)
        return State.COMPLETE
    begun = directory / WORK_NAME / spec_name
    if begun.is_file():
        if begun.read_text(encoding="utf-8") != spec.model_dump_json():
            raise InputError(f"{directory}: another data set is being made here; choose another folder")
        return State.UNFINISHED
    if any(entry.name != WORK_NAME for entry in directory.iterdir()):
        raise InputError(
            f"{directory}: is not empty, and holds {what} that trainmark made; choose another folder"
        )
    return State.ABSENT
