"""The commands for click logs: create and convert them."""

from pathlib import Path
from typing import Annotated

import typer

from trainmark.cli.data_output import print_json, print_line, resumable
from trainmark.dataset import clicks
from trainmark.errors import InputError
from trainmark.tasks.recommendation.axes import Form


def make_clicks(
    directory: Annotated[
        Path,
        typer.Argument(
            help="The folder to create: new, empty, or left incomplete by this command.", metavar="DIR"
        ),
    ],
    samples: Annotated[int, typer.Option(help="The number of training samples.")] = 1_000_000,
    vocabulary: Annotated[
        int,
        typer.Option(
            help="The total number of categories of all 26 fields; at most the rows of the model's tables."
        ),
    ] = 2_322_444,
    seed: Annotated[int, typer.Option(help="The seed; equal seeds give identical samples.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")] = False,
) -> None:
    """Create random clicks in Criteo's record format.

    A sample has a label, 13 dense and 26 categorical fields, in HugeCTR's raw format (40 words of 4 bytes). Category
    frequencies follow Zipf's law. If interrupted, run the same command again to continue. A complete data set is left
    unchanged.
    """
    given = {"samples": samples, "vocabulary": vocabulary, "seed": seed}
    spec = clicks.spec_from(given, "the options of 'data make-clicks'")
    before = clicks.state(directory, spec)
    with resumable("creating") as listener:
        made = clicks.make_clicks(directory, spec, listener)
    if as_json:
        print_json({"directory": str(directory), "before": before, "form": made.form, **spec.model_dump()})
        return
    done = {
        clicks.DatasetState.ABSENT: "created",
        clicks.DatasetState.UNFINISHED: "finished",
        clicks.DatasetState.COMPLETE: "already complete",
    }[before]
    print_line(f"{directory}: {done}; {spec.samples} samples, {spec.vocabulary} categories")


def convert_clicks(
    source: Annotated[Path, typer.Argument(help="Clicks created by 'data make-clicks'.", metavar="SOURCE")],
    directory: Annotated[
        Path, typer.Argument(help="The folder to create for the converted clicks.", metavar="DIR")
    ],
    to: Annotated[
        Form, typer.Option(help="The format to convert to; parquet needs pyarrow (an optional dependency).")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")] = False,
) -> None:
    """Convert clicks to TFRecord files or to Parquet.

    The features or columns are label, I1 to I13 and C1 to C26. If interrupted, run the same command again to continue
    with the unfinished file.
    """
    if to is Form.RAW:
        raise InputError(f"--to raw: {source} is in this format already")
    with resumable("converting") as listener:
        made = clicks.convert(source, directory, to, listener)
    if as_json:
        print_json({"directory": str(directory), "form": made.form, **made.spec.model_dump()})
        return
    print_line(f"{directory}: {made.spec.samples} samples of {made.form}")


COMMANDS = (make_clicks, convert_clicks)
