"""``trainmark verify``: check that an archive is whole, and that its numbers follow from its logs."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from trainmark.schema.archive import Verification

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="An archive written by trainmark archive.")],
    into: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Extract into this new or empty directory, and keep it."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the verification as one JSON object.")
    ] = False,
) -> None:
    """Check an archive's digests, and recompute its numbers from its logs, to the last digit.

    Nothing in the archive is run. Exit code 1: a file or a number differs, or no number could be recomputed.
    """
    from trainmark.archive import verify_archive
    from trainmark.errors import InputError

    if not file.is_file():
        raise InputError(f"{file}: no such file")
    if into is None:
        with TemporaryDirectory(prefix="trainmark-verify-") as folder:
            found = verify_archive(file, Path(folder))
    else:
        if into.exists() and (not into.is_dir() or any(into.iterdir())):
            raise InputError(f"{into}: exists and is not an empty directory")
        into.mkdir(parents=True, exist_ok=True)
        found = verify_archive(file, into)
    sys.stdout.write(found.to_json() if as_json else _text(found))
    raise typer.Exit(1 if found.problems or found.reason is not None else 0)


def _text(found: "Verification") -> str:
    from trainmark.printable import counted, printable

    lines = [f"{found.archive}: suite {found.suite}, {found.files} files, {found.digest}"]
    lines += [f"  differs: {problem}" for problem in found.problems]
    if not found.problems:
        lines.append("  all files are as listed")
    if found.reason is not None:
        lines.append(f"  not analysed again: {found.reason}")
    elif not found.problems:
        lines.append(
            f"  {counted(found.analysed, 'run')} of {counted(found.cases, 'case')} give the same numbers, to the last "
            "digit"
        )
    return printable("\n".join(lines)) + "\n"
