"""Lock files: exact pins, one per line, and the digest that identifies an environment's lock."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainmark.errors import InputError

_PIN = re.compile(
    r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*)(?P<sign>===?)(?P<version>[A-Za-z0-9][A-Za-z0-9.!+_-]*)"
)


def canonical(name: str) -> str:
    """Return the normalized name of a Python package (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


@dataclass(frozen=True, slots=True)
class Pin:
    """One package at one version. ``sign`` is ``==``, or ``===`` where a local version must not match."""

    name: str
    version: str
    sign: str = "=="

    def __str__(self) -> str:
        """Return the pin in pip's requirement syntax."""
        return f"{self.name}{self.sign}{self.version}"

    def accepts(self, installed: str) -> bool:
        """Return whether the installed version matches; ``==`` ignores a local version (``+cpu``), as in PEP 440."""
        if self.sign == "==" and "+" not in self.version:
            installed = installed.partition("+")[0]
        return installed == self.version


@dataclass(frozen=True, slots=True)
class Lock:
    """The pins of one framework's variant, by name, and their file."""

    path: Path
    pins: tuple[Pin, ...]

    def without(self, names: Iterable[str]) -> "Lock":
        """Return the lock without packages that come from another source (such as a user's wheel)."""
        dropped = {canonical(name) for name in names}
        return Lock(self.path, tuple(pin for pin in self.pins if pin.name not in dropped))

    def digest(self, wheels: Mapping[str, str] | None = None, extra_lines: Iterable[str] = ()) -> str:
        """Return ``sha256:…`` of the pins, and of the wheels (name to SHA-256) that replace some of them.

        ``extra_lines`` describe additional installed files. Comments, order and spelling of names do not change the
        digest.
        """
        replaced = {canonical(name): sha256 for name, sha256 in (wheels or {}).items()}
        lines = [str(pin) for pin in self.without(replaced).pins]
        lines += [f"{name} @ sha256:{sha256}" for name, sha256 in replaced.items()]
        lines += extra_lines
        return "sha256:" + hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def read_pin(text: str) -> Pin | None:
    """Parse ``name==version``; return None for any other text."""
    match = _PIN.fullmatch(text)
    return None if match is None else Pin(canonical(match["name"]), match["version"], match["sign"])


def read_lock(path: Path) -> Lock:
    """Read a lock file; raise ``InputError`` that names a line that is not ``name==version`` or a duplicate."""
    pins: dict[str, Pin] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        pin = read_pin(text)
        if pin is None:
            raise InputError(f"{path}:{number}: '{text}' is not an exact pin (name==version)")
        if pin.name in pins:
            raise InputError(f"{path}:{number}: '{pin.name}' is pinned twice")
        pins[pin.name] = pin
    if not pins:
        raise InputError(f"{path}: the lock pins no package")
    return Lock(path, tuple(pins[name] for name in sorted(pins)))


def render_lock(pins: Iterable[Pin], *, heading: Iterable[str]) -> str:
    """Return the text of a lock file: the heading as comments, then the pins by name."""
    lines = [f"# {line}" for line in heading]
    lines += [str(pin) for pin in sorted(pins, key=lambda pin: pin.name)]
    return "\n".join(lines) + "\n"
