"""The entry point: finds the verb, imports its module alone, and turns our errors into one line and an exit code."""

import os
import sys
from importlib import import_module

from trainmark import __version__
from trainmark.errors import TrainmarkError, nearest

VERBS = {
    "run": "Run a suite: measure every case, keep everything, print the table.",
    "check": "Say whether this machine (these hosts) is fit to run a suite, and what to do.",
    "plan": "Print what a suite would run, as commands; run nothing.",
    "report": "Write a run's or a database's results: Markdown, HTML, CSV, JSON, rows for others.",
    "compare": "Say which cases of two results are faster, slower or alike, and what differs.",
    "parse": "Read training logs of any known format; one number a log, or why not.",
    "audit": "Check published values against the logs behind them.",
    "explain": "Say why a number is not a published one: what differs, and the evidence.",
    "reference": "List published figures; show one with its recipe and source.",
    "store": "Put result directories into a database; list what it holds.",
    "env": "Create, check and list the frameworks' environments.",
    "data": "Make, convert, index and verify data sets.",
}
"""Each verb is the module ``trainmark.cli.<verb>`` with a ``typer.Typer`` named ``app``."""

_VERB_LINES = "\n".join(f"  {verb:<10} {text}" for verb, text in VERBS.items())

INTERRUPTED = 130
"""The exit code after Ctrl-C, as shells have it: 128 and the signal's number."""

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
        code = app(args=rest, prog_name=f"trainmark {verb}", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except TrainmarkError as error:
        sys.stderr.write(f"trainmark {verb}: {error}\n")
        return error.exit_code
    except BrokenPipeError:
        # The reader of our output (head, less) went away: not an error of ours. Nothing more may be written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"trainmark {verb}: {where}{error.strerror or error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write(f"trainmark {verb}: interrupted\n")
        return INTERRUPTED
    except Exception as error:
        # Typer's own complaints about words of the command line; by what they offer, for the class is private.
        if not hasattr(error, "format_message"):
            if type(error).__name__ == "Abort":
                sys.stderr.write(f"trainmark {verb}: interrupted\n")
                return INTERRUPTED
            raise
        message = error.format_message()
        # A verb of several commands called without one complains by its whole help, which stands for itself.
        more = f" (trainmark {verb} --help says more)" if "\n" not in message else ""
        sys.stderr.write(f"trainmark {verb}: {message}{more}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
