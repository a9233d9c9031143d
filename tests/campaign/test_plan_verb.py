"""``trainmark plan``: every case with its commands, and nothing run, made or written."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from fakes import Bench, behaving
from trainmark.cli.main import main


def planned(bench: Bench, capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert main(["plan", str(bench.suite), "--out", str(bench.out), *more]) == 0
    return capsys.readouterr().out


def test_a_plan_names_each_case_and_its_command_and_runs_nothing(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINMARK_HOME", str(bench.folder / "home"))
    suite = bench.write({}, {"nodes": 2}, {"precision": "tf32"}, behaving("needs-8", batch_per_device="max"))
    before = sorted(bench.folder.rglob("*"))
    text = planned(bench, capsys)
    assert sorted(bench.folder.rglob("*")) == before
    blocks = text.split("\n\n")
    assert blocks[0].startswith(
        "# suite fakes: 4 cases, 1 run each, 12 steps per run, the first 2 not measured"
    )
    assert [block.splitlines()[0] for block in blocks[1:]] == [f"# {case.id}" for case in suite.cases]
    assert f"--events={bench.out}/runs/{suite.cases[0].id}/1/events.jsonl" in blocks[1]
    assert "# cannot run here: 2 nodes are required" in blocks[2]
    assert "has no precision 'tf32'" in blocks[3]
    assert "--batch-per-device=8" in blocks[4]


def test_the_printed_command_is_the_one_that_runs(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.write()
    text = planned(bench, capsys)
    command = text.splitlines()[-1]
    (run,) = bench.run().cases[0].runs
    assert run.commands == (command,)


def test_each_framework_is_planned_in_the_environment_that_the_suite_gives_it(
    bench: Bench, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINMARK_HOME", str(bench.folder / "home"))
    python = bench.folder / "jax" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    given = {"pytorch": "system", "jax": str(python), "tensorflow": "docker"}
    own = {"workload": "trainmark", "model": "mobilenet_v1"}
    frameworks = [*given, "mxnet"]
    layouts = {"jax": "nhwc"}
    bench.write(
        *({**own, "framework": name, "layout": layouts.get(name, "nchw")} for name in frameworks),
        environment=given,
    )
    assert main(["plan", str(bench.suite), "--out", str(bench.out), "--json"]) == 0
    output = capsys.readouterr()
    assert output.err == "note: environment 'mxnet' is not created yet (trainmark env create mxnet)\n"
    in_pytorch, in_jax, in_tensorflow, in_mxnet = map(json.loads, output.out.splitlines())
    assert in_pytorch["commands"][0]["words"][0] == sys.executable
    assert in_jax["commands"][0]["words"][0] == str(python)
    assert in_tensorflow["cannot_run"] == "workload 'trainmark' names no image, so it cannot run in docker"
    assert in_mxnet["commands"][0]["words"][0] == str(bench.folder / "home/envs/mxnet/bin/python")


def test_json_gives_one_object_a_case(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    suite = bench.write({}, {"nodes": 2})
    first, second = map(json.loads, planned(bench, capsys, "--json").splitlines())
    assert first["id"] == suite.cases[0].id
    assert Path(first["commands"][0]["words"][1]).name == "fake_training.py"
    assert first["cannot_run"] is None
    assert second["cannot_run"].startswith("2 nodes")


def test_only_plans_the_chosen_cases(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.write({}, {"batch_per_device": 8})
    assert planned(bench, capsys, "--only", "batch_per_device=8").count("\n# fake-") == 1


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        (
            "axes:\n  framework: [pytorch, pytoch]\n",
            ":3: axes.framework[1]: workload 'trainmark' has no card",
        ),
        (
            "defaults:\n  workload: trainmrk\naxes: {nodes: 1}\n",
            ":3: defaults.workload: no workload 'trainmrk'",
        ),
        ("axes: {nodes: 1}\nenvironment: pytoch\n", ":3: environment: no environment 'pytoch'; did you mean"),
        (
            "axes: {nodes: 1}\nenvironment:\n  pytorch: jaxx\n",
            ":4: environment.pytorch: no environment 'jaxx'; did you mean 'jax'",
        ),
        (
            "axes:\n  data: [synthetic]\ninclude:\n  - {data: photo}\n",
            ":5: include[0].data: 'photo' is not a data set",
        ),
    ],
)
def test_a_name_that_nothing_has_is_reported_with_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, reported: str
) -> None:
    suite = tmp_path / "suite.yaml"
    suite.write_text(f"name: x\n{text}")
    for verb in ("plan", "run"):
        assert main([verb, str(suite), "--out", str(tmp_path / "out")]) == 2
        assert f"{suite}{reported}" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_the_processor_time_of_a_plan_grows_slowly_with_its_cases(tmp_path: Path) -> None:
    """One case more costs at most a thirtieth of ``--help``; reading the machine or the cards anew costs far more."""
    axes = "{precision: [fp32, bf16], layout: [nchw, nhwc], batch_per_device: [%s]}"
    seconds = {}
    for batches in (1, 251):
        suite = tmp_path / f"{batches}.yaml"
        listed = ", ".join(map(str, range(1, batches + 1)))
        suite.write_text(f"name: matrix\nenvironment: system\naxes: {axes % listed}\n")
        seconds[batches] = min(_cpu_s("plan", str(suite)) for _ in range(2))
    usage = min(_cpu_s("--help") for _ in range(3))
    assert (seconds[251] - seconds[1]) / 1000 < usage / 30


def test_a_plan_loads_no_typer(bench: Bench) -> None:
    bench.write()
    code = (
        "import sys; from trainmark.cli.main import main; "
        f"main(['plan', {str(bench.suite)!r}]); print('typer' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout.splitlines()[-1] == "False"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "the following arguments are required: SUITE"),
        (("one.yaml", "two.yaml"), "unexpected argument 'two.yaml'"),
        (("one.yaml", "--ont", "x"), "no option '--ont'; did you mean '--out'?"),
    ],
)
def test_a_wrong_command_line_is_one_line_that_names_what_is_wrong(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], message: str
) -> None:
    assert main(["plan", *words]) == 2

    assert capsys.readouterr().err.strip() == f"trainmark plan: {message} (see trainmark plan --help)"


def _cpu_s(*words: str) -> float:
    """Return the processor time of ``trainmark`` with these words."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "trainmark.cli.main", *words]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
