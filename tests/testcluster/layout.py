"""What a cluster consists of: its names, addresses and files, all derived from its state folder."""

import hashlib
import json
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path

PACKAGES = {
    "sshd": "openssh-server",
    "ssh-keygen": "openssh-client",
    "mpirun": "openmpi-bin",
    "munged": "munge",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "srun": "slurm-client",
    "ip": "iproute2",
    "faketime": "faketime",
}
"""Debian's packages by the command that each of them brings."""

CONTROL = "control"
"""The place from which jobs are started: this machine's own folders, on the cluster's network."""

TRAINMARK = Path("/opt/trainmark")
"""Where trainmark lies on a host; the controller's lies elsewhere."""

TASK_VARIABLES = "/etc/slurm-task-variables"
"""Lines of `export NAME=value` on a host, which Slurm's tasks there get."""

SLOTS = 2


@dataclass(frozen=True)
class Layout:
    """A cluster's state folder and how many hosts it has; nothing here touches the machine."""

    folder: Path
    size: int = 4

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts' names: node01, node02, …"""
        return tuple(f"node{number:02d}" for number in range(1, self.size + 1))

    @property
    def mark(self) -> str:
        """What no other cluster on this machine is called; at most 10 characters, as it names an interface."""
        return "tm" + hashlib.sha256(str(self.folder).encode()).hexdigest()[:8]

    @property
    def prefix(self) -> str:
        """The first three numbers of every address: one of 16 384 networks in 10.64.0.0/10."""
        number = int(self.mark[2:], 16)
        return f"10.{64 + number % 64}.{number // 64 % 256}"

    def address(self, name: str) -> str:
        """The address of a host, of the control place, or of this machine ("")."""
        if name in self.hosts:
            return f"{self.prefix}.{self.hosts.index(name) + 1}"
        return f"{self.prefix}.254" if name == CONTROL else f"{self.prefix}.253"

    def tree(self, host: str) -> Path:
        """Where a host's root is mounted, seen by that host alone."""
        return self.folder / "trees" / host

    def log(self, name: str) -> Path:
        """What the daemons of a host print."""
        return self.folder / "log" / f"{name}.log"

    @property
    def slurm(self) -> Path:
        """Slurm's folder: under one path on every host, with files of its own on each, as srun exports SLURM_CONF."""
        return self.folder / "slurm"

    @property
    def record(self) -> Path:
        """What is running: the outer process numbers of the first process of each place."""
        return self.folder / "cluster.json"

    def variables(self) -> dict[str, str]:
        """What mpirun and srun need in the control place."""
        return {
            "SLURM_CONF": str(self.slurm / "slurm.conf"),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_plm_rsh_agent": f"ssh -F {self.folder / 'ssh_config'}",
            # A host has two addresses, and loopback is no way to another.
            "OMPI_MCA_oob_tcp_if_include": f"{self.prefix}.0/24",
            "OMPI_MCA_btl_tcp_if_include": f"{self.prefix}.0/24",
        }


@dataclass(frozen=True)
class Shared:
    """A folder of this machine that hosts see read-only, and where."""

    source: Path
    target: Path


@dataclass(frozen=True)
class Python:
    """An interpreter on this machine with trainmark: its prefix, its packages, and the folder that holds trainmark."""

    base: Path
    executable: Path
    packages: Path
    source: Path
    version: str

    def to_json(self) -> dict[str, str]:
        """Return what `from_json` takes."""
        return {name: str(value) for name, value in asdict(self).items()}

    @classmethod
    def from_json(cls, words: dict[str, str]) -> "Python":
        """Return what `to_json` wrote."""
        base, executable, packages, source = (
            Path(words[name]) for name in ("base", "executable", "packages", "source")
        )
        return cls(base, executable, packages, source, words["version"])


def inspect_python(executable: str, source: Path) -> Python:
    """Ask a virtual environment's interpreter for what a host needs to have the same one elsewhere."""
    ask = (
        "import json, sys, sysconfig; print(json.dumps([sys.base_prefix, sys._base_executable,"
        " sysconfig.get_path('purelib'), 'python%d.%d' % sys.version_info[:2]]))"
    )
    answer = subprocess.run([executable, "-c", ask], capture_output=True, text=True, check=True)
    base, real, packages, version = json.loads(answer.stdout)
    return Python(Path(base), Path(real).resolve(), Path(packages), source, version)
