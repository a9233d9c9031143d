"""``trainmark data``: the commands of all kinds of data sets."""

import typer

from trainmark.cli import click_data, image_data, token_data

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help=image_data.HELP,
)
for command in (*image_data.COMMANDS, *token_data.COMMANDS, *click_data.COMMANDS):
    app.command()(command)
