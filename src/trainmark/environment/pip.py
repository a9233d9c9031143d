"""Running venv and pip: their words go to a log, their failure is one line."""

import os
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from trainmark.environment.interpreter import Interpreter, clean_environ
from trainmark.environment.places import python_of
from trainmark.errors import TrainmarkError


@dataclass(frozen=True, slots=True)
class Installer:
    """Works on the venv in ``folder``. Its processes keep the descriptors ``held`` (the guard's) open.

    ``shown`` says whether the log outlives the work, so that an error may name it.
    """

    folder: Path
    log: Path
    held: tuple[int, ...] = ()
    shown: bool = True

    def make_venv(self, interpreter: Interpreter) -> None:
        """Make the venv; raise ``TrainmarkError`` when that fails."""
        self._run([os.fspath(interpreter.path), "-I", "-m", "venv", os.fspath(self.folder)], "venv", "")

    def install(self, arguments: Iterable[str], *, index: str | None, hint: str) -> None:
        """Run ``pip install`` with ``arguments``, wheels only; ``index`` is searched beside pip's own.

        Raises ``TrainmarkError`` with pip's last error; with ``hint`` where a package was not to be found.
        """
        pip = ["-I", "-m", "pip", "--disable-pip-version-check", "--no-input", "--no-color", "install"]
        extra = ["--extra-index-url", index] if index else []
        options = ["--progress-bar", "off", "--only-binary", ":all:", *extra]
        self._run([os.fspath(python_of(self.folder)), *pip, *options, *arguments], "pip", hint)

    def _run(self, command: list[str], tool: str, hint: str) -> None:
        with self.log.open("ab") as output:
            code = subprocess.run(
                command,
                env=clean_environ(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=self.held,
                check=False,
            ).returncode
        if code == 0:
            return
        error = last_error(self.log, code)
        where = f"; the whole output: {self.log}" if self.shown else ""
        more = f"; {hint}" if hint and "distribution" in error else ""
        raise TrainmarkError(f"{tool} failed: {error}{more}{where}")


def last_error(log: Path, code: int) -> str:
    """Return pip's last error line from its log; without one, the last line; without any, the exit code."""
    lines = [
        line.strip()
        for line in log.read_text(encoding="utf-8", errors="replace").splitlines()
        if line.strip()
    ]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return (errors or lines or [f"exit code {code}"])[-1]
