"""``trainmark card``: make, check, list and show the cards that describe training programs."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from trainmark.cli.typer_commands import WithCommand, words_of
from trainmark.errors import InputError, nearest

app = typer.Typer(
    help="Make, check, list and show cards, which describe training programs.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Seconds = Annotated[
    float, typer.Option("--seconds", help="End the run (SIGINT) after this many seconds.", min=1)
]


@app.command(cls=WithCommand, options_metavar="[OPTIONS] -- COMMAND")
def new(
    context: typer.Context,
    out: Annotated[
        Path | None, typer.Option(help="The card to write; default: NAME.yaml.", metavar="FILE")
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(help="The program's name; default: its script's or folder's.", metavar="NAME"),
    ] = None,
    seconds: Seconds = 60,
    log_format: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="The log's format, or a file that describes it; default: recognised.",
            metavar="NAME",
        ),
    ] = None,
) -> None:
    """Run a command once, and write a commented card of it.

    trainmark card new -- python train.py --batch-size 32

    Exit code 0: the card is written and its run gave a number. 1: it is written, but the run gave none.
    """
    from trainmark.cli.card_documents import write_card_of_command

    words = words_of(context)
    if words is None:
        raise InputError("give the command after '--': trainmark card new -- python train.py")
    raise typer.Exit(write_card_of_command(words, out, name, seconds, log_format))


@app.command()
def check(
    card: Annotated[Path, typer.Argument(help="The card's YAML file.", metavar="CARD")],
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="A value of an axis or an option in the run; repeatable.", metavar="NAME=VALUE"
        ),
    ] = None,
    seconds: Seconds = 60,
    environment: Annotated[
        str | None,
        typer.Option(help="An environment or a Python; default: the card's.", metavar="NAME"),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Keep the run's files in this directory; default: delete them.", metavar="DIR"),
    ] = None,
    dry: Annotated[bool, typer.Option("--dry", help="Only read the card; run nothing.")] = False,
) -> None:
    """Read a card, run it briefly, and show how its log is read.

    Prints the matched lines, each way to the number, and what remains unverified.

    Exit code 0: the run gave a number without doubts about the work. 1: it gave none, or one in
    doubt. 2: the card is invalid.
    """
    from trainmark.cli.card_trial import check_card

    raise typer.Exit(check_card(card, given or [], seconds, environment, out, dry=dry))


@app.command("list")
def list_() -> None:
    """List the cards that are part of trainmark."""
    from trainmark.printable import table
    from trainmark.workload.cards import shipped

    rows = [
        (card.name, card.framework, card.task, card.format_name, card.environment)
        for card in (workload.card for workload in shipped())
    ]
    sys.stdout.write(table(("card", "framework", "task", "log format", "environment"), sorted(rows)))


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="The card's name (trainmark card list).", metavar="NAME")],
    framework: Annotated[str | None, typer.Option(help="Its framework, if several have the name.")] = None,
    task: Annotated[str | None, typer.Option(help="Its task, if it has several.")] = None,
) -> None:
    """Print a card that is part of trainmark.

    Copy it, change it, and list it under a suite's 'cards'.
    """
    from trainmark.cli.card_documents import card_text
    from trainmark.workload.cards import shipped

    cards = [workload.card for workload in shipped()]
    named = [card for card in cards if card.name == name]
    if not named:
        names = sorted({card.name for card in cards})
        raise InputError(f"no card '{name}'{nearest(name, names)} (trainmark card list)")
    found = [card for card in named if framework in (None, card.framework) and task in (None, card.task)]
    if len(found) != 1:
        known = "; ".join(f"--framework {card.framework} --task {card.task}" for card in found or named)
        raise InputError(f"{'several' if found else 'no such'} cards of '{name}': choose one of {known}")
    sys.stdout.write(card_text(found[0]))
