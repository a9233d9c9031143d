"""``trainmark archive``: one file of a result directory to hand over."""

import sys
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def archive(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="The --out directory of a trainmark run.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The archive; default: DIR.tar.zst next to the directory."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the archive's list of files as JSON.")
    ] = False,
) -> None:
    """Pack a result directory into one .tar.zst file: results, logs, manifests, commands, cards and their digests.

    The receiver checks it with trainmark verify FILE, which also recomputes its numbers from the logs.
    """
    from trainmark.archive import write_archive
    from trainmark.campaign import results_of
    from trainmark.errors import InputError
    from trainmark.execution import read_suite
    from trainmark.schema.names import RESULTS, SUITE

    if not (directory / RESULTS).is_file():
        raise InputError(f"{directory}: has no {RESULTS}; is it the --out directory of a trainmark run?")
    target = out or directory.resolve().with_name(f"{directory.resolve().name}.tar.zst")
    if target.is_dir() or not target.parent.is_dir():
        raise InputError(f"{target}: not the name of a file in an existing folder")
    results = results_of(directory)
    cards = read_suite(directory).cards if (directory / SUITE).is_file() else ()
    contents, links = write_archive(
        directory, target, results.suite, results.command, tuple(Path(card) for card in cards)
    )
    for link in links:
        sys.stderr.write(f"{directory / link}: left out, because it is not a regular file\n")
    if as_json:
        sys.stdout.write(contents.to_json())
        return
    unpacked, packed = sum(one.size for one in contents.files), target.stat().st_size
    sizes = f"{unpacked:,} bytes packed into {packed:,}".replace(",", " ")
    sys.stdout.write(f"{target}: {len(contents.files)} files, {sizes}\n")
