"""``trainmark suites``: the suites that come with trainmark."""

import sys
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainmark.errors import InputError, nearest

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

app = typer.Typer(
    help="List, show and copy the suites that come with trainmark.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Name = Annotated[str, typer.Argument(help="A suite of `trainmark suites list`.", metavar="NAME")]


@app.command("list")
def list_suites(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per suite, one per line.")
    ] = False,
) -> None:
    """List the suites by name, with their descriptions."""
    import json

    from trainmark.printable import table

    rows = [(name, _description(text)) for name, text in _texts().items()]
    if as_json:
        for name, description in rows:
            sys.stdout.write(
                json.dumps({"name": name, "description": description}, ensure_ascii=False) + "\n"
            )
        return
    sys.stdout.write(table(("suite", "description"), rows))


@app.command()
def show(name: Name) -> None:
    """Print the file of a suite."""
    sys.stdout.write(_text(name))


@app.command()
def copy(
    name: Name,
    to: Annotated[
        Path | None, typer.Argument(help="The new file; default: NAME.yaml in this folder.", metavar="FILE")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Copy a suite to a file, to edit and run it."""
    from trainmark.files import write_atomically

    path = to or Path(f"{name}.yaml")
    path = path / f"{name}.yaml" if path.is_dir() else path
    text = _text(name)
    if path.exists() and not force:
        raise InputError(f"{path}: exists already; name another file, or replace it with --force")
    write_atomically(path, text)
    sys.stderr.write(f"{path}: written; next: trainmark check {path}, then trainmark run {path}\n")


def _files() -> "list[Traversable]":
    folder = files("trainmark") / "suites"
    found = folder.iterdir() if folder.is_dir() else ()
    return sorted(
        (one for one in found if one.name.endswith(".yaml")), key=lambda one: one.name.removesuffix(".yaml")
    )


def _texts() -> dict[str, str]:
    return {one.name.removesuffix(".yaml"): one.read_text(encoding="utf-8") for one in _files()}


def _text(name: str) -> str:
    texts = _texts()
    known = name.removesuffix(".yaml")
    if known not in texts:
        raise InputError(f"no suite '{name}'{nearest(known, texts)} (trainmark suites list)")
    return texts[known]


def _description(text: str) -> str:
    """Return the description of a suite's text without reading its matrix."""
    lines = (line for line in text.splitlines() if line.startswith("description:"))
    return next(lines, "description: -").partition(":")[2].strip().strip("'\"")
