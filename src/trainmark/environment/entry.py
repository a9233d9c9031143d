"""The catalogue of frameworks: each has an ``environment.yaml`` and one lock per variant."""

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from trainmark.documents import parse_yaml
from trainmark.environment.lock import Lock, Pin, read_lock, read_pin
from trainmark.errors import InputError, nearest, plain_message
from trainmark.files import extension_folders

FRAMEWORKS = Path(__file__).parent.parent / "frameworks"
"""The built-in frameworks, one folder each; extensions add more."""

_ENVIRONMENT = "environment.yaml"


class Variant(StrEnum):
    """The build of a framework in an environment."""

    CPU = "cpu"
    CUDA = "cuda"


class Links(BaseModel):
    """Symbolic links to create in the folder ``into``, one per file that matches ``files``; both under site-packages.

    Needed if a framework's libraries expect other libraries in their own folder, but those come in separate packages.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    into: str
    files: str


class VariantRequirements(BaseModel):
    """The pip requirements of a variant's lock, and a ``hint`` about other sources of its packages.

    ``env_vars`` are set for every run of this variant, in addition to the framework's. ``disk_mb`` is the size of the
    installed environment in MB (10^6 bytes), as measured; None if unknown.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    requirements: tuple[str, ...] = Field(min_length=1)
    hint: str = ""
    links: Links | None = None
    env_vars: Mapping[str, str] = {}
    disk_mb: int | None = Field(default=None, gt=0)


def _exact(text: str) -> str:
    if read_pin(text) is None:
        raise ValueError(f"'{text}' is not an exact pin (name==version)")
    return text


ExactPin = Annotated[str, AfterValidator(_exact)]
"""A requirement that leaves pip no choice: ``name==version``."""


class Placeholder(BaseModel):
    """A package that has the framework's name on the public index but is not the framework.

    The framework is installed only from a wheel or an index that the user passes. ``reason`` is a clause that explains
    why the public package is unusable; ``remedy`` names the real source.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    package: str
    reason: str
    remedy: str


class Build(BaseModel):
    """The recipe that builds an extra from source, with the packages of the environment.

    ``requirements`` are installed first, as wheels. ``needs`` are system programs that must be on PATH.
    ``env_vars`` are set for the ``pip install`` that builds, and ``options`` are passed to it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    requirements: tuple[ExactPin, ...] = ()
    needs: tuple[str, ...] = ()
    env_vars: Mapping[str, str] = {}
    options: tuple[str, ...] = ()


class Extra(BaseModel):
    """An optional addition to an environment: wheels, or a package to ``build`` on the machine that uses it.

    ``requirements`` are the wheels with all their dependencies outside the lock, or the packages to build.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    requirements: tuple[ExactPin, ...] = Field(min_length=1)
    imports: tuple[str, ...]
    build: Build | None = None

    @property
    def pins(self) -> tuple[Pin, ...]:
        """All pins that it installs, the build tools first."""
        tools = self.build.requirements if self.build else ()
        return tuple(pin for text in (*tools, *self.requirements) if (pin := read_pin(text)))

    def digest_line(self, name: str) -> str:
        """Return a line that changes if anything that affects the installed or built files changes."""
        build = {"build": self.build.model_dump(exclude={"needs"})} if self.build else {}
        return f"extra {name} {json.dumps({'requirements': self.requirements, **build}, sort_keys=True)}"


class FrameworkEntry(BaseModel):
    """A framework of the catalogue.

    ``imports`` are the modules that must import; ``import_name`` is the framework itself. ``python`` lists the versions
    (``"3.11"``) that the locks fit, best first. ``env_vars`` are set for every run. ``versions`` maps ``version``,
    ``cuda``, ``cudnn`` and ``nccl`` to attribute paths (``torch.version.cuda``; functions are called) of the framework.
    ``placeholder`` is set if the public index lacks the framework; the locks then contain its dependencies only.
    ``pin_aliases`` (``stands_for`` in YAML) maps the name of another build of a package to the pin that a wheel of that
    build replaces. ``extras`` are added on demand. ``folder`` has the framework's name and contains the entry, its
    locks and ``smoke.py``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    framework: str
    import_name: str
    imports: tuple[str, ...]
    python: tuple[str, ...] = Field(min_length=1)
    env_vars: Mapping[str, str] = {}
    versions: Mapping[str, str]
    variants: Mapping[Variant, VariantRequirements]
    placeholder: Placeholder | None = None
    pin_aliases: Mapping[str, str] = Field(default={}, alias="stands_for")
    extras: Mapping[str, Extra] = {}
    folder: Path

    def variables(self, variant: Variant) -> dict[str, str]:
        """Return the variables to set for every run in an environment of the variant."""
        return {**self.env_vars, **self.variants[variant].env_vars}

    @property
    def smoke(self) -> Path:
        """The script that trains one step in the environment."""
        return self.folder / "smoke.py"

    def fits(self, version: str) -> bool:
        """Return whether the locks fit a Python version (``"3.11.7"``)."""
        return minor_of(version) in self.python

    def find_extras(self, names: Iterable[str]) -> dict[str, Extra]:
        """Return the extras of these names; raise ``InputError`` for an unknown one."""
        for name in names:
            if name not in self.extras:
                has = f"it has: {', '.join(self.extras)}" if self.extras else "it has none"
                raise InputError(
                    f"'{self.framework}' has no extra '{name}'{nearest(name, self.extras)} ({has})"
                )
        return {name: self.extras[name] for name in names}


def minor_of(version: str) -> str:
    """Return ``"3.11"`` of ``"3.11.7"``: Pythons of the same minor version can use the same packages."""
    return ".".join(version.split(".")[:2])


def entries(catalog: Path | None = None) -> tuple[FrameworkEntry, ...]:
    """Return every framework, by name: built-in ones and extensions', or only those in the folder ``catalog``."""
    return tuple(_read(folder) for _, folder in sorted(_folders(catalog).items()))


def find_entry(name: str, catalog: Path | None = None) -> FrameworkEntry:
    """Return the framework ``name``; raise ``InputError`` that lists the known names if it is unknown."""
    known = _folders(catalog)
    if name == "system":
        raise InputError(
            "'system' is the Python that runs trainmark: it cannot be created, locked or removed"
        )
    if name not in known:
        names = ", ".join([*sorted(known), "system"])
        raise InputError(f"no environment '{name}'{nearest(name, [*known, 'system'])} (there are: {names})")
    return _read(known[name])


def lock_of(entry: FrameworkEntry, variant: Variant) -> Lock:
    """Return the lock of a framework's variant; raise ``InputError`` if it has no such variant."""
    if variant not in entry.variants:
        has = ", ".join(entry.variants)
        raise InputError(f"'{entry.framework}' has no variant '{variant}' (it has: {has})")
    return read_lock(entry.folder / f"{variant}.lock")


def digest_of(
    entry: FrameworkEntry, variant: Variant, wheels: Mapping[str, str], extras: Iterable[str]
) -> str:
    """Return the digest of an environment's sources: lock, links, the user's wheels (SHA-256), extras."""
    lock = lock_of(entry, variant)
    lines = [extra.digest_line(name) for name, extra in entry.find_extras(extras).items()]
    if links := entry.variants[variant].links:
        lines.append(f"links {links.files} into {links.into}")
    return lock.digest(wheels, lines)


def _folders(catalog: Path | None) -> dict[str, Path]:
    roots = (FRAMEWORKS, *extension_folders("frameworks")) if catalog is None else (catalog,)
    found: dict[str, Path] = {}
    for root in roots:
        for path in root.glob(f"*/{_ENVIRONMENT}"):
            found.setdefault(path.parent.name, path.parent)
    return found


def _read(folder: Path) -> FrameworkEntry:
    path = folder / _ENVIRONMENT
    try:
        document = parse_yaml(path.read_text(encoding="utf-8"))
        return FrameworkEntry.model_validate({**document, "framework": folder.name, "folder": folder})
    except yaml.YAMLError as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{path}: {key}: {plain_message(first['msg'])}") from error
