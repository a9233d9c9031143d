"""A disk that fills up at every point of a campaign: one clear line, nothing half-written, and then it goes on."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fakes import Bench, behaving
from trainmark.store import read_results

pytestmark = pytest.mark.process

TWICE = {"name": "adaptive", "steps": 12, "warmup_steps": 2, "repeats": 2}


@pytest.fixture
def small(tmp_path: Path) -> Bench:
    """Return a bench whose results go to a disk of 8 MiB, which only the script of ``on_it`` sees."""
    (tmp_path / "disk").mkdir()
    return Bench(tmp_path, "disk/out", processes=True)


def on_it(bench: Bench, script: str) -> list[str]:
    """Run a shell script beside the small disk and return its lines; ``$RUN`` is the command, ``fill N`` leaves N KiB.

    The results are copied to ``kept`` at its end, because the disk is gone then.
    """
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "none", "disk"]
    if subprocess.run(["unshare", "-rm", *mount], cwd=bench.folder, check=False).returncode:
        pytest.skip("this machine does not let us mount a small disk (unshare -rm mount)")
    free = "$(stat -f -c %a disk) * $(stat -f -c %S disk)"
    fill = f"fill() {{ head -c $(( {free} - $1 * 1024 )) /dev/zero >disk/ballast; }}"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f"{shlex.join(mount)}; {fill}\n{script}\ncp -r disk/out kept"],
        cwd=bench.folder,
        env={
            **os.environ,
            **bench.environment(),
            "RUN": shlex.join([sys.executable, "-m", "trainmark.cli.main", *bench.words()]),
            "FAKE_FILL": str(bench.folder / "fill"),
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def reported(path: Path) -> str:
    """Return the one line with which ``trainmark run`` ended."""
    text = path.read_text()
    assert "Traceback" not in text
    lines = [line for line in text.splitlines() if line.startswith("trainmark run: ")]
    assert len(lines) == 1, text
    return lines[0]


def test_a_program_that_fills_the_disk_stops_the_suite_and_resume_repeats_its_run(small: Bench) -> None:
    small.write({}, behaving("fills-disk"))
    (small.folder / "fill").touch()
    lines = on_it(
        small,
        "$RUN 2>err >/dev/null; echo exit $?; ls disk/out/runs/*/1/outcome.json | wc -l; find disk -name '*.tmp'\n"
        "rm fill disk/out/runs/*/1/train.log\n"
        "$RUN --resume 2>err2 >/dev/null; echo exit $?",
    )
    assert lines == ["exit 1", "1", "exit 0"], (small.folder / "err2").read_text()
    assert reported(small.folder / "err") == (
        f"trainmark run: {small.out}: the disk is full; all finished runs are saved: "
        "free some space and continue with --resume"
    )
    results = read_results(small.folder / "kept" / "results.json")
    assert (results.complete, results.holds) == (True, True)


@pytest.mark.parametrize("free_kib", [0, 100, pytest.param(400, marks=pytest.mark.rare)])
def test_whatever_space_is_left_resume_goes_on_from_there(small: Bench, free_kib: int) -> None:
    """The space ends at the lock, in the middle of the database's migration, and in the report."""
    small.write({}, {"batch_per_device": 8}, protocol=TWICE)
    lines = on_it(
        small,
        f"fill {free_kib}; $RUN 2>err >/dev/null; echo exit $?; find disk -name '*.tmp'; rm disk/ballast\n"
        "$RUN --resume 2>err2 >/dev/null; echo exit $?",
    )
    assert lines[-1] == "exit 0", (small.folder / "err2").read_text()
    assert lines[0] == "exit 1"
    line = reported(small.folder / "err")
    assert "disk" in line
    assert free_kib != 100 or line.endswith("free some space and continue with --resume"), line
    assert lines[1:-1] == []
    results = read_results(small.folder / "kept" / "results.json")
    assert (results.complete, results.holds) == (True, True)
    assert [len(case.runs) for case in results.cases] == [2, 2]
