#!/usr/bin/env python3
"""Plant handicaps in tiny programs of several libraries, and count how often ``explain`` names them first.

Each library is measured as it is, and with each handicap, three runs each; ``trainmark explain HANDICAPPED --against
PLAIN`` should name the handicap first. On a quiet machine its interval has the whole measured ratio; on a busy one
other causes, such as the load, have a part of it. A handicap whose ratio is within the noise of both
runs does not count.

    benchmarks/planted_handicaps.py --envs ~/.local/share/trainmark/envs --out /tmp/planted torch jax paddle mxnet numpy
"""

import argparse
import json
import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trainmark.campaign import Order, run_campaign
from trainmark.cli.explain import LogFacts, explain_sides
from trainmark.cli.run_options import CommandOptions
from trainmark.cli.suite_input import command_suite
from trainmark.errors import TrainmarkError
from trainmark.insight import to_document
from trainmark.suite import load_suite

PROGRAM = Path(__file__).with_name("planted_training.py")
ENVIRONMENTS = {"torch": "pytorch"}
"""The names of environments that are not those of their libraries."""


@dataclass(frozen=True)
class Handicap:
    """A planted cause: words of the command, or an edit of the source, and the names by which it may be called."""

    name: str
    named: tuple[str, ...]
    words: tuple[str, ...] = ()
    edit: str | None = None


HANDICAPS = (
    Handicap("slow loader", ("data_wait", "command --load"), ("--load", "0.1")),
    Handicap("evaluation in each step", ("command --evaluate",), ("--evaluate", "12")),
    Handicap("larger matrices", ("command --size",), ("--size", "768")),
    Handicap(
        "work in the source",
        ("source train.py",),
        edit="sum(float(np.sin(values).sum()) for _ in range(60))",
    ),
)


class Quiet:
    """A listener that says nothing."""

    def __getattr__(self, _name: str) -> Callable[..., None]:
        """Return a method that does nothing, for any event."""
        return lambda *_args, **_more: None


def main() -> int:
    """Run all pairs, print a line for each, and write them as JSON; return 1 if fewer than 9 of 10 are named first."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("libraries", nargs="+")
    parser.add_argument("--envs", type=Path, required=True, help="the folder of the libraries' environments")
    parser.add_argument("--out", type=Path, required=True, help="the folder of the results")
    given = parser.parse_args()
    # With one thread a program does not wait for its own threads on a busy machine.
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    out, rows = given.out.resolve(), []
    for library in given.libraries:
        plain = measure(given.envs, out, library, None)
        for handicap in HANDICAPS:
            rows.append(judge(library, handicap, measure(given.envs, out, library, handicap), plain))
            print(
                "{library:<10} {handicap:<24} x{ratio:<7} first: {first}  {verdict}".format(**rows[-1]),
                flush=True,
            )
            (out / "planted.json").write_text(json.dumps(rows, indent=1) + "\n")
    there = [row for row in rows if row["verdict"] != "not there"]
    named = [row for row in there if row["verdict"] in ("whole", "part")]
    whole = sum(row["verdict"] == "whole" for row in named)
    print(f"{len(named)} of {len(there)} named first, {whole} with the whole ratio; {len(rows)} planted")
    return 0 if len(named) >= 0.9 * len(there) else 1


def measure(envs: Path, out: Path, library: str, handicap: Handicap | None) -> Path:
    """Measure a library's program, and return its result directory; one that is there is taken as it is."""
    name = "plain" if handicap is None else handicap.name.replace(" ", "-")
    directory = out / library / name
    if (directory / "results.json").is_file():
        return directory
    work = out / "work" / library / name
    work.mkdir(parents=True, exist_ok=True)
    text = PROGRAM.read_text()
    if handicap is not None and handicap.edit is not None:
        text = text.replace("# PLANTED", handicap.edit)
    (work / "train.py").write_text(text)
    python = envs.expanduser() / ENVIRONMENTS.get(library, library) / "bin" / "python"
    words = [str(python) if python.exists() else sys.executable, "train.py", library]
    words += [] if handicap is None else handicap.words
    found = command_suite(words, CommandOptions(name=library, repeats=3), work)
    suite = load_suite(found.write(directory))
    # As trainmark run does, without a report for each.
    order = Order(suite, suite.cases, directory, False, out / "home", ("trainmark", "run"))
    run_campaign(order, Quiet())
    return directory


def judge(library: str, handicap: Handicap, slow: Path, plain: Path) -> dict[str, object]:
    """Return what ``explain`` says of a handicapped run against the plain one."""
    row: dict[str, object] = {
        "library": library,
        "handicap": handicap.name,
        "ratio": "-",
        "first": "-",
        "verdict": "failed",
    }
    try:
        document = to_document(explain_sides(str(slow), str(plain), LogFacts(), quiet=True))
    except TrainmarkError as error:
        return row | {"first": str(error)[-200:]}
    ratio, differences = document["ratio"], document["differences"]
    if ratio is None:
        return row | {"first": "no ratio"}
    first = differences[0] if differences else {"axis": "none", "factor": None}
    noise = document["run"]["noise"]
    row |= {"ratio": f"{ratio:.3f}", "first": first["axis"], "noise": noise}
    if document["in_noise"]:
        return row | {"verdict": "not there"}
    if first["axis"] not in handicap.named:
        return row | {"verdict": "wrong"}
    # A slow loader is two factors: the wait itself, and its option, as the step after a wait computes more slowly too.
    spans = [one["factor"] for one in differences if one["axis"] in handicap.named and one["factor"]]
    low, high = (math.prod(ends) for ends in zip(*spans, strict=True)) if spans else (0.0, 0.0)
    row["interval"] = [round(low, 3), round(high, 3)]
    # The ratio is known to the noise of its records. Other load has a part of it on a busy machine.
    reach = 1 + max(noise, 0.01)
    return row | {"verdict": "whole" if low / reach <= ratio <= high * reach else "part"}


if __name__ == "__main__":
    raise SystemExit(main())
