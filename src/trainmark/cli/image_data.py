"""The commands about pictures: make image folders, convert them to other forms, index and verify them."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from trainmark import dataset
from trainmark.cli.data_output import print_json, print_line, progress, resumable
from trainmark.dataset import clicks, masked, tokens
from trainmark.dataset import images as pictures
from trainmark.errors import InputError, nearest

HELP = (
    "Make images, tokens, sequences with hidden words or clicks to train on, convert images to record files, "
    "index and verify any data set."
)

_Jobs = Annotated[
    int, typer.Option("--jobs", "-j", min=0, help="Processes; 0 is one for each core that may be used.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]


def make(
    directory: Annotated[
        Path, typer.Argument(help="The folder; new, empty, or one that this made.", metavar="DIR")
    ],
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
    """Make a folder of seeded, ImageNet-like JPEGs.

    Lists of lines 'path label' lie beside them.

    It can be interrupted: the same command goes on. A data set that is complete is left as it is.
    """
    spec = pictures.spec_from(
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
    before = pictures.folder_state(directory, spec)
    with resumable("making") as told:
        folder = pictures.make_image_folder(directory, spec, jobs or dataset.available_cores(), told)
    if as_json:
        print_json(_made_document(directory, before, spec, folder))
    else:
        print_line(f"{directory}: {_made_sentence(before, folder)}")


def _made_document(
    directory: Path,
    before: "pictures.FolderState",
    spec: "pictures.ImageFolderSpec",
    folder: "pictures.ImageFolder",
) -> dict[str, Any]:
    return {
        "directory": str(directory),
        "before": before,
        "images": folder.images,
        "validation": spec.val_images,
        "classes": folder.classes,
        "mean_bytes": folder.mean_bytes,
        "digest": folder.digest,
        "lists": folder.lists,
    }


def _made_sentence(before: "pictures.FolderState", folder: "pictures.ImageFolder") -> str:
    done = {
        pictures.FolderState.ABSENT: "made",
        pictures.FolderState.UNFINISHED: "finished",
        pictures.FolderState.DAMAGED: "mended: its lost files are there again",
        pictures.FolderState.COMPLETE: "already there, nothing to do",
    }[before]
    return (
        f"{done}; {folder.images} pictures of {folder.classes} classes, "
        f"{folder.mean_bytes / 1000:.1f} kB on average, {', '.join(folder.lists)}"
    )


def convert(
    source: Annotated[
        Path, typer.Argument(help="An image folder, or a list file 'path label'.", metavar="SOURCE")
    ],
    destination: Annotated[
        Path, typer.Argument(help="The folder; new, empty, or one that this converted.", metavar="DIR")
    ],
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
    """Write an image folder as TFRecord shards, or as RecordIO.

    Shards have DALI's index files beside them, RecordIO has its own. It can be interrupted: the same command goes on.
    The destination is there when it is whole, and not before.
    """
    if to not in (pictures.Form.TFRECORD, pictures.Form.RECORDIO):
        known = (pictures.Form.TFRECORD.value, pictures.Form.RECORDIO.value)
        raise InputError(f"--to {to}: is not {' or '.join(known)}{nearest(to, known)}")
    with resumable("converting") as told:
        done = pictures.convert(
            source,
            destination,
            pictures.Form(to),
            shards=shards,
            seed=seed,
            jobs=jobs or dataset.available_cores(),
            progress=told,
        )
    if as_json:
        print_json(_converted_document(destination, to, done))
        return
    for line in _converted_lines(destination, to, done):
        print_line(line)


def _converted_document(destination: Path, to: str, done: "pictures.Conversion") -> dict[str, Any]:
    manifest = done.manifest
    return {
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


def _converted_lines(destination: Path, to: str, done: "pictures.Conversion") -> Iterator[str]:
    manifest = done.manifest
    yield from (f"note: {note}" for note in done.notes)
    yield from (
        f"note: {path} was no RGB or grey JPEG, and was encoded anew" for path in manifest.encoded_anew
    )
    what = "already there, nothing to do" if done.was_there else "converted"
    records = ", ".join(f"{count} {split}" for split, count in manifest.records.items())
    yield (
        f"{destination}: {what}; {to}, {manifest.images} pictures ({records}) of {manifest.classes} classes "
        f"from {manifest.first_label}, {manifest.bytes / 1e6:.1f} MB"
    )


def index(
    directory: Annotated[
        Path,
        typer.Argument(help="TFRecord shards or RecordIO files that somebody else wrote.", metavar="DIR"),
    ],
    jobs: _Jobs = 0,
    as_json: _Json = False,
) -> None:
    """Index the records of TFRecord shards or RecordIO files.

    A shard has DALI's index, idx/NAME.idx, a RecordIO file its .idx.
    """
    with progress("indexing") as told:
        indexed = pictures.index(directory, jobs=jobs or dataset.available_cores(), progress=told)
    if as_json:
        print_json(
            {
                "directory": str(directory),
                "form": indexed.form,
                "files": indexed.files,
                "records": indexed.records,
            }
        )
        return
    print_line(f"{directory}: {len(indexed.files)} index files of {indexed.form}, {indexed.records} records")


def verify(
    directory: Annotated[
        Path,
        typer.Argument(help="A data set of any form, made by trainmark or not.", metavar="DIR"),
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
    vocabulary: Annotated[
        int | None,
        typer.Option(
            help="Of tokens, also in sequences with hidden words: all are below it; by default what dataset.json says."
        ),
    ] = None,
    jobs: _Jobs = 0,
    as_json: _Json = False,
) -> None:
    """Find what is missing, damaged, wrong or too much.

    Looks for missing, truncated, corrupted, mislabelled, extra and duplicate files, broken records and wrong indices.

    Image folders, TFRecord shards, RecordIO files, packed tokens, clicks and sequences with hidden words are told apart
    by their names.
    Exit code 0: nothing found; 1: problems found; 2: there is nothing to verify.
    """
    with progress("verifying") as told:
        if clicks.recognise(directory):
            report = clicks.verify(directory, progress=told)
        elif tokens.recognise(directory):
            report = tokens.verify(directory, vocabulary=vocabulary, progress=told)
        elif masked.recognise(directory):
            report = masked.verify(directory, vocabulary=vocabulary, progress=told)
        else:
            report = pictures.verify(
                directory,
                lists=lists or (),
                depth=dataset.Depth.DECODE if deep else dataset.Depth.STRUCTURE,
                jobs=jobs or dataset.available_cores(),
                progress=told,
            )
    if as_json:
        _print_found(report)
    else:
        _tell_found(report)
    if report.problems:
        raise typer.Exit(1)


def _print_found(report: dataset.VerifyReport) -> None:
    for problem in report.problems:
        print_json({"problem": problem.kind, "path": problem.path, "detail": problem.detail})
    kinds = Counter(sorted(problem.kind for problem in report.problems))
    parts = ("form", "made", "depth", "files", "records", "bytes", "lists", "limits")
    found = {part: getattr(report, part) for part in parts}
    print_json({"summary": {"directory": str(report.directory), **found, "problems": kinds}})


def _tell_found(report: dataset.VerifyReport) -> None:
    for problem in report.problems:
        print_line(f"{problem.kind:<12} {problem.path}: {problem.detail}")
    for limit in report.limits:
        print_line(f"note: {limit}")
    count = len(report.problems)
    found = f"{count} problem{'s' * (count != 1)}" if count else "no problem"
    in_records = report.form is not pictures.Form.IMAGE_FOLDER
    records = f" of {report.form}, {report.records} records" if in_records else ""
    read = f"{report.files} files{records}, {report.bytes / 1e6:.1f} MB read"
    print_line(f"{report.directory}: {read}, {found} found")


COMMANDS = (make, convert, index, verify)
