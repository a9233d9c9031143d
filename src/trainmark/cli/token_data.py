"""The commands about text: make packed tokens, and sequences with hidden words."""

from pathlib import Path
from typing import Annotated

import typer

from trainmark.cli.data_output import print_json, print_line, resumable
from trainmark.dataset import masked
from trainmark.dataset import tokens as packed


def make_tokens(
    directory: Annotated[
        Path, typer.Argument(help="The folder; new, empty, or one that this made.", metavar="DIR")
    ],
    tokens: Annotated[int, typer.Option(help="Tokens for training.")] = 1_000_000,
    validation: Annotated[
        int | None,
        typer.Option(help="Tokens for validation; 0 is none, by default a twentieth of the others."),
    ] = None,
    vocabulary: Annotated[
        int, typer.Option(help="Tokens are below it; up to 65536 they take 2 bytes, else 4.")
    ] = 50257,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal tokens.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")] = False,
) -> None:
    """Make seeded tokens, packed as nanoGPT packs them.

    They are train.bin and val.bin; their frequencies fall by Zipf's law. It can be interrupted: the same command goes
    on. A data set that is complete is left as it is.
    """
    given = {"tokens": tokens, "validation": validation, "vocabulary": vocabulary, "seed": seed}
    spec = packed.spec_from(given, "the options of 'data make-tokens'")
    before = packed.state(directory, spec)
    with resumable("making") as told:
        made = packed.make_tokens(directory, spec, told)
    if as_json:
        print_json(
            {"directory": str(directory), "before": before, "type": made.type, **made.spec.model_dump()}
        )
        return
    print_line(
        f"{directory}: {_DONE[before]}; {made.spec.tokens} tokens and {made.spec.validation} for validation, "
        f"{made.type}, of a vocabulary of {made.vocabulary}"
    )


def make_masked(
    directory: Annotated[
        Path, typer.Argument(help="The folder; new, empty, or one that this made.", metavar="DIR")
    ],
    sequences: Annotated[int, typer.Option(help="Sequences for training.")] = 10_000,
    sequence_length: Annotated[int, typer.Option(help="Tokens of a sequence, with its padding.")] = 128,
    predictions: Annotated[
        int | None,
        typer.Option(help="The most hidden words of a sequence; by default 20 of 128 tokens, 80 of 512."),
    ] = None,
    vocabulary: Annotated[int, typer.Option(help="Tokens are below it.")] = 30_522,
    short: Annotated[int, typer.Option(help="How many of a hundred sequences are shorter.")] = 10,
    shards: Annotated[int, typer.Option(help="Files.")] = 4,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal sequences.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")] = False,
) -> None:
    """Make seeded sequences with hidden words, for BERT.

    They are TFRecords with the features of BERT's published pre-processing. It can be interrupted: the same command
    goes on. A data set that is complete is left as it is.
    """
    given = {
        "sequences": sequences,
        "sequence_length": sequence_length,
        **({} if predictions is None else {"predictions": predictions}),
        "vocabulary": vocabulary,
        "short": short,
        "shards": shards,
        "seed": seed,
    }
    spec = masked.spec_from(given, "the options of 'data make-masked'")
    before = masked.state(directory, spec)
    with resumable("making") as told:
        made = masked.make_masked(directory, spec, told)
    if as_json:
        print_json({"directory": str(directory), "before": before, **made.spec.model_dump()})
        return
    print_line(
        f"{directory}: {_DONE[before]}; {made.spec.sequences} sequences of {made.spec.sequence_length} tokens in "
        f"{made.spec.shards} files, of a vocabulary of {made.spec.vocabulary}"
    )


_DONE = {
    "absent": "made",
    "unfinished": "finished",
    "complete": "already there, nothing to do",
}

COMMANDS = (make_tokens, make_masked)
