"""The entry point: finds the verb, imports its module alone, and turns our errors into one line and an exit code."""

import sys
from importlib import import_module

from trainmark import __version__
from trainmark.errors import TrainmarkError, nearest

VERBS = {
    "run": "Run a suite: measure every case, keep everything, print the table.",
    "plan": "Print what a suite would run, as commands; run nothing.",
    "data": "Make and verify data sets.",
    "env": "Create and inspect the frameworks' environments.",
    "report": "Write a finished run as Markdown, HTML, CSV or JSON.",
}
"""Each verb is the module ``trainmark.cli.<verb>`` with a ``typer.Typer`` named ``app``."""

_VERB_LINES = "\n".join(f"  {verb:<10} {text}" for verb, text in VERBS.items())

USAGE = f"""\
Usage: trainmark VERB [OPTIONS] ...

  Measures how fast deep-learning frameworks train, so that the number can be
  reproduced, compared and explained.

Verbs:
{_VERB_LINES}

Options:
  --version  Print the version.
  --help     Print this; after a verb, what the verb takes.

Exit codes: 0 fine; 1 it ran, but what it checked does not hold or a run failed;
2 the usage or the input is wrong.
"""


def main(arguments: list[str] | None = None) -> int:
    """Run one verb and return its exit code (0, 1 or 2; 130 after Ctrl-C).

    ``arguments`` are the words after the program's name; ``sys.argv`` by default.
    """
    words = sys.argv[1:] if arguments is None else arguments
    if not words or words[0] in ("--help", "-h", "help"):
        (sys.stdout if words else sys.stderr).write(USAGE)
        return 0 if words else 2
    if words[0] == "--version":
        sys.stdout.write(f"trainmark {__version__}\n")
        return 0
    verb, rest = words[0], words[1:]
    if verb not in VERBS:
        sys.stderr.write(f"trainmark: no verb '{verb}'{nearest(verb, VERBS)} (trainmark --help lists them)\n")
        return 2
    try:
        app = import_module(f"trainmark.cli.{verb}").app
        code = app(args=rest, prog_name=f"trainmark {verb}", standalone_mode=True)
        return int(code or 0)
    except TrainmarkError as error:
        sys.stderr.write(f"trainmark {verb}: {error}\n")
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output (head, less) went away: not an error of ours.
        sys.stderr.close()
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"trainmark {verb}: {where}{error.strerror or error}\n")
        return 1
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 1
    except KeyboardInterrupt:
        sys.stderr.write(f"trainmark {verb}: interrupted\n")
        return 130


if __name__ == "__main__":
    sys.exit(main())
