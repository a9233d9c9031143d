"""The response time of the command line: ``--help``, ``plan`` of a matrix of 10,000 cases, ``parse`` of small logs.

    python benchmarks/startup.py [--repeats 11] [--many 100000]

Each command runs as a whole process, in turn with the bare interpreter (``python -c pass``), so that the ratio
holds on a noisy machine. Budgets: ``--help`` < 0.25 s; ``plan`` of 10,000 cases < 2 s; ``parse`` of one log < 0.35 s.
For ``parse`` it is the least processor time of all repeats, and that of each further small log (budget 2.4 ms): the
first 600 logs load all formats, which is shown beside it. ``--many`` reads so many small logs by two processes
(budget: 120 s for 100,000).
"""

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BARE = [sys.executable, "-c", "pass"]
TRAINMARK = [sys.executable, "-m", "trainmark.cli.main"]
MATRIX = f"""\
name: matrix
environment: system
axes:
  precision: [fp32, tf32, amp-fp16, amp-bf16, bf16]
  layout: [nchw, nhwc]
  devices_per_node: {list(range(1, 11))}
  batch_per_device: {list(range(1, 101))}
"""


def seconds(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


PLAN_RATIO = 40
"""The budget of ``plan`` of 10,000 cases: its processor time over that of ``--help``, right before and after it."""

SMALL_LOGS = 600
SMALL_STEPS = 40


def cpu_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Exit code 1 is that of a log with a doubt.
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def help_seconds() -> float:
    return statistics.mean(cpu_seconds([*TRAINMARK, "--help"]) for _ in range(4))


def write_small_logs(folder: Path, first: int = 0, last: int = SMALL_LOGS) -> Path:
    """Write small logs of all formats in turn, those with the numbers ``first`` to ``last``; return the first."""
    from trainmark.logs.synthetic import SampleRun
    from trainmark.programs import samples, synthetic_log

    names = sorted(samples())
    texts = [synthetic_log(name, SampleRun([0.5] * SMALL_STEPS, gpus=2, interval=5)) for name in names]
    for number in range(first, last):
        (folder / f"{number:06}.log").write_text(texts[number % len(texts)])
    return folder / f"{first:06}.log"


def report_plan(repeats: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        suite = Path(folder) / "matrix.yaml"
        suite.write_text(MATRIX)
        command = [*TRAINMARK, "plan", str(suite)]
        cpu_seconds(command)
        turns = [(help_seconds(), cpu_seconds(command), help_seconds()) for _ in range(max(2, repeats // 4))]
    # A loaded machine slows both down, so each is compared with what is next to it.
    ratio = min(2 * ours / (before + after) for before, ours, after in turns)
    ours = min(ours for _, ours, _ in turns)
    verdict = "within" if ratio <= PLAN_RATIO else "OVER"
    print(f"plan of 10,000 cases: {ours:.2f} s of CPU, {ratio:.0f} x --help ({verdict} {PLAN_RATIO} x)")


def report_parse(repeats: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one = write_small_logs(Path(folder))
        bare = min(cpu_seconds(BARE) for _ in range(repeats))
        start = min(cpu_seconds([*TRAINMARK, "parse", str(one)]) for _ in range(repeats))
        turns = max(1, repeats // 4)
        few = min(cpu_seconds([*TRAINMARK, "parse", folder]) for _ in range(turns))
        write_small_logs(Path(folder), SMALL_LOGS, 2 * SMALL_LOGS)
        many = min(cpu_seconds([*TRAINMARK, "parse", folder]) for _ in range(turns))
    each = (many - few) / SMALL_LOGS
    loading = few - start - each * (SMALL_LOGS - 1)
    print(
        f"parse of one log: {start:.3f} s of CPU ({'within' if start < 0.35 else 'OVER'} 0.35 s), "
        f"{start / bare:.1f} x the interpreter"
    )
    print(
        f"each further small log: {each * 1e3:.2f} ms of CPU "
        f"({'within' if each < 2.4e-3 else 'OVER'} 2.4 ms), {each / bare:.3f} x the interpreter; "
        f"loading all formats once: {loading:.2f} s"
    )


def report_many(count: int) -> None:
    """Print the time in which two processes read so many small logs."""
    with tempfile.TemporaryDirectory() as folder:
        write_small_logs(Path(folder), last=count)
        began = time.perf_counter()
        # Exit code 1 is that of a log with a doubt.
        subprocess.run(
            [*TRAINMARK, "parse", "-j", "2", "--json", folder], check=False, stdout=subprocess.DEVNULL
        )
        wall_s = time.perf_counter() - began
    budget_s = 120 * count / 100_000
    verdict = "within" if wall_s < budget_s else "OVER"
    print(f"parse -j 2 of {count} small logs: {wall_s:.0f} s ({verdict} {budget_s:.0f} s)")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--many", type=int, metavar="LOGS", help="only read so many small logs")
    given = parser.parse_args()
    if given.many:
        report_many(given.many)
        return
    repeats = given.repeats
    with tempfile.TemporaryDirectory() as folder:
        suite = Path(folder) / "matrix.yaml"
        suite.write_text(MATRIX)
        commands = {
            "--help": ([*TRAINMARK, "--help"], 0.25),
            "plan of 10,000 cases": ([*TRAINMARK, "plan", str(suite)], 2.0),
        }
        for name, (command, budget_s) in commands.items():
            seconds(command)
            pairs = [(seconds(command), seconds(BARE)) for _ in range(repeats)]
            ours = statistics.median(ours for ours, _ in pairs)
            ratio = statistics.median(ours / bare for ours, bare in pairs)
            verdict = "within" if ours < budget_s else "OVER"
            print(
                f"{name}: median {ours:.3f} s of {repeats} ({verdict} {budget_s:g} s), {ratio:.1f} x the interpreter"
            )
    report_plan(repeats)
    report_parse(repeats)


if __name__ == "__main__":
    main()
