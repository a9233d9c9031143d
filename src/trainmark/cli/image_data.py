"""The commands for images: create image folders, convert them to record files, index and verify data sets."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from trainmark import dataset
from trainmark.cli.data_output import print_json, print_line, progress, resumable
from trainmark.cli.typer_commands import with_groups
from trainmark.dataset import clicks, masked, tokens
from trainmark.dataset import images as pictures
from trainmark.errors import InputError, nearest

HELP = (
    "Create synthetic data sets (images, tokens, masked sequences, clicks), convert images or clicks to record files, "
    "index and verify data sets."
)

_Jobs = Annotated[
    int, typer.Option("--jobs", "-j", min=0, help="The number of processes; 0: one per available core.")
]
_Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")]


@dataclass(frozen=True, slots=True)
class ImageOptions:
    """The images of a folder that is created."""

    images: Annotated[int, typer.Option(help="The number of training images.")] = 1000
    validation: Annotated[
        int | None,
        typer.Option(
            "--validation",
            "--val",
            help="The number of validation images (0: none); default: 1/20 of --images, at least 1 per class.",
        ),
    ] = None
    classes: Annotated[int, typer.Option(help="The number of classes; each is a folder.")] = 10
    seed: Annotated[int, typer.Option(help="The seed; equal seeds give identical images.")] = 0
    width: Annotated[int, typer.Option(help="The width of most images, in pixels.")] = 500
    height: Annotated[int, typer.Option(help="The height of most images, in pixels.")] = 375
    sizes: Annotated[
        str,
        typer.Option(help="'mixed' (most images have the given size, as in ImageNet) or 'fixed' (all do)."),
    ] = "mixed"
    quality: Annotated[int, typer.Option(help="The JPEG quality, 1 to 100.")] = 95


@with_groups
def make(
    directory: Annotated[
        Path,
        typer.Argument(
            help="The folder to create: new, empty, or left incomplete by this command.", metavar="DIR"
        ),
    ],
    *,
    given: ImageOptions,
    jobs: _Jobs = 0,
    as_json: _Json = False,
) -> None:
    """Create a folder of random ImageNet-like JPEGs.

    List files with 'path label' lines are written next to the images. If interrupted, run the same command again to
    continue. A complete data set is left unchanged.
    """
    spec = pictures.spec_from(asdict(given), "the options of 'data make'")
    before = pictures.folder_state(directory, spec)
    with resumable("creating") as listener:
        folder = pictures.make_image_folder(directory, spec, jobs or dataset.available_cores(), listener)
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
        pictures.FolderState.ABSENT: "created",
        pictures.FolderState.UNFINISHED: "finished",
        pictures.FolderState.DAMAGED: "repaired: the missing files were created again",
        pictures.FolderState.COMPLETE: "already complete",
    }[before]
    return (
        f"{done}; {folder.images} images of {folder.classes} classes, "
        f"{folder.mean_bytes / 1000:.1f} kB on average, {', '.join(folder.lists)}"
    )


def convert(
    source: Annotated[
        Path, typer.Argument(help="An image folder, or a list file of 'path label' lines.", metavar="SOURCE")
    ],
    destination: Annotated[
        Path,
        typer.Argument(
            help="The folder to create: new, empty, or left incomplete by this command.", metavar="DIR"
        ),
    ],
    to: Annotated[str, typer.Option(help="The format to convert to: 'tfrecord' or 'recordio'.")],
    shards: Annotated[
        int | None,
        typer.Option(
            help="The number of TFRecord files of the training split; default: one per 1251 images, 8 to 1024."
        ),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="The seed of the order in which the training images are written.")
    ] = 0,
    jobs: _Jobs = 0,
    as_json: _Json = False,
) -> None:
    """Convert an image folder to TFRecord or RecordIO files.

    Index files are written too (DALI's for TFRecord). If interrupted, run the same command again to continue. The
    destination appears only once it is complete.
    """
    if to not in (pictures.Form.TFRECORD, pictures.Form.RECORDIO):
        known = (pictures.Form.TFRECORD.value, pictures.Form.RECORDIO.value)
        raise InputError(f"--to {to}: not {' or '.join(known)}{nearest(to, known)}")
    with resumable("converting") as listener:
        done = pictures.convert(
            source,
            destination,
            pictures.Form(to),
            shards=shards,
            seed=seed,
            jobs=jobs or dataset.available_cores(),
            progress=listener,
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
        "was_there": done.existed,
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
        f"note: {path} is not an RGB or grey JPEG and was re-encoded" for path in manifest.encoded_anew
    )
    what = "already complete" if done.existed else "converted"
    records = ", ".join(f"{count} {split}" for split, count in manifest.records.items())
    yield (
        f"{destination}: {what}; {to}, {manifest.images} images ({records}) of {manifest.classes} classes, "
        f"labels from {manifest.first_label}, {manifest.bytes / 1e6:.1f} MB"
    )


def index(
    directory: Annotated[
        Path,
        typer.Argument(
            help="A folder of TFRecord shards or RecordIO files without index files.", metavar="DIR"
        ),
    ],
    jobs: _Jobs = 0,
    as_json: _Json = False,
) -> None:
    """Write index files for TFRecord shards or RecordIO files.

    A TFRecord shard gets DALI's index idx/NAME.idx, a RecordIO file its .idx file.
    """
    with progress("indexing") as listener:
        indexed = pictures.index(directory, jobs=jobs or dataset.available_cores(), progress=listener)
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
        typer.Argument(help="A data set of any format, created by trainmark or not.", metavar="DIR"),
    ],
    lists: Annotated[
        list[Path] | None,
        typer.Option(
            "--list", help="A file of 'path label' lines; default: train_list.txt, val_list.txt and similar."
        ),
    ] = None,
    deep: Annotated[
        bool, typer.Option("--deep", help="Also decode every image, to find files that a decoder rejects.")
    ] = False,
    vocabulary: Annotated[
        int | None,
        typer.Option(
            help="For tokens and masked sequences: the vocabulary size that all token ids must be below; default: the "
            "size in dataset.json."
        ),
    ] = None,
    jobs: _Jobs = 0,
    as_json: _Json = False,
) -> None:
    """Check a data set for missing, damaged and extra files.

    Also finds wrong labels, duplicates, broken records and wrong indices. The format (image folder, TFRecord,
    RecordIO, packed tokens, masked sequences or clicks) is recognised by the file names.
    Exit code 0: no problems; 1: problems found; 2: there is nothing to verify.
    """
    with progress("verifying") as listener:
        if clicks.recognise(directory):
            report = clicks.verify(directory, progress=listener)
        elif tokens.recognise(directory):
            report = tokens.verify(directory, vocabulary=vocabulary, progress=listener)
        elif masked.recognise(directory):
            report = masked.verify(directory, vocabulary=vocabulary, progress=listener)
        else:
            report = pictures.verify(
                directory,
                lists=lists or (),
                depth=dataset.Depth.DECODE if deep else dataset.Depth.STRUCTURE,
                jobs=jobs or dataset.available_cores(),
                progress=listener,
            )
    if as_json:
        _print_json_report(report)
    else:
        _print_summary(report)
    if report.problems:
        raise typer.Exit(1)


def _print_json_report(report: dataset.VerifyReport) -> None:
    for problem in report.problems:
        print_json({"problem": problem.kind, "path": problem.path, "detail": problem.detail})
    kinds = Counter(sorted(problem.kind for problem in report.problems))
    parts = ("form", "made", "depth", "files", "records", "bytes", "lists", "limits")
    summary = {part: getattr(report, part) for part in parts}
    print_json({"summary": {"directory": str(report.directory), **summary, "problems": kinds}})


def _print_summary(report: dataset.VerifyReport) -> None:
    for problem in report.problems:
        print_line(f"{problem.kind:<12} {problem.path}: {problem.detail}")
    for limit in report.limits:
        print_line(f"note: {limit}")
    count = len(report.problems)
    found = f"{count} problem{'s' * (count != 1)}" if count else "no problems"
    in_records = report.form is not pictures.Form.IMAGE_FOLDER
    records = f" of {report.form}, {report.records} records" if in_records else ""
    read = f"{report.files} files{records}, {report.bytes / 1e6:.1f} MB read"
    print_line(f"{report.directory}: {read}, {found} found")


COMMANDS = (make, convert, index, verify)
