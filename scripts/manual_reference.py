"""Reference pages of the manual, made from the program itself: its commands, its documents and its decisions."""

import io
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from trainmark.cli.command_tree import command_tree
from trainmark.cli.main import USAGE, main
from trainmark.schema.hosts import HostSet
from trainmark.schema.results import Results
from trainmark.schema.suite import Suite
from trainmark.workload.card import Card

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS: Mapping[str, type[BaseModel]] = {
    "suite": Suite,
    "card": Card,
    "hosts": HostSet,
    "results": Results,
}


def command_line() -> str:
    """Return the help of every verb and of its commands, each under a heading."""
    parts = [f"```text\n{USAGE.rstrip()}\n```"]
    for command in command_tree():
        words = " ".join(command.words)
        level = "#" * (len(command.words) + 1)
        parts.append(f"{level} trainmark {words}\n\n```text\n{_help(command.words)}\n```")
    return "\n\n".join(parts)


def _help(words: tuple[str, ...]) -> str:
    printed = io.StringIO()
    with redirect_stdout(printed):
        code = main([*words, "--help"])
    if code != 0:
        raise SystemExit(f"trainmark {' '.join(words)} --help exits with {code}")
    return printed.getvalue().rstrip()


def document(name: str) -> str:
    """Return the fields of a document, and of each part of it, as tables."""
    schema = DOCUMENTS[name].model_json_schema()
    parts: Mapping[str, Any] = schema.pop("$defs", {})
    whole = {schema["title"]: schema, **parts}
    return "\n\n".join(_part(title, part) for title, part in whole.items())


def _part(title: str, part: Mapping[str, Any]) -> str:
    text = _sentences(part.get("description", ""))
    lines = [f"### {title}", *([text] if text else [])]
    if "enum" in part:
        lines.append("One of " + ", ".join(f"`{value}`" for value in part["enum"]) + ".")
    fields = part.get("properties", {})
    if fields:
        required = part.get("required", ())
        rows = [
            f"| `{key}` | {_type(field)} | {'required' if key in required else _default(field)} |"
            for key, field in fields.items()
        ]
        lines.append("\n".join(["| field | type | default |", "| --- | --- | --- |", *rows]))
    return "\n\n".join(lines)


def _sentences(text: str) -> str:
    """Return a docstring as Markdown: literals in single backticks, no indentation."""
    plain = "\n".join(line.strip() for line in text.splitlines())
    return re.sub(r"``([^`]*)``", r"`\1`", plain).replace("<", "&lt;")


def _default(field: Mapping[str, Any]) -> str:
    if "default" not in field:
        return "empty"
    value = field["default"]
    if value is None:
        return "none"
    if value == "":
        return "empty"
    if isinstance(value, Mapping | list | tuple):
        return f"`{_short(value)}`" if value else "empty"
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _short(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {_short(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_short, value)) + "]"
    return "none" if value is None else str(value)


def _type(field: Mapping[str, Any]) -> str:
    return " or ".join(dict.fromkeys(_types(field))) or "anything"


def _types(field: Mapping[str, Any]) -> Iterator[str]:
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        yield f"[{name}](#{name.lower()})"
    for key in ("anyOf", "oneOf", "allOf"):
        for one in field.get(key, ()):
            yield from _types(one)
    if "enum" in field:
        yield ", ".join(f"`{value}`" for value in field["enum"])
    elif "const" in field:
        yield f"`{field['const']}`"
    elif "type" in field:
        yield from _of_kind(field["type"], field)


def _of_kind(kind: str, field: Mapping[str, Any]) -> Iterator[str]:
    inner: dict[str, Callable[[], str]] = {
        "array": lambda: f"list of {_type(field.get('items', {}))}" if "items" in field else "list",
        "object": lambda: f"mapping to {_type(_values(field))}" if _values(field) else "mapping",
        "integer": lambda: f"whole number{_bounds(field)}",
        "number": lambda: f"number{_bounds(field)}",
        "string": lambda: "text",
        "boolean": lambda: "`true`, `false`",
        "null": lambda: "none",
    }
    yield inner[kind]()


def _values(field: Mapping[str, Any]) -> Mapping[str, Any]:
    patterns: Mapping[str, Any] = field.get("patternProperties", {})
    further = field.get("additionalProperties")
    if patterns:
        first: Mapping[str, Any] = next(iter(patterns.values()))
        return first
    return further if isinstance(further, Mapping) else {}


def _bounds(field: Mapping[str, Any]) -> str:
    signs = {"exclusiveMinimum": "&gt;", "minimum": "&ge;", "exclusiveMaximum": "&lt;", "maximum": "&le;"}
    found = [f"{sign} {field[key]}" for key, sign in signs.items() if key in field]
    return f" ({', '.join(found)})" if found else ""


def decisions() -> str:
    """Return a list of the decisions with their titles."""
    pages = sorted((ROOT / "docs" / "adr").glob("[0-9]*.md"))
    return "\n".join(
        f"- [{page.read_text(encoding='utf-8').splitlines()[0].removeprefix('# ')}]({page.name})"
        for page in pages
    )


def section(name: str) -> str:
    """Return the section that a page of the manual requests as ``<!-- made: NAME -->``."""
    sections: dict[str, Callable[[], str]] = {
        "command-line": command_line,
        "decisions": decisions,
        **{f"{one}-fields": partial(document, one) for one in DOCUMENTS},
    }
    if name not in sections:
        raise SystemExit(f"no section '{name}' of the manual; there are {', '.join(sections)}")
    return sections[name]()
