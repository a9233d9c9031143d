"""The loop of a run around the smallest backend, in this process: the window, the verification, equal work."""

import importlib
import runpy
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trainmark.worker.core.backend import Backend
from trainmark.worker.core.training import Training

TOY = Path(__file__).parents[1] / "toy"
START = Path(__file__).parents[2] / "src/trainmark/worker/start.py"
STEPS = 8

Toys = Callable[..., Any]


@pytest.fixture(scope="module")
def worker() -> Iterator[Callable[[str], Any]]:
    """Return the import of a module of the worker, as it is loaded with the toy's tree."""
    # Another test of this process may have loaded the worker without the toy.
    loaded = {
        name: module for name, module in sys.modules.items() if name.partition(".")[0] == "trainmark_worker"
    }
    for name in loaded:
        del sys.modules[name]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRAINMARK_EXTENSIONS", str(TOY))
        patch.setattr(sys, "path", list(sys.path))
        runpy.run_path(str(START))
        yield lambda name: importlib.import_module(f"trainmark_worker.{name}")
    for name in [name for name in sys.modules if name.partition(".")[0] == "trainmark_worker"]:
        del sys.modules[name]
    sys.modules.update(loaded)


@pytest.fixture
def opened(worker: Callable[[str], Any]) -> Toys:
    """Return a function that opens the toy's training, with two steps after the window."""

    def open_toy(*flags: str) -> Any:
        words = ["--framework=toy", "--model=linear", f"--steps={STEPS}", "--warmup-steps=2", *flags]
        settings = worker("core.arguments").parse(words, 1)
        settings = replace(settings, steps=STEPS + 2, witness_steps=2)
        trainer = worker("core.folders").import_trainer("toy", "toy-regression")
        return trainer.open_training(settings, worker("core.place").place_from({}))

    return open_toy


def verified(worker: Callable[[str], Any], training: Any) -> Any:
    """Return what the steps after the window show, and the codes of their doubts."""
    worker("core.window").measure(training, STEPS, 2, lambda: None)
    return worker("core.post_window").verify(training, replace(training.settings, steps=STEPS))


def codes(found: Any) -> set[str]:
    return {code for code, _ in found.doubts}


@pytest.mark.parametrize("method", sorted(Training.__abstractmethods__))
def test_a_backend_without_a_method_of_the_contract_cannot_be_made(opened: Toys, method: str) -> None:
    kind = type(opened())
    incomplete = type("Incomplete", (kind,), {method: getattr(Backend, method)})

    with pytest.raises(TypeError, match=method):
        incomplete(None, None)


def test_the_contract_is_small() -> None:
    methods = {name for name in dir(Backend) if not name.startswith("_") and callable(getattr(Backend, name))}

    assert len(methods) == 26, sorted(methods)
    assert set(Training.__abstractmethods__) < methods


def test_the_loop_calls_each_step_once_in_order_and_marks_its_end(
    worker: Callable[[str], Any], opened: Toys
) -> None:
    training = opened()
    calls: list[str] = []

    def noting(name: str, call: Callable[..., None]) -> Callable[..., None]:
        def noted(*words: int) -> None:
            calls.append(" ".join([name, *map(str, words)]))
            call(*words)

        return noted

    training.train = noting("train", training.train)
    training.marks.mark = noting("mark", training.marks.mark)
    training.synchronize = noting("synchronize", training.synchronize)

    timeline = worker("core.window").measure(training, STEPS, 2, lambda: calls.append("checked"))

    first = ["synchronize", "train 0", "synchronize", "checked", "mark 0"]
    warm_up = ["train 1", "mark 1", "synchronize", "synchronize", f"mark {STEPS}"]
    window = [f"{what} {index}" for index in range(2, STEPS) for what in ("train", "mark")]
    assert calls == [*first, *warm_up, *window, "synchronize"]
    assert len(timeline.step_s) == STEPS
    assert timeline.compiled_in_window == 0
    losses = training.losses()[:STEPS]
    assert losses == sorted(losses, reverse=True)


def test_the_steps_after_the_window_show_rate_and_momentum(
    worker: Callable[[str], Any], opened: Toys
) -> None:
    found = verified(worker, opened("--weight-decay=0.01"))

    assert found.doubts == []
    assert found.data["learning_rate"] == pytest.approx(0.7 * 0.05, rel=1e-4)
    assert found.data["momentum"] == pytest.approx(0.9, rel=1e-3)
    assert found.data["still"] == []


def other_momentum(training: Any) -> None:
    recipe = replace(training.settings.recipe, momentum=0.5)
    training.settings = replace(training.settings, recipe=recipe)


def half_rate(training: Any) -> None:
    def train(index: int) -> None:
        training.rates[index] /= 2
        type(training).train(training, index)
        training.rates[index] *= 2

    training.train = train


def no_update(training: Any) -> None:
    training.train = lambda _index: training._losses.append(training.observe().loss)


def fewer_steps(training: Any) -> None:
    training.steps_taken = lambda: STEPS - 1


@pytest.mark.parametrize(
    ("mistake", "code"),
    [
        (other_momentum, "update-differs"),
        (half_rate, "update-differs"),
        (no_update, "step-without-update"),
        (fewer_steps, "steps-not-taken"),
    ],
)
def test_a_mistake_in_a_backend_is_a_doubt(
    worker: Callable[[str], Any], opened: Toys, mistake: Callable[[Any], None], code: str
) -> None:
    training = opened()
    asked = training.settings
    mistake(training)
    worker("core.window").measure(training, STEPS, 2, lambda: None)

    found = worker("core.post_window").verify(training, replace(asked, steps=STEPS))

    assert code in codes(found), found


def test_the_steps_of_equal_work_are_those_of_the_window(
    tmp_path: Path, worker: Callable[[str], Any], opened: Toys
) -> None:
    inputs, points = tmp_path / "inputs.npz", np.eye(4, dtype=np.float32)
    np.savez(inputs, weight=np.ones(4, np.float32), points=points, values=np.zeros(4, np.float32))
    training = opened("--features=4", "--batch-per-device=4", f"--equivalence={inputs}")

    found = worker("core.equivalence").observe_training(training, training.settings)

    assert [step["loss"] for step in found["steps"]] == found["step_losses"]
    assert found["repeated_loss"] == found["steps"][0]["loss"] == 0.5
    assert found["steps"][0]["updates"]["weight"]["norm"] == pytest.approx(0.025)
