"""The frameworks: each one's ``environment.yaml`` says how its environment is made; one lock a variant says of what."""

import json
from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import yaml
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from trainmark.environment.lock import Lock, Pin, read_lock, read_pin
from trainmark.errors import InputError, nearest
from trainmark.extensions import folders
from trainmark.files import parse_yaml

FRAMEWORKS = Path(__file__).parent.parent / "frameworks"
"""The folder of our own frameworks, a folder each; extensions have more."""


_ENVIRONMENT = "environment.yaml"


class Variant(StrEnum):
    """Which build of a framework an environment holds."""

    CPU = "cpu"
    CUDA = "cuda"


class Links(BaseModel):
    """Links that a made environment gets: to the ``files`` (a pattern), in the folder ``into``, both in site-packages.

    For a framework whose libraries look for others beside themselves, when those come as packages of their own.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    into: str
    files: str


class VariantRequirements(BaseModel):
    """What a variant's lock is resolved from (pip requirements), and where else its packages are.

    ``env_vars`` are set for every run of this variant, beside those of the framework.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    requirements: tuple[str, ...] = Field(min_length=1)
    hint: str = ""
    links: Links | None = None
    env_vars: Mapping[str, str] = {}


def _exact(text: str) -> str:
    if read_pin(text) is None:
        raise ValueError(f"'{text}' is not an exact pin (name==version)")
    return text


ExactPin = Annotated[str, AfterValidator(_exact)]
"""A requirement that leaves pip no choice: ``name==version``."""


class Placeholder(BaseModel):
    """A package that has the framework's name on the public index and is not the framework.

    It is never installed from there, only from a wheel or an index that the user gives. ``reason`` is half a
    sentence that says what is wrong with the public one, ``remedy`` where the real one can be had.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    package: str
    reason: str
    remedy: str


class Build(BaseModel):
    """How an extra is built from source, with the packages of the environment.

    ``requirements`` are installed first, as wheels. ``needs`` are programs of the system that must be on the path.
    ``env_vars`` are set for, and ``options`` given to, the ``pip install`` that builds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    requirements: tuple[ExactPin, ...] = ()
    needs: tuple[str, ...] = ()
    env_vars: Mapping[str, str] = {}
    options: tuple[str, ...] = ()


class Extra(BaseModel):
    """An addition to an environment that is made on demand: wheels, or something to ``build`` where it is used.

    ``requirements`` are the wheels with all that they need besides the lock, or what is built.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    requirements: tuple[ExactPin, ...] = Field(min_length=1)
    imports: tuple[str, ...]
    build: Build | None = None

    @property
    def pins(self) -> tuple[Pin, ...]:
        """All that it installs: the tools of its build first."""
        tools = self.build.requirements if self.build else ()
        return tuple(pin for text in (*tools, *self.requirements) if (pin := read_pin(text)))

    def digest_line(self, name: str) -> str:
        """Return a line that changes with everything that decides what is installed or built."""
        build = {"build": self.build.model_dump(exclude={"needs"})} if self.build else {}
        return f"extra {name} {json.dumps({'requirements': self.requirements, **build}, sort_keys=True)}"


class Entry(BaseModel):
    """A framework of the catalogue.

    ``imports`` must all succeed in a made environment; ``import_name`` is the framework itself. ``python`` are the
    versions (``"3.11"``) that the locks fit, best first. ``env_vars`` are set for every run. ``versions`` names
    attribute paths (``torch.version.cuda``; functions are called) by which the framework reports its own ``version``,
    ``cuda``, ``cudnn`` and ``nccl``. ``placeholder`` is there for a framework that the public index does not have; the
    locks then hold its dependencies alone. ``stands_for`` maps the name of another build of a package to the pin whose
    place a wheel of it takes, when the user gives one. ``extras`` are added on demand. ``folder``, which has the
    framework's name, is where the entry, its locks and ``smoke.py`` stand.
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
    stands_for: Mapping[str, str] = {}
    extras: Mapping[str, Extra] = {}
    folder: Path

    def variables(self, variant: Variant) -> dict[str, str]:
        """Return what is set for every run in an environment of the variant."""
        return {**self.env_vars, **self.variants[variant].env_vars}

    @property
    def smoke(self) -> Path:
        """The script that trains one step inside the environment."""
        return self.folder / "smoke.py"

    def fits(self, version: str) -> bool:
        """Tell whether the locks fit a Python (``"3.11.7"``)."""
        return minor_of(version) in self.python

    def find_extras(self, names: Iterable[str]) -> dict[str, Extra]:
        """Return the extras of these names; raise ``InputError`` for one that the framework does not have."""
        for name in names:
            if name not in self.extras:
                has = f"it has: {', '.join(self.extras)}" if self.extras else "it has none"
                raise InputError(
                    f"'{self.framework}' has no extra '{name}'{nearest(name, self.extras)} ({has})"
                )
        return {name: self.extras[name] for name in names}


def minor_of(version: str) -> str:
    """Return ``"3.11"`` of ``"3.11.7"``: what decides whether a Python can use what was installed for another."""
    return ".".join(version.split(".")[:2])


def entries(catalog: Path | None = None) -> tuple[Entry, ...]:
    """Return every framework, by name: ours and those of extensions, or those in the folder ``catalog`` alone."""
    return tuple(_read(folder) for _, folder in sorted(_folders(catalog).items()))


def find_entry(name: str, catalog: Path | None = None) -> Entry:
    """Return the framework ``name``; raise ``InputError`` with the known names otherwise."""
    known = _folders(catalog)
    if name == "system":
        raise InputError(
            "'system' is the Python that runs trainmark: nothing is made, locked or removed for it"
        )
    if name not in known:
        words = ", ".join([*sorted(known), "system"])
        raise InputError(f"no environment '{name}'{nearest(name, [*known, 'system'])} (there are: {words})")
    return _read(known[name])


def lock_of(entry: Entry, variant: Variant) -> Lock:
    """Return the lock of a framework's variant; raise ``InputError`` when it has no such variant."""
    if variant not in entry.variants:
        has = ", ".join(entry.variants)
        raise InputError(f"'{entry.framework}' has no variant '{variant}' (it has: {has})")
    return read_lock(entry.folder / f"{variant}.lock")


def digest_of(entry: Entry, variant: Variant, wheels: Mapping[str, str], extras: Iterable[str]) -> str:
    """Return the digest of what an environment is made from: lock, links, the wheels given (SHA-256), extras."""
    lock = lock_of(entry, variant)
    lines = [extra.digest_line(name) for name, extra in entry.find_extras(extras).items()]
    if links := entry.variants[variant].links:
        lines.append(f"links {links.files} into {links.into}")
    return lock.digest(wheels, lines)


def _folders(catalog: Path | None) -> dict[str, Path]:
    rooms = (FRAMEWORKS, *folders("frameworks")) if catalog is None else (catalog,)
    found: dict[str, Path] = {}
    for room in rooms:
        for path in room.glob(f"*/{_ENVIRONMENT}"):
            found.setdefault(path.parent.name, path.parent)
    return found


def _read(folder: Path) -> Entry:
    path = folder / _ENVIRONMENT
    try:
        document = parse_yaml(path.read_text(encoding="utf-8"))
        return Entry.model_validate({**document, "framework": folder.name, "folder": folder})
    except yaml.YAMLError as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise InputError(f"{path}: {key}: {first['msg']}") from error
