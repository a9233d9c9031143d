"""Resolve a new lock from a variant's requirements, without installing it."""

import json
import platform
import tempfile
from collections.abc import Callable
from pathlib import Path

from trainmark.environment.creation import CreationRequest
from trainmark.environment.interpreter import choose
from trainmark.environment.lock import Pin, canonical, render_lock
from trainmark.environment.pip import Installer
from trainmark.errors import InputError


def make_lock(request: CreationRequest, *, notify: Callable[[str], None]) -> str:
    """Resolve a variant's requirements with pip, install nothing, and return the text of a new lock.

    Pins omit a local version (``+cpu``), so that the lock works on an index without it. Raises ``InputError`` for a
    variant that the framework lacks, ``TrainmarkError`` if pip finds no solution.
    """
    entry, variant = request.entry, request.variant
    if variant not in entry.variants:
        raise InputError(
            f"'{entry.framework}' has no variant '{variant}' (it has: {', '.join(entry.variants)})"
        )
    wanted = entry.variants[variant]
    interpreter = choose(entry, request.python)
    notify(
        f"resolving '{entry.framework}' ({variant}) with Python {interpreter.version}; nothing is installed"
    )
    with tempfile.TemporaryDirectory(prefix="trainmark-lock-") as scratch:
        report = Path(scratch) / "report.json"
        installer = Installer(Path(scratch) / "venv", Path(scratch) / "log", log_retained=False)
        installer.make_venv(interpreter)
        dry = ["--dry-run", "--ignore-installed", "--report", str(report)]
        installer.install([*dry, *wanted.requirements], index=request.index, hint=wanted.hint)
        found = json.loads(report.read_text(encoding="utf-8"))["install"]
    exact = {canonical(line.partition("===")[0]) for line in wanted.requirements if "===" in line}
    pins = []
    for item in found:
        name, version = canonical(item["metadata"]["name"]), item["metadata"]["version"].partition("+")[0]
        pins.append(Pin(name, version, "===" if name in exact else "=="))
    where = f"Python {'.'.join(interpreter.version.split('.')[:2])}, {platform.system()} {platform.machine()}"
    heading = [
        f"{entry.framework}, variant {variant}: every required package at one version.",
        f"Resolved by `trainmark env lock {entry.framework} --variant {variant}` on {where}.",
    ]
    if entry.placeholder is not None:
        heading.append(f"Without '{entry.placeholder.package}' itself: {entry.placeholder.reason}.")
    return render_lock(pins, heading=heading)
