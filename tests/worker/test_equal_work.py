"""Equal work: every pair of frameworks trains by the same step, and a step that differs is found out."""

import subprocess
from collections.abc import Callable
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
from worker_process import START, read_events

from frameworks import framework_python
from trainmark.environment import find_entry
from trainmark.equivalence import Observation, Party, Subject, compare, party, worker_flags, write_inputs
from trainmark.worker.arguments import FRAMEWORKS

pytestmark = pytest.mark.training

MODELS = ("resnet50_v1.5", "mobilenet_v1")
MUTATED = Path(__file__).parents[1] / "programs" / "mutated_worker.py"
HERE = [name for name in FRAMEWORKS if framework_python(name)]

Seen = tuple[Observation, Party]
Observe = Callable[..., Seen]


@pytest.fixture(scope="module")
def observe(tmp_path_factory: pytest.TempPathFactory) -> Observe:
    """Return a function that runs the three steps in a framework, each once."""
    folder = tmp_path_factory.mktemp("equivalence")
    for model in MODELS:
        write_inputs(model, folder / f"{model}.npz")

    @cache
    def run(framework: str, model: str, mistake: str = "", *flags: str) -> Seen:
        events = folder / f"{framework}-{model}-{mistake}-{len(flags)}.jsonl"
        program = [str(MUTATED), mistake] if mistake else [str(START)]
        layout = "nhwc" if framework in ("tensorflow", "jax") else "nchw"
        words = [f"--framework={framework}", "--device=cpu", f"--layout={layout}", "--threads=2"]
        done = subprocess.run(
            [
                framework_python(framework), *program, *words, f"--events={events}",
                *worker_flags(model, folder / f"{model}.npz"), *flags,
            ],
            capture_output=True, text=True, timeout=400, check=False, cwd=folder,
            env={"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "2", **find_entry(framework).env_vars},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        written = read_events(events)
        observation = Observation.model_validate(written[-1]["data"]["equivalence"])
        said = written[0]["data"]
        return observation, party(observation, layout, said["framework_version"], said["device"])

    return run


def failing(checks: tuple[object, ...] | Party) -> dict[Subject, str]:
    found = checks.checks if isinstance(checks, Party) else checks
    return {check.subject: f"{check.where} {check.remark}" for check in found if not check.holds}  # type: ignore[attr-defined]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("framework", HERE)
def test_a_framework_trains_the_described_step(observe: Observe, framework: str, model: str) -> None:
    _, seen = observe(framework, model)
    assert failing(seen) == {}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("pair", list(combinations(HERE, 2)), ids="=".join)
def test_two_frameworks_do_equal_work(observe: Observe, pair: tuple[str, str], model: str) -> None:
    (one, _), (other, _) = (observe(framework, model) for framework in pair)
    assert failing(compare(one, other).checks) == {}


needs_pytorch = pytest.mark.skipif("pytorch" not in HERE, reason="there is no environment 'pytorch'")

# What each mistake must show, in the framework itself and beside a right one.
MISTAKES = [
    ("stride", {Subject.GEOMETRY, Subject.MULTIPLY_ADDS}, {Subject.ACTIVATIONS, Subject.LOGITS}),
    ("padding", {Subject.GEOMETRY}, {Subject.ACTIVATIONS, Subject.LOGITS, Subject.LOSS}),
    ("batch-norm-momentum", set(), {Subject.BATCH_MEANS, Subject.BATCH_VARIANCES}),
    ("rate-inside-velocity", {Subject.MOMENTUM}, {Subject.UPDATES, Subject.LOSS}),
    ("momentum", {Subject.MOMENTUM}, {Subject.LOSS}),
    ("relu", set(), {Subject.LOGITS}),
]


@needs_pytorch
@pytest.mark.parametrize(("mistake", "alone", "beside"), MISTAKES, ids=[name for name, _, _ in MISTAKES])
def test_a_mistake_is_found_and_named(
    observe: Observe, mistake: str, alone: set[Subject], beside: set[Subject]
) -> None:
    right, _ = observe("pytorch", "mobilenet_v1")
    wrong, seen = observe("pytorch", "mobilenet_v1", mistake)
    assert alone <= set(failing(seen))
    assert beside <= set(failing(compare(right, wrong).checks))


@needs_pytorch
def test_a_worker_without_a_mistake_passes_the_same_way(observe: Observe) -> None:
    right, _ = observe("pytorch", "mobilenet_v1")
    same, seen = observe("pytorch", "mobilenet_v1", "none")
    assert failing(seen) == {}
    assert failing(compare(right, same).checks) == {}


@needs_pytorch
def test_a_rate_inside_the_velocity_is_told_in_words(observe: Observe) -> None:
    _, seen = observe("pytorch", "mobilenet_v1", "rate-inside-velocity")
    assert "the learning rate is kept inside the velocity" in failing(seen)[Subject.MOMENTUM]


@needs_pytorch
def test_a_stride_in_the_wrong_layer_is_named_with_its_layer(observe: Observe) -> None:
    _, seen = observe("pytorch", "resnet50_v1.5", "stride")
    assert failing(seen)[Subject.GEOMETRY] == "stage2.block0.a stride (2, 2) instead of (1, 1)"


@needs_pytorch
@pytest.mark.parametrize(
    ("flag", "subject"),
    [
        ("--bn-weight-decay=true", Subject.DECAY),
        ("--weight-decay=0.02", Subject.DECAY),
        ("--label-smoothing=0", Subject.LOSS),
        ("--learning-rate=0.05", Subject.LEARNING_RATE),
    ],
)
def test_another_recipe_is_found(observe: Observe, flag: str, subject: Subject) -> None:
    right, _ = observe("pytorch", "mobilenet_v1")
    wrong, seen = observe("pytorch", "mobilenet_v1", "none", flag)
    assert subject in failing(seen) | failing(compare(right, wrong).checks)
