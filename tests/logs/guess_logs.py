"""Lines of unknown programs, and their guess as a row of ``parse``."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from trainmark.logs import Facts
from trainmark.measure.rules import measure_log
from trainmark.measure.rules.row import reading_row
from trainmark.programs import read_log

START = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
ONE_DEVICE = Facts(gpus=1, batch_per_device=16)


def stamped_lines(form: Callable[[int], str], count: int = 100, seconds: float = 2.0) -> str:
    return "".join(
        f"{START + timedelta(seconds=seconds * at):%Y-%m-%d %H:%M:%S} {form(at)}\n"
        for at in range(1, count + 1)
    )


def guessed_row(folder: Path, text: str, given: Facts | None = None) -> dict[str, Any]:
    (folder / "a.log").write_text("program 1.0 starts\n" + text + "done\n")
    log = read_log(folder / "a.log", given, guess=True)
    return reading_row(log, measure_log(log))


def lines_of_steps(form: Callable[[int], str], count: int = 60) -> str:
    return "".join(f"{form(at)}\n" for at in range(1, count + 1))
