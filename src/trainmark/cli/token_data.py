"""The commands for text: create packed tokens and masked sequences."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from trainmark.cli.data_output import print_json, print_line, resumable
from trainmark.cli.typer_commands import with_groups
from trainmark.dataset import masked
from trainmark.dataset import tokens as packed


def make_tokens(
    directory: Annotated[
        Path,
        typer.Argument(
            help="The folder to create: new, empty, or left incomplete by this command.", metavar="DIR"
        ),
    ],
    tokens: Annotated[int, typer.Option(help="The number of training tokens.")] = 1_000_000,
    validation: Annotated[
        int | None,
        typer.Option(help="The number of validation tokens (0: none); default: 1/20 of the training tokens."),
    ] = None,
    vocabulary: Annotated[
        int, typer.Option(help="The vocabulary size; a token takes 2 bytes up to 65536, else 4.")
    ] = 50257,
    seed: Annotated[int, typer.Option(help="The seed; equal seeds give identical tokens.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")] = False,
) -> None:
    """Create random tokens in nanoGPT's packed format.

    The files are train.bin and val.bin. Token frequencies follow Zipf's law. If interrupted, run the same command
    again to continue. A complete data set is left unchanged.
    """
    given = {"tokens": tokens, "validation": validation, "vocabulary": vocabulary, "seed": seed}
    spec = packed.spec_from(given, "the options of 'data make-tokens'")
    before = packed.state(directory, spec)
    with resumable("creating") as listener:
        made = packed.make_tokens(directory, spec, listener)
    if as_json:
        print_json(
            {"directory": str(directory), "before": before, "type": made.type, **made.spec.model_dump()}
        )
        return
    print_line(
        f"{directory}: {_DONE[before]}; {made.spec.tokens} tokens and {made.spec.validation} for validation, "
        f"{made.type}, vocabulary size {made.vocabulary}"
    )


@dataclass(frozen=True, slots=True)
class MaskedOptions:
    """The masked sequences of a data set that is created."""

    sequences: Annotated[int, typer.Option(help="The number of training sequences.")] = 10_000
    sequence_length: Annotated[
        int, typer.Option(help="The length of a sequence in tokens, padding included.")
    ] = 128
    predictions: Annotated[
        int | None,
        typer.Option(
            help="The maximum number of masked tokens per sequence; default: 20 for 128 tokens, 80 for 512."
        ),
    ] = None
    vocabulary: Annotated[int, typer.Option(help="The vocabulary size.")] = 30_522
    short: Annotated[
        int, typer.Option(help="The percentage of sequences that are shorter than the full length.")
    ] = 10
    shards: Annotated[int, typer.Option(help="The number of files.")] = 4
    seed: Annotated[int, typer.Option(help="The seed; equal seeds give identical sequences.")] = 0


@with_groups
def make_masked(
    directory: Annotated[
        Path,
        typer.Argument(
            help="The folder to create: new, empty, or left incomplete by this command.", metavar="DIR"
        ),
    ],
    *,
    options: MaskedOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object per line.")] = False,
) -> None:
    """Create random masked sequences for BERT pre-training.

    The files are TFRecords with the features of BERT's published pre-processing. If interrupted, run the same command
    again to continue. A complete data set is left unchanged.
    """
    given = {name: value for name, value in asdict(options).items() if value is not None}
    spec = masked.spec_from(given, "the options of 'data make-masked'")
    before = masked.state(directory, spec)
    with resumable("creating") as listener:
        made = masked.make_masked(directory, spec, listener)
    if as_json:
        print_json({"directory": str(directory), "before": before, **made.spec.model_dump()})
        return
    print_line(
        f"{directory}: {_DONE[before]}; {made.spec.sequences} sequences of {made.spec.sequence_length} tokens in "
        f"{made.spec.shards} files, vocabulary size {made.spec.vocabulary}"
    )


_DONE = {
    "absent": "created",
    "unfinished": "finished",
    "complete": "already complete",
}

COMMANDS = (make_tokens, make_masked)
