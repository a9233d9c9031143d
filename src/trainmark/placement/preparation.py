"""Preparation of a run as readable commands: the program's source, the image, and the card's prepare steps."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from trainmark.environment.packages import LOCK
from trainmark.environment.resolving import Engine
from trainmark.placement.planner import (
    ContainerContext,
    container_context,
    in_environment,
    values_of,
    working_directory,
)
from trainmark.placement.spec import Container, FrameworkPython, RunSpec
from trainmark.schema.case import Case
from trainmark.schema.plan import Checkout, Command, Preparation, PrepareStep
from trainmark.workload import (
    CHECKOUT,
    Card,
    GitSource,
    Image,
    Program,
    UnsupportedByCard,
    Where,
    commit_of,
    filled,
    matches,
    placeholders_in,
)

NO_COMMIT = "local"
"""The tag of an image that is built from a folder of this machine."""


def source_key(url: str) -> str:
    """Return the name of a repository's cache: the end of its address, and a digest of the whole address."""
    end = re.sub(r"[^A-Za-z0-9._-]", "-", url.rstrip("/").rpartition("/")[2].removesuffix(".git"))
    return f"{end}-{_digest(url)}.git"


def prepared_key(case: Case, card: Card, environment: str, dataset: str) -> str:
    """Return the folder name for the results of prepare steps; it covers everything that they may depend on.

    Raises ``UnsupportedByCard`` if no commit is given.
    """
    reference = card.image.reference if card.image is not None else ""
    of_data = dataset if _uses_data(card) else ""
    in_part = isinstance(card.source, GitSource) and bool(card.source.paths)
    steps = (step.model_dump_json() for step in card.steps)
    words = (
        str(commit_of(case, card)),
        environment,
        reference,
        of_data,
        card.source.model_dump_json(exclude=None if in_part else {"paths"}),
        *steps,
    )
    return f"{card.name}-{card.framework}-{_digest(*words)}"


def container_python(case: Case, card: Card, engine: Engine, prepared: Path, user: str) -> FrameworkPython:
    """Return the interpreter inside a container of the card's image.

    Raises ``UnsupportedByCard`` if the card has no image, or no commit is given for the build.
    """
    if card.image is None:
        raise UnsupportedByCard(f"workload '{card.name}' names no image, so it cannot run in {engine}")
    image = image_name(case, card, card.image) if engine is Engine.DOCKER else str(prepared / "image.sif")
    return FrameworkPython(
        Path(card.image.python), isolated=False, container=Container(engine, image, card.image, user)
    )


def image_name(case: Case, card: Card, image: Image) -> str:
    """Return the image's name in Docker: the image that is pulled, or the one that is built for this commit."""
    if image.build is None:
        return image.reference
    return f"{image.build.name}:{(commit_of(case, card) or NO_COMMIT)[:12]}"


def prepare(spec: RunSpec, node: int, cache: Path) -> Preparation | None:
    """Return the prerequisites of a run on a node, or None if it has none.

    ``cache`` is the folder of the node's repositories.

    Raises ``UnsupportedByCard`` if no full commit is given for a program from a repository.
    """
    card = spec.card
    if not isinstance(card.source, GitSource) and not card.steps and spec.interpreter.container is None:
        return None
    spec = spec.on(node)
    tasks = tuple(_tasks(spec, node))
    links = tuple(_links(spec, node))
    commit = commit_of(spec.case, card)
    if commit is None or not isinstance(card.source, GitSource):
        return Preparation(spec.prepared, tasks=tasks, node=node, links=links) if tasks else None
    url, paths = card.source.url, card.source.paths
    # A cache without the other files is one of its own: later fetches into it leave them out too.
    repository = cache / (f"part-of-{source_key(url)}" if paths else source_key(url))
    source = Checkout(url, commit, repository, spec.directory_on(node) / CHECKOUT, paths)
    workshop = replace(source, tree=spec.prepared / CHECKOUT) if tasks else None
    return Preparation(spec.prepared, card.source.folder, source, workshop, tasks, node, links)


def prepare_packages(spec: RunSpec, node: int) -> Preparation | None:
    """Return the installation of the card's packages on a node, or None if it has none."""
    packages = spec.interpreter.packages
    if packages is None:
        return None
    variables = dict(spec.interpreter.variables)
    tasks = tuple(
        PrepareStep(description, Command(node, words, variables), (packages.python,))
        for description, words in packages.commands()
    )
    files = {packages.folder / LOCK: packages.lock}
    return Preparation(packages.folder, tasks=tasks, node=node, files=files)


def _links(spec: RunSpec, node: int) -> Iterator[tuple[Path, Path]]:
    """Yield where the program reads each stand-in, and the file or folder that is made."""
    if spec.card.stand_ins and spec.interpreter.container is not None:
        raise UnsupportedByCard(f"workload '{spec.card.name}' has stand_ins, which containers do not see")
    folder = spec.directory_on(node)
    folder = working_directory(spec, folder) or folder
    for stand_in in spec.card.stand_ins:
        yield folder / stand_in.path, spec.prepared / stand_in.name


def _tasks(spec: RunSpec, node: int) -> Iterator[PrepareStep]:
    container, card = spec.interpreter.container, spec.card
    if container is None and not card.steps:
        return
    shop = replace(
        spec,
        directory=spec.prepared,
        hosts=tuple(replace(host, folder=None, paths=()) for host in spec.hosts),
    )
    program = Program(spec.case, spec.workload, values_of(shop, node))
    folder = shop.directory_on(node)
    texts = program.texts(spec.case, folder)
    if container is not None:
        yield from _image_tasks(spec, node, container)
    given = container_context(shop, node, folder).mounts
    # The folder itself is mounted writable, and data only for steps that use it.
    unneeded = {str(spec.prepared), *(() if _uses_data(card) else (spec.data, spec.dataset))}
    context = ContainerContext(spec.prepared, tuple(mount for mount in given if mount.target not in unneeded))
    for step in card.steps:
        if not matches(spec.case, step.when, spec.device):
            continue
        words = tuple(filled(word, texts) for word in step.words)
        command = Command(node, words, dict(spec.interpreter.variables))
        yield PrepareStep(
            step.description,
            in_environment(spec.interpreter, command, context)
            if step.where is Where.ENVIRONMENT
            else command,
            tuple(spec.prepared / filled(path, texts) for path in step.leaves),
        )


def _image_tasks(spec: RunSpec, node: int, container: Container) -> Iterator[PrepareStep]:
    image, card = container.description, spec.card
    name = image_name(spec.case, card, image)
    if image.build is not None:
        context = spec.prepared / spec.workload.source / image.build.folder
        words = ["docker", "build", "--tag", name, "--file", str(context / image.build.dockerfile)]
        for argument, value in image.build.arguments.items():
            words += ["--build-arg", f"{argument}={filled(value, {'reference': image.reference})}"]
        yield _host_task(node, f"the image, from {image.reference}", (*words, str(context)), _present(name))
    elif container.engine is Engine.DOCKER:
        yield _host_task(node, "the image", ("docker", "pull", name), _present(name))
    if container.engine is Engine.APPTAINER:
        of = f"docker-daemon:{name}" if image.build is not None else f"docker://{name}"
        words = ["apptainer", "build", container.image, of]
        yield PrepareStep(
            "the image in Apptainer's format", Command(node, tuple(words), {}), (Path(container.image),)
        )


def _present(image: str) -> tuple[str, ...]:
    return ("docker", "image", "inspect", image)


def _host_task(node: int, description: str, words: tuple[str, ...], present: tuple[str, ...]) -> PrepareStep:
    return PrepareStep(description, Command(node, words, {}), present=present)


def _uses_data(card: Card) -> bool:
    words = [word for step in card.prepare for word in (*step.words, *step.leaves)]
    return any(name in ("data", "dataset") for word in words for name in placeholders_in(word))


def _digest(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:10]
