"""The launch lines of the original documents on the hosts that they name, as plans; held by golden files.

``TRAINMARK_UPDATE_GOLDEN=1 pytest`` writes them anew. What is planned for hosts that nobody has yet stands in
``golden/external``.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from trainmark.campaign import CannotStart, plan_campaign, run_environment
from trainmark.node import LocalHost
from trainmark.schema.plan import NodeResources, Plan
from trainmark.suite import load_hosts, load_suite, select

SUITES = Path(__file__).parents[2] / "suites"
GOLDEN = Path(__file__).with_name("golden") / "lines"
DGX = NodeResources(cores=80, gpus=8)

# 002: "NODE1=10.11.0.2 … NODE4=10.11.0.5", 8 devices each, containers whose sshd listens on port 10000, InfiniBand.
DLPERF = """\
hosts:
  - {name: NODE1, address: 10.11.0.2}
  - {name: NODE2, address: 10.11.0.3}
  - {name: NODE3, address: 10.11.0.4}
  - {name: NODE4, address: 10.11.0.5}
interface: ib0
rdma: true
mpirun: {mca: {pml: ob1, btl: ^openib, plm_rsh_args: -p 10000}}
"""
V100 = 'hosts: ["v100-[01-04]"]\n'


class Line(NamedTuple):
    """A launch line of a document, and what plans the same: a suite's cases on the hosts of a hosts file."""

    message: str
    suite: str
    cases: str
    hosts: str
    engine: str = "docker"


LINES = {
    "000-nvidia-docker-run": Line(
        "nvidia-docker run --rm -it -v <path to data>:/imagenet --ipc=host nvidia_rn50_pytorch; bash test_all.sh",
        *("external-ngc-pytorch-20.07", "precision=amp-fp16,batch_per_device=256,nodes=1,devices_per_node=8"),
        "hosts: [localhost]\n",
    ),
    "001-train-sh": Line(
        "sh train.sh resnet50 0,1,2,3 128",
        *("external-pytorch-imagenet", "nodes=1,devices_per_node=4,batch_per_device=128"),
        "hosts: [localhost]\n",
        "pytorch",
    ),
    "001-four-nodes": Line(
        "4机32卡, batch 128 (the document has no command)",
        *("external-pytorch-imagenet", "nodes=4,batch_per_device=128"),
        V100,
        "docker",
    ),
    "002-docker-run": Line(
        "docker run -it --shm-size=16g --ulimit memlock=-1 --privileged --name tf_resnet --net host "
        "-v /datasets/ImageNet/tfrecord:/data/tfrecords -d nvidia_rn50_tf:20.03-resnet",
        *("external-ngc-tensorflow", "nodes=1,devices_per_node=8,precision=fp32"),
        "hosts: [localhost]\n",
    ),
    "002-mpirun": Line(
        "bash resnet50v1.5/training/run_multi_node.sh on NODE1 to NODE4, whose containers' sshd has port 10000",
        *("external-ngc-tensorflow", "nodes=4,precision=fp32"),
        DLPERF,
    ),
    "002-mpirun-apptainer": Line(
        "the same without an sshd in a container: mpirun of the hosts starts each rank in one",
        *("external-ngc-tensorflow", "nodes=2,precision=fp32"),
        DLPERF.replace(", plm_rsh_args: -p 10000", "").replace("interface:", "port: 2222\ninterface:"),
        "apptainer",
    ),
    "003-multiproc": Line(
        '$mpirun bash ./run_benchmark.sh 256 8 "--amp", which asks MPI for --node_rank of multiproc.py',
        *("external-ngc-pytorch-21.03", "nodes=4,precision=amp-fp16"),
        V100 + "rdma: true\n",
    ),
    "003-multiproc-apptainer": Line(
        "the same in Apptainer",
        *("external-ngc-pytorch-21.03", "nodes=4,precision=amp-fp16"),
        V100,
        "apptainer",
    ),
    "004-nvidia-docker-run": Line(
        "nvidia-docker run --name test_mxnet -it --net=host --shm-size=1g -v $PWD:/workspace ${ImageName}",
        *("external-gluon-cv", "devices_per_node=8,batch_per_device=64"),
        "hosts: [localhost]\n",
    ),
}


def planned(line: Line, folder: Path) -> list[Plan | CannotStart]:
    suite, hosts = folder / "suite.yaml", folder / "hosts.yaml"
    text = (SUITES / f"{line.suite}.yaml").read_text(encoding="utf-8")
    suite.write_text(text.replace("protocol:", f"environment: {line.engine}\nprotocol:", 1), encoding="utf-8")
    hosts.write_text(line.hosts, encoding="utf-8")
    loaded = load_suite(suite)
    there = [
        LocalHost(entry.name, entry.reached_at, machine=DGX, interface=entry.interface, traffic=entry.traffic)
        for entry in load_hosts(str(hosts), {}).hosts
    ]
    cases = select(loaded.cases, line.cases)
    return list(plan_campaign(loaded, cases, Path("/results"), Path("/trainmark"), there))


@pytest.mark.parametrize("name", LINES)
def test_a_documents_launch_line_is_planned_as_its_golden_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.setattr(run_environment, "user_and_group", lambda: "1000:1000")
    line = LINES[name]
    (plan,) = planned(line, tmp_path)
    assert isinstance(plan, Plan)
    assert plan.cannot_run is None
    text = f"# the document: {line.message}\n"
    text += "".join(f"# hosts: {reported}\n" for reported in line.hosts.splitlines())
    text += "".join(f"# by hand: {reported}\n" for reported in plan.by_hand)
    text += "".join(f"# on {plan.nodes[command.node].host}\n{command.text()}\n" for command in plan.commands)
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("TRAINMARK_UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_mpirun_gets_one_command_for_all_hosts_or_nothing_is_started(tmp_path: Path) -> None:
    apptainer = LINES["002-mpirun-apptainer"]
    differing = apptainer.hosts.replace("10.11.0.3}", "10.11.0.3, mpirun: {bind_to: socket}}")
    (plan,) = planned(apptainer._replace(hosts=differing), tmp_path)
    assert isinstance(plan, Plan)
    assert plan.cannot_run == (
        "mpirun needs the same settings for all hosts, but theirs differ (user, port or mpirun of the hosts file)"
    )


def test_what_a_hosts_file_tells_mpirun_takes_the_place_of_our_own(tmp_path: Path) -> None:
    apptainer = LINES["002-mpirun-apptainer"]
    reported = apptainer.hosts.replace(
        "{mca: {", "{bind_to: socket, map_by: numa, mca: {btl_tcp_if_include: ib1, verbose: 1, "
    )
    (plan,) = planned(apptainer._replace(hosts=reported), tmp_path)
    assert isinstance(plan, Plan)
    (command,) = plan.commands
    assert "--bind-to socket --map-by numa -mca oob_tcp_if_include ib0 -mca btl_tcp_if_include ib1 -mca" in (
        command.text()
    )
    assert " -mca verbose 1 " in command.text()


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("003-multiproc", "--env NCCL_IB_HCA=mlx5_0 "),
        ("003-multiproc-apptainer", "APPTAINERENV_NCCL_IB_HCA=mlx5_0 "),
        ("002-mpirun", "-x NCCL_IB_HCA "),
        ("002-mpirun-apptainer", "-x APPTAINERENV_NCCL_IB_HCA "),
    ],
)
def test_variables_of_the_hosts_file_reach_every_rank_and_its_container_but_not_the_hosts_folders(
    tmp_path: Path, name: str, given: str
) -> None:
    line = LINES[name]
    hosts = line.hosts + "variables: {NCCL_IB_HCA: mlx5_0, LD_LIBRARY_PATH: /opt/host/lib}\n"
    (plan,) = planned(line._replace(hosts=hosts), tmp_path)
    assert isinstance(plan, Plan)
    assert all(given in command.text() for command in plan.commands)
    assert not any("/opt/host/lib" in command.text() for command in plan.commands)


@pytest.mark.skipif(shutil.which("docker") is None, reason="needs Docker's client")
@pytest.mark.parametrize("name", [name for name, line in LINES.items() if line.engine == "docker"])
def test_dockers_own_client_knows_every_option_of_the_plan(tmp_path: Path, name: str) -> None:
    (plan,) = planned(LINES[name], tmp_path)
    assert isinstance(plan, Plan)
    nobody = {**os.environ, "DOCKER_HOST": f"unix://{tmp_path}/nobody.sock"}
    requested = subprocess.run(
        plan.commands[0].words, check=False, capture_output=True, text=True, env=nobody, timeout=60
    )
    # What it is told is read before a daemon is looked for; what devices are called is the daemon's matter.
    assert requested.stderr.startswith(("docker: Cannot connect to", "docker: unknown server OS")), (
        requested.stderr
    )


@pytest.mark.skipif(shutil.which("docker") is None, reason="needs Docker's client")
def test_dockers_own_client_refuses_an_option_that_there_is_not() -> None:
    requested = subprocess.run(
        ["docker", "run", "--shm", "1g", "image"], check=False, capture_output=True, text=True, timeout=60
    )
    assert requested.stderr.startswith("unknown flag: --shm")
