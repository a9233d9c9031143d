"""``trainmark env``: make, list, check and remove the frameworks' environments, and resolve their locks."""

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from trainmark.environment import CheckReport, Created, Entry, Request, Row, Variant

app = typer.Typer(
    help="Create and inspect the frameworks' environments.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


class VariantChoice(StrEnum):
    """The variant asked for; ``auto`` is ``cuda`` where a GPU answers and there is a lock for it, else ``cpu``."""

    CPU = "cpu"
    CUDA = "cuda"
    AUTO = "auto"


Name = Annotated[str, typer.Argument(help="A framework of the catalogue, such as pytorch.", metavar="NAME")]
Names = Annotated[
    list[str] | None, typer.Argument(help="Frameworks of the catalogue, such as pytorch.", metavar="NAME")
]
CheckedNames = Annotated[
    list[str] | None,
    typer.Argument(
        help="Frameworks of the catalogue, 'system', or the path of a Python; for --equivalence, frameworks alone.",
        metavar="NAME",
    ),
]
Choice = Annotated[
    VariantChoice,
    typer.Option(
        "--variant", help="Which build; auto: cuda where there is a GPU and a lock for it, else cpu."
    ),
]
Python = Annotated[Path | None, typer.Option("--python", help="The interpreter to use.", metavar="PATH")]
Index = Annotated[
    str | None, typer.Option("--index", help="A package index, searched beside pip's.", metavar="URL")
]
Root = Annotated[
    Path | None,
    typer.Option(
        "--root",
        help="The folder whose envs/ holds them (default: $TRAINMARK_HOME, or else ~/.local/share/trainmark).",
        metavar="DIR",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@app.command("list")
def list_(root: Root = None, as_json: AsJson = False) -> None:
    """Say which environments there can be, and in what state they are."""
    from trainmark.environment import overview

    home = _home(root)
    rows = overview(home)
    if as_json:
        _print_json([row.model_dump(mode="json") for row in rows])
        return
    table = [("environment", "state", "holds", "can be made here")]
    table += [(row.environment, row.state, _holds(row), _can_be_made(row)) for row in rows]
    widths = [max(len(line[column]) for line in table) for column in range(3)]
    for line in table:
        cells = [text.ljust(width) for text, width in zip(line, widths, strict=False)]
        typer.echo("  ".join([*cells, line[3]]).rstrip())
    typer.echo(f"in {home / 'envs'}")


@app.command()
def create(
    names: Names = None,
    every: Annotated[
        bool, typer.Option("--all", help="All that can be made here; those that cannot are named.")
    ] = False,
    variant: Choice = VariantChoice.AUTO,
    python: Python = None,
    wheel: Annotated[
        list[Path] | None,
        typer.Option("--wheel", help="A wheel in place of a pin; repeatable.", metavar="FILE"),
    ] = None,
    index: Index = None,
    extra: Annotated[
        list[str] | None,
        typer.Option("--extra", help="Something besides, such as dali for pytorch; repeatable."),
    ] = None,
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Make frameworks' environments from their locks.

    One that is there and right is left as it is.
    """
    from trainmark.environment import Request, find_entry
    from trainmark.errors import InputError, TrainmarkError

    home = _home(root)
    if every == bool(names):
        raise InputError("give the names of environments, or --all")
    asked = _makeable(home) if every else list(dict.fromkeys(names or ()))
    if (every or len(asked) > 1) and (wheel or extra or python):
        raise InputError("--wheel, --extra and --python are for one environment: name it alone")
    entries = [find_entry(name) for name in asked]
    done: list[dict[str, Any]] = []
    failed: list[str] = []
    for entry in entries:
        try:
            request = Request(
                entry, _variant(variant, entry), python, tuple(wheel or ()), index, tuple(extra or ())
            )
            done.append(_create_one(request, home, as_json))
        except TrainmarkError as error:
            if not every and len(asked) == 1:
                raise
            failed.append(entry.framework)
            done.append({"name": entry.framework, "made": False, "failed": str(error)})
            _say(f"{entry.framework}: {error}")
    if as_json:
        _print_json(done if every or len(asked) > 1 else done[0])
    if failed:
        _say(f"failed: {', '.join(failed)}")
        raise typer.Exit(1)


@app.command()
def check(
    names: CheckedNames = None,
    equivalence: Annotated[
        bool,
        typer.Option(
            "--equivalence",
            help="Show instead that frameworks train by the same step, in FP32 on this machine's CPU: all whose "
            "environments are ready, or two and more that are named.",
        ),
    ] = False,
    model: Annotated[
        list[str] | None,
        typer.Option("--model", help="For --equivalence: this model; repeatable, all by default."),
    ] = None,
    python: Python = None,
    framework: Annotated[
        str | None, typer.Option("--framework", help="What 'system' is to hold (default: pytorch).")
    ] = None,
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Look at environments, and train one step in each.

    Each is looked at from outside and inside. Exit code 1: something is wrong.
    """
    from trainmark.errors import InputError

    if equivalence:
        if python is not None or framework is not None:
            raise InputError(
                "--equivalence looks at made environments: --python and --framework are not for it"
            )
        _check_equivalence(names or [], model or [], _home(root), as_json)
        return
    if not names:
        raise InputError("give the names of environments, or --equivalence")
    if model:
        raise InputError("--model is for --equivalence")
    from trainmark.environment import check as look

    reports = [look(name, home=_home(root), python=python, framework=framework) for name in names]
    if as_json:
        told = [{"ok": report.ok, **report.model_dump(mode="json")} for report in reports]
        _print_json(told[0] if len(told) == 1 else told)
    else:
        for report in reports:
            _print_report(report, named=len(reports) > 1)
    if not all(report.ok for report in reports):
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
    """Resolve a fresh lock with pip and print it; install nothing.

    It is for those who maintain the catalogue.
    """
    from trainmark.environment import Request, find_entry, make_lock
    from trainmark.errors import InputError
    from trainmark.files import write_atomically

    entry = find_entry(name)
    if entry.placeholder is not None:
        _say(
            f"{entry.placeholder.reason}: '{entry.placeholder.package}' itself cannot be locked, "
            "its dependencies can"
        )
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
    from trainmark.home import default_home

    return default_home(os.environ) if root is None else root.expanduser().absolute()


def _variant(choice: VariantChoice, entry: "Entry") -> "Variant":
    from trainmark.environment import Variant
    from trainmark.node.accelerators import open_nvml

    if choice is not VariantChoice.AUTO:
        return Variant(choice)
    with open_nvml() as nvml:
        has_gpu = nvml is not None and bool(nvml.handles())
    if not has_gpu:
        return Variant.CPU
    if Variant.CUDA in entry.variants:
        return Variant.CUDA
    hint = entry.variants[Variant.CPU].hint
    more = f"; {hint}" if hint else ""
    _say(f"a GPU is here, but '{entry.framework}' has no lock for CUDA: the CPU build is taken{more}")
    return Variant.CPU


def _create_one(request: "Request", home: Path, as_json: bool) -> dict[str, Any]:
    from trainmark.environment import create as make

    created = make(request, home=home, say=_say)
    stamp = created.stamp
    if created.beside:
        _say(_about_packages_beside(created, request.entry))
    if not as_json:
        done = "made" if created.made else "already there and right"
        built = f", with {', '.join(stamp.extras)}" if stamp.extras else ""
        typer.echo(
            f"{stamp.name}: {done} ({stamp.variant}, Python {stamp.python_version}{built}, {created.folder})"
        )
    return {"made": created.made, "path": str(created.folder), **stamp.model_dump(mode="json")}


def _print_report(report: "CheckReport", named: bool) -> None:
    if named:
        typer.echo(f"{report.environment}:")
    for finding in report.findings:
        typer.echo(f"{'ok  ' if finding.ok else 'FAIL'} {finding.check:<10} {finding.message}")
    if report.framework is not None:
        facts = report.framework.model_dump(exclude={"framework", "version", "python"})
        runtime = ", ".join(f"{key} {value or '-'}" for key, value in facts.items())
        typer.echo(f"     {report.framework.framework} {report.framework.version} ({runtime})")
    if report.remedy is not None:
        typer.echo(f"     {report.remedy}")


def _check_equivalence(names: list[str], models: list[str], home: Path, as_json: bool) -> None:
    from trainmark.campaign import certify_environments
    from trainmark.environment import entries
    from trainmark.equivalence import render_certificate
    from trainmark.errors import InputError, nearest

    known = [entry.framework for entry in entries()]
    for name in names:
        if name not in known:
            has = ", ".join(known)
            raise InputError(f"--equivalence: no framework '{name}'{nearest(name, known)} (there are: {has})")
    certificates = certify_environments(names, models, home, _say)
    if as_json:
        _print_json(
            {
                "ok": all(certificate.holds for certificate in certificates),
                "certificates": [certificate.model_dump(mode="json") for certificate in certificates],
            }
        )
    else:
        for certificate in certificates:
            typer.echo(render_certificate(certificate), nl=False)
    if not all(certificate.holds for certificate in certificates):
        raise typer.Exit(1)


def _makeable(home: Path) -> list[str]:
    """Return the frameworks that can be made here without more being said; name the others."""
    from trainmark.environment import SYSTEM, overview

    rows = [row for row in overview(home) if row.environment != SYSTEM]
    for row in rows:
        if not row.makeable:
            _say(f"{row.environment} is left out: {row.note}")
    return [row.environment for row in rows if row.makeable]


def _holds(row: "Row") -> str:
    python = f"Python {row.python}" if row.python else None
    return ", ".join(part for part in (row.variant, python, *row.extras) if part) or "-"


def _can_be_made(row: "Row") -> str:
    if not row.variants:
        return row.path
    what = f"{', '.join(row.variants)}; Python {', '.join(row.lock_fits_python)}"
    extras = f"; --extra {', '.join(row.extras_offered)}" if row.extras_offered else ""
    return f"{what}{extras}; {row.note}" if row.note else f"{what}{extras}"


def _about_packages_beside(created: "Created", entry: "Entry") -> str:
    count = len(created.beside)
    said = f"{count} packages that the lock does not name came along ({', '.join(created.beside[:3])}, …)"
    return f"{said}: the index gave another build; {entry.variants[created.stamp.variant].hint}"


def _say(line: str) -> None:
    typer.echo(f"trainmark env: {line}", err=True)


def _print_json(value: Any) -> None:
    from trainmark.files import to_json

    typer.echo(to_json(value), nl=False)
