"""YAML documents: a file's with the line of each value, so that errors can name it, and the named ones of a folder.

A file has one document, or several of a family, separated by ``---``, each with its ``name``. A family's file is called
as the names of its documents begin: ``oneflow.yaml`` has ``oneflow`` and ``oneflow-bert``.
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trainmark.errors import InputError
from trainmark.files import extension_folders

if TYPE_CHECKING:
    import yaml

MOST_VALUES = 1_000_000
"""The largest number of values; only nested aliases exceed it."""

Key = tuple[str | int, ...]
"""The place of a value in a document: keys and list positions from the top."""


@dataclass(frozen=True, slots=True)
class Document:
    """A YAML file's values and the line (from 1) of each key."""

    path: Path
    values: Any
    lines: dict[Key, int]

    def where(self, key: Key) -> str:
        """Return ``file:line`` of ``key``, or of its nearest ancestor in the file."""
        while key and key not in self.lines:
            key = key[:-1]
        return f"{self.path}:{self.lines.get(key, 1)}"

    def find(self, name: str, value: Any) -> Key:
        """Return the first key ``name`` (or item of its list) whose value is ``value``; the top if there is none."""
        return next((key for key in self.lines if name in key[-2:] and self._at(key) == value), ())

    def _at(self, key: Key) -> Any:
        held = self.values
        for part in key:
            held = held[part]
        return held

    def error(self, key: Key, message: str) -> InputError:
        """Return an error about ``key``: ``file:line: key: message``."""
        name = ".".join(f"[{part}]" if isinstance(part, int) else str(part) for part in key).replace(
            ".[", "["
        )
        return InputError(
            f"{self.where(key)}: {name}: {message}" if name else f"{self.where(key)}: {message}"
        )


def read_document(path: Path) -> Document:
    """Read one YAML file; raise ``InputError`` if it is missing, not YAML, or has a key twice."""
    return parse_document(_text_of(path), path)


def parse_document(text: str, path: Path) -> Document:
    """Read YAML from ``text``; ``path`` names it in errors. Raises ``InputError`` as above."""
    import yaml

    try:
        loader, node = _compose(text)
        lines: dict[Key, int] = {}
        values = _construct(loader, node, (), lines, path) if node is not None else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise InputError(f"{path}:{line}: not valid YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise InputError(f"{path}: nests too deep; does an alias contain itself?") from None
    return Document(path, values, lines)


def _compose(text: str) -> "tuple[yaml.SafeLoader, yaml.Node | None]":
    """Return the root of a document's nodes, and the loader that constructs their values.

    PyYAML's C parser is ten times as fast. The Python parser reads what the C parser refuses, because errors have its
    words and its lines.
    """
    import yaml

    if (fast := getattr(yaml, "CSafeLoader", None)) is not None:
        with suppress(yaml.YAMLError, ValueError):
            loader = fast(text)
            return loader, loader.get_single_node()
    loader = yaml.SafeLoader(text)
    return loader, loader.get_single_node()


def _construct(
    loader: "yaml.SafeLoader", node: "yaml.Node", key: Key, lines: dict[Key, int], path: Path
) -> Any:
    import yaml

    lines.setdefault(key, node.start_mark.line + 1)
    if len(lines) > MOST_VALUES:
        raise InputError(
            f"{path}: has more than {MOST_VALUES} values; are its aliases aliases of each other?"
        )
    if isinstance(node, yaml.MappingNode):
        loader.flatten_mapping(node)
        mapping: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            name = loader.construct_object(key_node)
            if isinstance(name, bool):
                # YAML 1.1 reads off, on, yes and no as booleans; as keys they are words.
                name = key_node.value
            line = key_node.start_mark.line + 1
            if not isinstance(name, str | int):
                raise InputError(f"{path}:{line}: '{name}': a key must be a word")
            if name in mapping:
                raise InputError(f"{path}:{line}: {name}: is listed twice in the same mapping")
            lines[(*key, name)] = line
            mapping[name] = _construct(loader, value_node, (*key, name), lines, path)
        return mapping
    if isinstance(node, yaml.SequenceNode):
        return [_construct(loader, item, (*key, i), lines, path) for i, item in enumerate(node.value)]
    return loader.construct_object(node)


def parse_yaml(text: str) -> Any:
    """Return what a YAML document holds, as ``yaml.safe_load`` does, ten times as fast where PyYAML has its C part."""
    import yaml

    loader: type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(text, Loader=loader)  # noqa: S506 - both are safe


_NAME = re.compile(r"""(?m)^name: *["']?([^\s"']+)["']?[ \t]*(?:#.*)?$""")
_CONTENT = re.compile(r"(?m)^[ \t]*[^#\s]")
_SEPARATOR = re.compile(r"(?m)^---[ \t]*\n")


class NamedText(NamedTuple):
    """One document: its name, its file, and its text, in which lines have the numbers that they have in the file."""

    name: str
    path: Path
    text: str


def split_documents(path: Path) -> tuple[NamedText, ...]:
    """Return the documents of a YAML file, at least one; one without a ``name`` is called like the file.

    What has nothing but comments, such as the lines before a first ``---``, is no document.
    Raises ``InputError`` if the file cannot be read, or if two have one name.
    """
    text = _text_of(path)
    found: dict[str, NamedText] = {}
    line = 0
    for part in _SEPARATOR.split(text):
        named = _NAME.search(part)
        name = named[1] if named else path.stem
        if name in found:
            raise InputError(
                f"{path}:{line + 1}: a second document is called '{name}': give each its own 'name'"
            )
        if _CONTENT.search(part):
            found[name] = NamedText(name, path, "\n" * line + part)
        line += part.count("\n") + 1
    return tuple(found.values()) or (NamedText(path.stem, path, text),)


def documents_of(room: str) -> tuple[NamedText, ...]:
    """Return the documents of a folder, trainmark's own and those of extensions, sorted by name.

    Of two with the same name it is the first on the path. Raises ``InputError`` as ``split_documents`` does.
    """
    found: dict[str, NamedText] = {}
    for folder in (Path(__file__).parent / room, *extension_folders(room)):
        for file in sorted(folder.glob("*.yaml")):
            for document in split_documents(file):
                found.setdefault(document.name, document)
    return tuple(found[name] for name in sorted(found))


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise InputError(f"{path}: cannot be read: {reason}") from None
