"""Hosts files: ranges, what stands for all, groups, OpenMPI's form, Slurm's nodes, and mistakes with their lines."""

from pathlib import Path

import pytest

from trainmark.errors import InputError
from trainmark.node.connection import agent_command
from trainmark.schema.hosts import EngineName, HostEntry, SshSettings
from trainmark.suite.hosts import expanded, load_hosts, load_job

FILE = """\
engine: ssh
ssh: {config: ssh_config, options: ["-v"]}
python: /opt/trainmark/bin/python
hosts:
  - {name: "gpu[01-03]", address: "{name}.lan", slots: 8, labels: {gpu: V100}}
  - {name: login, slots: 2, python: /usr/bin/python3}
  - fast[1,3]
groups:
  v100: "gpu[01-02]"
  all: [login, "fast[1,3]"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "ssh_config").write_text("")
    path = tmp_path / "hosts.yaml"
    path.write_text(FILE)
    return path


def test_a_range_expands_to_its_hosts_and_common_settings_are_their_defaults(
    file: Path,
) -> None:
    found = load_hosts(str(file), {})
    assert [entry.name for entry in found.hosts] == ["gpu01", "gpu02", "gpu03", "login", "fast1", "fast3"]
    assert [entry.reached_at for entry in found.hosts][2:4] == ["gpu03.lan", "login"]
    assert [entry.slots for entry in found.hosts] == [8, 8, 8, 2, None, None]
    assert {str(entry.python) for entry in found.hosts if entry.name != "login"} == {
        "/opt/trainmark/bin/python"
    }
    assert found.ssh.config == file.parent / "ssh_config"


def test_a_group_is_named_behind_the_file(file: Path) -> None:
    assert [entry.name for entry in load_hosts(f"{file}:v100", {}).hosts] == ["gpu01", "gpu02"]
    assert [entry.name for entry in load_hosts(f"{file}:all", {}).hosts] == ["login", "fast1", "fast3"]
    with pytest.raises(InputError, match=r"no group 'v10'; did you mean 'v100'"):
        load_hosts(f"{file}:v10", {})


def test_openmpis_hostfile_is_read(tmp_path: Path) -> None:
    path = tmp_path / "hostfile"
    path.write_text("# all\nnode1 slots=4\nnode2 slots=2 max_slots=2  # two\n\nnode3\n")
    found = load_hosts(str(path), {}, EngineName.MPI)
    assert [(entry.name, entry.slots) for entry in found.hosts] == [("node1", 4), ("node2", 2), ("node3", 1)]
    assert found.engine is EngineName.MPI


def test_slurm_says_which_nodes_are_ours_and_without_an_allocation_nobody_does() -> None:
    with pytest.raises(InputError, match="this is not a Slurm allocation"):
        load_hosts("slurm", {})


def test_an_option_of_sbatch_in_a_job_gets_its_place(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_text("hosts: [gpu01]\njob: {out: /results, partition: a100}\n")
    with pytest.raises(InputError, match=r"job: 'partition' is .* slurm: \{options: \[--partition=a100\]\}"):
        load_job(str(path))


def test_a_hosts_file_with_slurm_needs_an_allocation_or_a_job(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_text("engine: slurm\nhosts: [gpu01]\n")
    with pytest.raises(
        InputError, match=r"hosts\.yaml: engine slurm: this is not .* --as sbatch` prints a job"
    ):
        load_hosts(str(path), {})


@pytest.mark.parametrize("name", ["OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile"])
def test_the_hosts_are_those_of_the_hostfile_that_openmpi_uses(name: str, tmp_path: Path) -> None:
    (tmp_path / "hostfile").write_text("gpu01 slots=8\ngpu02 slots=4\n")
    found = load_hosts("mpi", {name: str(tmp_path / "hostfile")})
    assert found.engine is EngineName.MPI
    assert [(host.name, host.slots) for host in found.hosts] == [("gpu01", 8), ("gpu02", 4)]
    with pytest.raises(InputError, match="no hostfile is set for OpenMPI"):
        load_hosts("mpi", {})
    with pytest.raises(InputError, match=r"nowhere: cannot be read: No such file"):
        load_hosts("mpi", {name: "nowhere"})


def test_names_of_hosts_instead_of_a_file_are_answered_with_the_line_of_a_file() -> None:
    with pytest.raises(InputError, match=r"gpu01,gpu02: cannot be read: .* 'hosts: \[gpu01, gpu02\]'"):
        load_hosts("gpu01,gpu02", {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("hosts: [a, a]", r"hosts\.yaml:1: hosts\[1\]: a is listed twice"),
        (
            "hosts:\n  - {name: a, slot: 3}",
            r"hosts\.yaml:2: hosts\[0\]\.slot: is not a key here; did you mean 'slots'",
        ),
        ("hosts:\n  - {name: a, slots: 0}", r"hosts\.yaml:2: hosts\[0\]\.slots: "),
        ("hosts:\n  - {name: -oProxyCommand=x}", r"hosts\.yaml:2: hosts\[0\]\.name: "),
        ("hosts:\n  - {name: 'a b'}", r"hosts\.yaml:2: hosts\[0\]\.name: "),
        ("hosts:\n  - {name: 'a[3-1]'}", r"hosts\.yaml:2: .*\[3-1\] is not a range"),
        ("hosts:\n  - {name: 'a[1'}", r"hosts\.yaml:2: .*a range is written"),
        (
            "hosts: [a]\nengin: ssh",
            r"hosts\.yaml:2: engin: is not a key of a hosts file; did you mean 'engine'",
        ),
        ("hosts: [a]\nengine: shh", r"hosts\.yaml:2: engine: 'shh' is not known; did you mean 'ssh'"),
        ("hosts: [a]\nssh: {config: nowhere}", r"hosts\.yaml:2: ssh\.config: .*nowhere does not exist"),
        ("hosts: []", r"hosts\.yaml:1: hosts: "),
        ("hosts: [localhost, b]", r"hosts\.yaml:1: hosts: localhost with other hosts needs the 'address'"),
        ("hosts:\n  - {name: a, variables: {-u: b}}", r"hosts\.yaml:2: hosts\[0\]\.variables"),
        (
            "hosts:\n  - {name: a, mpirun: {map_by: node}}",
            r"hosts\.yaml:2: hosts\[0\]\.mpirun\.map_by: .*one host after the other",
        ),
        ("nodes: [a]", r"hosts\.yaml:1: a hosts file is a mapping with a list 'hosts'"),
        ("hosts: [a]\ngroups: {g: [b]}", r"no group 'x'"),
    ],
)
def test_a_mistake_is_named_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        load_hosts(f"{path}:x" if "no group" in message else str(path), {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gpu01\n-oProxyCommand=x slots=8\n", r"hostfile:2: '-oProxyCommand=x' cannot be the name of a host"),
        ("gpu01 slots=0\n", r"hostfile:1: 0 cannot be the number of slots"),
        ("gpu01\ngpu01\n", r"hostfile:2: gpu01 is listed twice"),
    ],
)
def test_a_mistake_in_openmpis_hostfile_is_named_with_its_line(
    text: str, message: str, tmp_path: Path
) -> None:
    path = tmp_path / "hostfile"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        load_hosts(str(path), {})
    (tmp_path / "empty").write_text("# none yet\n")
    with pytest.raises(InputError, match="lists no host"):
        load_hosts("mpi", {"OMPI_MCA_orte_default_hostfile": str(tmp_path / "empty")})


def test_groups_that_are_no_mapping_are_a_mistake_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "hosts.yaml"
    path.write_text("hosts: [a]\ngroups: [a]\n")
    with pytest.raises(InputError, match=r"hosts\.yaml:2: groups: must be a mapping"):
        load_hosts(f"{path}:a", {})


def test_ranges_multiply_and_keep_their_zeros() -> None:
    assert list(expanded("r[1-2]n[08-10]")) == ["r1n08", "r1n09", "r1n10", "r2n08", "r2n09", "r2n10"]
    with pytest.raises(ValueError, match="more than"):
        list(expanded("n[1-99999]"))


def test_what_an_engine_starts_is_a_command_that_can_be_read() -> None:
    entry = HostEntry(name="gpu01", address="10.0.0.1", user="bench", port=2222, variables={"A": "b c"})
    ssh = " ".join(agent_command(entry, EngineName.SSH, SshSettings(config=Path("/etc/c")), Path("/opt/py")))
    assert ssh.startswith("ssh -T -o BatchMode=yes")
    assert ssh.endswith(
        "-F /etc/c -l bench -p 2222 10.0.0.1 exec env 'A=b c' /opt/py -m trainmark.node.agent gpu01"
    )
    srun = agent_command(entry, EngineName.SLURM, SshSettings(), Path("/opt/py"))
    assert srun[0] == "srun"
    assert "--nodelist=gpu01" in srun
    mpirun = agent_command(entry, EngineName.MPI, SshSettings(), Path("/opt/py"))
    assert mpirun[:1] == ("mpirun",)
    assert "10.0.0.1:1" in mpirun
