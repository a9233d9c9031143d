"""The catalogue of published figures and hardware peaks: loading, and finding entries by name."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from pydantic import ValidationError

from trainmark.documents import parse_yaml
from trainmark.errors import InputError, nearest, plain_message
from trainmark.measure.device_peaks import plain
from trainmark.reference.model import Reference
from trainmark.reference.table import load_tables

_GROUP_KEYS = frozenset(Reference.model_fields)


@cache
def load_references() -> tuple[Reference, ...]:
    """Return all published figures in the order of their files; raise ``InputError`` for a duplicate name."""
    found: dict[str, Reference] = {}
    for where, reference in _all_figures():
        if reference.id in found:
            raise InputError(f"{where}: the name '{reference.id}' is used twice")
        found[reference.id] = reference
    return tuple(found.values())


def _all_figures() -> Iterator[tuple[str, Reference]]:
    for file in _documents():
        document = parse_yaml(file.read_text(encoding="utf-8"))
        yield from ((file.name, reference) for reference in read_figures(document, file.name))
    for table in load_tables():
        yield from ((f"{table.name}.yaml", reference) for reference in table.references())


def read_figures(document: Mapping[str, Any], where: str) -> Iterator[Reference]:
    """Yield the figures of one document: a group has the common fields, each figure its own fields.

    A figure's ``recipe`` is laid over its group's, and its ``notes`` follow the group's. ``where`` names the
    document in the ``InputError`` that an unknown key or a wrong value raises.
    """
    for number, group in enumerate(document.get("groups", ()), start=1):
        unknown = set(group) - _GROUP_KEYS - {"figures"}
        if unknown:
            raise InputError(f"{where}: group {number}: unknown key '{min(unknown)}'")
        common = {key: value for key, value in group.items() if key != "figures"}
        for figure in group["figures"]:
            try:
                yield Reference.model_validate(_merged(common, figure))
            except ValidationError as error:
                first = error.errors()[0]
                key = ".".join(str(part) for part in first["loc"])
                raise InputError(
                    f"{where}: {figure.get('id')}: {key}: {plain_message(first['msg'])}"
                ) from None


def _merged(common: Mapping[str, Any], figure: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**common, **figure}
    merged["recipe"] = {**common.get("recipe", {}), **figure.get("recipe", {})}
    merged["notes"] = [*common.get("notes", ()), *figure.get("notes", ())]
    return merged


def find_reference(name: str) -> Reference:
    """Return the figure called ``name``; raise ``InputError`` with the nearest name if there is none."""
    by_name = {reference.id: reference for reference in load_references()}
    if name not in by_name:
        raise InputError(f"no reference '{name}'{nearest(name, by_name)} (trainmark reference list)")
    return by_name[name]


def published_sources() -> dict[str, tuple[Reference, ...]]:
    """Return the published figures by the name of their source: a page, or a release of one."""
    found: dict[str, list[Reference]] = {}
    for where, reference in _all_figures():
        found.setdefault(where.removesuffix(".yaml"), []).append(reference)
    return {name: tuple(found[name]) for name in sorted(found)}


def select_words(references: Iterable[Reference], words: str | None) -> tuple[Reference, ...]:
    """Return the figures that match words such as ``model=mpt_7b,device=H100``, as :func:`select` does."""
    given: dict[str, str] = {}
    for word in filter(None, (words or "").split(",")):
        axis, _, value = (part.strip() for part in word.partition("="))
        if axis not in _WORDS or not value:
            raise InputError(
                f"'{word}' selects no published figures: use {', '.join(_WORDS)} (model=resnet50)"
            )
        given[axis] = value
    return select(references, **given)


_WORDS = ("framework", "device", "model", "precision")


def select(
    references: Iterable[Reference],
    framework: str | None = None,
    device: str | None = None,
    model: str | None = None,
    precision: str | None = None,
) -> tuple[Reference, ...]:
    """Return the figures that match all given words, ignoring punctuation and case.

    ``device`` may include the memory (``v100-32gb``), ``model`` may omit the version (``resnet50``) and
    ``precision`` may be ``amp`` for both mixed precisions. Raises ``InputError`` for a word that matches no figure
    at all.
    """
    texts: dict[str, tuple[str | None, Callable[[Reference], str]]] = {
        "framework": (framework, lambda reference: reference.framework),
        "device": (device, _device_text),
        "model": (model, lambda reference: reference.model),
        "precision": (precision, lambda reference: reference.precision or ""),
    }
    found = tuple(references)
    for axis, (word, text) in texts.items():
        if word is None:
            continue
        known = sorted({text(reference) for reference in found} - {""})
        if not any(plain(word) in plain(one) for one in known):
            # The systems that have a device are many.
            names = dict.fromkeys(one.partition(" in ")[0] for one in known)
            raise InputError(
                f"no published figure with {axis} '{word}'{nearest(word, known)} ({', '.join(names)})"
            )
    return tuple(
        reference
        for reference in found
        if all(word is None or plain(word) in plain(text(reference)) for word, text in texts.values())
    )


def _device_text(reference: Reference) -> str:
    hardware = reference.hardware
    memory = f"-{hardware.device_memory_gb}GB" if hardware.device_memory_gb else ""
    system = f" in {hardware.system}" if hardware.system else ""
    return f"{hardware.device or ''}{memory}{system}"


def _documents() -> list[Traversable]:
    folder = files("trainmark.reference") / "data"
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".yaml"))
    return [folder / name for name in names]
