"""The start of ``trainmark parse``: its options, and the modules that it leaves out."""

import subprocess
import sys
from pathlib import Path

import pytest

from preloading import call_trainmark
from trainmark.logs.synthetic import SampleRun
from trainmark.programs import synthetic_log

HEAVY = (
    "numpy.random",
    "numpy.ma",
    "pydantic",
    "typer",
    "rich",
    "scipy",
    "yaml",
    "tarfile",
    "tempfile",
    "hashlib",
    "statistics",
    "shutil",
    "trainmark.logs.synthetic",
    "trainmark.measure.rules.dlperf",
    "trainmark.logs.description.ambiguity",
)


def test_reading_a_small_log_loads_no_module_that_takes_longer_than_reading_it(tmp_path: Path) -> None:
    log = tmp_path / "small.log"
    log.write_text(synthetic_log("torchtitan", SampleRun([0.5] * 40, gpus=2)))
    code = (
        "import sys; from trainmark.cli.main import main; "
        f"main(['parse', {str(log)!r}]); "
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    # The first process may have to compute the index of formats.
    runs = [
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        for _ in range(2)
    ]

    assert runs[1].stdout.splitlines()[-1] == "[]"


def test_numpy_starts_no_threads_and_the_environment_of_child_processes_stays(tmp_path: Path) -> None:
    log = tmp_path / "small.log"
    log.write_text(synthetic_log("torchtitan", SampleRun([0.5] * 40, gpus=2)))
    code = (
        "import os; from pathlib import Path; from trainmark.cli.main import main; before = dict(os.environ); "
        f"main(['parse', {str(log)!r}]); "
        "print(len(list(Path('/proc/self/task').iterdir())), dict(os.environ) == before)"
    )

    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout.splitlines()[-1] == "1 True"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--gpus", "0"], "--gpus: 0 is less than 1 (see trainmark parse --help)"),
        (["--gpus", "two"], "--gpus: 'two' is not a whole number (see trainmark parse --help)"),
        (["--gpu", "2"], "no option '--gpu'; did you mean '--gpus'? (see trainmark parse --help)"),
        (["--devices", "2"], "no option '--devices'; did you mean '--gpus'? (see trainmark parse --help)"),
        (["--bacth", "2"], "no option '--bacth'; did you mean '--batch'? (see trainmark parse --help)"),
        (["--quick"], "no option '--quick' (see trainmark parse --help)"),
        (
            ["--to", "paddle"],
            "--to: 'paddle' is none of paddle-json, dlperf-json; did you mean 'paddle-json'?",
        ),
        (["--rule"], "--rule: expected one argument (see trainmark parse --help)"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, list) else "",
)
def test_a_wrong_option_is_refused_in_one_line(words: list[str], message: str) -> None:
    done = call_trainmark("parse", "some.log", *words)

    assert done.returncode == 2
    assert done.stderr.startswith(f"trainmark parse: {message}")
    assert done.stderr.count("\n") == 1


def test_options_may_stand_between_paths_and_after_an_equals_sign(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("")
    (tmp_path / "b.log").write_text("")

    done = call_trainmark("parse", tmp_path / "a.log", "--gpus=2", "--json", "-j2", tmp_path / "b.log")

    assert [line.partition(",")[0] for line in done.stdout.splitlines()] == [
        f'{{"log": "{tmp_path}/{name}.log"' for name in "ab"
    ]
