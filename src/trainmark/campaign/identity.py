"""The parts of a run's identity: program, data, packages and machine."""

import os
from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from trainmark.campaign.run_environment import RunEnvironment
from trainmark.dataset import SUMS_NAME
from trainmark.environment import installed_packages
from trainmark.files import EXTENSIONS, extension_folders
from trainmark.node.trees import Trees, listing
from trainmark.placement import PlacementHost, RunSpec, build_plan
from trainmark.schema.case import SYNTHETIC, Case
from trainmark.schema.hosts import Traffic
from trainmark.schema.manifest import Manifest, Node
from trainmark.schema.outcome import Entries, PartName
from trainmark.schema.plan import Plan
from trainmark.workload import BuiltinSource, Card, FilesSource, FolderSource, GitSource, Workload, commit_of

_DEFAULT_LABELS = {"description", "source", "data_files"}
"""The keys of a card that do not affect a run, or are a separate part of the identity (the source, the data)."""

_ADDED = ("stand_ins", "packages")
"""The lists of a card that later versions have added."""

_OF_THE_CALL = (
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MS_SCHED_",
    "OMPI_MCA_",
    "JAX_COORDINATOR_",
    "JAX_PROCESS_",
    "JAX_NUM_PROCESSES",
    "JAX_LOCAL_",
    "JAX_COMPILATION_CACHE_",
    "JAX_PERSISTENT_CACHE_",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
)
"""Prefixes of variables that name a run's place or a compilation cache, and do not affect what the run does."""


class Identifier:
    """Computes the identities of runs; a file that has not changed is hashed once."""

    def __init__(self, run_env: RunEnvironment) -> None:
        self._run_env = run_env
        self._trees = Trees()
        self._packages: dict[tuple[Path, tuple[int, ...]], Mapping[str, str]] = {}
        self._data: dict[str, Mapping[str, str]] = {}

    def at(self, run_env: RunEnvironment) -> "Identifier":
        """Return a copy for a run environment with other hosts; the hashes are shared."""
        other = copy(self)
        other._run_env = run_env
        return other

    def program(self, case: Case) -> tuple[Entries, ...]:
        """Return the parts that depend only on the card and the program's files."""
        workload = self._run_env.workload(case)
        card = workload.card
        # Without an empty list, the identity is that of an earlier version, whose cards had no such key.
        absent = {name for name in _ADDED if not getattr(card, name)}
        values = card.model_dump(mode="json", exclude=_DEFAULT_LABELS | absent)
        return (
            Entries(
                name=PartName.CARD, word=f"{card.framework} card {card.name}", entries=dict(_flat(values))
            ),
            self._source(case, workload),
            *self._data_files(workload),
        )

    def _data_files(self, workload: Workload) -> Iterator[Entries]:
        if workload.card.data_files:
            digests = self._run_env.data_files.digests(workload)
            yield Entries(name=PartName.FILES, word=f"of card {workload.card.name}", entries=digests)

    def parts(self, spec: RunSpec, plan: Plan, manifest: Manifest) -> tuple[Entries, ...]:
        """Return all parts of a run that is ready to start."""
        commands = canonical_commands(spec)
        held = [
            *self.program(spec.case),
            Entries(name=PartName.COMMANDS, word="of the run", entries=commands),
        ]
        held.append(self._packages_of(spec, manifest))
        variables = {
            f"node {number} {name}": value
            for number, node in enumerate(manifest.nodes)
            for name, value in variables_of(node).items()
            if f"node {number} variable {name}" not in commands
        }
        held.append(Entries(name=PartName.VARIABLES, word="of the caller", entries=variables))
        if made := dict(self._made(plan)):
            held.append(Entries(name=PartName.PREPARED, word=f"files in {spec.prepared}", entries=made))
        if spec.case.reads_data_set:
            held.append(
                Entries(
                    name=PartName.DATA, word=f"data set {spec.case.data}", entries=self._data_at(spec.dataset)
                )
            )
        return tuple(held)

    def _made(self, plan: Plan) -> Iterator[tuple[str, str]]:
        """Yield the files that prepare steps created, from the host that has them."""
        for before in plan.preparations:
            if before.files:
                # The card's packages are a separate part of the identity.
                continue
            where = f"node {before.node} " if before.node else ""
            for leaf in dict.fromkeys(path for task in before.tasks for path in task.leaves):
                for name, digest in self._run_env.hosts[before.node].digests(leaf).items():
                    yield f"{where}{leaf.relative_to(before.folder)}/{name}", digest

    def _source(self, case: Case, workload: Workload) -> Entries:
        match workload.card.source:
            case GitSource(url=url, folder=inside, paths=paths):
                commit = str(commit_of(case, workload.card))
                entries, word = {"commit": commit, "folder": inside}, f"{url} at {commit[:12]}"
                if paths:
                    entries["paths"] = " ".join(paths)
            case FolderSource(ignore=ignore):
                # A stand-in is a separate part of the identity.
                ignore = (*ignore, *(stand_in.path for stand_in in workload.card.stand_ins))
                entries, word = self._trees.digests(workload.source, ignore), f"folder {workload.source}"
            case FilesSource(files=files):
                digests = {name: self._trees.digests(workload.source / name) for name in files}
                entries = {
                    os.path.normpath(f"{name}/{path}"): digest
                    for name, held in digests.items()
                    for path, digest in held.items()
                }
                word = "files of the command"
            case BuiltinSource():
                entries = self._worker(workload.source, workload.card)
                word = f"trainmark's worker for {workload.card.framework}"
        return Entries(name=PartName.SOURCE, word=word, entries=entries)

    def _worker(self, source: Path, card: Card) -> dict[str, str]:
        """Return the files of a framework's worker, without those of other frameworks."""
        found: dict[str, str] = {}
        for root in (source, *extension_folders("worker")):
            common = (root / "start.py", root / "core", root / "tasks", root / "gaps.json")
            own = (root / "backends" / card.framework, root / f"{card.framework}_fast")
            for inner in (*common, *own, *root.glob(f"models/{card.framework}_*.py")):
                held = self._trees.digests(inner) if inner.exists() else {}
                found |= {os.path.normpath(f"{inner.name}/{path}"): digest for path, digest in held.items()}
        return found

    def _packages_of(self, spec: RunSpec, manifest: Manifest) -> Entries:
        container = spec.interpreter.container
        if container is not None:
            entries = {"image": container.description.model_dump_json()}
            return Entries(
                name=PartName.PACKAGES, word=f"image {container.description.reference}", entries=entries
            )
        python = spec.interpreter.python
        known = (python, _when_changed(python))
        if known not in self._packages:
            self._packages[known] = installed_packages(python, spec.interpreter.variables)
        node = manifest.nodes[0]
        lock = {"lock": node.environment_lock} if node.environment_lock else {}
        facts = node.framework.model_dump() if node.framework else {}
        versions = {f"framework {name}": str(value) for name, value in facts.items() if value is not None}
        added = spec.interpreter.packages
        locked = {"lock of the card's packages": added.digest} if added is not None else {}
        entries = {**self._packages[known], **lock, **locked, **versions}
        return Entries(name=PartName.PACKAGES, word=f"of {python}", entries=entries)

    def _data_at(self, folder: str) -> Mapping[str, str]:
        if folder not in self._data:
            sums = Path(folder) / SUMS_NAME
            self._data[folder] = self._trees.digests(sums) if sums.is_file() else listing(Path(folder))
        return self._data[folder]


def _when_changed(python: Path) -> tuple[int, ...]:
    """Return when packages were last installed or removed in an interpreter's folders (nanoseconds)."""
    prefix = python.parent.parent
    folders = sorted(prefix.glob("lib*/python3*/*-packages")) + sorted(
        prefix.glob("local/lib*/python3*/*-packages")
    )
    return tuple(folder.stat().st_mtime_ns for folder in folders)


def canonical_commands(spec: RunSpec) -> dict[str, str]:
    """Return the words and variables of a run's commands, with placeholders for run, call and machine."""
    source = spec.workload.source
    named = replace(
        spec,
        repeat=1,
        port=0,
        directory=Path("/run"),
        data=spec.data if spec.data == SYNTHETIC else "/data",
        dataset=spec.dataset if spec.dataset == SYNTHETIC else "/dataset",
        prepared=Path("/prepared"),
        compile_cache=Path("/compile-cache"),
        workload=replace(spec.workload, source=Path("/source") if source.is_absolute() else source),
        hosts=tuple(_generic_host(host, number) for number, host in enumerate(spec.hosts)),
        interpreter=replace(
            spec.interpreter,
            python=Path("python"),
            container=spec.interpreter.container
            and replace(spec.interpreter.container, image="image", user="0:0"),
        ),
    )
    found: dict[str, str] = {}
    for command in build_plan(named).commands:
        where = f"node {command.node}" + (f" rank {command.rank}" if command.rank is not None else "")
        found[where] = " ".join(command.words)
        found |= {
            f"{where} variable {name}": value
            for name, value in command.variables.items()
            if name != EXTENSIONS
        }
    return found


def variables_of(node: Node) -> dict[str, str]:
    """Return the variables of a node that affect what a run does there, without those that name its place."""
    return {name: value for name, value in node.variables.items() if not name.startswith(_OF_THE_CALL)}


def traffic_of(traffic: Traffic) -> Traffic:
    """Return the settings for traffic between ranks, without those for reaching a host."""
    return traffic.model_copy(update={"user": None, "port": None})


def _generic_host(host: PlacementHost, number: int) -> PlacementHost:
    return PlacementHost(
        replace(host.machine, visible=()),
        f"node{number}",
        f"10.0.0.{number + 1}",
        interface=host.interface,
        traffic=traffic_of(host.traffic),
    )


def _flat(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and not all(isinstance(inner, str) for inner in value):
        for number, inner in enumerate(value):
            yield from _flat(inner, f"{path}[{number}]")
    elif isinstance(value, list):
        yield path, " ".join(value)
    else:
        yield path, str(value)
