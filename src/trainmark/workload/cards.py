"""Finding and reading cards: the built-in ones from the catalogue, others from the files that a suite names."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from trainmark.errors import InputError, nearest
from trainmark.suite import AXES, Case, read_document
from trainmark.workload.card import BuiltinSource, Card

CATALOG = Path(__file__).with_name("catalog")
WORKER = Path(__file__).parent.parent / "worker"
"""The folder of the built-in training programs."""


@dataclass(frozen=True, slots=True)
class Workload:
    """A card and where its program lies on this machine."""

    card: Card
    source: Path


class NoCardError(InputError):
    """No card has the workload or the framework of a case; ``axis`` says which of the two."""

    def __init__(self, axis: str, message: str) -> None:
        super().__init__(message)
        self.axis = axis


class Workloads:
    """The cards that a suite can use, by workload and framework."""

    def __init__(self, workloads: Iterable[Workload]) -> None:
        self._by_key: Mapping[tuple[str, str], Workload] = {
            (workload.card.name, workload.card.framework): workload for workload in workloads
        }

    def find(self, case: Case) -> Workload:
        """Return the workload of a case; raise ``NoCardError`` when no card has its workload and framework."""
        workload = self._by_key.get((case.workload, case.framework))
        if workload is not None:
            return workload
        names = sorted({name for name, _ in self._by_key})
        if case.workload not in names:
            raise NoCardError("workload", f"no workload '{case.workload}'{nearest(case.workload, names)}")
        frameworks = sorted(framework for name, framework in self._by_key if name == case.workload)
        raise NoCardError(
            "framework",
            f"workload '{case.workload}' has no card for framework '{case.framework}'"
            f"{nearest(case.framework, frameworks)} (it has: {', '.join(frameworks)})",
        )


def load_workloads(files: Iterable[Path] = ()) -> Workloads:
    """Read the catalogue's cards and those in ``files``, which take the place of built-in ones of their name.

    Raises ``InputError`` for a card that cannot be used, and for two in ``files`` that name the same.
    """
    named: dict[tuple[str, str], tuple[Path, Workload]] = {}
    for path in files:
        workload = read_card(path)
        key = (workload.card.name, workload.card.framework)
        if key in named:
            raise InputError(f"{path}: workload '{key[0]}' for {key[1]} has a card already: {named[key][0]}")
        named[key] = (path, workload)
    built_in = [read_card(path) for path in sorted(CATALOG.glob("*.yaml"))]
    return Workloads((*built_in, *(workload for _, workload in named.values())))


def read_card(path: Path) -> Workload:
    """Read one card; raise ``InputError`` naming file, line and key of what is wrong."""
    document = read_document(path)
    try:
        card = Card.model_validate(document.values)
    except ValidationError as error:
        first = error.errors()[0]
        place = tuple(part for part in first["loc"] if part not in ("builtin", "folder"))
        raise document.error(place, f"{first['msg'][0].lower()}{first['msg'][1:]}") from None
    for name in card.unknown_axes():
        section = "axes" if name in card.axes else "fixed"
        raise document.error((section, name), f"is not an axis{nearest(name, AXES)}")
    for number, gap in enumerate(card.gaps):
        for name in gap.when:
            if name not in AXES:
                raise document.error(("gaps", number, "when", name), f"is not an axis{nearest(name, AXES)}")
    if isinstance(card.source, BuiltinSource):
        return Workload(card, WORKER)
    folder = (path.parent / card.source.path).resolve()
    if not folder.is_dir():
        raise document.error(("source", "path"), f"no such folder: {folder}")
    return Workload(card, folder)
