"""The plans of the external programs for the commands of the original documents, held by golden files.

``TRAINMARK_UPDATE_GOLDEN=1 pytest`` writes them anew. No container engine and no network were at hand when they were
written: they hold what would be run, not that it was.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainmark.campaign import site
from trainmark.cli.main import main
from trainmark.placement import Machine
from trainmark.suite import load_suite

SUITES = Path(__file__).parents[2] / "suites"
GOLDEN = Path(__file__).with_name("golden") / "external"
EXTERNAL = sorted(path.stem for path in SUITES.glob("external-*.yaml"))
DGX = Machine(cores=80, gpus=8)


@pytest.fixture(autouse=True)
def _somebody_elses_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "this_machine", lambda: DGX)
    monkeypatch.setattr(site, "owner", lambda: "1000:1000")
    monkeypatch.setenv("TRAINMARK_HOME", "/trainmark")


def planned(capsys: pytest.CaptureFixture[str], suite: Path) -> str:
    assert main(["plan", str(suite), "--out", "/results"]) == 0
    return capsys.readouterr().out


def commands(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if line and not line.startswith("#"))


@pytest.mark.parametrize("name", EXTERNAL)
def test_an_external_suites_plan_reads_as_its_golden_file(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    text = planned(capsys, SUITES / f"{name}.yaml")
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("TRAINMARK_UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", EXTERNAL)
def test_every_case_of_an_external_suite_has_a_command(capsys: pytest.CaptureFixture[str], name: str) -> None:
    text = planned(capsys, SUITES / f"{name}.yaml")
    for block in text.split("\n\n")[1:]:
        assert list(commands(block)), block
    said = set(re.findall(r"# cannot run here: (.*)", text))
    assert all("nodes are asked for" in reason for reason in said), said


def planned_in(capsys: pytest.CaptureFixture[str], tmp_path: Path, engine: str, name: str, cases: str) -> str:
    suite = tmp_path / "suite.yaml"
    text = (SUITES / f"{name}.yaml").read_text(encoding="utf-8")
    suite.write_text(text.replace("protocol:", f"environment: {engine}\nprotocol:", 1), encoding="utf-8")
    assert main(["plan", str(suite), "--out", "/results", "--only", cases]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("external-ngc-pytorch-21.03", "precision=amp-fp16,devices_per_node=8,nodes=1"),
        ("external-pytorch-imagenet", "batch_per_device=128,devices_per_node=4"),
        ("external-ngc-tensorflow", "compiler=xla,devices_per_node=4"),
    ],
)
def test_the_same_case_in_apptainer_reads_as_its_golden_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, cases: str
) -> None:
    text = planned_in(capsys, tmp_path, "apptainer", name, cases)
    golden = GOLDEN / f"apptainer-{name.removeprefix('external-')}.txt"
    if os.environ.get("TRAINMARK_UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_docker_is_an_environment_of_a_card_that_has_a_venv_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    name, cases = "external-pytorch-imagenet", "batch_per_device=128,devices_per_node=1"
    (line,) = (
        line for line in commands(planned_in(capsys, tmp_path, "docker", name, cases)) if "docker run" in line
    )
    assert "pytorch/pytorch:1.6.0-cuda10.1-cudnn7-runtime python " in line


def test_the_logs_of_the_first_report_have_the_names_that_it_lists() -> None:
    from trainmark.suite import log_name

    suite = load_suite(SUITES / "external-ngc-pytorch-20.07.yaml")
    names = {log_name(case, 1, suite.naming) for case in suite.cases}
    listed = {
        f"pytorch_gpu{gpus}_{precision}_bs{batch}.txt"
        for gpus in (1, 8)
        for precision in ("fp32", "amp")
        for batch in (128, 256)
    }
    assert listed <= names


NGC = "external-ngc-pytorch-20.07"
TF = "external-ngc-tensorflow"
DOCUMENTS: list[tuple[str, str, int, tuple[str, ...]]] = [
    (NGC, "*-fp32-b128-1n1g-*", 1, ("git --git-dir", "docker build --tag nvidia_rn50_pytorch:99b1c898cead")),
    (
        NGC,
        "*-fp32-b128-1n1g-*",
        1,
        ("--volume /imagenet:/imagenet:ro", "--ipc=host", "--prof 100", "-b 128 /imagenet"),
    ),
    (
        NGC,
        "*-amp-fp16-b256-1n8g-*",
        1,
        ("multiproc.py", "--nproc_per_node 8", "--amp --static-loss-scale 256 -b 256"),
    ),
    (
        "external-ngc-pytorch-21.03",
        "nodes=4,precision=amp-fp16",
        4,
        (
            "multiproc.py --nnodes 4 --node_rank ",
            "--master_addr NODE0 --master_port ",
            "--nproc_per_node 8",
            "--amp",
        ),
    ),
    (
        TF,
        "nodes=1,precision=fp32",
        3,
        ("utils/dali_index.sh /data/tfrecords ", "--batch_size=128", "--use_dali"),
    ),
    (
        TF,
        "nodes=1,precision=amp-fp16,compiler=none",
        3,
        ("mpirun --allow-run-as-root -np 8 --bind-to none", "--batch_size=224", "--use_tf_amp"),
    ),
    (TF, "nodes=2,precision=amp-fp16,compiler=none", 1, ("-np 16 -H NODE0:8,NODE1:8 ",)),
    (TF, "nodes=4,precision=amp-fp16,compiler=none", 1, ("-np 32 -H NODE0:8,NODE1:8,NODE2:8,NODE3:8 ",)),
    (TF, "compiler=xla,nodes=1,devices_per_node=1", 1, ("--use_xla", "--use_dali --data_idx_dir=")),
    *(
        (
            "external-pytorch-imagenet",
            f"nodes=1,devices_per_node={gpus},batch_per_device={batch}",
            1,
            (
                f"--batch-size {batch * gpus}",
                f"--lr {batch * gpus / 1000:g} ",
                "--momentum 0.9 --print-freq 1",
            ),
        )
        for gpus in (1, 2, 4, 8)
        for batch in (32, 64, 128, 160)
    ),
    (
        "external-gluon-cv",
        "loader=native,batch_per_device=64",
        2,
        (
            "docker pull registry.baidubce.com/paddlepaddle/paddle:2.1.2-gpu-cuda10.2-cudnn7",
            *(
                "mxnet-cu102==1.8.0",
                "--num-gpus 8",
                "--model mobilenet1.0",
                "--batch-size 64",
                "--mode hybrid",
            ),
            "--shm-size=1g",
        ),
    ),
]


@pytest.mark.parametrize(
    ("name", "cases", "programs", "words"), DOCUMENTS, ids=[f"{d[0]}:{d[1]}" for d in DOCUMENTS]
)
def test_a_documents_command_is_planned(
    capsys: pytest.CaptureFixture[str], name: str, cases: str, programs: int, words: tuple[str, ...]
) -> None:
    assert main(["plan", str(SUITES / f"{name}.yaml"), "--out", "/results", "--only", cases]) == 0
    text = capsys.readouterr().out
    started = [line for line in commands(text) if "/source/" in line and "/results/runs/" in line]
    assert len([line for line in started if "worktree" not in line]) == programs
    for word in words:
        assert word in text


def test_no_data_is_named_where_the_document_leaves_data_out(capsys: pytest.CaptureFixture[str]) -> None:
    suite = SUITES / "external-ngc-tensorflow-data.yaml"
    assert main(["plan", str(suite), "--out", "/results", "--only", "data=synthetic"]) == 0
    assert not re.search(r"--data_dir|--use_dali|/data/tfrecords", capsys.readouterr().out)
