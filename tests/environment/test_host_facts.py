"""What a node is, out of /proc, /sys and /etc. ``recorded/linux-vm`` was copied from a virtual machine with 2 CPUs."""

from pathlib import Path

import pytest

from trainmark.node.machine import Roots, read_container, read_cpu, read_host, read_memory
from trainmark.schema.manifest import ContainerFacts, MemoryFacts

VM = Path(__file__).parent / "recorded" / "linux-vm"
VM_ROOTS = Roots(VM / "proc", VM / "sys", VM / "etc", VM)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_recorded_machine_is_described() -> None:
    host = read_host(VM_ROOTS, {"OMP_NUM_THREADS": "2", "HOME": "/root"}, "x86_64")
    assert host.hostname == "vm"
    assert host.os.name == "Debian GNU/Linux 12 (bookworm)"
    assert host.os.kernel == "6.18.44-fc-v657"
    assert host.cpu.model == "AMD EPYC"
    assert (host.cpu.sockets, host.cpu.cores, host.cpu.threads, host.cpu.numa_nodes) == (1, 2, 2, 1)
    assert {"avx2", "avx512f", "avx512_bf16", "avx512_vnni"} <= set(host.cpu.flags)
    assert "amx_tile" not in host.cpu.flags
    assert (host.cpu.governor, host.cpu.max_mhz, host.cpu.quota_cpus) == (None, None, None)
    assert host.cpu.allowed == "0-1"
    assert host.memory.limit_bytes is None
    assert host.memory.total_bytes is not None
    assert host.memory.total_bytes // 2**30 in range(1, 1024)
    assert host.virtualisation.hypervisor is True
    assert host.container is None
    assert host.variables == {"OMP_NUM_THREADS": "2"}


def test_facts_of_an_empty_machine_are_unknown_without_an_error(tmp_path: Path) -> None:
    host = read_host(Roots(*(tmp_path,) * 4), {})
    assert (host.hostname, host.os.name, host.cpu.model, host.cpu.threads) == (None, None, None, None)
    assert host.memory == MemoryFacts(None, None)
    assert host.virtualisation.hypervisor is None


def test_the_smallest_limit_of_all_groups_above_counts(tmp_path: Path) -> None:
    proc, sys = tmp_path / "proc", tmp_path / "sys"
    write(proc / "self/cgroup", "0::/user.slice/job\n")
    write(proc / "meminfo", "MemTotal:       1000 kB\n")
    write(sys / "fs/cgroup/user.slice/job/cpu.max", "max 100000\n")
    write(sys / "fs/cgroup/user.slice/cpu.max", "150000 100000\n")
    write(sys / "fs/cgroup/user.slice/job/memory.max", "max\n")
    write(sys / "fs/cgroup/user.slice/memory.max", "65536\n")
    assert read_cpu(proc, sys).quota_cpus == 1.5
    assert read_memory(proc, sys) == MemoryFacts(1024000, 65536)


@pytest.mark.parametrize(
    ("allowed", "group", "pinned"),
    [("0-1", "0-3", "0-1"), ("0-3", "0-3", None), ("0,2-3", None, "0,2-3"), ("0-7", None, None)],
)
def test_cpus_are_pinned_if_the_affinity_leaves_out_some_of_the_group_or_machine(
    allowed: str, group: str | None, pinned: str | None, tmp_path: Path
) -> None:
    proc, sys = tmp_path / "proc", tmp_path / "sys"
    write(proc / "self/status", f"Cpus_allowed_list:\t{allowed}\n")
    write(proc / "self/cgroup", "0::/job\n")
    write(sys / "devices/system/cpu/online", "0-7\n")
    if group is not None:
        write(sys / "fs/cgroup/job/cpuset.cpus.effective", f"{group}\n")
    assert read_cpu(proc, sys).pinned == pinned


def test_the_first_version_of_control_groups_is_read_too(tmp_path: Path) -> None:
    proc, sys = tmp_path / "proc", tmp_path / "sys"
    # The path is that of the host, which a container does not see below its own mount.
    write(proc / "self/cgroup", "5:cpu,cpuacct:/docker/ab\n4:memory:/docker/ab\n")
    write(sys / "fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n")
    write(sys / "fs/cgroup/cpu/cpu.cfs_period_us", "100000\n")
    write(sys / "fs/cgroup/memory/memory.limit_in_bytes", "4096\n")
    assert read_cpu(proc, sys).quota_cpus == 2.0
    assert read_memory(proc, sys).limit_bytes == 4096


@pytest.mark.parametrize(
    ("marks", "environ", "expected"),
    [
        ({".dockerenv": ""}, {}, ContainerFacts("docker")),
        (
            {"run/.containerenv": 'engine="podman"\nimage="nvcr.io/x:1"\n'},
            {},
            ContainerFacts("podman", "nvcr.io/x:1"),
        ),
        ({"run/.containerenv": ""}, {}, ContainerFacts("podman")),
        ({".dockerenv": ""}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, ContainerFacts("kubernetes")),
        ({"proc/1/cgroup": "0::/kubepods/besteffort/pod1\n"}, {}, ContainerFacts("kubernetes")),
        ({"proc/1/cgroup": "0::/lxc/a\n"}, {}, ContainerFacts("lxc")),
        ({".singularity.d/runscript": ""}, {}, ContainerFacts("singularity")),
        ({}, {"APPTAINER_CONTAINER": "/images/torch.sif"}, ContainerFacts("singularity", "torch.sif")),
        ({"proc/1/cgroup": "0::/init.scope\n"}, {}, None),
    ],
)
def test_each_engine_is_known_by_its_marks(
    tmp_path: Path, marks: dict[str, str], environ: dict[str, str], expected: ContainerFacts | None
) -> None:
    for name, text in marks.items():
        write(tmp_path / name, text)
    assert read_container(Roots(proc=tmp_path / "proc", top=tmp_path), environ) == expected
