"""The rate of damaged logs that give another number without a warning, by kind of damage; seeded.

    python benchmarks/log_mutations.py --count 10000 --seed 1 ../shared/corpus ../shared/corpus-today

Each log that gives a number is damaged in one way at a time and read again. A change is *silent* when the number
moves by more than 0.5 % and has status ``ok`` and no doubt. The table also has how many of the numbers that moved
have a doubt, but no other than the sound log has, and how many of the silent ones have a new note, or are of a log that
has no second witness: nothing can be held against its number. If the reader notes that the start or the end of the run
is missing, the number is that of a part of the run: then 5 % matter.
Every exception and every reading of more than 20 s is counted and shown. ``--show`` prints each silent change.
"""

import argparse
import csv
import io
import random
import re
import shlex
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from trainmark.logs import Facts, ParsedLog, Severity, Status
from trainmark.measure.rules import measure_log
from trainmark.measure.rules.row import reading_problems
from trainmark.programs import read_stream

MATTERS = 0.005
MATTERS_IN_A_PART = 0.05
HANG_S = 20
_STAMP = re.compile(rb"\d{4}[-/](\d\d)[-/](\d\d)[ T](\d\d):(\d\d):(\d\d)")


@dataclass(frozen=True, slots=True)
class Log:
    """A log of a corpus: the name under which it is read, its bytes, and the flags that its reader gives."""

    name: str
    text: bytes
    given: Facts


@dataclass(frozen=True, slots=True)
class Reading:
    """The result of reading a log: its number (None without one), and the codes of doubts and problems."""

    value: float | None
    doubts: frozenset[str]
    words: frozenset[tuple[str, str]]
    witnesses: int


@dataclass(frozen=True, slots=True)
class Silent:
    """A number that changed without a warning."""

    kind: str
    log: str
    seed: str
    before: float
    after: float
    noted: bool
    lone: bool


def corpus(folder: Path) -> list[Log]:
    """Return the logs below ``folder``, with the flags that its ``truth.csv`` gives."""
    flags: dict[str, Facts] = {}
    table = folder / "truth.csv"
    if table.is_file():
        with table.open(encoding="utf-8", newline="") as file:
            flags = {row["log"]: _flags(row["flags"]) for row in csv.DictReader(file) if row.get("flags")}
    paths = sorted(path for path in (folder / "logs").rglob("*") if path.is_file())
    return [
        Log(str(path.relative_to(folder)), path.read_bytes(), flags.get(path.name, Facts())) for path in paths
    ]


def _flags(words: str) -> Facts:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gpus", type=int)
    parser.add_argument("--batch", type=int)
    found, _ = parser.parse_known_args(shlex.split(words))
    return Facts(gpus=found.gpus, batch_per_device=found.batch)


def parse(log: Log) -> ParsedLog:
    """Return the log as its format's reader gives it."""
    return read_stream(io.BytesIO(log.text), log.name, log.given)


def read(log: Log) -> Reading:
    """Read a log as ``trainmark parse`` does, number and problems."""
    parsed = parse(log)
    result = measure_log(parsed)
    problems = reading_problems(parsed, result)
    return Reading(
        result.value if result.status is Status.OK else None,
        frozenset(p.code for p in problems if p.severity is Severity.DOUBT),
        frozenset((p.code, p.message) for p in problems),
        len(result.witnesses),
    )


Mutation = Callable[[Log, random.Random, Sequence[Log]], Log]


def _with(log: Log, text: bytes) -> Log:
    return Log(log.name, text, log.given)


def _lines(log: Log) -> list[bytes]:
    return log.text.splitlines(keepends=True)


def line_lost(log: Log, chance: random.Random, _: Sequence[Log]) -> Log:
    """One line is lost."""
    lines = _lines(log)
    del lines[chance.randrange(len(lines))]
    return _with(log, b"".join(lines))


def lines_lost(log: Log, chance: random.Random, _: Sequence[Log]) -> Log:
    """A block of up to a quarter of the lines is lost."""
    lines = _lines(log)
    at = chance.randrange(len(lines))
    del lines[at : at + chance.randint(1, max(1, len(lines) // 4))]
    return _with(log, b"".join(lines))


def lines_doubled(log: Log, chance: random.Random, _: Sequence[Log]) -> Log:
    """A block of up to 50 lines stands there twice."""
    lines = _lines(log)
    at = chance.randrange(len(lines))
    block = lines[at : at + chance.choice((1, 1, 5, 50))]
    return _with(log, b"".join((*lines[: at + len(block)], *block, *lines[at + len(block) :])))


def block_moved(log: Log, chance: random.Random, _: Sequence[Log]) -> Log:
    """A block of lines stands elsewhere."""
    lines = _lines(log)
    at = chance.randrange(len(lines))
    block = lines[at : at + chance.choice((1, 5, 50))]
    del lines[at : at + len(block)]
    to = chance.randint(0, len(lines))
    return _with(log, b"".join((*lines[:to], *block, *lines[to:])))


def lines_swapped(log: Log, chance: random.Random, _: Sequence[Log]) -> Log:
    """Two neighbouring lines change places."""
    lines = _lines(log)
    if len(lines) > 1:
        at = chance.randrange(len(lines) - 1)
        lines[at : at + 2] = lines[at + 1], lines[at]
    return _with(log, b"".join(lines))


def digit_changed(log: Log, chance: random.Random, _: Sequence[Log]) -> Log:
    """One digit, anywhere, is another one."""
    return _with(log, _other_digit(log.text, [m.start() for m in re.finditer(rb"\d", log.text)], chance))


def digit_of_a_record(log: Log, chance: random.Random, _: Sequence[Log]) -> Log:
    """One digit of a line of which there are many is another one."""
    lines = _lines(log)
    shapes = [re.sub(rb"[\d.+-]+", b"0", line)[:60] for line in lines]
    (usual, _count) = Counter(shape for shape in shapes if b"0" in shape).most_common(1)[0]
    at = chance.choice([number for number, shape in enumerate(shapes) if shape == usual])
    lines[at] = _other_digit(lines[at], [m.start() for m in re.finditer(rb"\d", lines[at])], chance)
    return _with(log, b"".join(lines))


def digit_of_the_header(log: Log, chance: random.Random, _: Sequence[Log]) -> Log:
    """One digit of a setting (``batch_size``, ``world_size``, devices, …) is another one."""
    places = [
        m.start() + len(m[0]) - 1
        for m in re.finditer(
            rb"(?i)(?:batch|world|gpu|card|device|trainer|node|rank|sample)[\w \"':=(,.]{0,20}\d", log.text
        )
    ]
    return (
        digit_changed(log, chance, ()) if not places else _with(log, _other_digit(log.text, places, chance))
    )


def digit_lost(log: Log, chance: random.Random, _: Sequence[Log]) -> Log:
    """One digit is lost."""
    places = [m.start() for m in re.finditer(rb"\d", log.text)]
    at = chance.choice(places)
    return _with(log, log.text[:at] + log.text[at + 1 :])


def stamp_changed(log: Log, chance: random.Random, _: Sequence[Log]) -> Log:
    """One digit of one time stamp is another one."""
    stamps = list(_STAMP.finditer(log.text))
    if not stamps:
        return digit_changed(log, chance, ())
    chosen = chance.choice(stamps)
    places = [at for at in range(chosen.start(), chosen.end()) if log.text[at : at + 1].isdigit()]
    return _with(log, _other_digit(log.text, places, chance))


def clock_jumps(log: Log, chance: random.Random, _: Sequence[Log]) -> Log:
    """From some line on, all time stamps are an hour, ten minutes, a day or a month off."""
    lines = _lines(log)
    at = chance.randrange(len(lines))
    group, by = chance.choice(((3, 1), (3, -1), (4, 10), (4, -10), (2, 1), (1, 1)))

    def later(match: re.Match[bytes]) -> bytes:
        start, end = match.start(group) - match.start(), match.end(group) - match.start()
        limit = {1: 12, 2: 28, 3: 23, 4: 59}[group]
        value = min(max(int(match[group]) + by, 0), limit)
        return match[0][:start] + b"%02d" % value + match[0][end:]

    return _with(log, b"".join((*lines[:at], *(_STAMP.sub(later, line) for line in lines[at:]))))


def truncated(log: Log, chance: random.Random, _: Sequence[Log]) -> Log:
    """The file ends early."""
    return _with(log, log.text[: chance.randint(1, len(log.text))])


def beginning_lost(log: Log, chance: random.Random, _: Sequence[Log]) -> Log:
    """The file begins late."""
    return _with(log, log.text[chance.randrange(len(log.text)) :])


def bytes_corrupted(log: Log, chance: random.Random, _: Sequence[Log]) -> Log:
    """One to eight bytes are others."""
    text = bytearray(log.text)
    for _count in range(chance.randint(1, 8)):
        text[chance.randrange(len(text))] = chance.randrange(256)
    return _with(log, bytes(text))


def joined(log: Log, chance: random.Random, others: Sequence[Log]) -> Log:
    """Another log, or a part of one, stands before or after."""
    other = chance.choice(others).text
    if chance.random() < 0.5:
        other = other[: chance.randint(1, len(other))]
    return _with(log, log.text + other if chance.random() < 0.5 else other + log.text)


def number_replaced(log: Log, chance: random.Random, _: Sequence[Log]) -> Log:
    """One number, of a line's text or of its figures, is printed as another program would, or is none at all."""
    numbers = list(re.finditer(rb"\d[\d.,]*", log.text))
    found = chance.choice(numbers[:60] if chance.random() < 0.5 else numbers)
    other = chance.choice((b"1,024", b"1e+04", b"0", b"", b"9" * 5000, b"1.2.3"))
    return _with(log, log.text[: found.start()] + other + log.text[found.end() :])


def name_changed(log: Log, chance: random.Random, others: Sequence[Log]) -> Log:
    """The file is called something else."""
    kind = chance.randrange(4)
    name = log.name
    if kind == 0:
        name = chance.choice(others).name
    elif kind == 1:
        name = _other_digit(name.encode(), [m.start() for m in re.finditer(r"\d", name)], chance).decode()
    elif kind == 2:
        name += f"-c{chance.randrange(10**8):07d}-{chance.getrandbits(24):06x}.log"
    else:
        folder, batch, precision = (
            chance.choice(w) for w in (("4n8g", "2n4g"), ("32", "64"), ("fp32", "amp"))
        )
        name = f"{folder}/r_b{batch}_{precision}_1.log"
    return Log(name, log.text, log.given)


def _other_digit(text: bytes, places: Sequence[int], chance: random.Random) -> bytes:
    if not places:
        return text
    at = chance.choice(places)
    other = chance.choice([digit for digit in b"0123456789" if digit != text[at]])
    return text[:at] + bytes((other,)) + text[at + 1 :]


MUTATIONS: tuple[Mutation, ...] = (
    line_lost,
    lines_lost,
    lines_doubled,
    block_moved,
    lines_swapped,
    digit_changed,
    digit_of_a_record,
    digit_of_the_header,
    digit_lost,
    stamp_changed,
    clock_jumps,
    truncated,
    beginning_lost,
    bytes_corrupted,
    joined,
    name_changed,
    number_replaced,
)


class HangError(BaseException):
    """A log took too much processor time to read; not an ``Exception``, which reading turns into a status."""


@dataclass(slots=True)
class Tally:
    """The results of many mutations."""

    made: Counter[str]
    moved: Counter[str]
    same_doubts: Counter[str]
    silent: list[Silent]
    errors: list[str]

    @classmethod
    def new(cls) -> "Tally":
        """Return one in which nothing is counted yet."""
        return cls(Counter(), Counter(), Counter(), [], [])


def run(logs: Sequence[Log], numbers: range, seed: int) -> Tally:
    """Make the mutations ``numbers``, log by log and kind by kind in turn; the same ``seed`` makes the same ones."""
    tally = Tally.new()
    sound = {log.name: read(log) for log in logs}
    readable = [log for log in logs if sound[log.name].value is not None]
    signal.signal(signal.SIGPROF, _hang)
    for number in numbers:
        log = readable[number % len(readable)]
        mutate = MUTATIONS[(number // len(readable)) % len(MUTATIONS)]
        name = f"{seed}:{number}"
        changed = mutate(log, random.Random(name), logs)
        tally.made[mutate.__name__] += 1
        signal.setitimer(signal.ITIMER_PROF, HANG_S)
        try:
            after = read(changed)
        except (Exception, HangError) as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            tally.errors.append(
                f"{mutate.__name__} {log.name} {name}: {error!r} at {where.filename}:{where.lineno}"
            )
            continue
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        before = sound[log.name]
        # What a reader raises ends in a status and this request: it would be no exception here.
        tally.errors += [f"{mutate.__name__} {log.name} {name}: {m}" for _, m in after.words if _RAISED in m]
        is_part = any(code == "incomplete" and _MISSING.search(text) for code, text in after.words)
        limit = MATTERS_IN_A_PART if is_part else MATTERS
        if after.value is None or before.value is None or abs(after.value / before.value - 1) <= limit:
            continue
        tally.moved[mutate.__name__] += 1
        if after.doubts:
            tally.same_doubts[mutate.__name__] += not after.doubts - before.doubts
        else:
            noted = bool(after.words - before.words)
            tally.silent.append(
                Silent(
                    mutate.__name__, log.name, name, before.value, after.value, noted, before.witnesses < 2
                )
            )
    return tally


_RAISED = "please report it"
_MISSING = re.compile(r"missing|ends before")


def _hang(_number: int, _frame: FrameType | None) -> None:
    raise HangError(f"more than {HANG_S} s")


def main() -> int:
    """Run the benchmark; exit code 1 on an exception, a hang, or more than 0.2 % silent changes.

    A silent change of a log without a second witness does not count.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("corpora", type=Path, nargs="+")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument(
        "--first", type=int, default=0, help="number of the first mutation, to make them in parts"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", action="store_true")
    words = parser.parse_args()
    started = time.perf_counter()
    tally = run(
        [log for folder in words.corpora for log in corpus(folder)],
        range(words.first, words.first + words.count),
        words.seed,
    )
    by_kind = Counter(found.kind for found in tally.silent)
    noted = Counter(found.kind for found in tally.silent if found.noted)
    lone = Counter(found.kind for found in tally.silent if found.lone)
    print(
        "| damage | made | number moved | with old doubts only | silently | of these noted | of these lone |\n"
        + "| --- " * 7
        + "|"
    )
    for kind in (mutation.__name__ for mutation in MUTATIONS):
        row = (
            kind.replace("_", " "),
            tally.made[kind],
            tally.moved[kind],
            tally.same_doubts[kind],
            by_kind[kind],
            noted[kind],
            lone[kind],
        )
        print(f"| {' | '.join(map(str, row))} |")
    total = sum(tally.made.values())
    print(
        f"\n{total} mutations, {len(tally.errors)} exceptions or hangs, {len(tally.silent)} silent changes",
        end="",
    )
    print(f" ({len(tally.silent) / max(total, 1):.2%}) in {time.perf_counter() - started:.0f} s")
    print(*tally.errors[:50], sep="\n")
    if words.show:
        for found in sorted(tally.silent, key=lambda s: -abs(s.after / s.before - 1)):
            change = found.after / found.before - 1
            moved = f"{change:+9.2%} {found.before:.6g} -> {found.after:.6g}"
            print(
                moved, found.kind, found.log, found.seed, "noted" if found.noted else "", "lone" * found.lone
            )
    return int(bool(tally.errors) or len(tally.silent) - lone.total() > 0.002 * total)


if __name__ == "__main__":
    sys.exit(main())
