"""Run venv and pip with their output in a log, and report a failure in one line."""

import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trainmark.environment.interpreter import Interpreter, clean_environ
from trainmark.environment.locations import python_of
from trainmark.errors import TrainmarkError


@dataclass(frozen=True, slots=True)
class Installer:
    """Runs venv and pip on the venv in ``folder``. Its processes inherit ``inherited_fds`` (the creation lock).

    ``log_retained`` is true if the log remains afterwards, so that an error message may name it.
    """

    folder: Path
    log: Path
    inherited_fds: tuple[int, ...] = ()
    log_retained: bool = True

    def make_venv(self, interpreter: Interpreter) -> None:
        """Create the venv; raise ``TrainmarkError`` if that fails."""
        self._run([os.fspath(interpreter.path), "-I", "-m", "venv", os.fspath(self.folder)], "venv", "")

    def install(self, arguments: Iterable[str], *, index: str | None, hint: str) -> None:
        """Run ``pip install`` with ``arguments``, wheels only; ``index`` is searched besides pip's own.

        Raises ``TrainmarkError`` with pip's last error, and with ``hint`` if a package was not found.
        """
        extra = ["--extra-index-url", index] if index else []
        self._run(self._pip("install", "--only-binary", ":all:", *extra, *arguments), "pip", hint)

    def fetch(self, package: str, *, index: str, into: Path, hint: str) -> None:
        """Download the newest wheel of ``package`` from ``index`` only, without its dependencies.

        ``index`` is a package index, or a page or folder with wheels; pip tries both interpretations. Raises the same
        errors as ``install``.
        """
        only = ["--only-binary", ":all:", "--no-deps", "--index-url", index, "--find-links", index]
        self._run(self._pip("download", *only, "--dest", os.fspath(into), package), "pip", hint)

    def build(
        self, requirements: Iterable[str], *, options: Iterable[str], env_vars: Mapping[str, str]
    ) -> None:
        """Compile ``requirements`` from source with ``pip install``, with the venv's programs first on PATH.

        Raises ``TrainmarkError`` with pip's last error.
        """
        own = os.fspath(python_of(self.folder).parent)
        environ = {"PATH": os.pathsep.join([own, os.environ.get("PATH", os.defpath)]), **env_vars}
        # One at a time and by name, so that pip builds no other package from source.
        for requirement in requirements:
            name = requirement.partition("=")[0]
            command = self._pip("install", "--no-binary", name, *options, requirement)
            self._run(command, f"building {requirement}", "", environ)

    def _pip(self, verb: str, *arguments: str) -> list[str]:
        pip = ["-I", "-m", "pip", "--disable-pip-version-check", "--no-input", "--no-color", verb]
        return [os.fspath(python_of(self.folder)), *pip, "--progress-bar", "off", *arguments]

    def _run(
        self, command: list[str], tool: str, hint: str, env_vars: Mapping[str, str] | None = None
    ) -> None:
        start = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as output:
            code = subprocess.run(
                command,
                env={**clean_environ(os.environ), **(env_vars or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=self.inherited_fds,
                check=False,
            ).returncode
        if code == 0:
            return
        error = unreachable_index(self.log, start) or last_error(self.log, code)
        where = f"; the whole output: {self.log}" if self.log_retained else ""
        more = f"; {hint}" if hint and "distribution" in error else ""
        raise TrainmarkError(f"{tool} failed: {error}{more}{where}")


_LAST_RETRY = re.compile(r"Retry\(total=0\b.*?after connection broken by '(.*?)'\s*: ", re.DOTALL)
_CAUSE = re.compile(r"(?:\[Errno -?\d+\] |: )([A-Z][^\[\]:'\")(]{5,80})['\")]*$")


def unreachable_index(log: Path, start: int) -> str | None:
    """Return a sentence if pip's output from byte ``start`` on shows that no package index was reached; else None.

    pip reports a package that it could not look for as one that does not exist.
    """
    with log.open("rb") as file:
        file.seek(start)
        text = file.read().decode("utf-8", errors="replace")
    found = _LAST_RETRY.search(text)
    if found is None:
        return None
    cause = _CAUSE.search(found[1].strip())
    why = f" ({cause[1].strip()})" if cause else ""
    return (
        f"the package index cannot be reached{why}: check the network and the proxy, and the index in pip's "
        "configuration (pip config list)"
    )


def last_error(log: Path, code: int) -> str:
    """Return pip's last error line from its log; without one, the last line; without any, the exit code."""
    lines = [
        line.strip()
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()
        if line.strip()
    ]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or [f"exit code {code}"])[-1]
