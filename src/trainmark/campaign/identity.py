"""The parts of a run's identity (program, data, packages and machine), by which unlike runs are refused.

The entries of each part are stored once per result directory, in ``identity/``, so that an error can name the change.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainmark.campaign.data_files import describe_change
from trainmark.campaign.run_environment import RunEnvironment
from trainmark.dataset import SUMS_NAME
from trainmark.environment import installed_packages
from trainmark.errors import InputError
from trainmark.execution import ResultDirectory
from trainmark.files import EXTENSIONS, extension_folders, write_atomically
from trainmark.node.trees import Trees, listing
from trainmark.placement import PlacementHost, RunSpec, build_plan
from trainmark.schema.case import SYNTHETIC, Case
from trainmark.schema.hosts import Traffic
from trainmark.schema.manifest import Manifest, Node
from trainmark.schema.measurement import About, Suspicion
from trainmark.schema.names import COMMAND_CARD, COMMAND_SUITE, IDENTITY
from trainmark.schema.outcome import Entries, Identity, OutcomeRecord, PartName
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
SOURCE_CHANGED = "source-changed"
"""The code of the doubt that a program changed while it ran."""
_COMMAND_FILES = "files of the command"
_SHOWN = 3
_LONGEST = 60


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
                word = _COMMAND_FILES
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


class UnlikeRunsError(InputError):
    """A run differs from earlier runs of its case and cannot be pooled with them."""


def keep_entries(directory: ResultDirectory, parts: Iterable[Entries]) -> None:
    """Write the entries of parts that the directory does not have yet."""
    folder = directory.path / IDENTITY
    folder.mkdir(exist_ok=True)
    for entries in parts:
        path = folder / entries.part.entries_file
        if not path.exists():
            write_atomically(path, entries.to_json())


def identity_of(parts: Iterable[Entries]) -> Identity:
    """Return the identity that consists of these parts."""
    return Identity.of(tuple(entries.part for entries in parts))


def require_same_identity(directory: ResultDirectory, case: Case, parts: tuple[Entries, ...]) -> None:
    """Raise ``UnlikeRunsError`` with the differences if an earlier run of the case ran something else.

    Only the parts in ``parts`` are compared. Runs by versions of trainmark without identities are skipped.
    """
    now = identity_of(parts)
    for record in directory.finished(case).values():
        if record.identity is None or record.started_at is None:
            continue
        earlier = record.identity.limited_to(now)
        if changes := earlier.describe_changes(now):
            raise UnlikeRunsError(
                f"{directory.path}: run {record.repeat} of {case.id} ran something else: "
                f"{changes}{_how(directory, earlier, parts)}; start a new --out, or delete those runs"
                f"{_way_out(parts, earlier)}"
            )


def changed_meanwhile(before: Iterable[Entries], after: Iterable[Entries]) -> tuple[Suspicion, ...]:
    """Return the doubts that the program, or its data files, differ after a run from before it."""
    held, now = ({found.name: found for found in parts} for parts in (before, after))
    return (*_source_changes(held, now), *_data_changes(held, now))


def _data_changes(held: Mapping[PartName, Entries], now: Mapping[PartName, Entries]) -> tuple[Suspicion, ...]:
    if PartName.FILES not in held or PartName.FILES not in now:
        return ()
    changes = list(_file_changes(held[PartName.FILES].entries, now[PartName.FILES].entries))
    if not changes:
        return ()
    sentence = f"data files changed while the program ran: {', '.join(changes)}"
    return (Suspicion(code="data-changed", sentence=sentence, about=About.WORK),)


def _file_changes(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name, was in before.items():
        if name in now and now[name] != was:
            yield describe_change(name, was, now[name])


def _source_changes(
    held: Mapping[PartName, Entries], now: Mapping[PartName, Entries]
) -> tuple[Suspicion, ...]:
    source, again = held[PartName.SOURCE], now[PartName.SOURCE]
    changes = list(_entry_changes(source.entries, again.entries))
    if not changes:
        return ()
    more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    found = f"the program changed while it ran: {again.word}: {', '.join(changes[:_SHOWN])}{more}"
    sentence = "; ".join(filter(None, (found, _remedy(again))))
    return (Suspicion(code=SOURCE_CHANGED, sentence=sentence, about=About.WORK),)


def _remedy(source: Entries) -> str:
    """Return what to do about files that a program writes into its own source; empty where it cannot be."""
    if source.word == _COMMAND_FILES:
        return (
            f"if the program writes these files itself, delete them from 'files' in {COMMAND_CARD} of the results, "
            f"and run their {COMMAND_SUITE} with a new --out"
        )
    if source.word.startswith("folder "):
        return "if the program writes these files itself, list them under 'ignore' of the card's source"
    return ""


def require_same_commands(directory: ResultDirectory, case: Case, record: OutcomeRecord, plan: Plan) -> None:
    """Raise ``UnlikeRunsError`` if a run without an identity was started by other commands than ``plan``.

    Such runs are by older versions of trainmark. ``plan`` is for the same repeat in the same folder. Ports are not
    compared.
    """
    folder = str(directory.run(case, record.repeat).absolute())
    was = [_portless(text, folder, case) for text in record.commands]
    now = [_portless(command.text(), folder, case) for command in plan.commands]
    if was and was != now:
        pairs = (pair for pair in zip(was, now, strict=False) if pair[0] != pair[1])
        before, after = next(pairs, (f"{len(was)} commands", f"{len(now)} commands"))
        difference = _first_difference(before, after)
        raise UnlikeRunsError(
            f"{directory.path}: run {record.repeat} of {case.id} was started by a different command ({difference}); "
            "start a new --out, or delete those runs"
        )


def _how(directory: ResultDirectory, earlier: Identity, parts: tuple[Entries, ...]) -> str:
    """Return the entries in which the parts differ, as far as the earlier ones can be read."""
    now = {entries.name: entries for entries in parts}
    changes: list[str] = []
    for was, _ in earlier.changes(identity_of(parts)):
        if was is None or was.name not in now:
            continue
        try:
            text = (directory.path / IDENTITY / was.entries_file).read_bytes()
            before = Entries.model_validate_json(text).entries
        except (OSError, ValidationError):
            continue
        compare = _file_changes if was.name is PartName.FILES else _entry_changes
        changes += list(compare(before, now[was.name].entries))
    more = f" and {len(changes) - _SHOWN} more" if len(changes) > _SHOWN else ""
    return f": {', '.join(changes[:_SHOWN])}{more}" if changes else ""


def _entry_changes(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(before.keys() | now.keys()):
        was, is_ = before.get(name), now.get(name)
        if was == is_:
            continue
        if was is None:
            yield f"{name} is new"
        elif is_ is None:
            yield f"{name} was removed"
        elif _is_digest(was) and _is_digest(is_):
            yield f"{name} has changed"
        else:
            yield f"{name} was {_first_difference(was, is_)}"


def _is_digest(text: str) -> bool:
    return len(text.removeprefix("sampled ")) == 64 and " " not in text.removeprefix("sampled ")


def _first_difference(was: str, now: str) -> str:
    """Return the words in which two texts differ, without their common start and end."""
    left, right = was.split(" "), now.split(" ")
    while left and right and left[0] == right[0]:
        left, right = left[1:], right[1:]
    while left and right and left[-1] == right[-1]:
        left, right = left[:-1], right[:-1]
    shown = [
        text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…" for text in map(" ".join, (left, right))
    ]
    return f"'{shown[0]}' and is now '{shown[1]}'"


def _way_out(parts: tuple[Entries, ...], earlier: Identity) -> str:
    changed = {pair.name for both in earlier.changes(identity_of(parts)) for pair in both if pair is not None}
    sources = (entries for entries in parts if entries.name is PartName.SOURCE and entries.name in changed)
    remedy = "".join(map(_remedy, sources))
    return f" ({remedy})" if remedy else ""


def _portless(text: str, folder: str, case: Case) -> str:
    """Return a command's words without the path of the run's folder and without rendezvous ports."""
    end = str(Path(*Path(folder).parts[-3:]))
    words = []
    for word in text.split(" "):
        head, found, tail = word.partition(end)
        start = head[: head.find("/")] if "/" in head else head
        words.append(f"{start}RUN{tail}" if found else word)
    if case.world_size > 1:
        words = ["".join(_numbers_out(word)) for word in words]
    return " ".join(words)


def _numbers_out(word: str) -> Iterator[str]:
    """Yield a word's pieces, with numbers that can be ports replaced."""
    number = ""
    for character in f"{word} ":
        if character.isdigit():
            number += character
            continue
        yield "PORT" if number and 1024 <= int(number) <= 65535 else number
        yield character
        number = ""
