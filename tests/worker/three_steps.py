"""Runs the equivalence check's three steps in any framework, on one rank or two."""

from pathlib import Path
from typing import Any

from worker_process import train, train_together

from trainmark.equivalence import worker_flags, write_inputs


def three_steps(
    tmp_path: Path, framework: str, model: str, world_size: int = 1, **flags: str | int | float | Path
) -> Any:
    """Return what a worker tells of the three steps; each rank is given the same batch."""
    write_inputs(model, tmp_path / "inputs.npz")
    words = dict(word[2:].split("=", 1) for word in worker_flags(model, tmp_path / "inputs.npz"))
    given: dict[str, Any] = {name.replace("-", "_"): value for name, value in words.items()}
    # The schedule counts images: with as many more of them the rates of the steps stay as they are.
    given["epoch_images"] = int(given["epoch_images"]) * world_size
    given = {"device": "cpu", **given, **flags}
    ran = (
        train(tmp_path, framework, **given)
        if world_size == 1
        else train_together(tmp_path, framework, **given)[0]
    )
    assert ran.code == 0, ran.stderr
    return ran.last["equivalence"]
