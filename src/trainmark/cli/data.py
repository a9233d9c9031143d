"""``trainmark data``: make image folders, convert them to other forms, index and verify any data set."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from trainmark import dataset
from trainmark.errors import InputError, nearest

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Make image folders to train on, convert them to TFRecord and RecordIO, index and verify any data set.",
)

_Jobs = Annotated[
    int, typer.Option("--jobs", "-j", min=0, help="Processes; 0 is one for each core that may be used.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]


@app.command()
def make(
    directory: Annotated[Path, typer.Argument(help="The folder; new, empty, or one that this made.")],
    images: Annotated[int, typer.Option(help="Training pictures.")] = 1000,
    validation: Annotated[
        int | None,
        typer.Option(
            "--validation",
            "--val",
            help="Validation pictures; 0 is none, by default a twentieth of the others, one a class at least.",
        ),
    ] = None,
    classes: Annotated[int, typer.Option(help="Classes, each a folder.")] = 10,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal pictures.")] = 0,
    width: Annotated[int, typer.Option(help="Pixels, of the usual picture.")] = 500,
    height: Annotated[int, typer.Option(help="Pixels, of the usual picture.")] = 375,
    sizes: Annotated[
        str, typer.Option(help="'mixed' (mostly the usual size, as in ImageNet) or 'fixed'.")
    ] = "mixed",
    quality: Annotated[int, typer.Option(help="JPEG quality, 1 to 100.")] = 95,
    jobs: _Jobs = 0,
    as_json: _Json = False,
) -> None:
    """Make a seeded, ImageNet-like folder of JPEGs with its 'path label' list files.

    It can be interrupted: the same command goes on. A data set that is complete is left as it is.
    """
    spec = dataset.spec_from(
        {
            "images": images,
            "validation": validation,
            "classes": classes,
            "seed": seed,
            "width": width,
            "height": height,
            "sizes": sizes,
            "quality": quality,
        },
        "the options of 'data make'",
    )
    before = dataset.folder_state(directory, spec)
    try:
        with _progress("making") as progress:
            folder = dataset.make_image_folder(directory, spec, jobs or dataset.available_cores(), progress)
    except KeyboardInterrupt:
        sys.stderr.write("trainmark data: interrupted; the same command goes on from here\n")
        raise typer.Exit(130) from None
    if as_json:
        _print_json(
            {
                "directory": str(directory),
                "before": before,
                "images": folder.images,
                "validation": spec.val_images,
                "classes": folder.classes,
                "mean_bytes": folder.mean_bytes,
                "digest": folder.digest,
                "lists": folder.lists,
            }
        )
        return
    done = {
        dataset.FolderState.ABSENT: "made",
        dataset.FolderState.UNFINISHED: "finished",
        dataset.FolderState.DAMAGED: "mended: its lost files are there again",
        dataset.FolderState.COMPLETE: "already there, nothing to do",
    }[before]
    _print(
        f"{directory}: {done}; {folder.images} pictures of {folder.classes} classes, "
        f"{folder.mean_bytes / 1000:.1f} kB on average, {', '.join(folder.lists)}"
    )


@app.command()
def convert(
    source: Annotated[Path, typer.Argument(help="An image folder, or a list file 'path label'.")],
    destination: Annotated[Path, typer.Argument(help="The folder; new, empty, or one that this converted.")],
    to: Annotated[str, typer.Option(help="'tfrecord' or 'recordio'.")],
    shards: Annotated[
        int | None,
        typer.Option(
            help="Files of the training split of TFRecord; by default one for 1251 pictures, 8 to 1024."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the order in which the training pictures are written.")] = 0,
    jobs: _Jobs = 0,
    as_json: _Json = False,
) -> None:
    """Write an image folder as TFRecord shards with DALI's index files, or as RecordIO with its index.

    It can be interrupted: the same command goes on. The destination is there when it is whole, and not before.
    """
    if to not in (dataset.Form.TFRECORD, dataset.Form.RECORDIO):
        known = (dataset.Form.TFRECORD.value, dataset.Form.RECORDIO.value)
        raise InputError(f"--to {to}: is not {' or '.join(known)}{nearest(to, known)}")
    try:
        with _progress("converting") as progress:
            done = dataset.convert(
                source,
                destination,
                dataset.Form(to),
                shards=shards,
                seed=seed,
                jobs=jobs or dataset.available_cores(),
                progress=progress,
            )
    except KeyboardInterrupt:
        sys.stderr.write("trainmark data: interrupted; the same command goes on from here\n")
        raise typer.Exit(130) from None
    manifest = done.manifest
    if as_json:
        _print_json(
            {
                "directory": str(destination),
                "form": to,
                "was_there": done.was_there,
                "records": manifest.records,
                "classes": manifest.classes,
                "first_label": manifest.first_label,
                "shards": manifest.recipe.shards,
                "bytes": manifest.bytes,
                "encoded_anew": manifest.encoded_anew,
                "digest": done.converted.digest,
                "notes": done.notes,
            }
        )
        return
    for note in done.notes:
        _print(f"note: {note}")
    for path in manifest.encoded_anew:
        _print(f"note: {path} was no RGB or grey JPEG, and was encoded anew")
    what = "already there, nothing to do" if done.was_there else "converted"
    records = ", ".join(f"{count} {split}" for split, count in manifest.records.items())
    _print(
        f"{destination}: {what}; {to}, {manifest.images} pictures ({records}) of {manifest.classes} classes "
        f"from {manifest.first_label}, {manifest.bytes / 1e6:.1f} MB"
    )


@app.command()
def index(
    directory: Annotated[
        Path, typer.Argument(help="TFRecord shards or RecordIO files that somebody else wrote.")
    ],
    jobs: _Jobs = 0,
    as_json: _Json = False,
) -> None:
    """Make DALI's index of each TFRecord shard (idx/NAME.idx), or the .idx of each RecordIO file."""
    with _progress("indexing") as progress:
        indexed = dataset.index(directory, jobs=jobs or dataset.available_cores(), progress=progress)
    if as_json:
        _print_json(
            {
                "directory": str(directory),
                "form": indexed.form,
                "files": indexed.files,
                "records": indexed.records,
            }
        )
        return
    _print(f"{directory}: {len(indexed.files)} index files of {indexed.form}, {indexed.records} records")


@app.command()
def verify(
    directory: Annotated[
        Path,
        typer.Argument(help="A data set of any form, made by trainmark or not."),
    ],
    lists: Annotated[
        list[Path] | None,
        typer.Option(
            "--list", help="A 'path label' file; by default train_list.txt, val_list.txt and the like."
        ),
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Decode every picture as well: finds what a decoder refuses.")
    ] = False,
    jobs: _Jobs = 0,
    as_json: _Json = False,
) -> None:
    """Find missing, truncated, corrupted, mislabelled, extra and duplicate files, broken records and wrong indices.

    Image folders, TFRecord shards and RecordIO files are told apart by their names.
    Exit code 0: nothing found; 1: problems found; 2: there is nothing to verify.
    """
    with _progress("verifying") as progress:
        report = dataset.verify(
            directory,
            lists=lists or (),
            depth=dataset.Depth.DECODE if deep else dataset.Depth.STRUCTURE,
            jobs=jobs or dataset.available_cores(),
            progress=progress,
        )
    for problem in report.problems:
        if as_json:
            _print_json({"problem": problem.kind, "path": problem.path, "detail": problem.detail})
        else:
            _print(f"{problem.kind:<12} {problem.path}: {problem.detail}")
    if as_json:
        kinds = sorted(problem.kind for problem in report.problems)
        summary = {
            "directory": str(report.directory),
            "form": report.form,
            "made": report.made,
            "depth": report.depth,
            "files": report.files,
            "records": report.records,
            "bytes": report.bytes,
            "lists": report.lists,
            "limits": report.limits,
            "problems": {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)},
        }
        _print_json({"summary": summary})
    else:
        for limit in report.limits:
            _print(f"note: {limit}")
        count = len(report.problems)
        found = f"{count} problem{'s' * (count != 1)}" if count else "no problem"
        records = (
            "" if report.form is dataset.Form.IMAGE_FOLDER else f" of {report.form}, {report.records} records"
        )
        _print(f"{directory}: {report.files} files{records}, {report.bytes / 1e6:.1f} MB read, {found} found")
    if report.problems:
        raise typer.Exit(1)


def _print(line: str) -> None:
    """Print one line, whatever a file's name holds: terminal codes, or bytes that are no text."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    encoding = sys.stdout.encoding or "utf-8"
    typer.echo(shown.encode(encoding, "backslashreplace").decode(encoding))


def _print_json(value: object) -> None:
    # ASCII, since a file's name may hold bytes that are no text; JSON's escapes carry them.
    typer.echo(json.dumps(value, ensure_ascii=True, allow_nan=False))


@contextmanager
def _progress(word: str) -> Iterator["dataset.Progress"]:
    """Show progress on stderr: a bar on a terminal; else a line now and then, none for what is quick."""
    if sys.stderr.isatty():
        with _bar() as bar:
            task = bar.add_task(word, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
        return
    last = time.monotonic()

    def show(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= 10:
            last = time.monotonic()
            sys.stderr.write(f"{word}: {done} of {total}\n")

    yield show


def _bar() -> "Bar":
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)
