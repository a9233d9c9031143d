"""What a run is about to run, as an identity; and the refusal to add it to runs of something else.

The entries of each part lie once in a result directory, under ``identity/``, so that a refusal can say what changed.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trainmark.campaign.planning import Site
from trainmark.dataset import SUMS_NAME
from trainmark.environment import installed
from trainmark.errors import InputError
from trainmark.execution import ResultDirectory
from trainmark.extensions import VARIABLE as EXTENSIONS
from trainmark.extensions import folders
from trainmark.files import write_atomically
from trainmark.node.trees import Trees, listing
from trainmark.placement import PlacementHost, RunSpec, place
from trainmark.words.case import SYNTHETIC, Case
from trainmark.words.identity import Entries, Identity, PartName
from trainmark.words.manifest import Manifest
from trainmark.words.measurement import About, Suspicion
from trainmark.words.outcome import OutcomeRecord
from trainmark.words.plan import Plan
from trainmark.workload import BuiltinSource, Card, FolderSource, GitSource, Workload, commit_of

FOLDER = "identity"
"""In a result directory: the entries of each part of its runs' identities, by digest."""

_UNNAMED = {"description", "source"}
"""What a card says that changes no run: the source is a part of its own."""

_OF_THE_CALL = (
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MS_SCHED_",
    "OMPI_MCA_",
)
"""Variables that say where a run is, not what it does; as beginnings of names."""

_SHOWN = 3
_LONGEST = 60


class Identifier:
    """Says what runs of a site's cases are; a file that has not changed is hashed once."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._trees = Trees()
        self._packages: dict[str, Mapping[str, str]] = {}
        self._data: dict[str, Mapping[str, str]] = {}

    def program(self, case: Case) -> tuple[Entries, ...]:
        """Return the parts that need nothing but the card and the program's files."""
        workload = self._site.workload(case)
        card = workload.card
        said = card.model_dump(mode="json", exclude=_UNNAMED)
        return (
            Entries(name=PartName.CARD, word=f"{card.framework} card {card.name}", entries=dict(_flat(said))),
            self._source(case, workload),
        )

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
            for name, value in node.variables.items()
            if not name.startswith(_OF_THE_CALL) and f"node {number} variable {name}" not in commands
        }
        held.append(Entries(name=PartName.VARIABLES, word="of the caller", entries=variables))
        if made := dict(self._made(plan)):
            held.append(Entries(name=PartName.PREPARED, word=f"files in {spec.prepared}", entries=made))
        if spec.case.data != SYNTHETIC:
            held.append(
                Entries(
                    name=PartName.DATA, word=f"data set {spec.case.data}", entries=self._data_at(spec.dataset)
                )
            )
        return tuple(held)

    def _made(self, plan: Plan) -> Iterator[tuple[str, str]]:
        """Yield the files that prepare steps made, on the host that has them."""
        for before in plan.preparations:
            where = f"node {before.node} " if before.node else ""
            for leaf in dict.fromkeys(path for task in before.tasks for path in task.leaves):
                for name, digest in self._site.hosts[before.node].digests(leaf).items():
                    yield f"{where}{leaf.relative_to(before.folder)}/{name}", digest

    def _source(self, case: Case, workload: Workload) -> Entries:
        match workload.card.source:
            case GitSource(url=url, folder=inside):
                commit = str(commit_of(case, workload.card))
                entries, word = {"commit": commit, "folder": inside}, f"{url} at {commit[:12]}"
            case FolderSource(ignore=ignore):
                entries, word = self._trees.digests(workload.source, ignore), f"folder {workload.source}"
            case BuiltinSource():
                entries = self._worker(workload.source, workload.card)
                word = f"trainmark's worker for {workload.card.framework}"
        return Entries(name=PartName.SOURCE, word=word, entries=entries)

    def _worker(self, source: Path, card: Card) -> dict[str, str]:
        """Return the files that a framework's worker is made of: not those of the other frameworks."""
        found: dict[str, str] = {}
        for root in (source, *folders("worker")):
            for inner in (root / "start.py", root / "core", root / "tasks", root / card.framework):
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
        python = str(spec.interpreter.python)
        if python not in self._packages:
            self._packages[python] = installed(spec.interpreter.python, spec.interpreter.variables)
        node = manifest.nodes[0]
        lock = {"lock": node.environment_lock} if node.environment_lock else {}
        said = node.framework.model_dump() if node.framework else {}
        versions = {f"framework {name}": str(value) for name, value in said.items() if value is not None}
        entries = {**self._packages[python], **lock, **versions}
        return Entries(name=PartName.PACKAGES, word=f"of {python}", entries=entries)

    def _data_at(self, folder: str) -> Mapping[str, str]:
        if folder not in self._data:
            sums = Path(folder) / SUMS_NAME
            self._data[folder] = self._trees.digests(sums) if sums.is_file() else listing(Path(folder))
        return self._data[folder]


def canonical_commands(spec: RunSpec) -> dict[str, str]:
    """Return the words and variables of a run's commands with names for what each run, call and machine has its own."""
    source = spec.workload.source
    named = replace(
        spec,
        repeat=1,
        port=0,
        directory=Path("/run"),
        data=spec.data if spec.data == SYNTHETIC else "/data",
        dataset=spec.dataset if spec.dataset == SYNTHETIC else "/dataset",
        prepared=Path("/prepared"),
        workload=replace(spec.workload, source=Path("/source") if source.is_absolute() else source),
        hosts=tuple(_unnamed(host, number) for number, host in enumerate(spec.hosts)),
        interpreter=replace(
            spec.interpreter,
            python=Path("python"),
            container=spec.interpreter.container
            and replace(spec.interpreter.container, image="image", user="0:0"),
        ),
    )
    found: dict[str, str] = {}
    for command in place(named).commands:
        where = f"node {command.node}" + (f" rank {command.rank}" if command.rank is not None else "")
        found[where] = " ".join(command.words)
        found |= {
            f"{where} variable {name}": value
            for name, value in command.variables.items()
            if name != EXTENSIONS
        }
    return found


def _unnamed(host: PlacementHost, number: int) -> PlacementHost:
    return PlacementHost(replace(host.machine, visible=()), f"node{number}", f"10.0.0.{number + 1}")


def keep_entries(directory: ResultDirectory, parts: Iterable[Entries]) -> None:
    """Write the entries of parts that the directory does not hold yet."""
    folder = directory.path / FOLDER
    folder.mkdir(exist_ok=True)
    for entries in parts:
        path = _path(folder, entries.part.digest)
        if not path.exists():
            write_atomically(path, entries.model_dump_json(indent=1) + "\n")


def identity_of(parts: Iterable[Entries]) -> Identity:
    """Return the identity that these parts make."""
    return Identity.of(tuple(entries.part for entries in parts))


def require_same_identity(directory: ResultDirectory, case: Case, parts: tuple[Entries, ...]) -> None:
    """Raise ``InputError`` saying what differs when an earlier run of the case ran something else.

    Of the earlier runs' identities those parts are compared that ``parts`` has; a run of before there were
    identities has none.
    """
    for record in directory.finished(case).values():
        if record.identity is None or record.started_at is None:
            continue
        asked = {entries.name for entries in parts}
        earlier = Identity.of(tuple(part for part in record.identity.parts if part.name in asked))
        if told := earlier.told(identity_of(parts)):
            raise InputError(
                f"{directory.path}: run {record.repeat} of {case.id} ran something else: "
                f"{told}{_how(directory, earlier, parts)}; start a new --out, or delete those runs"
                f"{_way_out(parts, earlier)}"
            )


def changed_meanwhile(before: Iterable[Entries], after: Iterable[Entries]) -> tuple[Suspicion, ...]:
    """Return a doubt where the program is another after a run than it was before it."""
    held, now = ({found.name: found for found in parts} for parts in (before, after))
    source, again = held[PartName.SOURCE], now[PartName.SOURCE]
    told = list(_entry_changes(source.entries, again.entries))
    if not told:
        return ()
    more = f" and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
    sentence = (
        f"the program was changed while it ran: {again.word}: {', '.join(told[:_SHOWN])}{more}; "
        "files that it writes there itself can be named under 'ignore' of the card's source"
    )
    return (Suspicion(code="source-changed", sentence=sentence, about=About.WORK),)


def require_same_commands(directory: ResultDirectory, case: Case, record: OutcomeRecord, plan: Plan) -> None:
    """Raise ``InputError`` when a run of before there were identities was started by other commands than ``plan``.

    ``plan`` is that of the same repeat in the same folder. Ports are not compared.
    """
    folder = str(directory.run(case, record.repeat).absolute())
    was = [_portless(text, folder, case) for text in record.commands]
    now = [_portless(command.text(), folder, case) for command in plan.commands]
    if was and was != now:
        pairs = (pair for pair in zip(was, now, strict=False) if pair[0] != pair[1])
        before, after = next(pairs, (f"{len(was)} commands", f"{len(now)} commands"))
        told = _apart(before, after)
        raise InputError(
            f"{directory.path}: run {record.repeat} of {case.id} was started by another command ({told}); "
            "start a new --out, or delete those runs"
        )


def _how(directory: ResultDirectory, earlier: Identity, parts: tuple[Entries, ...]) -> str:
    """Return in what entries the parts differ, as far as the earlier ones can be read."""
    now = {entries.name: entries for entries in parts}
    told: list[str] = []
    for was, _ in earlier.changes(identity_of(parts)):
        if was is None or was.name not in now:
            continue
        try:
            text = _path(directory.path / FOLDER, was.digest).read_bytes()
            before = Entries.model_validate_json(text).entries
        except (OSError, ValidationError):
            continue
        told += list(_entry_changes(before, now[was.name].entries))
    more = f" and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
    return f": {', '.join(told[:_SHOWN])}{more}" if told else ""


def _entry_changes(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(before.keys() | now.keys()):
        was, is_ = before.get(name), now.get(name)
        if was == is_:
            continue
        if was is None:
            yield f"{name} is new"
        elif is_ is None:
            yield f"{name} is gone"
        elif _is_digest(was) and _is_digest(is_):
            yield f"{name} is another"
        else:
            yield f"{name} was {_apart(was, is_)}"


def _is_digest(text: str) -> bool:
    return len(text.removeprefix("sampled ")) == 64 and " " not in text.removeprefix("sampled ")


def _apart(was: str, now: str) -> str:
    """Return where two texts part: the words between what they have in common at both ends."""
    left, right = was.split(" "), now.split(" ")
    while left and right and left[0] == right[0]:
        left, right = left[1:], right[1:]
    while left and right and left[-1] == right[-1]:
        left, right = left[:-1], right[:-1]
    shown = [
        text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…" for text in map(" ".join, (left, right))
    ]
    return f"'{shown[0]}' and is '{shown[1]}'"


def _way_out(parts: tuple[Entries, ...], earlier: Identity) -> str:
    changed = {pair.name for both in earlier.changes(identity_of(parts)) for pair in both if pair is not None}
    folder = any(entries.name is PartName.SOURCE and entries.word.startswith("folder ") for entries in parts)
    if PartName.SOURCE in changed and folder:
        return (
            " (files that the program itself writes there can be named under 'ignore' of the card's source)"
        )
    return ""


def _portless(text: str, folder: str, case: Case) -> str:
    """Return a command's words without the place of the run's folder, and without ports where ranks meet."""
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
    """Yield a word's pieces with numbers that can be ports left out."""
    number = ""
    for character in f"{word} ":
        if character.isdigit():
            number += character
            continue
        yield "PORT" if number and 1024 <= int(number) <= 65535 else number
        yield character
        number = ""


def _path(folder: Path, digest: str) -> Path:
    return folder / f"{digest.removeprefix('sha256:')[:32]}.json"


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
