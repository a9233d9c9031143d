"""``trainmark env``: make, list, check and remove the frameworks' environments, and resolve their locks."""

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from trainmark.environment import Created, Entry, Variant

app = typer.Typer(
    help="Create and inspect the frameworks' environments.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


class VariantChoice(StrEnum):
    """The variant asked for; ``auto`` is ``cuda`` where a GPU answers, else ``cpu``."""

    CPU = "cpu"
    CUDA = "cuda"
    AUTO = "auto"


Name = Annotated[str, typer.Argument(help="A framework of the catalogue, such as pytorch.")]
AnyName = Annotated[
    str, typer.Argument(help="A framework of the catalogue, 'system', or the path of a Python.")
]
Choice = Annotated[VariantChoice, typer.Option("--variant", help="Which build; auto asks for a GPU.")]
Python = Annotated[Path | None, typer.Option("--python", help="The interpreter to use.", metavar="PATH")]
Index = Annotated[
    str | None, typer.Option("--index", help="A package index, searched beside pip's.", metavar="URL")
]
Root = Annotated[
    Path | None,
    typer.Option("--root", help="Where environments live (default: $TRAINMARK_HOME).", metavar="DIR"),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@app.command("list")
def list_(root: Root = None, as_json: AsJson = False) -> None:
    """Say which environments there can be, and in what state they are."""
    from trainmark.environment import SYSTEM, entries, folder_of, read_stamp, state_of

    home = _home(root)
    rows: list[dict[str, Any]] = []
    for entry in entries():
        folder = folder_of(home, entry.framework)
        stamp = read_stamp(folder)
        rows.append(
            {
                "environment": entry.framework,
                "state": str(state_of(entry, home)),
                "variant": stamp.variant if stamp else None,
                "python": stamp.python_version if stamp else None,
                "path": str(folder),
                "variants": list(entry.variants),
                "lock_fits_python": list(entry.python),
            }
        )
    version = ".".join(str(part) for part in sys.version_info[:3])
    rows.append(
        {"environment": SYSTEM, "state": "the Python in use", "python": version, "path": sys.executable}
    )
    if as_json:
        _print_json(rows)
        return
    for row in rows:
        made = " ".join(row[key] for key in ("variant", "python") if row.get(key))
        typer.echo(f"{row['environment']:<12} {row['state']:<24} {made:<12} {row['path']}")


@app.command()
def create(
    name: Name,
    variant: Choice = VariantChoice.AUTO,
    python: Python = None,
    wheel: Annotated[
        list[Path] | None,
        typer.Option("--wheel", help="A wheel in place of a pin; repeatable.", metavar="FILE"),
    ] = None,
    index: Index = None,
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Make a framework's environment from its lock; at once done when it is there and right."""
    from trainmark.environment import Request, find_entry
    from trainmark.environment import create as make

    entry = find_entry(name)
    request = Request(entry, _variant(variant, entry), python, tuple(wheel or ()), index)
    created = make(request, home=_home(root), say=_say)
    if created.beside:
        _say(_about_packages_beside(created, entry))
    if as_json:
        _print_json(
            {"made": created.made, "path": str(created.folder), **created.stamp.model_dump(mode="json")}
        )
        return
    done = "made" if created.made else "already there and right"
    stamp = created.stamp
    typer.echo(f"{name}: {done} ({stamp.variant}, Python {stamp.python_version}, {created.folder})")


@app.command()
def check(
    name: AnyName,
    python: Python = None,
    framework: Annotated[
        str | None, typer.Option("--framework", help="What 'system' is to hold (default: pytorch).")
    ] = None,
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Look at an environment from outside and inside, and train one step in it; exit code 1 if something is wrong."""
    from trainmark.environment import check as look

    report = look(name, home=_home(root), python=python, framework=framework)
    if as_json:
        _print_json({"ok": report.ok, **report.model_dump(mode="json")})
    else:
        for finding in report.findings:
            typer.echo(f"{'ok  ' if finding.ok else 'FAIL'} {finding.check:<10} {finding.message}")
        if report.framework is not None:
            facts = report.framework.model_dump(exclude={"framework", "version", "python"})
            runtime = ", ".join(f"{key} {value or '-'}" for key, value in facts.items())
            typer.echo(f"     {report.framework.framework} {report.framework.version} ({runtime})")
    if not report.ok:
        raise typer.Exit(1)


@app.command()
def remove(name: Name, root: Root = None) -> None:
    """Remove an environment that trainmark made, whole or half made."""
    from trainmark.environment import find_entry
    from trainmark.environment import remove as discard

    find_entry(name)
    there = discard(name, home=_home(root), say=_say)
    typer.echo(f"{name}: removed" if there else f"{name}: there is none")


@app.command()
def lock(
    name: Name,
    variant: Choice = VariantChoice.AUTO,
    python: Python = None,
    index: Index = None,
    out: Annotated[Path | None, typer.Option("--out", help="Write the lock there.", metavar="FILE")] = None,
) -> None:
    """Resolve a fresh lock with pip and print it; nothing is installed (for those who maintain the catalogue)."""
    from trainmark.environment import Request, find_entry, make_lock
    from trainmark.errors import InputError
    from trainmark.files import write_atomically

    entry = find_entry(name)
    text = make_lock(Request(entry, _variant(variant, entry), python, (), index), say=_say)
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        write_atomically(out, text)
    except OSError as error:
        raise InputError(f"--out {out}: {error.strerror or error}") from error
    typer.echo(f"{out}: {text.count('==')} packages")


def _home(root: Path | None) -> Path:
    from trainmark.environment import default_home

    return default_home(os.environ) if root is None else root.expanduser().absolute()


def _variant(choice: VariantChoice, entry: "Entry") -> "Variant":
    from trainmark.environment import Variant, open_nvml

    if choice is not VariantChoice.AUTO:
        return Variant(choice)
    with open_nvml() as nvml:
        has_gpu = nvml is not None and bool(nvml.handles())
    return Variant.CUDA if has_gpu and Variant.CUDA in entry.variants else Variant.CPU


def _about_packages_beside(created: "Created", entry: "Entry") -> str:
    count = len(created.beside)
    said = f"{count} packages that the lock does not name came along ({', '.join(created.beside[:3])}, …)"
    return f"{said}: the index gave another build; {entry.variants[created.stamp.variant].hint}"


def _say(line: str) -> None:
    typer.echo(f"trainmark env: {line}", err=True)


def _print_json(value: Any) -> None:
    from trainmark.files import to_json

    typer.echo(to_json(value), nl=False)
