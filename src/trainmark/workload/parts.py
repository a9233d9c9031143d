"""The cards of built-in programs, merged from a common part, the task's and the framework's.

``frameworks/card.yaml`` is the common part, ``tasks/TASK/card.yaml`` the task's, ``frameworks/NAME/card.yaml`` the
framework's, ``worker/cards.yaml`` the parts for a framework and a task. A framework has a card for each task that its
worker trains, and for each that the table of gaps names. The worker refuses the combinations that its table,
``worker/gaps.json``, lists.
"""

import json
from collections.abc import Iterator, Mapping
from functools import reduce
from pathlib import Path
from typing import Any

from trainmark.documents import Document, read_document
from trainmark.files import extension_folders

CARD = "card.yaml"
GAPS = "gaps.json"
OF_BOTH = "cards.yaml"
ANY = "any"
"""Every framework, and every task, in the table of gaps."""
PACKAGE = Path(__file__).parent.parent


def built_in_cards() -> Iterator[Document]:
    """Yield one card for each framework and each of its tasks; raise ``InputError`` for an invalid part.

    The error names the framework's own file.
    """
    common = read_document(PACKAGE / "frameworks" / CARD)
    of_tasks = {document.values["task"]: document.values for document in _documents("tasks")}
    gaps, parts = _gaps(), _parts()
    for own in _documents("frameworks"):
        name = own.path.parent.name
        of_framework = {
            "framework": name,
            "environment": name,
            **own.values,
            "gaps": [*gaps.get((name, ANY), ()), *gaps.get((ANY, ANY), ())],
        }
        for task, of_task in of_tasks.items():
            if _trains(name, task) or (name, task) in gaps:
                both = (*parts.get((name, task), ()), {"gaps": gaps.get((name, task), [])})
                values = reduce(laid_over, (common.values, of_task, of_framework, *both))
                yield Document(own.path, values, own.lines)


def _workers() -> tuple[Path, ...]:
    return (PACKAGE / "worker", *extension_folders("worker"))


def _trains(framework: str, task: str) -> bool:
    """Return whether the worker has a model for both."""
    model = f"models/{framework}_{task.replace('-', '_')}.py"
    return any((worker / model).is_file() for worker in _workers())


def _parts() -> dict[tuple[str, str], list[Mapping[str, Any]]]:
    """Return the parts of cards in the workers' tables, by framework and task."""
    found: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for path in (worker / OF_BOTH for worker in _workers()):
        table = read_document(path).values if path.is_file() else {}
        for framework, tasks in table.items():
            for task, part in tasks.items():
                found.setdefault((framework, task), []).append(part)
    return found


def _gaps() -> dict[tuple[str, str], list[Any]]:
    """Return the gaps of the workers' tables, by framework and task."""
    found: dict[tuple[str, str], list[Any]] = {}
    for path in (worker / GAPS for worker in _workers()):
        table = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
        for framework, tasks in table.items():
            for task, gaps in tasks.items():
                found[framework, task] = [*found.get((framework, task), ()), *gaps]
    return found


def laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Return ``below`` with ``above`` merged over it; lists and mappings are joined, other values replaced."""
    joined = dict(below)
    for key, value in above.items():
        under = below.get(key)
        if isinstance(under, Mapping) and isinstance(value, Mapping):
            joined[key] = laid_over(under, value)
        elif key in ("gaps", "combinations", "prepare"):
            joined[key] = [*value, *(under or ())]
        elif key == "command":
            joined[key] = [*(under or ()), *value]
        else:
            joined[key] = value
    return joined


def _documents(room: str) -> Iterator[Document]:
    for folder in (PACKAGE / room, *extension_folders(room)):
        for path in sorted(folder.glob(f"*/{CARD}")):
            yield read_document(path)
