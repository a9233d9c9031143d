"""Jobs for clusters' queues: their texts, held by golden files, and by the schemas that Kubeflow has published.

``TRAINMARK_UPDATE_GOLDEN=1 pytest`` writes the texts anew. No Kubernetes was at hand: they were never applied. What the
schemas cannot say is not looked at here: the operators' own rules, and whether the image has what it must have.
"""

import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from trainmark.cli.main import main
from trainmark.cli.run_options import CommandOptions
from trainmark.cli.suite_input import command_suite
from trainmark.schema.case import case_of
from trainmark.schema.job import JobKind, JobSettings
from trainmark.submission import make_job, render
from trainmark.suite import load_hosts

HERE = Path(__file__).parent
GOLDEN = HERE / "golden"
SCHEMAS = json.loads((HERE / "kubeflow.json").read_text())
IMAGE = f"registry.example.org/trainmark-pytorch@sha256:{'0a' * 32}"

SUITE = """\
name: Scaling_of.ResNet
cards: [cards/mine.yaml]
defaults: {framework: pytorch}
zip:
  - nodes: [1, 1, 4]
    devices_per_node: [1, 8, 8]
"""
CARD = """\
name: mine
description: ""
framework: pytorch
environment: system
source: {kind: folder, path: .}
launcher: process
log_format: trainmark
command: ["{source}/train.py"]
axes: {}
task: image-classification
"""
LITTLE: dict[str, Any] = {
    "out": "/results/scaling",
    "kubernetes": {"image": IMAGE, "claims": {"results": "/results"}},
}
MUCH: dict[str, Any] = {
    "name": "resnet-scaling",
    "out": "/results/scaling",
    "python": "/opt/trainmark/bin/python",
    "time_limit_s": 43200,
    "restarts": 5,
    "slurm": {"options": ["--partition=gpu", "--account=bench"]},
    "kubernetes": {
        "image": IMAGE,
        "namespace": "benchmarks",
        "claims": {"results": "/results", "datasets": "/datasets"},
        "shared_memory": "16Gi",
        "host_network": True,
        "rdma": {"rdma/hca": 1},
        "cpus": "90",
        "memory": "900Gi",
        "node_labels": {"gpu.example.org/model": "V100"},
        "tolerations": ["nvidia.com/gpu"],
        "user": 1000,
        "sshd": ["/usr/sbin/sshd", "-De", "-f", "/home/mpiuser/.sshd_config"],
        "ssh_folder": "/home/mpiuser/.ssh",
        "ssh_port": 2222,
    },
}


@pytest.fixture
def suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cards").mkdir()
    (tmp_path / "cards" / "mine.yaml").write_text(CARD)
    (tmp_path / "suite.yaml").write_text(SUITE)
    return tmp_path / "suite.yaml"


def hosts_file(folder: Path, job: Any, **more: Any) -> Path:
    path = folder / "hosts.yaml"
    path.write_text(yaml.safe_dump({"job": job, **more}))
    return path


def planned(
    capsys: pytest.CaptureFixture[str], suite: Path, kind: str, job: Any, *words: str, **more: Any
) -> str:
    hosts = hosts_file(suite.parent, job, **more)
    assert main(["plan", str(suite), "--hosts", str(hosts), "--as", kind, *words]) == 0
    return capsys.readouterr().out


def refusal(
    capsys: pytest.CaptureFixture[str], suite: Path, kind: str, job: Any, *words: str, **more: Any
) -> str:
    hosts = hosts_file(suite.parent, job, **more)
    assert main(["plan", str(suite), "--hosts", str(hosts), "--as", kind, *words]) == 2
    return capsys.readouterr().err.removeprefix("trainmark plan: ").replace(f"{suite.parent}/", "")


def documents(text: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(text))


def complaints(manifest: dict[str, Any]) -> list[str]:
    schema = SCHEMAS[f"{manifest['apiVersion']}/{manifest['kind']}"]
    against = jsonschema.Draft202012Validator({"$ref": "#/job", "job": schema, "$defs": SCHEMAS["$defs"]})
    return [error.message for error in against.iter_errors(manifest)]


@pytest.mark.parametrize("kind", JobKind)
@pytest.mark.parametrize(("wanted", "hosts"), [("little", None), ("much", ["gpu[01-04]"])])
def test_a_job_reads_as_its_golden_file(
    capsys: pytest.CaptureFixture[str], suite: Path, kind: JobKind, wanted: str, hosts: list[str] | None
) -> None:
    more = {} if hosts is None else {"hosts": hosts}
    text = planned(capsys, suite, kind, {"little": LITTLE, "much": MUCH}[wanted], **more)
    text = text.replace(f"{suite.parent}/", "/home/me/")
    golden = GOLDEN / f"{kind}-{wanted}.{'sh' if kind is JobKind.SBATCH else 'yaml'}"
    if os.environ.get("TRAINMARK_UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["mpijob-little", "mpijob-much", "trainjob-little", "trainjob-much"])
def test_a_manifest_is_one_by_the_operators_own_schema(name: str) -> None:
    first, *jobs = documents((GOLDEN / f"{name}.yaml").read_text())
    assert (first["apiVersion"], first["kind"], sorted(first)) == (
        "v1",
        "ConfigMap",
        ["apiVersion", "data", "kind", "metadata"],
    )
    assert {job["kind"] for job in jobs} in ({"MPIJob"}, {"TrainJob", "TrainingRuntime"})
    assert [(job["kind"], complaint) for job in jobs for complaint in complaints(job)] == []


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("spec", "slotsPerWorker"), "eight"),
        (("spec", "mpiImplementation"), "LAM"),
        (("spec", "slots"), 8),
        (("spec", "mpiReplicaSpecs"), None),
        (("spec", "mpiReplicaSpecs", "Worker", "template", "spec", "hostnetwork"), True),
        (("spec", "mpiReplicaSpecs", "Worker", "template", "spec", "containers"), None),
        (("spec", "mpiReplicaSpecs", "Worker", "template", "spec", "volumes", 0, "name"), 7),
    ],
)
def test_the_schemas_refuse_what_is_no_job(where: tuple[str | int, ...], value: object) -> None:
    _, job = documents((GOLDEN / "mpijob-little.yaml").read_text())
    inner: Any = job
    for part in where[:-1]:
        inner = inner[part]
    if value is None:
        del inner[where[-1]]
    else:
        inner[where[-1]] = value
    assert complaints(job)


def test_the_pods_find_the_suite_and_its_card_where_the_suite_says(
    capsys: pytest.CaptureFixture[str], suite: Path
) -> None:
    config, job = documents(planned(capsys, suite, "mpijob", LITTLE))
    (volume,) = (
        volume
        for volume in job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["volumes"]
        if "configMap" in volume
    )
    assert volume["configMap"]["name"] == config["metadata"]["name"]
    lying = {item["path"]: config["data"][item["key"]] for item in volume["configMap"]["items"]}
    assert lying == {"suite.yaml": SUITE, "cards/mine.yaml": CARD}


def test_only_the_selected_cases_are_measured_and_requested(
    capsys: pytest.CaptureFixture[str], suite: Path
) -> None:
    script = planned(capsys, suite, "sbatch", LITTLE, "--only", "nodes=1,devices_per_node=1")
    assert "--nodes=1\n" in script
    assert "--gpus-per-node=1\n" in script
    assert script.endswith("--resume --only nodes=1,devices_per_node=1\n")


def test_of_more_hosts_than_needed_slurm_gets_the_first(
    capsys: pytest.CaptureFixture[str], suite: Path
) -> None:
    script = planned(capsys, suite, "sbatch", LITTLE, hosts=["gpu[01-08]"])
    assert "--nodes=4\n" in script
    assert "--nodelist=gpu01,gpu02,gpu03,gpu04\n" in script


def test_a_suite_for_cpus_asks_for_no_gpu(capsys: pytest.CaptureFixture[str], suite: Path) -> None:
    suite.write_text(SUITE.replace("framework: pytorch", "framework: pytorch, device: cpu"))
    assert "gpu" not in planned(capsys, suite, "sbatch", LITTLE)
    assert "nvidia" not in planned(capsys, suite, "trainjob", LITTLE)


TORCHRUN = "torchrun --nnodes {nodes} --node-rank {node} --nproc-per-node 8 --master-addr {master} train.py"
MPIRUN = "mpirun -np {world_size} -H {hosts} --tag-output python train.py"


def written_by_run(folder: Path, command: str) -> Path:
    """Return the suite that ``trainmark run --nodes 4 -- COMMAND`` writes."""
    project = folder / "mlp"
    project.mkdir()
    (project / "train.py").write_text("import torch\n")
    given_ = CommandOptions(nodes=4, devices=8)
    return command_suite(shlex.split(command), given_, project).write(project / "out")


@pytest.mark.parametrize("kind", JobKind)
@pytest.mark.parametrize("command", [TORCHRUN, MPIRUN], ids=["torchrun", "mpirun"])
def test_a_command_line_becomes_a_job(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: JobKind, command: str
) -> None:
    path = written_by_run(tmp_path, command)

    hosts = hosts_file(tmp_path, {**LITTLE, "python": "/opt/trainmark/bin/python"})
    assert main(["plan", str(path), "--hosts", str(hosts), "--as", kind]) == 0
    text, notes = capsys.readouterr()

    if kind is JobKind.SBATCH:
        assert "#SBATCH --nodes=4\n" in text
        assert "#SBATCH --gpus-per-node=8\n" in text
        assert f" run {path} --hosts slurm " in text
        assert notes == ""
        return
    found = documents(text)
    assert [complaints(manifest) for manifest in found[1:]] == [[]] * len(found[1:])
    card = yaml.safe_load(found[0]["data"]["card-0.yaml"])
    assert card["command"] == shlex.split(command)
    project = path.parents[1]
    assert notes == (
        f"note: the program of mlp is not part of the job: the pods need {project} from their image or a claim\n"
    )


def test_the_gpus_of_a_job_may_be_stated(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = written_by_run(tmp_path, MPIRUN)

    settings = [
        line
        for line in planned(capsys, path, "sbatch", {**LITTLE, "gpus": 0}).splitlines()
        if "SBATCH" in line
    ]
    assert settings
    assert not any("gpu" in line for line in settings)
    assert "nvidia" not in planned(capsys, path, "mpijob", {**LITTLE, "gpus": 0})


def test_srun_is_no_command_for_pods(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = written_by_run(tmp_path, "srun -n 32 python train.py")

    assert refusal(capsys, path, "trainjob", LITTLE) == (
        "--as trainjob: the command of mlp is srun, but pods have no Slurm; use torchrun or mpirun\n"
    )


def test_the_operators_list_of_pods_is_a_hosts_file(tmp_path: Path) -> None:
    # As mpi_job_controller.go of kubeflow/mpi-operator writes it: "%s slots=%d\n" of "%s.%s.%s.svc".
    path = tmp_path / "hostfile"
    path.write_text("".join(f"scaling-worker-{n}.scaling.default.svc slots=8\n" for n in range(4)))
    found = load_hosts(str(path), {})
    assert [(host.name, host.slots) for host in found.hosts] == [
        (f"scaling-worker-{n}.scaling.default.svc", 8) for n in range(4)
    ]


lines = st.text(st.characters(codec="utf-8", exclude_categories=["C"]), max_size=40)


@settings(max_examples=25, deadline=None)
@given(st.lists(lines, min_size=1, max_size=6), st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._+-]{0,80}\Z"))
def test_whatever_a_suite_says_reaches_the_pods_as_it_was_written(message: list[str], name: str) -> None:
    text = "\n".join(message) + "\n"
    with TemporaryDirectory() as folder:
        suite = Path(folder) / "suite.yaml"
        suite.write_bytes(yaml.safe_dump({"name": name, "description": text}, allow_unicode=True).encode())
        settings_ = JobSettings.model_validate(LITTLE)
        job = make_job(suite, name, (case_of(),), None, settings_, (), "hosts.yaml")
        config, manifest = documents(render(job, JobKind.MPIJOB))
        assert config["data"]["suite.yaml"] == suite.read_text(encoding="utf-8")
    assert complaints(manifest) == []


REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("sbatch", {}, "hosts.yaml:1: job.out: is missing\n"),
    (
        "sbatch",
        {"out": "results"},
        "hosts.yaml:1: job: out (results) must be an absolute path: the job's hosts have no folder of yours\n",
    ),
    (
        "sbatch",
        {"out": "/results\n#SBATCH --uid=root"},
        "hosts.yaml:1: job: out contains whitespace or a control character, which a job's options cannot have\n",
    ),
    (
        "mpijob",
        {"out": "/tmp/results", "kubernetes": LITTLE["kubernetes"]},
        "hosts.yaml:1: job: out (/tmp/results) is in none of kubernetes.claims, "
        "so the results would be lost with the pod\n",
    ),
    (
        "trainjob",
        {"out": "/results"},
        "job.kubernetes: is missing in the hosts file (add it, with the 'image' of the pods)\n",
    ),
    ("pbs", LITTLE, "--as pbs: unknown kind of job (sbatch, trainjob, mpijob)\n"),
    ("mpjob", LITTLE, "--as mpjob: unknown kind of job; did you mean 'mpijob'? (sbatch, trainjob, mpijob)\n"),
]


@pytest.mark.parametrize(("kind", "job", "why"), REFUSED)
def test_what_cannot_be_a_job_is_reported_in_one_line(
    capsys: pytest.CaptureFixture[str], suite: Path, kind: str, job: dict[str, Any], why: str
) -> None:
    assert refusal(capsys, suite, kind, job) == why


def test_fewer_hosts_than_nodes_are_reported(capsys: pytest.CaptureFixture[str], suite: Path) -> None:
    reported = refusal(capsys, suite, "sbatch", LITTLE, hosts=["gpu[01-02]"])
    assert reported == "suite.yaml: 4 nodes are required, but the hosts file has only 2\n"


def test_a_card_that_lies_elsewhere_cannot_go_with_the_suite(
    capsys: pytest.CaptureFixture[str], suite: Path
) -> None:
    elsewhere = suite.parent / "cards" / "mine.yaml"
    suite.write_text(SUITE.replace("cards/mine.yaml", str(elsewhere)))
    assert "a job takes its cards along, so they must be in the suite's folder" in refusal(
        capsys, suite, "mpijob", LITTLE
    )


@pytest.fixture
def queued(capsys: pytest.CaptureFixture[str], suite: Path) -> Path:
    """Return a job's script whose suite is measured by a process that waits to be ended, and ends well."""
    folder = suite.parent / "bin"
    folder.mkdir()
    (folder / "python").write_text(
        '#!/bin/bash\ntrap "echo ended >> said; exit 0" TERM\necho "$@" >> said\necho ready\n'
        # No $(…): a trap that comes while bash reads one is a syntax error to it (5.2), and lost.
        "while [ $SECONDS -lt 300 ]; do sleep 0.1; done\n"
    )
    (folder / "scontrol").write_text('#!/bin/bash\necho scontrol "$@" >> said\n')
    for program in folder.iterdir():
        program.chmod(0o755)
    path = suite.parent / "job.sh"
    settings = {**MUCH, "python": str(folder / "python"), "out": str(suite.parent / "results" / "scaling")}
    del settings["kubernetes"]
    path.write_text(planned(capsys, suite, "sbatch", settings))
    (suite.parent / "results").mkdir()
    return path


def variables(queued: Path) -> dict[str, str]:
    path = f"{queued.parent}/bin:{os.environ['PATH']}"
    return {"PATH": path, "SLURM_JOB_ID": "17", "SLURMD_NODENAME": "gpu01"}


ALONE = """\
ClusterName=alone
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=1
MessageTimeout=2
GresTypes=gpu
NodeName=gpu[01-04] CPUs=8 Gres=gpu:8
PartitionName=gpu Nodes=ALL Default=YES
"""
"""A cluster whose controller is nowhere: a script's options are read before one is looked for."""


def read_by_sbatch(script: str, folder: Path) -> str:
    (folder / "slurm.conf").write_text(ALONE)
    (folder / "job.sh").write_text(script)
    requested = subprocess.run(
        ["sbatch", "--test-only", "job.sh"],
        cwd=folder,
        env={**os.environ, "SLURM_CONF": str(folder / "slurm.conf")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return requested.stderr


@pytest.mark.skipif(shutil.which("sbatch") is None, reason="needs Slurm's sbatch")
@pytest.mark.parametrize("name", ["sbatch-little", "sbatch-much"])
def test_sbatch_itself_knows_every_option_of_the_script(name: str, tmp_path: Path) -> None:
    script = (GOLDEN / f"{name}.sh").read_text()
    assert read_by_sbatch(script, tmp_path).startswith(
        "allocation failure: Unable to contact slurm controller"
    )
    wrong = script.replace("--exclusive", "--exclusively")
    assert read_by_sbatch(wrong, tmp_path).startswith("sbatch: unrecognized option")


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("mpijob-much", ["configmap", "mpijob.kubeflow.org"]),
        (
            "trainjob-much",
            ["configmap", "trainingruntime.trainer.kubeflow.org", "trainjob.trainer.kubeflow.org"],
        ),
    ],
)
def test_kubectl_itself_reads_the_manifests(name: str, kinds: list[str]) -> None:
    words = ("kubectl", "label", "--local", "--dry-run=client", "--output=name", "a=b", "--filename")
    read = subprocess.run(
        [*words, str(GOLDEN / f"{name}.yaml")], capture_output=True, text=True, timeout=60, check=True
    )
    assert [line.partition("/")[0] for line in read.stdout.splitlines()] == kinds


def until_it_waits(pid: int, number: signal.Signals) -> None:
    """Return when a shell catches the signal and sleeps: bash loses one that comes between its trap and its wait."""
    while True:
        status = Path(f"/proc/{pid}/status").read_text()
        reported = dict(line.split(":\t", 1) for line in status.splitlines())
        if int(reported["SigCgt"], 16) >> (number - 1) & 1 and reported["State"].startswith("S"):
            return
        time.sleep(0.01)


@pytest.mark.parametrize(("restarts", "wanted"), [(None, True), ("4", True), ("5", False)])
def test_a_job_whose_time_is_out_ends_its_run_and_is_queued_again_so_many_times(
    queued: Path, restarts: str | None, wanted: bool
) -> None:
    environment = variables(queued) | ({} if restarts is None else {"SLURM_RESTART_COUNT": restarts})
    log = queued.parent / "results" / "scaling.slurm-17.out"
    with subprocess.Popen(["bash", str(queued)], cwd=queued.parent, env=environment) as job:
        while not (log.exists() and log.read_text() == "ready\n"):
            assert job.poll() is None
            time.sleep(0.01)
        until_it_waits(job.pid, signal.SIGUSR1)
        job.send_signal(signal.SIGUSR1)
        assert job.wait(60) == 130
    reported = (queued.parent / "said").read_text().splitlines()
    assert reported[0].startswith("-m trainmark.cli.main run ")
    assert reported[1:] == ["ended", *(["scontrol requeue 17"] if wanted else [])]


def test_a_job_that_is_done_ends_as_the_suite_does(queued: Path) -> None:
    (queued.parent / "bin" / "python").write_text("#!/bin/bash\nexit 1\n")
    done = subprocess.run(
        ["bash", str(queued)], cwd=queued.parent, env=variables(queued), timeout=60, check=False
    )
    assert done.returncode == 1
    assert not (queued.parent / "said").exists()


def test_a_job_whose_log_has_no_folder_ends_with_a_sentence(queued: Path) -> None:
    (queued.parent / "results").rmdir()
    done = subprocess.run(
        ["bash", str(queued)],
        cwd=queued.parent,
        env=variables(queued),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    sentence = (
        f"gpu01: {queued.parent}/results/scaling.slurm-17.out cannot be written; "
        "create its folder there or change job.out, and submit again"
    )
    assert (done.returncode, done.stdout, done.stderr) == (2, f"{sentence}\n", "")
    assert (queued.parent / "said").read_text() == f"scontrol update JobId=17 Comment={sentence}\n"


def test_a_job_whose_hosts_lack_the_suite_ends_with_a_sentence(queued: Path) -> None:
    """trainmark's own sentence, in a log on the host, was about a file that its reader has."""
    missing = queued.parent / "suite.yaml"
    missing.unlink()
    done = subprocess.run(
        ["bash", str(queued)], cwd=queued.parent, env=variables(queued), timeout=60, check=False
    )
    sentence = (
        f"gpu01: {missing} cannot be read; put the suite, its cards and the hosts file into a folder that the job's "
        "hosts have, and submit again"
    )
    assert done.returncode == 2
    assert (queued.parent / "results" / "scaling.slurm-17.out").read_text() == f"{sentence}\n"
    assert (queued.parent / "said").read_text() == f"scontrol update JobId=17 Comment={sentence}\n"


def test_a_job_writes_its_log_where_its_options_say(capsys: pytest.CaptureFixture[str], suite: Path) -> None:
    script = planned(capsys, suite, "sbatch", {**LITTLE, "slurm": {"options": ["--output=/logs/%j"]}})
    assert script.count("--output") == 1
    assert "exec >>" not in script
