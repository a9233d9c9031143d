"""The command about packed tokens: make some."""

from pathlib import Path
from typing import Annotated

import typer

from trainmark.cli.data_output import print_json, print_line, resumable
from trainmark.dataset import tokens as packed


def make_tokens(
    directory: Annotated[Path, typer.Argument(help="The folder; new, empty, or one that this made.")],
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
    """Make seeded tokens, whose frequencies fall by Zipf's law, packed as nanoGPT packs them: train.bin and val.bin.

    It can be interrupted: the same command goes on. A data set that is complete is left as it is.
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
    done = {
        packed.State.ABSENT: "made",
        packed.State.UNFINISHED: "finished",
        packed.State.COMPLETE: "already there, nothing to do",
    }[before]
    print_line(
        f"{directory}: {done}; {made.spec.tokens} tokens and {made.spec.validation} for validation, "
        f"{made.type}, of a vocabulary of {made.vocabulary}"
    )


COMMANDS = (make_tokens,)
