"""The packages of a card, besides those of its environment: a lock by uv, and the commands that install it.

The environment itself is not changed. Its packages are constraints of the lock, so that the framework stays as it is,
and the card's packages are installed into a venv next to it, from which the environment's packages are imported too.
"""

import configparser
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from trainmark.environment.lock import canonical
from trainmark.environment.resolving import UnusableEnvironment, venv_environ
from trainmark.files import write_atomically

LOCK, VENV = "lock.txt", "venv"
"""The names of the lock file and of the venv in the folder of a card's packages."""
LEFT_OUT = "!"
"""The beginning of a requirement that leaves a package out."""

_TIMEOUT_S = 600
_NO_UV = "uv is needed for the card's packages, and is not installed: pip install 'trainmark[packages]'"
_INSPECT = """\
import json, sys
from importlib.metadata import distributions
folders = [path for path in sys.path if path.rstrip("/").endswith(("site-packages", "dist-packages"))]
found = {each.metadata["Name"]: each.version for each in distributions() if each.metadata["Name"]}
print(json.dumps({"version": sys.version.split()[0], "folders": folders, "packages": found}))
"""
_PTH = "trainmark_base.pth"
_ADD_BASE = """\
import json, sys, sysconfig
lines = (f"import site; site.addsitedir({folder!r})" for folder in json.loads(sys.argv[1]))
with open(sysconfig.get_path("purelib") + "/" + sys.argv[2], "w") as file:
    file.write("\\n".join(lines) + "\\n")
"""
_PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)==(\S+)", re.MULTILINE)
_VERSION = re.compile(r"[0-9][A-Za-z0-9.!+_]*")
_OF_UV = (
    "UV_INDEX",
    "UV_DEFAULT_INDEX",
    "UV_INDEX_URL",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_NO_INDEX",
)


@dataclass(frozen=True, slots=True)
class PackageLock:
    """The packages that a card adds to an environment, each at one version.

    ``folder`` has the lock and the venv; ``base_folders`` are the environment's folders of packages. ``pins`` are
    ``name==version``, without what the environment has already; ``lock`` is the text of the lock, with hashes.
    """

    folder: Path
    base: Path
    base_folders: tuple[str, ...]
    pins: tuple[str, ...]
    lock: str
    uv: Path

    @property
    def digest(self) -> str:
        """The digest that identifies the lock."""
        return f"sha256:{hashlib.sha256(self.lock.encode()).hexdigest()}"

    @property
    def python(self) -> Path:
        """The interpreter that imports the card's packages and the environment's."""
        return self.folder / VENV / "bin" / "python"

    @property
    def is_installed(self) -> bool:
        """True if the venv is complete on this machine."""
        return any(self.folder.glob(f"{VENV}/lib/python3*/site-packages/{_PTH}"))

    @property
    def description(self) -> str:
        """The packages that are installed, in words."""
        return ", ".join(self.pins) or "nothing: the environment has them all"

    def commands(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Yield the commands that make the venv, each with a description."""
        python, lock, venv = str(self.python), str(self.folder / LOCK), str(self.folder / VENV)
        what = f"the card's packages: {self.description}"
        quiet = ("--quiet", "--no-progress", "--color", "never")
        yield what, (str(self.uv), "venv", *quiet, "--clear", "--python", str(self.base), venv)
        if self.pins:
            install = ("pip", "sync", *quiet, "--require-hashes", "--only-binary", ":all:")
            yield what, (str(self.uv), *install, *index_options(os.environ), "--python", python, lock)
        yield what, (python, "-c", _ADD_BASE, json.dumps(self.base_folders), _PTH)


def lock_packages(
    base: Path, variables: Mapping[str, str], requirements: Sequence[str], home: Path
) -> PackageLock:
    """Return the lock of ``requirements`` for the interpreter ``base``; resolve it with uv if it is new.

    ``!NAME`` among the requirements leaves out a package that others of them depend on.

    Raises ``UnusableEnvironment`` with one line if ``base`` does not start, uv is missing, or there is no solution.
    """
    found = _inspect(base, variables)
    words = json.dumps([str(base), asdict(found), sorted(requirements)], sort_keys=True)
    folder = home / "packages" / hashlib.sha256(words.encode()).hexdigest()[:16]
    uv, lock = _find_uv(), folder / LOCK
    present = {canonical(name): version for name, version in found.packages.items()}
    if not lock.exists():
        text = _resolve(uv, base, present, requirements)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(lock, text)
    text = lock.read_text(encoding="utf-8")
    pins = tuple(f"{name}=={version}" for name, version in _PIN.findall(text))
    if f"{LEFT_OUT}torch" not in requirements and (reason := _other_build(present, pins, platform.machine())):
        raise UnusableEnvironment(reason)
    return PackageLock(folder, base, tuple(found.folders), pins, text, uv)


def _other_build(present: Mapping[str, str], pins: Sequence[str], machine: str) -> str | None:
    """Return why the locked torchvision cannot be imported next to the environment's torch, or None.

    No version says so: on x86-64, PyPI's torchvision is built for CUDA, and its metadata fits any build of its torch.
    """
    torch = present.get("torch", "")
    found = next((pin for pin in pins if pin.startswith("torchvision==")), "")
    if machine != "x86_64" or not found or "+" in found or not torch.endswith("+cpu"):
        return None
    return (
        f"{found} is built for CUDA and cannot be imported with torch {torch}: name the index of PyTorch's builds for "
        "CPUs (UV_INDEX=https://download.pytorch.org/whl/cpu), or leave it out ('!torchvision' in the card's packages)"
    )


@dataclass(frozen=True, slots=True)
class _Base:
    """The environment's Python version, its folders of packages, and its packages with their versions."""

    version: str
    folders: list[str]
    packages: dict[str, str]


def _inspect(base: Path, variables: Mapping[str, str]) -> _Base:
    environ = {**venv_environ(base, os.environ), **variables}
    try:
        done = subprocess.run(
            [str(base), "-c", _INSPECT], env=environ, capture_output=True, timeout=_TIMEOUT_S, check=False
        )
        return _Base(**json.loads(done.stdout.splitlines()[-1]))
    except (OSError, ValueError, TypeError, IndexError, subprocess.TimeoutExpired):
        raise UnusableEnvironment(
            f"{base}: does not start, so the card's packages cannot be resolved for it"
        ) from None


def _find_uv() -> Path:
    if find_spec("uv") is not None:
        import uv

        try:
            return Path(uv.find_uv_bin())
        except FileNotFoundError:
            pass
    found = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if found is None:
        raise UnusableEnvironment(_NO_UV)
    return Path(found)


def _resolve(uv: Path, base: Path, present: Mapping[str, str], requirements: Sequence[str]) -> str:
    """Return the lock of the packages that the environment lacks, with hashes."""
    with tempfile.TemporaryDirectory(prefix="trainmark-packages-") as scratch:
        folder = Path(scratch)
        stubs = folder / "present"
        stubs.mkdir()
        constraints = []
        for name, version in sorted(present.items()):
            if _VERSION.fullmatch(version):
                _write_stub(stubs, name, version)
                constraints.append(f"{name}=={version}\n")
        (folder / "constraints.txt").write_text("".join(constraints), encoding="utf-8")
        wanted = [one for one in requirements if not one.startswith(LEFT_OUT)]
        left_out = [one.removeprefix(LEFT_OUT) for one in requirements if one.startswith(LEFT_OUT)]
        for file, lines in (
            ("requirements.txt", wanted),
            # A dependency is replaced by one of no platform.
            ("overrides.txt", [f"{one}; sys_platform == 'none'" for one in left_out]),
        ):
            (folder / file).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        options = ["--no-header", "--no-annotate", "--generate-hashes", "--only-binary", ":all:"]
        command = [
            *(str(uv), "pip", "compile", "requirements.txt", "--constraint", "constraints.txt"),
            *("--override", "overrides.txt", *options),
            *("--quiet", "--no-progress", "--color", "never", "--python", str(base)),
            *index_options(os.environ),
            # The option replaces the variable.
            *(word for place in _links_of_uv(os.environ) for word in ("--find-links", place)),
            *("--find-links", str(stubs), "--output-file", "lock.txt"),
        ]
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        if done.returncode != 0:
            names = ", ".join(requirements)
            raise UnusableEnvironment(f"the packages {names} cannot be resolved: {error_line(done.stderr)}")
        return _without(present, (folder / "lock.txt").read_text(encoding="utf-8"))


def _write_stub(folder: Path, name: str, version: str) -> None:
    """Write a wheel without content: an installed package need not be on an index, and its dependencies are met."""
    stem = f"{name.replace('-', '_')}-{version}"
    with zipfile.ZipFile(folder / f"{stem}-py3-none-any.whl", "w") as wheel:
        metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        wheel.writestr(f"{stem}.dist-info/METADATA", metadata)
        wheel.writestr(
            f"{stem}.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: trainmark\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        )
        wheel.writestr(f"{stem}.dist-info/RECORD", "")


def _without(present: Mapping[str, str], text: str) -> str:
    """Return a lock without the pins of packages that the environment has."""
    retained, keep = [], True
    for line in text.splitlines(keepends=True):
        if (pin := _PIN.match(line)) is not None:
            keep = canonical(pin[1]) not in present
        if keep:
            retained.append(line)
    return "".join(retained)


def error_line(text: str) -> str:
    """Return what uv reports, as one line without its drawing, and what to do."""
    lines = [re.sub(r"^[\s×╰─▶├│>-]*(?:(?:error|cause): )?", "", line).strip() for line in text.splitlines()]
    parts = [
        line for line in lines if line and not line.startswith(("hint:", "warning:", "No solution found"))
    ]
    sentence = " ".join(parts).rstrip(".") or "uv gave no reason"
    if re.search(
        r"dns error|connect|network|timed out|Failed to fetch|Could not connect|Request failed", sentence
    ):
        return f"{sentence}; connect to the package index, or name a mirror (UV_DEFAULT_INDEX, or pip's index-url)"
    if "was not found in the" in sentence or "there are no versions of" in sentence:
        return f"{sentence}; correct the card's 'packages', or name the index that has it (UV_INDEX)"
    return f"{sentence}; the environment's own packages stay as they are, so the card's must fit them"


def index_options(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return uv's options for the indexes that pip is configured to use; none if variables configure uv itself.

    A package is searched in all of them, as by pip: by itself, uv ends with the first index that has it.
    """
    if any(environ.get(name) for name in _OF_UV):
        return ()
    settings = _pip_settings(environ)
    options: list[str] = []
    for key, option in (
        ("index-url", "--default-index"),
        ("extra-index-url", "--index"),
        ("find-links", "--find-links"),
    ):
        for value in settings.get(key, "").split():
            options += [option, value]
    if settings.get("no-index", "").lower() in ("1", "true", "yes"):
        options.append("--no-index")
    if "--index" in options:
        options += ["--index-strategy", "unsafe-best-match"]
    return tuple(options)


def _links_of_uv(environ: Mapping[str, str]) -> list[str]:
    return [place for place in re.split(r"[,\s]+", environ.get("UV_FIND_LINKS", "")) if place]


def _pip_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return pip's settings of its configuration files and variables; later ones replace earlier ones."""
    home, shared = Path(environ.get("HOME", "/")), environ.get("XDG_CONFIG_DIRS") or "/etc/xdg"
    own = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    files = [Path(folder) / "pip" / "pip.conf" for folder in shared.split(os.pathsep)]
    files += [Path("/etc/pip.conf"), home / ".pip" / "pip.conf", own / "pip" / "pip.conf"]
    if environ.get("PIP_CONFIG_FILE"):
        files.append(Path(environ["PIP_CONFIG_FILE"]))
    settings: dict[str, str] = {}
    parser = configparser.RawConfigParser()
    try:
        parser.read(files, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError):
        return {}
    for section in ("global", "install"):
        if parser.has_section(section):
            settings |= dict(parser.items(section))
    names = ("index-url", "extra-index-url", "find-links", "no-index")
    variables = {name: environ.get(f"PIP_{name.upper().replace('-', '_')}") for name in names}
    return settings | {name: value for name, value in variables.items() if value}
