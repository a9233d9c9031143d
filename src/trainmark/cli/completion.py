"""``trainmark completion``: the script by which a shell completes verbs, commands and options, and the man page."""

import sys
from enum import StrEnum
from typing import Annotated

import typer

from trainmark.cli.command_tree import CommandInfo, command_tree
from trainmark.cli.man_page import man_page

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


class Page(StrEnum):
    """The shells with a completion, and the man page."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    MAN = "man"


@app.command()
def completion(
    page: Annotated[Page, typer.Argument(help="The shell, or man.", metavar="bash|zsh|fish|man")],
) -> None:
    """Print the completion script of a shell, or the man page.

    \b
    bash: trainmark completion bash > ~/.local/share/bash-completion/completions/trainmark
    zsh:  trainmark completion zsh > FOLDER/_trainmark, with FOLDER in $fpath
    fish: trainmark completion fish > ~/.config/fish/completions/trainmark.fish
    man:  trainmark completion man > ~/.local/share/man/man1/trainmark.1
    """
    render = {Page.BASH: _bash, Page.ZSH: _zsh, Page.FISH: _fish, Page.MAN: man_page}[page]
    sys.stdout.write(render(list(command_tree())))


def _words(one: CommandInfo) -> str:
    return " ".join([*one.commands, *one.flags])


def _bash(tree: list[CommandInfo]) -> str:
    verbs = " ".join(one.words[0] for one in tree if len(one.words) == 1)
    cases = "\n".join(f'    "{" ".join(one.words)}") words="{_words(one)}" ;;' for one in tree)
    return f"""\
# bash completion of trainmark; made by `trainmark completion bash`
_trainmark() {{
  local current="${{COMP_WORDS[COMP_CWORD]}}" words=""
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{verbs} --help --version" -- "$current"))
    return
  fi
  local key="${{COMP_WORDS[1]}}"
  case "$key ${{COMP_WORDS[2]}}" in
{_pairs(tree)}
  esac
  case "$key" in
{cases}
  esac
  if [[ "$current" == -* ]] || {{ [ "$COMP_CWORD" -eq 2 ] && [[ "$words" != -* ]]; }}; then
    COMPREPLY=($(compgen -W "$words" -- "$current"))
  fi
  [ ${{#COMPREPLY[@]}} -gt 0 ] || COMPREPLY=($(compgen -f -- "$current"))
}}
complete -o filenames -F _trainmark trainmark
"""


def _pairs(tree: list[CommandInfo]) -> str:
    pairs = [" ".join(one.words) for one in tree if len(one.words) == 2]
    return "\n".join(f'    "{pair}") [ "$COMP_CWORD" -gt 2 ] && key="{pair}" ;;' for pair in pairs)


def _zsh(tree: list[CommandInfo]) -> str:
    verbs = "\n".join(
        f"    {_quoted(f'{one.words[0]}:{one.summary}')}" for one in tree if len(one.words) == 1
    )
    cases = "\n".join(f'    "{" ".join(one.words)}") words=({_words(one)}) ;;' for one in tree)
    return f"""\
#compdef trainmark
# zsh completion of trainmark; made by `trainmark completion zsh`
_trainmark_main() {{
  local -a verbs
  verbs=(
{verbs}
  )
  if (( CURRENT == 2 )); then
    _describe 'verb' verbs
    return
  fi
  local key="${{words[2]}}" pair="${{words[2]}} ${{words[3]}}"
  local -a found
{_zsh_function(cases)}
  found=($(_trainmark_words "$key"))
  if (( CURRENT > 3 )) && [[ -n "$(_trainmark_words "$pair")" ]]; then
    found=($(_trainmark_words "$pair"))
  fi
  if [[ "${{words[CURRENT]}}" == -* ]]; then
    compadd -- ${{(M)found:#-*}}
  else
    (( CURRENT == 3 )) && compadd -- ${{found:#-*}}
    _files
  fi
}}
# As a file of $fpath it is called, as a sourced file it is not.
if [[ "${{funcstack[1]}}" == _trainmark ]]; then
  _trainmark_main "$@"
else
  compdef _trainmark_main trainmark
fi
"""


def _zsh_function(cases: str) -> str:
    lines = cases.replace("words=(", "print -r -- ").replace(") ;;", " ;;")
    return f'  _trainmark_words() {{\n    case "$1" in\n{lines}\n    esac\n  }}'


def _fish(tree: list[CommandInfo]) -> str:
    lines = ["# fish completion of trainmark; made by `trainmark completion fish`"]
    for one in tree:
        verb = one.words[0]
        if len(one.words) == 1:
            lines.append(
                f"complete -c trainmark -n __fish_use_subcommand -f -a {verb} -d {_quoted(one.summary)}"
            )
        else:
            lines.append(
                f"complete -c trainmark -n '__fish_seen_subcommand_from {verb}' -f -a {one.words[1]} "
                f"-d {_quoted(one.summary)}"
            )
        condition = " ; and ".join(f"__fish_seen_subcommand_from {word}" for word in one.words)
        for text, help_text in one.options:
            for flag in (word for word in text.split(" ") if word.startswith("-")):
                option = f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}"
                lines.append(f"complete -c trainmark -n '{condition}' {option} -d {_quoted(help_text)}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """Return a text as one word of zsh and fish, without what ends it."""
    return "'" + text.replace("\\", "").replace("'", "") + "'"
