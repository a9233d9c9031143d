"""The stamp ``environment.json``: written when an environment is complete, it records the environment's sources."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from trainmark.environment.entry import Variant
from trainmark.environment.locations import STAMP
from trainmark.files import to_json, write_atomically


class WheelRecord(BaseModel):
    """A user's wheel that replaces the pin ``package`` of the lock."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    package: str
    file: str
    sha256: str


class Stamp(BaseModel):
    """The sources of a complete environment. ``packages`` maps canonical names to installed versions.

    ``extras`` are the names of the added extras. ``location`` is the absolute path of the creation: a venv does not
    work elsewhere. ``index`` is the user's extra index, without its credentials.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    name: str
    variant: Variant
    lock_digest: str
    wheels: tuple[WheelRecord, ...] = ()
    extras: tuple[str, ...] = ()
    index: str | None = None
    python_version: str
    base_python: str
    location: str
    created: AwareDatetime
    trainmark: str
    packages: Mapping[str, str]

    @property
    def wheel_digests(self) -> dict[str, str]:
        """The wheels' SHA-256 by package, for ``Lock.digest``."""
        return {wheel.package: wheel.sha256 for wheel in self.wheels}


def read_stamp(folder: Path) -> Stamp | None:
    """Return the stamp of the environment in ``folder``; None if it is missing or invalid."""
    try:
        return Stamp.model_validate_json((folder / STAMP).read_bytes())
    except (OSError, ValidationError):
        return None


def write_stamp(folder: Path, stamp: Stamp) -> None:
    """Write the stamp; raise ``OSError`` if that fails."""
    write_atomically(folder / STAMP, to_json(stamp.model_dump(mode="json")))
