"""Creation of a job from a suite's file and its hosts: number of hosts and devices, and the files it needs."""

import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from trainmark.documents import read_document
from trainmark.errors import InputError
from trainmark.schema.case import Case, Device
from trainmark.schema.job import Job, JobSettings

MOST_BYTES = 900_000
"""The limit of a ConfigMap, including its metadata, is 1 MiB."""


def make_job(
    suite: Path,
    name: str,
    cases: Sequence[Case],
    only: str | None,
    settings: JobSettings,
    hosts: Sequence[str],
    hosts_file: str,
) -> Job:
    """Return the job that measures ``cases`` of the suite in a file; ``name`` is the suite's, ``hosts`` may be empty.

    Raises ``InputError`` for a card in another folder than the suite, without a case, and for fewer hosts than nodes.
    """
    if not cases:
        raise InputError(f"{suite}: no case is selected, so there is nothing to submit")
    nodes = max(case.nodes for case in cases)
    if hosts and len(hosts) < nodes:
        raise InputError(f"{suite}: {nodes} nodes are required, but the hosts file has only {len(hosts)}")
    on_gpus = [case.devices_per_node for case in cases if case.device is not Device.CPU]
    return Job(
        name=settings.name or _job_name(name),
        suite=suite.read_text(encoding="utf-8"),
        suite_path=str(suite.absolute()),
        files=_next_to(suite),
        only=only,
        nodes=nodes,
        devices_per_node=max(case.devices_per_node for case in cases),
        gpus=max(on_gpus, default=0) if settings.gpus is None else settings.gpus,
        hosts=tuple(hosts),
        hosts_file=str(Path(hosts_file).absolute()),
        settings=settings,
    )


def _job_name(name: str) -> str:
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    return (words if words[:1].isalpha() else f"suite-{words}")[:50].rstrip("-")


def _next_to(suite: Path) -> dict[str, str]:
    values = read_document(suite).values
    cards = [str(card) for card in values.get("cards") or ()]
    for card in cards:
        path = PurePosixPath(card)
        if path.is_absolute() or ".." in path.parts:
            raise InputError(
                f"{suite}: cards: {card}: a job takes its cards along, so they must be in the suite's folder"
            )
    found = {card: (suite.parent / card).read_text(encoding="utf-8") for card in cards}
    size = sum(len(text.encode()) for text in found.values()) + suite.stat().st_size
    if size > MOST_BYTES:
        raise InputError(f"{suite}: with its cards it has {size} bytes, but a job takes at most {MOST_BYTES}")
    return found
