"""Every command of trainmark in an indented block of a page works in a folder that has what the page names."""

import gzip
import lzma
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from test_commands import BLOCK, PAGES, ROOT, words_of

from fakes import machine_read_once
from trainmark.cli.main import main
from trainmark.logs.synthetic import SampleRun
from trainmark.node.archives import unpack
from trainmark.programs import synthetic_log

DOCS = ROOT / "docs"
INDENTED = re.compile(r"^    (?:\S*/)?(trainmark [a-z]+ .*|trainmark check)$", re.MULTILINE)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
OPTIONAL = re.compile(r" *\[[^\]]*\](?:\.\.\.|…)?|(?<=\w)\.\.\.")
STATEMENTS = ("trainmark run: ", "trainmark plan: ")
"""Lines that a verb prints."""

ELSEWHERE: Mapping[str, str] = {
    r"env create": "environment/test_environment_creation.py",
    r"env check": "environment/test_env_verb.py",
    r"env check .*--equivalence": "environment/test_env_equivalence.py",
    r"env remove": "environment/test_environment_creation.py",
    r"env lock": "environment/test_env_verb.py",
    r"serve": "web/test_server_pages.py",
    r"check": "cluster/test_check.py",
    r"export .*(mlflow|tensorboard)": "report/test_export_tools.py",
    r"export .*http://pushgateway": "report/test_export_files.py",
    r"bisect": "bisection/test_candidates.py",
    r"parse --follow": "logs/test_following.py",
    r"explain .*--test": "insight/test_experiment.py",
    r"run .*--against": "command/test_paired_run.py",
    r"run .*--hosts": "cluster/test_command.py",
    r"plan .*kubectl": "submission/test_jobs.py",
}
"""Commands that need a network, a server, other hosts or minutes, and the tests of them."""

STAND_INS: Mapping[str, str] = {
    r"\bSUITE\b": "suites/demo.yaml",
    r"\bLOG\b": "amp_bs256.txt",
    r"\bNAME\b": "ngc-pytorch-resnet50-v100-32gb-amp-1gpu",
    r"\bCASE\b": "pytorch-resnet50_v1.5-fp32-b256-1n1g-synthetic-nhwc-none-224px-cuda",
    r"--tree DIR|--tree logs/ngc/\S*": "--tree dlperf",
    r"data make DIR --images 300": "data make pictures --images 30",
    r"data make-tokens DIR --tokens 1000000": "data make-tokens tokens --tokens 10000",
    r"data make-clicks DIR --samples 1000000": "data make-clicks clicks --samples 1000",
    r"data make-masked DIR --sequences 10000": "data make-masked masked --sequences 100",
    r"convert-clicks SOURCE DIR": "convert-clicks clicks clicks.tfrecord",
    r"data convert SOURCE DEST": "data convert pictures pictures.tfrecord",
    r"data index DIR": "data index pictures.tfrecord",
    r"data verify DIR": "data verify pictures",
    r"\bDIR\b": "results/demo",
    r"postgresql://\S+": "runs.db",
    r"/var/lib/node_exporter": ".",
    r"&& sbatch .*": "",
    r"(\w+)\|\w+": r"\1",
}
"""What a placeholder, or a path of another machine, is in the folder; a data set is smaller than the page's."""


def commands(page: Path) -> list[str]:
    """Return the commands of a page's indented blocks, without comments and without what is optional."""
    text = FENCED.sub("", page.read_text(encoding="utf-8")).replace("\\\n", " ")
    found = (OPTIONAL.sub("", line.partition("  #")[0]).strip() for line in INDENTED.findall(text))
    return [line for line in found if not line.startswith(STATEMENTS)]


def is_elsewhere(command: str) -> bool:
    return any(re.match(rf"trainmark {pattern}", command) for pattern in ELSEWHERE)


def runnable(command: str) -> str:
    """Return the command for the folder; in place of a suite's runs, its plan with the same selection."""
    for pattern, replacement in STAND_INS.items():
        command = re.sub(pattern, replacement, command)
    if re.match(r"trainmark run +\S+\.yaml", command):
        command = re.sub(r" --out \S+| --resume| --profile", "", command).replace(
            "trainmark run", "trainmark plan", 1
        )
    return command


def stored(name: str, folder: Path) -> None:
    """Unpack a stored result."""
    result = DOCS / "results" / name
    folder.mkdir(parents=True)
    for file in ("suite.yaml", "results.json"):
        shutil.copy(result / file, folder)
    with lzma.open(result / "runs.tar.xz") as content:
        unpack(content, folder)


def titled_block(page: str, title: str) -> str:
    """Return the block that a page shows as a file."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return next(block["text"] for block in BLOCK.finditer(text) if block["file"] == title)


TRAINING = """
import argparse, time
parser = argparse.ArgumentParser()
for name in ("--steps", "--layout", "--data"):
    parser.add_argument(name)
parser.parse_args()
for step in range(1, 121):
    time.sleep(0.002)
    print(f"step {step}/120 loss {1 / step:.4f} 2.0 ms/step", flush=True)
"""


MY_TRAINER = "world_size=8 batch_size=64\n" + "".join(
    f"INFO  step {step}/90000 | loss 2.41 | 35.2 ms/step | 1,818 img/s per GPU\n" for step in range(1, 61)
)
"""The log that the page on descriptions begins with, with the facts that its description reads."""


def on_another_day(result: Path, days: int) -> None:
    """Let a result's runs have started so many days later: several baselines are several campaigns."""

    def later(found: re.Match[str]) -> str:
        moment = datetime.fromisoformat(found[1]) + timedelta(days=days)
        return f'"started_at": "{moment.isoformat()}"'.replace("+00:00", "Z")

    for path in (result / "results.json", *result.glob("runs/*/*/outcome.json")):
        text = path.read_text(encoding="utf-8")
        path.write_text(re.sub(r'"started_at": ?"([^"]+)"', later, text), encoding="utf-8")


def add_results(folder: Path) -> None:
    """Add stored results, by the names that pages give to theirs, and two of a small program."""
    results = folder / "results"
    for name, others in {
        "cluster-slurm-pytorch": ("demo",),
        "frameworks": (),
        "h100-scaling": ("monday", "tuesday", "resnet50", "resnet50-a100", "new"),
        "h200": ("sweep", "resnet50-h200", "slow", "fast"),
        "h200-scaling": ("scaling",),
    }.items():
        stored(name, results / name)
        for other in others:
            (results / other).symlink_to(name)
    names = ("base1", "base2", "base3", "new", "monday", "tuesday", "wednesday", "candidate", "baseline")
    for day, name in enumerate(names, start=1):
        shutil.copytree(results / "h100-scaling", folder / name)
        on_another_day(folder / name, day)
    for campaign in range(1, 8):
        again = folder / "campaigns" / str(campaign)
        shutil.copytree(results / "h100-scaling", again)
        suite = (again / "suite.yaml").read_text(encoding="utf-8")
        (again / "suite.yaml").write_text(
            suite.replace("name: h100", f"name: night-{campaign}"), encoding="utf-8"
        )
        assert main(["store", "add", str(again), "--to", str(folder / "runs.db")]) == 0
    assert main(["store", "add", str(results / "demo"), "--to", str(folder / "results.sqlite")]) == 0


def add_logs(folder: Path) -> None:
    """Write logs, a table of published values and a training program."""
    log = synthetic_log("pytorch-imagenet", SampleRun([0.5] * 60))
    tagged = "".join(
        f"[1,{rank}]<stdout>:{line}" for line in log.splitlines(keepends=True) for rank in range(2)
    )
    ngc = titled_block("how-to/i-cannot-reach-the-published-number.md", "amp_bs256.txt")
    texts = {
        **dict.fromkeys(("train.log", "a.log", "b.log", "other/one.log"), log),
        **dict.fromkeys(("before.log", "after.log", "slow/train.log", "fast/train.log"), ngc),
        **dict.fromkeys(
            ("amp_bs256.txt", "pytorch_gpu1_amp_bs256.txt", "logs/pytorch_gpu1_amp_bs256.txt"), ngc
        ),
        **{f"dlperf/1n{gpus}g/r50_b128_fp32_{one}.log": log for gpus in (1, 8) for one in (1, 2)},
        **{f"job/node0{rank + 1}/rank{rank}.log": log for rank in range(2)},
        "logs/resnet50/1x8/bs128.fp32.run1.txt": log,
        "mpirun.log": tagged,
        "table.csv": "log,published,gpus,batch,unit\nlogs/pytorch_gpu1_amp_bs256.txt,790.033,1,256,images/s\n",
        "train.py": TRAINING,
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "more.log.gz").write_bytes(gzip.compress(log.encode()))


def measure_layouts(folder: Path) -> None:
    """Measure the training program with one layout, the other, and both."""
    program = ["--", sys.executable, str(folder / "train.py"), "--layout"]
    for name, layouts in {"nchw": "nchw", "nhwc": "nhwc", "a": "nchw,nhwc"}.items():
        out = str(folder / "results" / name)
        assert (
            main(["run", "--repeats", "1", "--vary", f"layout={layouts}", "--out", out, *program, "{layout}"])
            < 2
        )


@pytest.fixture(scope="module", autouse=True)
def _machine_read_once() -> Iterator[None]:
    with machine_read_once():
        yield


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the results, logs, suites and hosts that pages name."""
    folder = tmp_path_factory.mktemp("reader")
    add_results(folder)
    add_logs(folder)
    measure_layouts(folder)
    (folder / "suites").symlink_to(ROOT / "suites")
    shutil.copy(ROOT / "suites" / "demo.yaml", folder / "my.yaml")
    for name in ("hosts.yaml", "scaling.yaml"):
        (folder / name).write_text(titled_block("tutorials/a-cluster.md", name), encoding="utf-8")
    return folder


def in_a_shell(command: str, folder: Path) -> tuple[int, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "HOME": str(folder), "COLUMNS": "200"}
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


def prepare(page: Path, command: str, folder: Path) -> None:
    """Write the files that a page shows, and for a described log the log of that description."""
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block["file"]:
            (folder / block["file"]).write_text(block["text"], encoding="utf-8")
    if "data index" in command:
        for path in ("dataset.json", "idx"):
            (folder / "pictures.tfrecord" / path).rename(folder / f"converted-{path}")
    if "--format mine.yaml" in command:
        description = titled_block("how-to/describe-a-log.md", "mine.yaml")
        (folder / "mine.yaml").write_text(description, encoding="utf-8")
        for name in ("train.log", "a.log", "b.log"):
            (folder / name).write_text(MY_TRAINER, encoding="utf-8")


WITH_COMMANDS = [
    page
    for page in PAGES
    if ".zh" not in page.name and any(not is_elsewhere(command) for command in commands(page))
]


@pytest.mark.process
@pytest.mark.parametrize("page", WITH_COMMANDS, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_that_a_page_shows_work(
    page: Path, reader: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 1 is fine: a finding, or a run in doubt on a busy machine; 2 is a command that does not work."""
    monkeypatch.chdir(reader)
    monkeypatch.setenv("HOME", str(reader))
    failed: list[str] = []
    for shown in commands(page):
        if is_elsewhere(shown):
            continue
        command = runnable(shown)
        prepare(page, command, reader)
        if re.search(r" [|>&]", command):
            code, errors = in_a_shell(command, reader)
        else:
            code = main(words_of(command)[1:])
            errors = capsys.readouterr().err
        if code not in (0, 1) or "Traceback" in errors:
            failed.append(f"{command}: exit code {code}: {errors[-400:]}")

    assert not failed, "\n".join(failed)


def test_most_commands_are_run_and_each_that_is_not_has_a_test() -> None:
    shown = [command for page in PAGES for command in commands(page)]
    left_out = [command for command in shown if is_elsewhere(command)]
    unused = [
        pattern
        for pattern in (*ELSEWHERE, *STAND_INS)
        if not any(re.search(pattern, command) for command in shown)
    ]

    assert len(left_out) < len(shown) / 2
    assert unused == []
    assert [name for name in ELSEWHERE.values() if not (ROOT / "tests" / name).is_file()] == []


@pytest.mark.parametrize("page", [page for page in PAGES if ".zh" in page.name], ids=lambda page: page.name)
def test_a_chinese_page_shows_the_commands_of_the_english_one(page: Path) -> None:
    english = page.with_name(page.name.replace(".zh-CN.md", ".md").replace(".zh.md", ".md"))

    assert commands(page) == commands(english)


def test_every_suite_that_a_page_names_is_there() -> None:
    named = {
        name
        for page in PAGES
        for name in re.findall(r"\bsuites/[a-z][\w.-]*\.yaml", page.read_text(encoding="utf-8"))
    }

    assert len(named) > 15
    assert [name for name in sorted(named) if "NAME" not in name and not (ROOT / name).is_file()] == []
