"""What a run needs before it: the program's source, the image, and the card's prepare steps, as readable commands."""

import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from trainmark.environment.engine import Engine
from trainmark.placement.container import Surroundings
from trainmark.placement.place import Run, inside, surroundings, values_of
from trainmark.placement.plan import (
    Checkout,
    Command,
    Container,
    Interpreter,
    Machine,
    Preparation,
    Task,
)
from trainmark.suite import Case, Protocol
from trainmark.workload import (
    CHECKOUT,
    Card,
    GitSource,
    Image,
    UnsupportedByCard,
    Where,
    Workload,
    commit_of,
    filled,
    matches,
    placeholders_in,
)

NO_COMMIT = "local"
"""The tag of an image that is built from a folder of this machine."""


def source_key(url: str) -> str:
    """Return the name of a repository's cache: the end of its address, and what tells it from others of that end."""
    end = re.sub(r"[^A-Za-z0-9._-]", "-", url.rstrip("/").rpartition("/")[2].removesuffix(".git"))
    return f"{end}-{_digest(url)}.git"


def prepared_key(case: Case, card: Card, environment: str, dataset: str) -> str:
    """Return the name of the folder for what the prepare steps make: one for each thing that they may depend on.

    Raises ``UnsupportedByCard`` when nothing says which commit is meant.
    """
    reference = card.image.reference if card.image is not None else ""
    of_data = dataset if _uses_data(card) else ""
    words = (str(commit_of(case, card)), environment, reference, of_data, card.source.model_dump_json())
    return f"{card.name}-{card.framework}-{_digest(*words)}"


def containerised(case: Case, card: Card, engine: Engine, prepared: Path, user: str) -> Interpreter:
    """Return the interpreter inside a container of the card's image.

    Raises ``UnsupportedByCard`` when the card has no image, or nothing says which commit is to be built.
    """
    if card.image is None:
        raise UnsupportedByCard(f"workload '{card.name}' names no image, so it cannot run in {engine}")
    image = image_name(case, card, card.image) if engine is Engine.DOCKER else str(prepared / "image.sif")
    return Interpreter(
        Path(card.image.python), isolated=False, container=Container(engine, image, card.image, user)
    )


def image_name(case: Case, card: Card, image: Image) -> str:
    """Return the image that Docker knows: the one that is pulled, or the one that is built for this commit."""
    if image.build is None:
        return image.reference
    return f"{image.build.name}:{(commit_of(case, card) or NO_COMMIT)[:12]}"


def prepare(
    case: Case,
    workload: Workload,
    interpreter: Interpreter,
    machine: Machine,
    protocol: Protocol,
    run: Run,
    cache: Path,
) -> Preparation | None:
    """Return what must be there before a run, or None where nothing is needed; ``cache`` holds the repositories.

    Raises ``UnsupportedByCard`` as ``commit_of`` does.
    """
    card = workload.card
    tasks = tuple(_tasks(case, workload, interpreter, machine, protocol, run))
    commit = commit_of(case, card)
    if commit is None or not isinstance(card.source, GitSource):
        return Preparation(run.prepared, tasks=tasks) if tasks else None
    repository = cache / source_key(card.source.url)
    source = Checkout(card.source.url, commit, repository, run.directory / CHECKOUT)
    workshop = replace(source, tree=run.prepared / CHECKOUT) if tasks else None
    return Preparation(run.prepared, card.source.folder, source, workshop, tasks)


def _tasks(
    case: Case,
    workload: Workload,
    interpreter: Interpreter,
    machine: Machine,
    protocol: Protocol,
    run: Run,
) -> Iterator[Task]:
    if interpreter.container is None and not workload.card.prepare:
        return
    shop = replace(run, directory=run.prepared)
    values = values_of(case, interpreter, machine, protocol, shop, node=0)
    texts = values.placeholders(case, workload)
    if interpreter.container is not None:
        yield from _image_tasks(case, workload, interpreter.container, run.prepared)
    given = surroundings(case, workload, machine, shop).mounts
    # The folder itself is mounted to be written in, and data only for steps that look at it.
    unneeded = {str(run.prepared), *(() if _uses_data(workload.card) else (run.data, run.dataset))}
    around = Surroundings(run.prepared, tuple(mount for mount in given if mount.target not in unneeded))
    for step in workload.card.prepare:
        if not matches(case, step.when, values.device):
            continue
        command = Command(0, tuple(filled(word, texts) for word in step.words), dict(interpreter.variables))
        yield Task(
            step.description,
            inside(interpreter, command, around) if step.where is Where.ENVIRONMENT else command,
            tuple(run.prepared / filled(path, texts) for path in step.leaves),
        )


def _image_tasks(case: Case, workload: Workload, container: Container, prepared: Path) -> Iterator[Task]:
    image, card = container.description, workload.card
    name = image_name(case, card, image)
    if image.build is not None:
        context = prepared / workload.source / image.build.folder
        words = ["docker", "build", "--tag", name, "--file", str(context / image.build.dockerfile)]
        for argument, value in image.build.arguments.items():
            words += ["--build-arg", f"{argument}={filled(value, {'reference': image.reference})}"]
        yield _host_task(f"the image, from {image.reference}", (*words, str(context)), _present(name))
    elif container.engine is Engine.DOCKER:
        yield _host_task("the image", ("docker", "pull", name), _present(name))
    if container.engine is Engine.APPTAINER:
        of = f"docker-daemon:{name}" if image.build is not None else f"docker://{name}"
        words = ["apptainer", "build", container.image, of]
        yield Task("the image as Apptainer's", Command(0, tuple(words), {}), (Path(container.image),))


def _present(image: str) -> tuple[str, ...]:
    return ("docker", "image", "inspect", image)


def _host_task(description: str, words: tuple[str, ...], present: tuple[str, ...]) -> Task:
    return Task(description, Command(0, words, {}), present=present)


def _uses_data(card: Card) -> bool:
    words = [word for step in card.prepare for word in (*step.words, *step.leaves)]
    return any(name in ("data", "dataset") for word in words for name in placeholders_in(word))


def _digest(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:10]
