"""Build and run one candidate: a worktree of a commit, a package next to the environment, or a value of an axis."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trainmark.bisection.candidates import git
from trainmark.errors import InputError
from trainmark.printable import last_line
from trainmark.schema.bisection import Bisection, Candidate, CandidateKind, MeasuredRun, Skipped

_TREES, _PACKAGES, _RUNS, _LOGS = "trees", "packages", "runs", "builds"
_LONGEST_REASON = 200


@dataclass(frozen=True, slots=True)
class Prepared:
    """A candidate that was built: where its command runs, with which variables and options of ``trainmark run``."""

    folder: Path
    variables: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Workshop:
    """The place of a bisection: ``out`` has its trees, packages and runs; ``folder`` is where the command runs.

    ``axis`` is the name of the package or of the varied axis; the candidates' labels are its values.
    """

    out: Path
    folder: Path
    bisection: Bisection
    axis: str = ""

    def measure(self, number: int) -> MeasuredRun | Skipped:
        """Build the candidate if that was not done yet, and run it once."""
        try:
            prepared = self.prepare(number)
        except BuildError as error:
            return Skipped(candidate=number, reason=str(error))
        candidate = self.bisection.candidates[number]
        into = self.out / _RUNS / candidate.name
        into.mkdir(parents=True, exist_ok=True)
        made = into / str(1 + sum(1 for _ in into.iterdir()))
        words = [
            sys.executable,
            "-m",
            "trainmark.cli.main",
            "run",
            "--out",
            str(made),
            "--repeats",
            "1",
            "--json",
        ]
        done = subprocess.run(
            [*words, *self.bisection.run_options, *prepared.options, "--", *self.bisection.command],
            cwd=prepared.folder,
            env={**os.environ, **prepared.variables},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode == 2:
            # The command line itself is wrong: that is no property of the candidate.
            raise InputError(f"{candidate.label}: {_ending(done.stderr)}")
        return _read(number, made, done.stdout, done.stderr)

    def prepare(self, number: int) -> Prepared:
        """Return the candidate as it is run; raise ``BuildError`` if it cannot be built."""
        candidate = self.bisection.candidates[number]
        if self.bisection.kind is CandidateKind.VALUE:
            value = candidate.label.partition("=")[2]
            return Prepared(self.folder, options=("--vary", f"{self.axis}={value}"))
        if self.bisection.kind is CandidateKind.PACKAGE:
            return self._package(candidate)
        return self._tree(candidate)

    def _tree(self, candidate: Candidate) -> Prepared:
        root = Path(git(self.folder, "rev-parse", "--show-toplevel").strip())
        tree = self.out / _TREES / candidate.name[:12]
        done = tree.with_suffix(".built")
        if not done.is_file():
            if tree.exists():
                git(root, "worktree", "remove", "--force", str(tree))
            tree.parent.mkdir(parents=True, exist_ok=True)
            git(root, "worktree", "add", "--detach", "--force", str(tree), candidate.name)
            if self.bisection.build:
                self._command(candidate, self.bisection.build, tree, {})
            done.write_text("", encoding="utf-8")
        folder = tree / self.folder.resolve().relative_to(root.resolve())
        if not folder.is_dir():
            raise BuildError(f"{self.folder.name} does not exist in this commit")
        return Prepared(folder)

    def _package(self, candidate: Candidate) -> Prepared:
        version = candidate.label.partition("=")[2]
        target = self.out / _PACKAGES / candidate.name
        done = target.with_suffix(".installed")
        if not done.is_file():
            shutil.rmtree(target, ignore_errors=True)
            uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
            own = self.bisection.command[0]
            python = shutil.which(own) if "python" in Path(own).name else None
            words = [uv, "pip", "install", "--no-deps", "--target", str(target)]
            words += ["--python", python] if python else []
            self._command(candidate, (*words, f"{self.axis}=={version}"), self.folder, {})
            if self.bisection.build:
                self._command(candidate, self.bisection.build, self.folder, _python_path(target))
            done.write_text("", encoding="utf-8")
        return Prepared(self.folder, variables=_python_path(target))

    def _command(
        self, candidate: Candidate, words: Sequence[str], folder: Path, variables: Mapping[str, str]
    ) -> None:
        """Run a command that builds a candidate; its output is kept next to the runs."""
        log = self.out / _LOGS / f"{candidate.name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            try:
                done = subprocess.run(
                    words,
                    cwd=folder,
                    env={**os.environ, **variables},
                    stdout=output,
                    stderr=output,
                    check=False,
                )
            except OSError as error:
                raise InputError(f"{words[0]}: {error.strerror}") from None
        if done.returncode != 0:
            raise BuildError(f"{' '.join(words)[:80]} failed with exit code {done.returncode} ({log})")

    def remove_trees(self) -> None:
        """Remove the worktrees of commits, which are registered in the repository."""
        trees = self.out / _TREES
        if self.bisection.kind is not CandidateKind.COMMIT or not trees.is_dir():
            return
        for tree in sorted(trees.iterdir()):
            if tree.is_dir():
                git(self.folder, "worktree", "remove", "--force", str(tree))
            else:
                tree.unlink()
        trees.rmdir()


class BuildError(Exception):
    """A candidate cannot be built: it is skipped."""


def _python_path(target: Path) -> dict[str, str]:
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([str(target), *([before] if before else [])])}


def _read(number: int, made: Path, printed: str, errors: str) -> MeasuredRun:
    """Return a run from the results that ``trainmark run --json`` printed."""
    try:
        (case,) = json.loads(printed)["cases"]
    except (ValueError, KeyError):
        return MeasuredRun(
            candidate=number, rate=None, unit=None, directory=str(made), reason=_ending(errors)
        )
    estimate = case["estimate"]
    measured = [run["measurement"] for run in case["runs"] if run["measurement"]]
    return MeasuredRun(
        candidate=number,
        rate=estimate["median"] if estimate else None,
        unit=measured[0]["unit"] if measured else None,
        directory=str(made),
        reason=None if estimate else str(case["reason"] or case["outcome"])[:_LONGEST_REASON],
    )


def _ending(text: str) -> str:
    return last_line(text)[:_LONGEST_REASON] or "trainmark run printed nothing"
