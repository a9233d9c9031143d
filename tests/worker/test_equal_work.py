"""Equal work: every pair of frameworks trains by the same step, and a step that differs is found out."""

import subprocess
from collections.abc import Callable
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest
from worker_process import START, read_events

from frameworks import framework_python, needs_framework
from trainmark.campaign.certifying import Question, observed_case
from trainmark.campaign.site import Site
from trainmark.environment import find_entry
from trainmark.equivalence import (
    Followed,
    Observation,
    Party,
    Subject,
    compare,
    follows,
    party,
    worker_flags,
    write_inputs,
)
from trainmark.placement import Machine
from trainmark.suite import Device, Layout, Suite, case_of
from trainmark.tasks.image_classification.equal_work import ImageObservation
from trainmark.worker.core.folders import framework_names
from trainmark.workload import find_gap, load_workloads

pytestmark = pytest.mark.training

MODELS = ("resnet50_v1.5", "mobilenet_v1")
MUTATED = Path(__file__).parents[1] / "programs" / "mutated_worker.py"
RUN_HERE = [name for name in framework_names() if name != "oneflow"]
"""OneFlow has not run yet; its worker is held against PyTorch in test_worker_oneflow.py."""

SITE = Site(Suite(name="s", cases=(case_of(),)), load_workloads(), Machine(cores=2, gpus=0), Path("/nowhere"))

Events = list[dict[str, object]]
Observe = Callable[..., tuple[Observation, Party]]
Train = Callable[..., dict[str, object]]


def with_framework(*names: str) -> object:
    return pytest.param(*names, marks=[needs_framework(name) for name in names], id="=".join(names))


def observed_layout(framework: str) -> str:
    """Return the layout in which the framework's step is looked into, by its card."""
    return str(observed_case(Question(MODELS[1], (framework,), Device.CPU), framework, SITE).value("layout"))


def other_ways() -> list[object]:
    """Return each layout and compiler of a card that a CPU has, less the one that is looked into."""
    found: list[object] = []
    for framework in RUN_HERE:
        base = observed_case(Question(MODELS[1], (framework,), Device.CPU), framework, SITE)
        card = SITE.workload(base).card
        for layout in Layout:
            for compiler in card.axes["compiler"].values or ():
                case = base.varied(layout=layout, compiler=compiler)
                # A search for the fastest kernels takes minutes, and computes what torch.compile does.
                if (
                    case != base
                    and find_gap(case, card, Device.CPU) is None
                    and not compiler.endswith("-max")
                ):
                    name = f"{framework}-{layout.value}-{compiler}"
                    marks = needs_framework(framework)
                    found.append(pytest.param(framework, layout.value, compiler, marks=marks, id=name))
    return found


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Train:
    """Return a function that has a framework's worker do the three steps, each once; it returns what is told."""
    folder = tmp_path_factory.mktemp("equivalence")
    for model in MODELS:
        write_inputs(model, folder / f"{model}.npz")

    @cache
    def run(
        framework: str, model: str, mistake: str, layout: str, compiler: str, *flags: str
    ) -> dict[str, object]:
        number = len(list(folder.glob("*.jsonl")))
        events = folder / f"{number}.jsonl"
        program = [str(MUTATED), mistake] if mistake else [str(START)]
        words = [f"--framework={framework}", "--device=cpu", f"--layout={layout}", "--threads=2"]
        done = subprocess.run(
            [
                framework_python(framework), *program, *words, f"--events={events}",
                *worker_flags(model, folder / f"{model}.npz", compiler), *flags,
            ],
            capture_output=True, text=True, timeout=400, check=False, cwd=folder,
            env={
                "PATH": "/usr/bin:/bin", "HOME": str(folder), "OMP_NUM_THREADS": "2",
                **find_entry(framework).env_vars,
            },
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-2000:]
        written = read_events(events)
        return {**written[0]["data"], "steps": written[-1]["data"]["equivalence"]}

    return run


@pytest.fixture(scope="module")
def observe(train: Train) -> Observe:
    """Return a function that has a framework's step looked into."""

    def run(framework: str, model: str, mistake: str = "", *flags: str) -> tuple[Observation, Party]:
        layout = observed_layout(framework)
        told = train(framework, model, mistake, layout, "none", *flags)
        observation = ImageObservation.model_validate(told["steps"])
        return observation, party(
            observation, {"layout": layout}, str(told["framework_version"]), str(told["device"])
        )

    return run


def failing(checks: tuple[object, ...] | Party) -> dict[Subject, str]:
    found = checks.checks if isinstance(checks, Party) else checks
    return {check.subject: f"{check.where} {check.remark}" for check in found if not check.holds}  # type: ignore[attr-defined]


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("framework", [with_framework(name) for name in RUN_HERE])
def test_a_framework_trains_the_described_step(observe: Observe, framework: str, model: str) -> None:
    _, seen = observe(framework, model)
    assert failing(seen) == {}


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(("first", "second"), [with_framework(*pair) for pair in combinations(RUN_HERE, 2)])
def test_two_frameworks_do_equal_work(observe: Observe, first: str, second: str, model: str) -> None:
    (one, _), (other, _) = (observe(framework, model) for framework in (first, second))
    assert failing(compare(one, other).checks) == {}


@pytest.mark.parametrize(("framework", "layout", "compiler"), other_ways())
def test_another_layout_or_compiler_does_the_step_that_was_looked_into(
    observe: Observe, train: Train, framework: str, layout: str, compiler: str
) -> None:
    base, _ = observe(framework, "mobilenet_v1")
    told = train(framework, "mobilenet_v1", "", layout, compiler)
    variant = follows(base, Followed.model_validate(told["steps"]), {"layout": layout}, compiler)
    assert failing(variant.checks) == {}


@pytest.mark.parametrize("framework", [with_framework(name) for name in RUN_HERE])
def test_a_mistake_is_found_in_every_framework(observe: Observe, framework: str) -> None:
    right, _ = observe(framework, "mobilenet_v1")
    wrong, seen = observe(framework, "mobilenet_v1", "stride", "--weight-decay=0.02")
    assert {Subject.GEOMETRY, Subject.MULTIPLY_ADDS, Subject.DECAY} <= set(failing(seen))
    assert {Subject.ACTIVATIONS, Subject.LOGITS} <= set(failing(compare(right, wrong).checks))


@needs_framework("pytorch")
def test_a_compiled_step_that_differs_is_found(observe: Observe, train: Train) -> None:
    base, _ = observe("pytorch", "mobilenet_v1")
    told = train("pytorch", "mobilenet_v1", "momentum", "nhwc", "none")
    wrong = follows(base, Followed.model_validate(told["steps"]), {"layout": "nhwc"}, "none")
    assert {Subject.UPDATE_NORM, Subject.LOSS} <= set(failing(wrong.checks))


needs_pytorch = needs_framework("pytorch")

# What each mistake must show, in the framework itself and beside a right one.
MISTAKES = [
    ("stride", {Subject.GEOMETRY, Subject.MULTIPLY_ADDS}, {Subject.ACTIVATIONS, Subject.LOGITS}),
    ("padding", {Subject.GEOMETRY}, {Subject.ACTIVATIONS, Subject.LOGITS, Subject.LOSS}),
    ("batch-norm-momentum", set(), {Subject.BATCH_MEANS, Subject.BATCH_VARIANCES}),
    ("rate-inside-velocity", {Subject.MOMENTUM}, {Subject.UPDATES, Subject.LOSS}),
    ("momentum", {Subject.MOMENTUM}, {Subject.LOSS}),
    ("relu", set(), {Subject.LOGITS}),
    ("convolutions-have-biases", {Subject.PARAMETERS}, set()),
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
        ("--schedule=constant", Subject.LEARNING_RATE),
        ("--schedule=step", Subject.LEARNING_RATE),
        ("--epochs=3", Subject.LEARNING_RATE),
        ("--warmup-epochs=0", Subject.LEARNING_RATE),
    ],
)
def test_another_recipe_is_found(observe: Observe, flag: str, subject: Subject) -> None:
    right, _ = observe("pytorch", "mobilenet_v1")
    wrong, seen = observe("pytorch", "mobilenet_v1", "none", flag)
    assert subject in failing(seen) | failing(compare(right, wrong).checks)
