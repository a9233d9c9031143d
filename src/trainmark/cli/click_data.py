"""The commands about click logs: make some, and convert them."""

from pathlib import Path
from typing import Annotated

import typer

from trainmark.cli.data_output import print_json, print_line, resumable
from trainmark.dataset import clicks
from trainmark.errors import InputError
from trainmark.tasks.recommendation.data import Form


def make_clicks(
    directory: Annotated[
        Path, typer.Argument(help="The folder; new, empty, or one that this made.", metavar="DIR")
    ],
    samples: Annotated[int, typer.Option(help="Samples for training.")] = 1_000_000,
    vocabulary: Annotated[
        int, typer.Option(help="Categories of all 26 fields together, at most the rows of a model's tables.")
    ] = 2_322_444,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal samples.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")] = False,
) -> None:
    """Make seeded clicks in the shape of Criteo's logs.

    They are train.bin: of each a label, 13 dense fields, 26 categorical ones. A field's categories are frequent by
    Zipf's law. A sample is 40 words of 4 bytes, as HugeCTR's raw format has it. It can be interrupted: the same command
    goes on. A data set that is complete is left as it is.
    """
    given = {"samples": samples, "vocabulary": vocabulary, "seed": seed}
    spec = clicks.spec_from(given, "the options of 'data make-clicks'")
    before = clicks.state(directory, spec)
    with resumable("making") as told:
        made = clicks.make_clicks(directory, spec, told)
    if as_json:
        print_json({"directory": str(directory), "before": before, "form": made.form, **spec.model_dump()})
        return
    done = {
        clicks.State.ABSENT: "made",
        clicks.State.UNFINISHED: "finished",
        clicks.State.COMPLETE: "already there, nothing to do",
    }[before]
    print_line(f"{directory}: {done}; {spec.samples} samples, of {spec.vocabulary} categories")


def convert_clicks(
    source: Annotated[Path, typer.Argument(help="Clicks that 'data make-clicks' made.", metavar="SOURCE")],
    directory: Annotated[Path, typer.Argument(help="The folder for the converted ones.", metavar="DIR")],
    to: Annotated[Form, typer.Option(help="The form; Parquet needs pyarrow, an extra.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")] = False,
) -> None:
    """Convert clicks to TFRecord files, or to Parquet.

    Features and columns are label, I1 to I13 and C1 to C26. It can be interrupted: the same command goes on with the
    file that was not finished.
    """
    if to is Form.RAW:
        raise InputError(f"--to raw: {source} is that already")
    with resumable("converting") as told:
        made = clicks.convert(source, directory, to, told)
    if as_json:
        print_json({"directory": str(directory), "form": made.form, **made.spec.model_dump()})
        return
    print_line(f"{directory}: {made.spec.samples} samples of {made.form}")


COMMANDS = (make_clicks, convert_clicks)
