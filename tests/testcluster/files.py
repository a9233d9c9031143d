"""The files that a cluster is used by: ssh configuration and keys, hosts file, Slurm's configuration."""

import json
import os
import shutil
import subprocess
from pathlib import Path

from testcluster.layout import CONTROL, SLOTS, TASK_VARIABLES, TRAINMARK, Layout, Shared

SSHD = """\
HostKey /etc/ssh/ssh_host_ed25519_key
AuthorizedKeysFile /root/.ssh/authorized_keys
PermitRootLogin prohibit-password
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
# Without it a session whose cable is out stays for hours.
ClientAliveInterval 15
ClientAliveCountMax 3
PrintMotd no
MaxStartups 200
MaxSessions 200
PidFile /run/sshd.pid
Subsystem sftp internal-sftp
"""


def write_files(layout: Layout, shared: tuple[Shared, ...]) -> None:
    """Write all that does not change while the cluster is up."""
    folder = layout.folder
    for name in ("keys", "log", "trees", "slurm/state"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    _key(folder / "keys" / "user")
    for host in layout.hosts:
        layout.tree(host).mkdir(exist_ok=True)
        _key(folder / "keys" / host)
    (folder / "etc_hosts").write_text(etc_hosts(layout))
    (folder / "known_hosts").write_text(_known_hosts(layout))
    (folder / "ssh_config").write_text(
        "".join(
            f"Host {host}\n  HostName {layout.address(host)}\n  HostKeyAlias {host}\n"
            for host in layout.hosts
        )
        + "Host *\n"
        + ssh_defaults(folder / "keys" / "user", folder / "known_hosts")
    )
    (folder / "hosts.yaml").write_text(_hosts_file(layout, shared))
    (folder / "env").write_text("".join(f"export {k}={v!r}\n" for k, v in layout.variables().items()))
    (layout.slurm / "munge.key").write_bytes(os.urandom(128))
    (layout.slurm / "munge.key").chmod(0o600)
    (layout.slurm / "slurm.conf").write_text(_slurm_conf(layout))
    (layout.slurm / "task_prolog").write_text(f"#!/bin/sh\ncat {TASK_VARIABLES} 2>/dev/null; true\n")
    (layout.slurm / "task_prolog").chmod(0o755)
    (layout.slurm / "cgroup.conf").write_text(
        "CgroupPlugin=cgroup/v1\n" if Path("/sys/fs/cgroup/cpu").is_dir() else ""
    )


def etc_hosts(layout: Layout) -> str:
    """Return /etc/hosts of every place of the cluster."""
    lines = ["127.0.0.1 localhost"]
    lines += [f"{layout.address(name)} {name}" for name in (*layout.hosts, CONTROL)]
    return "\n".join(lines) + "\n"


def ssh_defaults(key: Path, known_hosts: Path) -> str:
    """Return the part of an ssh configuration that is the same for every host."""
    return (
        "  User root\n"
        f"  IdentityFile {key}\n"
        "  IdentitiesOnly yes\n"
        f"  UserKnownHostsFile {known_hosts}\n"
        "  GlobalKnownHostsFile none\n"
        "  StrictHostKeyChecking yes\n"
        "  BatchMode yes\n"
    )


def _key(path: Path) -> None:
    if not path.exists():
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", path], check=True
        )


def _known_hosts(layout: Layout) -> str:
    lines = []
    for host in layout.hosts:
        kind, key, _ = (layout.folder / "keys" / f"{host}.pub").read_text().split()
        lines.append(f"{host},{layout.address(host)} {kind} {key}\n")
    return "".join(lines)


def _hosts_file(layout: Layout, shared: tuple[Shared, ...]) -> str:
    moved = {str(each.source): str(each.target) for each in shared if each.source != each.target}
    return (
        # JSON is YAML.
        f"paths: {json.dumps(moved)}\n"
        "ssh: {config: ssh_config}\n"
        "hosts:\n"
        f"  - name: node[01-{layout.size:02d}]\n"
        f"    slots: {SLOTS}\n"
        "    user: root\n"
        f"    python: {TRAINMARK}/bin/python\n"
        "    labels: {gpu: none}\n"
        # Hosts share the machine's cores: threads that spin while they wait take them from those that work.
        "    variables: {OMP_WAIT_POLICY: passive}\n"
    )


def _slurm_conf(layout: Layout) -> str:
    nodes = "".join(
        f"NodeName={host} NodeAddr={layout.address(host)} CPUs={SLOTS} State=UNKNOWN\n"
        for host in layout.hosts
    )
    return f"""\
ClusterName={layout.mark}
SlurmctldHost={CONTROL}({layout.address(CONTROL)})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={layout.slurm}/munge.socket
StateSaveLocation={layout.slurm}/state
SlurmctldPidFile={layout.slurm}/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmdSpoolDir=/var/spool/slurmd
# A host's two slots are not its machine's processors.
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
TaskProlog={layout.slurm}/task_prolog
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1
ReturnToService=2
KillWait=5
JobRequeue=1
{nodes}PartitionName=all Nodes=ALL Default=YES State=UP
"""


def remove_files(layout: Layout) -> None:
    """Remove what a cluster has written, and its folder if nothing else is in it."""
    for name in ("keys", "log", "trees", "slurm"):
        shutil.rmtree(layout.folder / name, ignore_errors=True)
    for name in ("etc_hosts", "known_hosts", "ssh_config", "hosts.yaml", "env", "cluster.json"):
        (layout.folder / name).unlink(missing_ok=True)
    if layout.folder.is_dir() and not any(layout.folder.iterdir()):
        layout.folder.rmdir()
