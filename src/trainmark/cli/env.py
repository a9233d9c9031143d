"""``trainmark env``: create, list, check and remove the frameworks' environments, and resolve their locks."""

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from trainmark.environment import (
        CreatedEnvironment,
        CreationRequest,
        EnvironmentReport,
        EnvironmentRow,
        FrameworkEntry,
        Variant,
    )

app = typer.Typer(
    help="Create, list, check and remove the frameworks' environments.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


class VariantChoice(StrEnum):
    """The requested variant; ``auto`` is ``cuda`` if a GPU is found and a lock for CUDA exists, else ``cpu``."""

    CPU = "cpu"
    CUDA = "cuda"
    AUTO = "auto"


Name = Annotated[str, typer.Argument(help="A framework of the catalogue, e.g. pytorch.", metavar="NAME")]
Names = Annotated[
    list[str] | None, typer.Argument(help="Frameworks of the catalogue, e.g. pytorch.", metavar="NAME")
]
CheckedNames = Annotated[
    list[str] | None,
    typer.Argument(
        help="Frameworks of the catalogue, 'system', or the path of a Python; with --equivalence, only frameworks.",
        metavar="NAME",
    ),
]
Choice = Annotated[
    VariantChoice,
    typer.Option("--variant", help="The build; auto: cuda if there is a GPU and a lock for CUDA, else cpu."),
]
Python = Annotated[
    Path | None, typer.Option("--python", help="The Python interpreter to use.", metavar="PATH")
]
Index = Annotated[
    str | None, typer.Option("--index", help="A package index to search in addition to pip's.", metavar="URL")
]
Root = Annotated[
    Path | None,
    typer.Option(
        "--root",
        help="The folder that contains envs/ (default: $TRAINMARK_HOME, else ~/.local/share/trainmark).",
        metavar="DIR",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]


@app.command("list")
def list_(root: Root = None, as_json: AsJson = False) -> None:
    """List environments, with their state."""
    from trainmark.environment import overview

    home = _home(root)
    rows = overview(home)
    if as_json:
        _print_json([row.model_dump(mode="json") for row in rows])
        return
    from trainmark.printable import table

    headings = ("environment", "state", "contents", "can be created here")
    cells = [(row.environment, row.state, _contents(row), _creatable(row)) for row in rows]
    typer.echo(table(headings, cells), nl=False)
    typer.echo(f"in {home / 'envs'}")


@app.command()
def create(
    names: Names = None,
    every: Annotated[
        bool,
        typer.Option(
            "--all", help="Create all environments that this machine supports, and list the others."
        ),
    ] = False,
    variant: Choice = VariantChoice.AUTO,
    python: Python = None,
    wheel: Annotated[
        list[Path] | None,
        typer.Option(help="A wheel to install instead of a pinned package; repeatable.", metavar="FILE"),
    ] = None,
    index: Index = None,
    extra: Annotated[
        list[str] | None,
        typer.Option(help="An optional addition, e.g. dali for pytorch; repeatable."),
    ] = None,
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Create the environments of frameworks from their locks.

    An environment that exists and matches its lock is left unchanged.
    """
    from trainmark.environment import CreationRequest, find_entry
    from trainmark.errors import InputError, TrainmarkError

    home = _home(root)
    if every == bool(names):
        raise InputError("name the environments to create, or use --all")
    requested = _makeable(home) if every else list(dict.fromkeys(names or ()))
    if (every or len(requested) > 1) and (wheel or extra or python):
        raise InputError("--wheel, --extra and --python apply to one environment: name only that one")
    entries = [find_entry(name) for name in requested]
    done: list[dict[str, Any]] = []
    failed: list[str] = []
    for entry in entries:
        try:
            request = CreationRequest(
                entry, _variant(variant, entry), python, tuple(wheel or ()), index, tuple(extra or ())
            )
            done.append(_create_one(request, home, as_json))
        except TrainmarkError as error:
            if not every and len(requested) == 1:
                raise
            failed.append(entry.framework)
            done.append({"name": entry.framework, "made": False, "failed": str(error)})
            _log(f"{entry.framework}: {error}")
    if as_json:
        _print_json(done if every or len(requested) > 1 else done[0])
    if failed:
        _log(f"failed: {', '.join(failed)}")
        raise typer.Exit(1)


@app.command()
def check(
    names: CheckedNames = None,
    equivalence: Annotated[
        bool,
        typer.Option(
            "--equivalence",
            help="Check instead that frameworks compute the same training step, in FP32 on this machine's CPU: all "
            "frameworks whose environments are ready, or the two or more that are named.",
        ),
    ] = False,
    model: Annotated[
        list[str] | None,
        typer.Option(help="For --equivalence: check only this model; repeatable; default: all models."),
    ] = None,
    python: Python = None,
    framework: Annotated[
        str | None, typer.Option(help="The framework expected in 'system' (default: pytorch).")
    ] = None,
    root: Root = None,
    as_json: AsJson = False,
) -> None:
    """Check environments, with one training step in each.

    Exit code 1: a check failed.
    """
    from trainmark.errors import InputError

    if equivalence:
        if python is not None or framework is not None:
            raise InputError(
                "--equivalence checks created environments: it cannot be combined with --python or --framework"
            )
        _check_equivalence(names or [], model or [], _home(root), as_json)
        return
    if not names:
        raise InputError("name the environments to check, or use --equivalence")
    if model:
        raise InputError("--model needs --equivalence")
    from trainmark.environment import check as check_environment

    reports = [
        check_environment(name, home=_home(root), python=python, framework=framework) for name in names
    ]
    if as_json:
        documents = [{"ok": report.ok, **report.model_dump(mode="json")} for report in reports]
        _print_json(documents[0] if len(documents) == 1 else documents)
    else:
        for report in reports:
            _print_report(report, with_name=len(reports) > 1)
    if not all(report.ok for report in reports):
        raise typer.Exit(1)


@app.command()
def remove(name: Name, root: Root = None) -> None:
    """Remove an environment that trainmark created."""
    from trainmark.environment import find_entry
    from trainmark.environment import remove as discard

    find_entry(name)
    existed = discard(name, home=_home(root), notify=_log)
    typer.echo(f"{name}: removed" if existed else f"{name}: no such environment")


@app.command()
def lock(
    name: Name,
    variant: Choice = VariantChoice.AUTO,
    python: Python = None,
    index: Index = None,
    out: Annotated[Path | None, typer.Option(help="Write the lock to this file.", metavar="FILE")] = None,
) -> None:
    """Resolve a new lock with pip and print it.

    For maintainers of the catalogue.
    """
    from trainmark.environment import CreationRequest, find_entry, make_lock
    from trainmark.errors import InputError
    from trainmark.files import write_atomically

    entry = find_entry(name)
    if entry.placeholder is not None:
        _log(
            f"{entry.placeholder.reason}: '{entry.placeholder.package}' itself cannot be locked, "
            "its dependencies can"
        )
    text = make_lock(CreationRequest(entry, _variant(variant, entry), python, (), index), notify=_log)
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        write_atomically(out, text)
    except OSError as error:
        raise InputError(f"--out {out}: {error.strerror or error}") from error
    typer.echo(f"{out}: {text.count('==')} packages")


def _home(root: Path | None) -> Path:
    from trainmark.files import default_home

    return default_home(os.environ) if root is None else root.expanduser().absolute()


def _variant(choice: VariantChoice, entry: "FrameworkEntry") -> "Variant":
    from trainmark.environment import Variant
    from trainmark.node.machine import open_nvml

    if choice is not VariantChoice.AUTO:
        return Variant(choice)
    with open_nvml() as nvml:
        has_gpu = nvml is not None and bool(nvml.handles())
    if not has_gpu:
        return Variant.CPU
    if Variant.CUDA in entry.variants:
        return Variant.CUDA
    hint = entry.variants[Variant.CPU].hint
    suffix = f"; {hint}" if hint else ""
    _log(f"this machine has a GPU, but '{entry.framework}' has no lock for CUDA: using the CPU build{suffix}")
    return Variant.CPU


def _create_one(request: "CreationRequest", home: Path, as_json: bool) -> dict[str, Any]:
    from trainmark.environment import create as make

    created = make(request, home=home, notify=_log)
    stamp = created.stamp
    if created.unlocked_packages:
        _log(_unlocked_packages_warning(created, request.entry))
    if not as_json:
        done = "created" if created.made else "exists and matches its lock"
        extras = f", with {', '.join(stamp.extras)}" if stamp.extras else ""
        typer.echo(
            f"{stamp.name}: {done} ({stamp.variant}, Python {stamp.python_version}{extras}, {created.folder})"
        )
    return {"made": created.made, "path": str(created.folder), **stamp.model_dump(mode="json")}


def _print_report(report: "EnvironmentReport", with_name: bool) -> None:
    if with_name:
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
            raise InputError(f"--equivalence: no framework '{name}'{nearest(name, known)} (available: {has})")
    certificates = certify_environments(names, models, home, _log)
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
    """Return the frameworks whose environments can be created without further options; print the others."""
    from trainmark.environment import SYSTEM, overview

    rows = [row for row in overview(home) if row.environment != SYSTEM]
    for row in rows:
        if not row.makeable:
            _log(f"{row.environment} is skipped: {row.note}")
    return [row.environment for row in rows if row.makeable]


def _contents(row: "EnvironmentRow") -> str:
    python = f"Python {row.python}" if row.python else None
    return ", ".join(part for part in (row.variant, python, *row.extras) if part) or "-"


def _creatable(row: "EnvironmentRow") -> str:
    if not row.variants:
        return row.path
    what = f"{', '.join(row.variants)}; Python {', '.join(row.lock_fits_python)}"
    extras = f"; --extra {', '.join(row.extras_offered)}" if row.extras_offered else ""
    return f"{what}{extras}; {row.note}" if row.note else f"{what}{extras}"


def _unlocked_packages_warning(created: "CreatedEnvironment", entry: "FrameworkEntry") -> str:
    unlocked = created.unlocked_packages
    packages = (
        f"{len(unlocked)} packages that are not in the lock were installed too ({', '.join(unlocked[:3])}, …)"
    )
    return f"{packages}: the index has a different build; {entry.variants[created.stamp.variant].hint}"


def _log(line: str) -> None:
    typer.echo(f"trainmark env: {line}", err=True)


def _print_json(value: Any) -> None:
    from trainmark.files import to_json

    typer.echo(to_json(value), nl=False)
