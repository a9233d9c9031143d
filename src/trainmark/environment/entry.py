"""The catalogue: one YAML file a framework says how its environment is made; one lock a variant says of what."""

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trainmark.environment.lock import Lock, read_lock
from trainmark.errors import InputError, nearest

CATALOG = Path(__file__).parent / "catalog"
INSIDE = Path(__file__).parent / "inside"


class Variant(StrEnum):
    """Which build of a framework an environment holds."""

    CPU = "cpu"
    CUDA = "cuda"


class VariantRequirements(BaseModel):
    """What a variant's lock is resolved from (pip requirements), and where else its packages are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    requirements: tuple[str, ...] = Field(min_length=1)
    hint: str = ""


class Entry(BaseModel):
    """A framework of the catalogue.

    ``imports`` must all succeed in a made environment; ``import_name`` is the framework itself. ``python`` are the
    versions (``"3.11"``) that the locks fit, best first. ``smoke`` is a script of ``inside/`` that trains one step.
    ``env_vars`` are set for every run. ``versions`` names attribute paths (``torch.version.cuda``; functions are
    called) by which the framework reports its own ``version``, ``cuda``, ``cudnn`` and ``nccl``. ``folder`` is
    where the entry and its locks stand.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    framework: str
    import_name: str
    imports: tuple[str, ...]
    python: tuple[str, ...] = Field(min_length=1)
    smoke: str
    env_vars: Mapping[str, str] = {}
    versions: Mapping[str, str]
    variants: Mapping[Variant, VariantRequirements] = Field(min_length=1)
    folder: Path = CATALOG

    def fits(self, version: str) -> bool:
        """Tell whether the locks fit a Python (``"3.11.7"``)."""
        return ".".join(version.split(".")[:2]) in self.python


def entries(catalog: Path = CATALOG) -> tuple[Entry, ...]:
    """Return every framework of the catalogue, by name."""
    return tuple(_read(path) for path in sorted(catalog.glob("*.yaml")))


def find_entry(name: str, catalog: Path = CATALOG) -> Entry:
    """Return the framework ``name``; raise ``InputError`` with the known names otherwise."""
    known = sorted(path.stem for path in catalog.glob("*.yaml"))
    if name not in known:
        words = ", ".join([*known, "system"])
        raise InputError(f"no environment '{name}'{nearest(name, known)} (there are: {words})")
    return _read(catalog / f"{name}.yaml")


def lock_of(entry: Entry, variant: Variant) -> Lock:
    """Return the lock of a framework's variant; raise ``InputError`` when it has no such variant."""
    if variant not in entry.variants:
        has = ", ".join(entry.variants)
        raise InputError(f"'{entry.framework}' has no variant '{variant}' (it has: {has})")
    return read_lock(entry.folder / f"{entry.framework}.{variant}.lock")


def _read(path: Path) -> Entry:
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
        return Entry.model_validate({**document, "folder": path.parent})
    except yaml.YAMLError as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{path}: {key}: {first['msg']}") from error
