"""The stamp ``environment.json``: written when an environment is complete, it says from what it was made."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from trainmark.environment.entry import Variant
from trainmark.environment.locations import STAMP
from trainmark.files import to_json, write_atomically


class WheelRecord(BaseModel):
    """A wheel that the user gave in place of the pin ``package`` of the lock."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    package: str
    file: str
    sha256: str


class Stamp(BaseModel):
    """What a complete environment was made from. ``packages`` maps canonical names to installed versions.

    ``extras`` are the names of those that were added. ``location`` is the absolute path where it was made: a venv
    does not work elsewhere. ``index`` is the extra index that the user gave, without its credentials.
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
        """The wheels' SHA-256 by package, as ``Lock.digest`` takes them."""
        return {wheel.package: wheel.sha256 for wheel in self.wheels}


def read_stamp(folder: Path) -> Stamp | None:
    """Return the stamp of the environment in ``folder``; None when it is not there or not readable as one."""
    try:
        return Stamp.model_validate_json((folder / STAMP).read_bytes())
    except (OSError, ValidationError):
        return None


def write_stamp(folder: Path, stamp: Stamp) -> None:
    """Write the stamp; ``OSError`` when the disk does not take it."""
    write_atomically(folder / STAMP, to_json(stamp.model_dump(mode="json")))
