"""Entry point: dispatch to a verb, importing only its module, and turn errors into one line and an exit code."""

import atexit
import gc
import os
import sys
from importlib import import_module
from typing import Any

from trainmark.errors import TrainmarkError, nearest
from trainmark.version import __version__

VERBS = {
    "init": "Write a small suite for this machine.",
    "suites": "List, show and copy the suites that come with trainmark.",
    "run": "Measure your program (trainmark run -- COMMAND), or every case of a suite.",
    "check": "Check whether this machine or the given hosts are ready to run a suite.",
    "plan": "Print the commands that a suite would run, without running them.",
    "report": "Write a report as Markdown, HTML, CSV or JSON, or export results as rows.",
    "export": "Export results to other tools: Parquet, MLflow, TensorBoard, W&B, CI and more.",
    "compare": "Compare two results case by case: faster, slower or not distinguishable.",
    "parse": "Read training logs of many formats and print the throughput of each.",
    "audit": "Check published throughputs against the logs they were computed from.",
    "history": "Find changes of level in results over time, and name their causes.",
    "bisect": "Find the commit, version or value that made a program slower.",
    "predict": "Predict the throughput at more devices from measured or published scales.",
    "explain": "Explain why a throughput differs from a published one.",
    "reference": "List published throughputs; show one with its recipe and source.",
    "store": "Add result directories to a database; list its campaigns.",
    "site": "Write pages of many results, for a browser or any web server.",
    "serve": "Serve the same pages on this machine, live while suites run.",
    "archive": "Pack a result directory into one file to pass on.",
    "verify": "Check an archive, and recompute its numbers from its logs.",
    "card": "Make, check, list and show cards, which describe training programs.",
    "env": "Create, check and list the frameworks' environments.",
    "data": "Create, convert, index and verify data sets.",
    "completion": "Print the completion script of bash, zsh or fish, or the man page.",
}
"""Each verb is the module ``trainmark.cli.<verb>`` with an ``app``: a ``typer.Typer``, or a faster ``Command``."""

_VERB_LINES = "\n".join(f"  {verb:<11}{text}" for verb, text in VERBS.items())

_COLLECTED_AFTER = 50_000
"""Python's own 700 new objects make it look for cycles a hundred times while modules load: a tenth of the start."""

INTERRUPTED = 130
"""Exit code after Ctrl-C, by shell convention: 128 plus the signal number."""

_QUIET, _VERBOSE = "quiet", "verbose"

USAGE = f"""\
Usage: trainmark [-q|-v] VERB [OPTIONS] ...

  Measures how fast deep-learning programs train, so that the number can be
  reproduced, compared and explained.

Verbs:
{_VERB_LINES}

Options:
  -q         Print no progress and no notes, only results and errors.
  -v         With an error, also print where in trainmark it was raised.
  --version  Print the version.
  --help     Print this help; after a verb, the help of that verb.

Exit codes: 0 success; 1 a run or a check failed; 2 the command line or an input
file is invalid; 130 interrupted.
"""


def main(arguments: list[str] | None = None) -> int:
    """Run one verb and return its exit code (0, 1 or 2; 130 after Ctrl-C).

    ``arguments`` are the command-line arguments after the program name; ``sys.argv`` by default.
    """
    argv = sys.argv[1:] if arguments is None else arguments
    if argv[:1] == ["help"] and len(argv) > 1:
        argv = [*argv[1:], "--help"]
    if not argv or argv[0] in ("--help", "-h", "help"):
        from trainmark.manual_pages import FOLDER

        manual = "" if FOLDER.is_symlink() else f"\nManual: the pages named docs/... are in {FOLDER}\n"
        (sys.stdout if argv else sys.stderr).write(f"{USAGE}{manual}")
        return 0 if argv else 2
    if argv[0] == "--version":
        sys.stdout.write(f"trainmark {__version__}\n")
        return 0
    from trainmark.printable import printable_output

    gc.set_threshold(_COLLECTED_AFTER, *gc.get_threshold()[1:])
    # Nothing that is left at the end must be searched for cycles: that took a quarter of a short command.
    atexit.register(gc.freeze)
    level = {"-q": _QUIET, "--quiet": _QUIET, "-v": _VERBOSE, "--verbose": _VERBOSE}.get(argv[0])
    if level is not None and len(argv) == 1:
        sys.stderr.write(f"trainmark: {argv[0]}: add a verb (`trainmark --help` lists all verbs)\n")
        return 2
    verb, *rest = argv if level is None else argv[1:]
    with printable_output():
        if level == _QUIET:
            return _run_quietly(verb, rest)
        return _run_verb(verb, rest, trace=level == _VERBOSE)


def _run_quietly(verb: str, rest: list[str]) -> int:
    """Run a verb without its progress and notes; an error is printed."""
    import io

    real, notes = sys.stderr, io.StringIO()
    sys.stderr = notes
    try:
        code = _run_verb(verb, rest)
    finally:
        sys.stderr = real
    errors = [line for line in notes.getvalue().splitlines() if line.startswith("trainmark")]
    real.write("".join(f"{line}\n" for line in errors))
    return code


def _run_verb(verb: str, rest: list[str], *, trace: bool = False) -> int:
    if verb not in VERBS:
        sys.stderr.write(
            f"trainmark: no verb '{verb}'{nearest(verb, VERBS)} (`trainmark --help` lists all verbs)\n"
        )
        return 2
    try:
        app = import_module(f"trainmark.cli.{verb}").app
        code = app(args=rest, prog_name=f"trainmark {verb}", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except TrainmarkError as error:
        if trace:
            import traceback

            sys.stderr.write(traceback.format_exc())
        from trainmark.manual_pages import with_pages

        sys.stderr.write(f"trainmark {verb}: {with_pages(str(error))}\n")
        return error.exit_code
    except ModuleNotFoundError as error:
        from trainmark.imports import EXTRA_OF, missing_extra

        missing = (error.name or "").partition(".")[0]
        if missing not in EXTRA_OF:
            raise
        sys.stderr.write(f"{missing_extra(f'trainmark {verb}', missing)}\n")
        return 2
    except BrokenPipeError:
        # The reader of our output (head, less) has closed the pipe: no error, but nothing more may be written.
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
        # Usage errors of Typer, recognised by their method because the class is private.
        if not hasattr(error, "format_message"):
            if type(error).__name__ == "Abort":
                sys.stderr.write(f"trainmark {verb}: interrupted\n")
                return INTERRUPTED
            raise
        sys.stderr.write(f"trainmark {verb}: {_usage_message(error)} (see trainmark {verb} --help)\n")
        return 2


def _usage_message(error: Any) -> str:
    """Return what Typer has against a command line, in one line."""
    if isinstance(flag := getattr(error, "option_name", None), str) and error.ctx is not None:
        from trainmark.cli.arguments import unknown_option

        known = [flag for parameter in error.ctx.command.params for flag in parameter.opts]
        return unknown_option(flag, known)
    message: str = error.format_message()
    if "\n" in message and getattr(error, "ctx", None) is not None and hasattr(error.ctx.command, "commands"):
        # A verb of several commands, called without one, has its whole help as the message.
        return f"add a command: {', '.join(error.ctx.command.commands)}"
    message = message.replace(": Value error, ", ": ")
    return " ".join(message.split()).rstrip(",") if "Choose from:" in message else message


if __name__ == "__main__":
    sys.exit(main())
