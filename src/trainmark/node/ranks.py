"""Launcher of one node's ranks, which also ends them; runs as a script and imports only the stdlib.

    python -I -S ranks.py RANKS.json EXEC_WRAPPER

RANKS.json is a list of ``{"rank": N, "words": […], "variables": {…}, "without": […]}``, one entry a rank. All ranks
write to this process's output; rank N's standard error is also saved as ``stderr.rankN`` next to RANKS.json, and the
ranks' exit codes as RANKS.ended.json. The exit code is 0 if all ranks exit with 0. When one fails, the others get some
seconds to report the lost peer; then they are ended, the last line names the rank that failed first, and the exit code
is 1.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

GRACE_S = 10.0
"""Seconds that other ranks may continue after one failed, so that they can report the lost peer."""

STDERR_DRAIN_S = 1.0
"""Seconds to wait for the end of an ended rank's standard error, which a stray process may hold open."""

END_S = 5.0
POLL_S = 0.05


def main() -> int:
    """Start the ranks, wait for them, and return the exit code."""
    ranks_file, exec_wrapper = Path(sys.argv[1]), sys.argv[2]
    described = json.loads(ranks_file.read_text(encoding="utf-8"))
    numbers = [rank["rank"] for rank in described]
    ranks = [_start(rank, exec_wrapper) for rank in described]
    copies = [
        threading.Thread(
            target=_copy_stderr, args=(rank, ranks_file.with_name(f"stderr.rank{number}")), daemon=True
        )
        for number, rank in zip(numbers, ranks, strict=True)
    ]
    for copy in copies:
        copy.start()

    def stop(_signal: int, _frame: object) -> None:
        _end(ranks)
        sys.exit(128 + signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    failed, deadline = None, 0.0
    while any(rank.poll() is None for rank in ranks):
        if failed is None and (failed := _first_failed(ranks)) is not None:
            deadline = time.monotonic() + GRACE_S
        if failed is not None and time.monotonic() > deadline:
            _end(ranks)
        time.sleep(POLL_S)
    failed = _first_failed(ranks) if failed is None else failed
    deadline = time.monotonic() + STDERR_DRAIN_S
    for copy in copies:
        copy.join(max(0.0, deadline - time.monotonic()))
    codes = {number: rank.returncode for number, rank in zip(numbers, ranks, strict=True)}
    ranks_file.with_suffix(".ended.json").write_text(json.dumps(codes), encoding="utf-8")
    if failed is None:
        return 0
    sys.stdout.write(
        f"\ntrainmark-ranks: rank {numbers[failed]} ended with exit code {ranks[failed].returncode}\n"
    )
    return 1


def _start(rank: dict, exec_wrapper: str) -> "subprocess.Popen[bytes]":  # type: ignore[type-arg]
    environment = {name: value for name, value in os.environ.items() if name not in rank["without"]}
    bounds = (str(os.getpid()), "0", "-")
    return subprocess.Popen(
        [sys.executable, "-I", "-S", exec_wrapper, *bounds, *rank["words"]],
        env={**environment, **rank["variables"]},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        bufsize=0,
    )


def _copy_stderr(rank: "subprocess.Popen[bytes]", file: Path) -> None:
    """Forward a rank's standard error, and save it to a separate file."""
    assert rank.stderr is not None
    while chunk := rank.stderr.read(65536):
        os.write(2, chunk)
        with file.open("ab") as copy:
            copy.write(chunk)


def _first_failed(ranks: "list[subprocess.Popen[bytes]]") -> "int | None":
    return next((index for index, rank in enumerate(ranks) if rank.poll() not in (None, 0)), None)


def _end(ranks: "list[subprocess.Popen[bytes]]") -> None:
    for rank in ranks:
        if rank.poll() is None:
            rank.terminate()
    deadline = time.monotonic() + END_S
    for rank in ranks:
        try:
            rank.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            rank.kill()
            rank.wait()


if __name__ == "__main__":
    sys.exit(main())
