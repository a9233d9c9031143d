"""The hosts that a campaign may use: from a hosts file, OpenMPI's hostfile, or the current Slurm allocation."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainmark.documents import Document, read_document
from trainmark.errors import InputError, nearest, plain_message
from trainmark.schema.hosts import EngineName, HostEntry, HostSet
from trainmark.schema.job import JobSettings
from trainmark.suite.loading import explained

FROM_SLURM = "slurm"
"""The value of ``--hosts`` for the nodes of the Slurm allocation."""

FROM_MPI = "mpi"
"""The value of ``--hosts`` for the hostfile that OpenMPI's environment variables name."""

_HOSTFILES = ("OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile")
"""The variables that name it for OpenMPI 4 and 5; the MPI Operator sets them in its launcher."""

MOST_HOSTS = 10_000

_RANGE = re.compile(r"\[([\d,-]+)\]")
_SLOTS = re.compile(r"^(?P<name>[^\s#]+)(?:\s+(?:slots|max_slots|max-slots)\s*=\s*\d+)*\s*(?:#.*)?$")
_OWN_KEYS = (
    "hosts",
    "engine",
    "ssh",
    "python",
    "user",
    "port",
    "folder",
    "interface",
    "paths",
    "variables",
    "rdma",
    "mpirun",
    "groups",
    "job",
)
_FOR_ALL = ("python", "user", "port", "folder", "interface", "paths", "variables", "rdma", "mpirun")


def load_hosts(given: str, environ: Mapping[str, str], engine: EngineName | None = None) -> HostSet:
    """Return the hosts that ``--hosts`` names: ``FILE``, ``FILE:GROUP``, ``slurm``, or ``mpi``.

    A file is YAML with ``hosts``, or OpenMPI's hostfile (lines such as ``name slots=8``). ``engine`` overrides the
    file's; with Slurm, only hosts that are in the allocation are used. Raises ``InputError`` with file and line.
    """
    if given == FROM_SLURM:
        found = HostSet(hosts=tuple(_allocated(environ)), engine=EngineName.SLURM)
    elif given == FROM_MPI:
        found = _from_hostfile(_mpi_hostfile(environ)).model_copy(update={"engine": engine or EngineName.MPI})
    else:
        path, group = _file_and_group(given)
        if not path.exists():
            raise InputError(
                f"{path}: cannot be read: No such file or directory; --hosts takes a file, such as one with the "
                "line 'hosts: [gpu01, gpu02]'"
            )
        found = _from_hostfile(path) if group is None and _is_hostfile(path) else _from_yaml(path, group)
        found = found if engine is None else found.model_copy(update={"engine": engine})
        if found.engine is EngineName.SLURM:
            ours = {entry.name for entry in _allocated(environ, f"{given}: engine slurm")}
            here = tuple(entry for entry in found.hosts if entry.name in ours)
            if not here:
                raise InputError(
                    f"{given}: none of its hosts is in this allocation ({', '.join(sorted(ours))})"
                )
            found = found.model_copy(update={"hosts": here})
    return found


def load_job(given: str) -> tuple[JobSettings, tuple[str, ...]]:
    """Return the section ``job`` of a hosts file, and the names of its hosts (for ``FILE:GROUP`` those of the group).

    A file that is only for jobs need not list hosts. Raises ``InputError`` with file and line.
    """
    path, group = _file_and_group(given)
    document = read_document(path)
    values = document.values if isinstance(document.values, dict) else {}
    if "job" not in values:
        raise InputError(
            f"{path}:1: 'job' is missing; it needs at least the folder for the results (job: {{out: /…}})"
        )
    try:
        settings = JobSettings.model_validate(values["job"])
    except ValidationError as error:
        raise explained(document, ("job",), error, JobSettings) from None
    if "hosts" not in values and group is None:
        return settings, ()
    return settings, tuple(entry.name for entry in _from_yaml(path, group).hosts)


def expanded(name: str) -> Iterator[str]:
    """Yield the names of ``gpu[01-32]``: numbers keep their zeros; several ranges multiply.

    Raises ``ValueError`` for an invalid range.
    """
    found = _RANGE.search(name)
    if found is None:
        if "[" in name or "]" in name:
            raise ValueError(f"'{name}': a range is written [01-32] or [1,3,5-8]")
        yield name
        return
    for part in found[1].split(","):
        first, sign, last = part.partition("-")
        if not first or (sign and not last) or int(last or first) < int(first):
            raise ValueError(f"'{name}': [{found[1]}] is not a range; write for example [01-32]")
        if int(last or first) - int(first) >= MOST_HOSTS:
            raise ValueError(f"'{name}': more than {MOST_HOSTS} hosts")
        for number in range(int(first), int(last or first) + 1):
            number_text = str(number).zfill(len(first))
            yield from expanded(name[: found.start()] + number_text + name[found.end() :])


def _file_and_group(given: str) -> tuple[Path, str | None]:
    if ":" in given and not Path(given).exists():
        file, group = given.rsplit(":", 1)
        return Path(file), group
    return Path(given), None


def _is_hostfile(path: Path) -> bool:
    try:
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError):
        return False
    entries = [line for line in lines if line and not line.startswith("#")]
    return bool(entries) and all(_SLOTS.match(line) and not line.endswith(":") for line in entries)


def _mpi_hostfile(environ: Mapping[str, str]) -> Path:
    named = [Path(environ[name]) for name in _HOSTFILES if environ.get(name)]
    if not named:
        raise InputError(
            f"--hosts mpi: no hostfile is set for OpenMPI (in {' or '.join(_HOSTFILES)}); give its path"
        )
    return named[0]


def _from_hostfile(path: Path) -> HostSet:
    entries: dict[str, HostEntry] = {}
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', error)}") from None
    for number, line in enumerate(lines, start=1):
        found = _SLOTS.match(line.strip())
        if found is not None and not line.strip().startswith("#"):
            slots = re.search(r"\bslots\s*=\s*(\d+)", line)
            name = found["name"]
            if name in entries:
                raise InputError(f"{path}:{number}: {name} is listed twice")
            # OpenMPI assumes one slot for a host without ``slots``.
            entries[name] = _host(f"{path}:{number}", name, int(slots[1]) if slots else 1)
    if not entries:
        raise InputError(f"{path}: lists no host; a line is 'name slots=8'")
    return HostSet(hosts=tuple(entries.values()))


def _host(place: str, name: str, slots: int | None = None) -> HostEntry:
    """Return the host with a name that does not come from a YAML document; raise ``InputError`` at ``place``."""
    try:
        return HostEntry(name=name, slots=slots)
    except ValidationError as error:
        first = error.errors()[0]
        what = "the number of slots" if first["loc"][0] == "slots" else "the name of a host"
        raise InputError(
            f"{place}: {first['input']!r} cannot be {what}: {plain_message(first['msg'])}"
        ) from None


def _from_yaml(path: Path, group: str | None) -> HostSet:
    document = read_document(path)
    values = document.values
    if not isinstance(values, dict) or not isinstance(values.get("hosts"), list):
        raise InputError(
            f"{path}:1: a hosts file is a mapping with a list 'hosts' (or OpenMPI's: 'name slots=8')"
        )
    for key in values:
        if key not in _OWN_KEYS:
            near = nearest(str(key), _OWN_KEYS)
            raise document.error(
                (key,), f"is not a key of a hosts file{near} (known: {', '.join(_OWN_KEYS)})"
            )
    entries: dict[str, HostEntry] = {}
    for number, given in enumerate(values["hosts"]):
        for entry in _entries(document, number, given):
            if entry.name in entries:
                raise document.error(("hosts", number), f"{entry.name} is listed twice")
            entries[entry.name] = entry
    chosen = _chosen(document, entries, group)
    alone = next((entry for entry in chosen if entry.name == "localhost" and entry.address is None), None)
    if alone is not None and len(chosen) > 1:
        raise document.error(
            ("hosts",), "localhost with other hosts needs the 'address' at which they reach it"
        )
    settings = {key: values[key] for key in ("engine", "ssh") if key in values}
    try:
        found = HostSet.model_validate({"hosts": chosen, **settings})
    except ValidationError as error:
        raise explained(document, (), error, HostSet) from None
    config = found.ssh.config
    if config is None:
        return found
    config_path = (path.parent / config.expanduser()).absolute()
    if not config_path.is_file():
        raise document.error(("ssh", "config"), f"{config_path} does not exist")
    return found.model_copy(update={"ssh": found.ssh.model_copy(update={"config": config_path})})


def _entries(document: Document, number: int, given: Any) -> Iterator[HostEntry]:
    common = {key: document.values[key] for key in _FOR_ALL if key in document.values}
    entry = {"name": given} if isinstance(given, str) else given
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise document.error(("hosts", number), "a host is a name, or a mapping with 'name'")
    try:
        names = list(expanded(entry["name"]))
    except ValueError as error:
        raise document.error(("hosts", number, "name"), str(error)) from None
    for name in names:
        own = {**common, **entry, "name": name}
        if isinstance(own.get("address"), str):
            own["address"] = own["address"].replace("{name}", name)
        try:
            yield HostEntry.model_validate(own)
        except ValidationError as error:
            raise explained(document, ("hosts", number), error, HostEntry) from None


def _chosen(document: Document, entries: Mapping[str, HostEntry], group: str | None) -> tuple[HostEntry, ...]:
    if group is None:
        return tuple(entries.values())
    groups = document.values.get("groups") or {}
    if not isinstance(groups, dict):
        raise document.error(("groups",), "must be a mapping of group names to lists of hosts")
    if group not in groups:
        raise InputError(
            f"{document.path}: no group '{group}'{nearest(group, groups)} (known: {', '.join(groups)})"
        )
    listed = groups[group] if isinstance(groups[group], list) else [groups[group]]
    try:
        names = [name for word in listed for name in expanded(str(word))]
    except ValueError as error:
        raise document.error(("groups", group), str(error)) from None
    for name in names:
        if name not in entries:
            raise document.error(
                ("groups", group), f"'{name}' is not a host of this file{nearest(name, entries)}"
            )
    return tuple(entries[name] for name in names)


def _allocated(environ: Mapping[str, str], by: str = "--hosts slurm") -> Iterator[HostEntry]:
    nodes = environ.get("SLURM_JOB_NODELIST")
    if not nodes:
        raise InputError(
            f"{by}: this is not a Slurm allocation (SLURM_JOB_NODELIST is not set); use salloc or sbatch. "
            "Outside of one, `trainmark plan SUITE --hosts FILE --as sbatch` prints a job, --engine ssh the commands"
        )
    try:
        result = subprocess.run(
            ["scontrol", "show", "hostnames", nodes], capture_output=True, text=True, timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise InputError(f"--hosts slurm: scontrol cannot list the nodes '{nodes}': {error}") from None
    for name in result.stdout.split():
        yield _host("--hosts slurm: scontrol", name)
