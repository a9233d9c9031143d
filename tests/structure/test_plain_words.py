"""The words of identifiers and docstrings: those of the field, not of a private dialect."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PACKAGE = CHECKOUT / "src" / "trainmark"

BANNED = frozenset(
    (
        *("said", "told", "asked", "kept", "looked", "seen", "stands", "beside", "apart", "begun", "whoever"),
        *("suiting", "saying", "judging", "looking", "asking", "together", "inside", "audience", "dealt"),
        *("ways", "unnamed"),
    )
)
BANNED_PAIRS = frozenset({("last", "words"), ("lies", "at")})

STARTERS = frozenset(
    (
        *("What", "How", "Where", "Whether", "Which", "As", "Tell", "Tells"),
        *("Say", "Says", "Let", "Have", "Meet", "Give", "Gives"),
    )
)
"""First words of a docstring that is neither an imperative nor a noun phrase."""

SCHEMA_KEYS = {
    ("src/trainmark/schema/results.py", "settled_apart"): "a key of results.json",
    ("src/trainmark/schema/results.py", "told"): "a key of results.json",
}

RENAMED_LATER = (
    "src/trainmark/worker/pytorch_fast/kernels",
    *("tests/worker", "tests/programs", "tests/toy/worker"),
)

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


# These expressions find more than there is: files without a match need not be parsed.
_MAY_BE_NAME = re.compile(
    "|".join(
        rf"(?<![a-z]){word}(?![a-z])|{word.capitalize()}(?![a-z])|{word.upper()}"
        for word in (*BANNED, *(first for first, _ in BANNED_PAIRS))
    )
)
_NO_CODE = re.compile(r'"""[\s\S]*?"""|"(?:\\.|[^"\\\n])*"|#[^\n]*')
_MAY_BE_DOCSTRING = re.compile(
    rf'"""(?:{"|".join(sorted(STARTERS))})\b|"""[^\n"]*[^\n".](?:\n|""")|"""[^\n]*[^\n".]"?(?:\n|""")'
)


@cache
def texts() -> dict[str, str]:
    """Return the text of every module by its path in the checkout."""
    paths = (path for folder in ("src", "tests") for path in sorted((CHECKOUT / folder).rglob("*.py")))
    named = {path.relative_to(CHECKOUT).as_posix(): path for path in paths}
    return {
        name: path.read_text(encoding="utf-8")
        for name, path in named.items()
        if not name.startswith(RENAMED_LATER)
    }


@cache
def parsed(name: str) -> ast.Module:
    """Return a module's syntax tree, which is made once for all tests."""
    return ast.parse(texts()[name])


def room(name: str) -> str:
    """Return the folder of a module that is counted as one: ``src/trainmark/ROOM`` or ``tests/ROOM``."""
    parts = name.split("/")[:-1]
    return "/".join(parts[: 3 if parts[0] == "src" else 2])


def is_banned(identifier: str) -> bool:
    parts = [part.lower() for part in _PART.findall(identifier)]
    return not BANNED.isdisjoint(parts) or not BANNED_PAIRS.isdisjoint(pairwise(parts))


def defined(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield each name that a module defines, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno
            case ast.arg(arg=name) | ast.alias(asname=str(name)):
                yield name, node.lineno


def dialect(name: str, text: str) -> Iterator[str]:
    if is_banned(Path(name).stem):
        yield f"{name}: the module's name"
    if _MAY_BE_NAME.search(_NO_CODE.sub("", text)) is None:
        return
    for identifier, line in defined(parsed(name)):
        if is_banned(identifier) and (name, identifier) not in SCHEMA_KEYS:
            yield f"{name}:{line}: {identifier}"


def documented(node: ast.Module | ast.ClassDef) -> Iterator[tuple[int, str]]:
    """Yield the line and the docstring of a module or class, and of the public things in it."""
    if (text := ast.get_docstring(node)) is not None:
        yield getattr(node, "lineno", 1), text
    for inner in node.body:
        if isinstance(inner, ast.ClassDef) and not inner.name.startswith("_"):
            yield from documented(inner)
        elif isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef) and not inner.name.startswith("_"):
            yield inner.lineno, ast.get_docstring(inner) or "."


def no_sentences(name: str, text: str) -> Iterator[str]:
    if _MAY_BE_DOCSTRING.search(text) is None:
        return
    for line, docstring in documented(parsed(name)):
        first = docstring.splitlines()[0]
        if not first.endswith(".") or re.split(r"\W", first, maxsplit=1)[0] in STARTERS:
            yield f"{name}:{line}: {first}"


def names_found() -> list[str]:
    return [line for name, text in texts().items() for line in dialect(name, text)]


def docstrings_found() -> list[str]:
    sources = ((name, text) for name, text in texts().items() if name.startswith("src/"))
    return [line for name, text in sources for line in no_sentences(name, text)]


def test_identifiers_are_the_words_of_the_field() -> None:
    assert names_found() == []


def test_docstrings_begin_with_a_sentence() -> None:
    assert docstrings_found() == []


@pytest.mark.parametrize(
    ("identifier", "banned"),
    [
        ("said", True),
        ("_told_by", True),
        ("KeptManifest", True),
        ("HTTPTold", True),
        ("last_words", True),
        ("LIES_AT", True),
        ("lastly_words", False),
        ("always", False),
        ("insider", False),
        ("folder", False),
    ],
)
def test_a_banned_word_counts_only_as_a_whole_part_of_a_name(identifier: str, banned: bool) -> None:
    assert is_banned(identifier) is banned


def test_every_exception_is_needed() -> None:
    for name, identifier in SCHEMA_KEYS:
        assert identifier in {found for found, _ in defined(parsed(name))}
