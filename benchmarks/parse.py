"""Speed and memory of reading logs: MB/s, peak memory, and the ratio to a line-by-line reader, in one run.

    python benchmarks/parse.py [--size-mb 256] [--large-mb 2048] [--format paddleclas ...]

Each log is written first (synthetic, ``sample`` of its format) and read once to have it in the page cache. Each
reading is a process of its own, so that its peak memory is its own; speeds are by processor time of that process, the
best of ``--repeats``, because other work on the machine must not count. What a process loads once is not counted. The
budget is 200 MB/s on one core and memory that does not grow with the log: beside the peak of each format is how
many times the peak of a quarter of the log it is, and one log of ``--large-mb`` is read besides.
"""

import argparse
import io
import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BUDGET_MB_PER_S = 200
MEGABYTE = 1_000_000
_LOADING_BYTES = 1 << 16
_TAGGED = (
    "ngc-pytorch-convnets+mpirun",
    "ngc-mxnet-convnets+mpirun",
    "ngc-pytorch-convnets+ranks",
    "ngc-pytorch-convnets+docker",
    "paddleclas+docker",
    "paddleclas+collector",
    "ngc-pytorch-convnets+escapes",
)
"""``+mpirun`` is the same log with mpirun's time stamp and tag before each line, ``+ranks`` that of several ranks in
turn, ``+docker`` that in the JSON objects of a container, ``+escapes`` the same with two escapes in each text, and
``+collector`` that in the objects of a logger; the Transformer's has colours."""
_RANKS = 8
_IN_BLOCKS = (
    "ngc-pytorch-convnets",
    "ngc-tensorflow-convnets",
    "ngc-mxnet-convnets",
    "ngc-pytorch-bert",
    "ngc-tensorflow-bert",
    "paddleclas",
    "paddlenlp-bert",
    "paddlenlp-transformer",
    "paddleseg",
    "paddlerec",
)
_BATCH_UNSAID = frozenset(
    {
        "espnet",
        "icefall",
        "keras",
        "lightning",
        "llama-factory-steps",
        "mindspore",
        "paddle-hapi",
        "pytorch-imagenet",
        "tensorflow-estimator",
    }
)
"""Logs that do not say how large a batch is, without which there is no number."""
_TAG = b"Wed Jun  1 10:54:35 2022[1,0]<stdout>:"
_EPOCH = {
    "paddleseg": (b"epoch: 1,", b"epoch: %d,"),
    "ngc-tensorflow-convnets": (b"(0, ", b"(%d, "),
    "paddleclas": (b"epoch:0 ", b"epoch:%d "),
}
_COUNTERS = {"ngc-tensorflow-bert": b" Iteration: ", "paddlerec": b"Epoch: "}
_SEARCHED = {
    "paddle-hapi": rb"- (\d[\d.]*)s/step",
    "tensorflow-estimator": rb"global_step/sec: (\d[\d.]*)\n",
    "paddlenlp-trainer": rb"tokens_per_second_per_device: ([\d.]+)",
    "ngc-pytorch-bert": rb"average_loss : ([\d.]+)",
    "paddlerec": rb"ips ([\d.]+)",
    "ngc-pytorch-convnets": rb"train\.total_ips : ([\d.]+)",
    "ngc-tensorflow-convnets": rb"total_ips : ([\d.]+)",
    "ngc-mxnet-convnets": rb"train\.ips : ([\d.]+)",
    "ngc-tensorflow-bert": rb"throughput_train : ([\d.]+)",
}


_AT_ONCE = frozenset({"espnet", "icefall", "llama-factory-steps", "mlperf", "trainmark"})
"""Formats whose clock must not go back, or whose end has totals: the sample is as long as the log."""
_LOSSES = {"nvidia-ssd": b"Iteration: %6d, Loss function: 5.321, Average Loss: 6.102\n"}
"""Lines between the records of a program that prints its figures at the end only."""


def format_names() -> tuple[str, ...]:
    """Return every format of the catalogue, and some of them with tags."""
    from trainmark.programs import formats

    return (*(known.name for known in formats()), *_TAGGED)


def write_log(path: Path, name: str, size: int, steps: int = 20_000) -> None:
    """Write a log of about ``size`` bytes: one block of so many ``steps`` an epoch, again and again."""
    from trainmark.logs.synthetic import SampleRun
    from trainmark.programs import synthetic_log

    format_name, _, tags = name.partition("+")

    def sample(steps: int) -> bytes:
        return synthetic_log(
            format_name, SampleRun([0.2 + 0.0001 * (i % 7) for i in range(steps)], interval=1)
        ).encode()

    if format_name in _AT_ONCE:
        text = sample(100)
        path.write_bytes(sample(100 * size // len(text)))
        return
    text = sample(steps)
    if losses := _LOSSES.get(format_name):
        head, rest = text.split(b"\n", 1)
        lines_each = range(size // len(losses % 0))
        path.write_bytes(b"\n".join((head, b"".join(losses % number for number in lines_each) + rest)))
        return
    lines = [line for plain in text.split(b"\n") for line in _tagged(plain, tags)]
    body = [line for line in lines if _is_record(line)]
    if format_name not in _IN_BLOCKS:
        _write_renumbered(path, format_name, lines, size, steps)
        return
    first = lines.index(body[0])
    block = b"\n".join(body) + b"\n"
    old, new = _EPOCH.get(format_name, (b"poch: 0", b"poch: %d"))
    counter = _COUNTERS.get(format_name)
    with path.open("wb") as file:
        file.write(b"\n".join(lines[:first]) + b"\n")
        for epoch in range(1 << 30):
            text_block = (
                _renumbered(block, counter, epoch * steps) if counter else block.replace(old, new % epoch)
            )
            file.write(text_block)
            if file.tell() >= size:
                break
        file.write(b"\n".join(lines[first + len(body) :]))


def _tagged(line: bytes, tags: str) -> list[bytes]:
    """Return a line as mpirun prints it, that of one rank or of each of several; as it is without ``tags``."""
    if not tags or not line:
        return [line]
    if tags in ("docker", "escapes"):
        text = b"\\u003cA\\u003e " + line if tags == "escapes" else line
        return [b'{"log":"%s\\n","stream":"stdout","time":"2026-05-14T09:12:33.123456789Z"}' % text]
    if tags == "collector":
        end = b'"level": "info", "logger": "train", "timestamp": "2026-05-14T09:12:33.123456Z"}'
        return [b'{"event": "train", "message": "%s", %s' % (line, end)]
    return [b"[1,%d]<stdout>:" % rank + line for rank in range(_RANKS)] if tags == "ranks" else [_TAG + line]


def _write_renumbered(path: Path, format_name: str, lines: list[bytes], size: int, steps: int) -> None:
    """Write the lines of a format that counts steps alone: all of them again and again, the counter going on."""
    from trainmark.programs import find_format

    known = find_format(format_name)
    counters = [re.compile(rb"(\biter (?=\d+:))(\d+)")] if not known.records else []
    patterns = list(known.records) or counters
    matched = [
        next((m for pattern in patterns if (m := pattern.search(line + b"\n"))), None) for line in lines
    ]
    records = [number for number, match in enumerate(matched) if match]
    first, last = (records[0], records[-1] + 1) if records else (len(lines) // 2, len(lines) - 2)
    final = matched[records[-1]] if records else None
    if final is not None and known.records and _counter_of(final) == "consumed":
        steps = int(final["consumed"])
    with path.open("wb") as file:
        file.write(b"".join(line + b"\n" for line in lines[:first]))
        for turn in range(1 << 30):
            for line, match in zip(lines[first:last], matched[first:last], strict=True):
                counted = match is not None and (counters or _counter_of(match) is not None)
                file.write(
                    (_later(line, match, turn * steps) if turn and match and counted else line) + b"\n"
                )
            if file.tell() >= size:
                break
        file.write(b"\n".join(lines[last:]))


def _counter_of(match: re.Match[bytes]) -> str | None:
    """Return the group with the counter of a record: its step, its epoch or the work done, the first that it has."""
    counters = ("step", "epoch", "consumed")
    return next((name for name in counters if match.groupdict().get(name) is not None), None)


def _later(line: bytes, match: re.Match[bytes], by: int) -> bytes:
    start, end = match.span(_counter_of(match) or 2)
    return line[:start] + b"%d" % (int(line[start:end]) + by) + line[end:]


def _renumbered(block: bytes, counter: bytes, offset: int) -> bytes:
    """Move the counters of a format that has one kind of them only."""

    def later(match: re.Match[bytes]) -> bytes:
        return b"%s%d" % (counter, int(match[1]) + offset)

    return re.sub(re.escape(counter) + rb"(\d+)", later, block)


def _is_record(line: bytes) -> bool:
    return bool(
        re.search(rb"Iteration: \d+  |\(0, \d+\) |train step:|total step:|step_idx:|\[TRAIN\]|- INFO -", line)
    )


def _searched_for(format_name: str, path: str) -> bytes:
    """Return what the reader by line looks for: the figure that the lines of the log at ``path`` have."""
    from trainmark.logs.lines.literals import required
    from trainmark.programs import find_format

    if format_name in _SEARCHED or not find_format(format_name).records:
        return _SEARCHED.get(format_name, rb"(\d[\d.]*)")
    with Path(path).open("rb") as file:
        start = file.read(MEGABYTE)
    record = next(record for record in find_format(format_name).records if record.search(start))
    text = b"ips: " if format_name.startswith("paddle") else required(record)[0]
    return re.escape(text) + rb"\D*(\d[\d.]*)"


def read_once(path: str, format_name: str, reader: str) -> dict[str, float]:
    """Read ``path`` in this process; return megabytes, seconds of processor time and peak memory."""
    if reader == "trainmark":
        from trainmark.logs import Facts
        from trainmark.measure.rules import measure_log
        from trainmark.programs import read_log

        _load(path)
        start_wall, start = time.perf_counter(), time.process_time()
        plain_name = format_name.partition("+")[0]
        log = read_log(path, Facts(gpus=8, batch_per_device=64 if plain_name in _BATCH_UNSAID else None))
        result = measure_log(log)
        if log.format != plain_name or result.value is None:
            problems = "; ".join(problem.message for problem in (*log.problems, *result.problems))
            sys.exit(
                f"{format_name}: read as {log.format}, {log.records.count} records, no number: {problems}"
            )
        records = log.records.count
    else:
        pattern = re.compile(_searched_for(format_name.partition("+")[0], path))
        start_wall, start = time.perf_counter(), time.process_time()
        total, records = 0.0, 0
        with Path(path).open("rb") as file:
            for line in file:
                match = pattern.search(line)
                if match:
                    total += float(match[1])
                    records += 1
    return {
        "cpu_s": time.process_time() - start,
        "wall_s": time.perf_counter() - start_wall,
        "records": records,
        "peak_mb": _peak_mb(),
    }


def _load(path: str) -> None:
    """Read the first lines of ``path``, so that what a process loads once is there (modules, expressions)."""
    from trainmark.logs import Facts
    from trainmark.measure.rules import measure_log
    from trainmark.programs import read_stream

    with Path(path).open("rb") as file:
        measure_log(read_stream(io.BytesIO(file.read(_LOADING_BYTES)), given=Facts(gpus=8)))


def _peak_mb() -> float:
    """Return the most memory that this process has had, without what its parent had before it became another."""
    status = Path("/proc/self/status")
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text()) if status.exists() else None
    kilobytes = int(found[1]) if found else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kilobytes / 1000


class NotReadError(Exception):
    """A log of the benchmark was not read, or made no number."""


def measure(path: Path, format_name: str, reader: str, repeats: int) -> dict[str, float]:
    """Return the best of ``repeats`` readings, each in a process of its own; raise ``NotReadError``."""
    best: dict[str, float] = {}
    for _ in range(repeats):
        command = [sys.executable, __file__, "--read", str(path), "--format", format_name, "--reader", reader]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            raise NotReadError(done.stderr.strip().rpartition("\n")[2])
        found = json.loads(done.stdout)
        if not best or found["cpu_s"] < best["cpu_s"]:
            best = found
    return best | {"mb_per_s": path.stat().st_size / MEGABYTE / best["cpu_s"]}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size-mb", type=int, default=256)
    parser.add_argument("--large-mb", type=int, default=2048, help="0 leaves the large log out")
    parser.add_argument("--format", action="append")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--read", help=argparse.SUPPRESS)
    parser.add_argument("--reader", default="trainmark", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.read:
        print(json.dumps(read_once(options.read, options.format[0], options.reader)))
        return
    names = format_names()
    if unknown := sorted({*(options.format or ())} - {*names}):
        parser.error(f"unknown format: {', '.join(unknown)} (choose from {', '.join(names)})")
    missed, failed = [], []
    print(
        f"{'format':<29}{'MB':>6}{'records':>10}{'MB/s':>8}{'peak MB':>9}{'of 1/4':>8}{'by line MB/s':>14}{'ratio':>7}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for index, name in enumerate(options.format or names):
            # One large log is enough to see whether memory grows.
            sizes = [options.size_mb] + ([options.large_mb] if index == 0 and options.large_mb else [])
            for size in sizes:
                path = Path(folder) / f"{name}.log"
                try:
                    speed = _compare(path, name, size, options.repeats)
                except NotReadError as error:
                    print(f"{name:<29}{size:>6}  {error}", flush=True)
                    failed.append(name)
                else:
                    if speed < BUDGET_MB_PER_S:
                        missed.append(name)
                path.unlink()
    if failed:
        sys.exit(f"not read: {', '.join(failed)}")
    if missed:
        sys.exit(f"below {BUDGET_MB_PER_S} MB/s: {', '.join(missed)}")


def _compare(path: Path, name: str, size: int, repeats: int) -> float:
    """Write a log of ``size`` MB, read it in both ways and print a row of the table; return the MB/s of ours."""
    write_log(path, name, size * MEGABYTE // 4)
    quarter = measure(path, name, "trainmark", 1)
    write_log(path, name, size * MEGABYTE)
    ours = measure(path, name, "trainmark", repeats)
    lines = measure(path, name, "lines", 1)
    grown, ratio = ours["peak_mb"] / quarter["peak_mb"], ours["mb_per_s"] / lines["mb_per_s"]
    print(
        f"{name:<29}{size:>6}{ours['records']:>10.0f}{ours['mb_per_s']:>8.0f}{ours['peak_mb']:>9.0f}{grown:>8.2f}"
        f"{lines['mb_per_s']:>14.0f}{ratio:>7.2f}",
        flush=True,
    )
    return ours["mb_per_s"]


if __name__ == "__main__":
    main()
