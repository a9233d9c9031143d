"""Llama: what PyTorch and JAX train under that name is the described model, and where it is another that is named."""

import math

import pytest
from language_process import Observer, start

from frameworks import in_frameworks, in_pytorch
from trainmark.tasks import case_of
from trainmark.tasks.causal_lm.equal_work import LanguageObservation
from trainmark.words.case import Device
from trainmark.words.certificate import Subject
from trainmark.workload import NoCardError, find_gap, load_workloads

MODEL = "llama_tiny"
COMPILERS = {"pytorch": "none", "jax": "xla"}


def in_framework(name: str, *more: pytest.MarkDecorator) -> list[pytest.MarkDecorator]:
    return [pytest.mark.training, *in_frameworks("pytorch", name), *more]


each = pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=in_framework(name)) for name in COMPILERS]
)


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Observer:
    return Observer(MODEL, LanguageObservation, tmp_path_factory)


# Each operation is a program that XLA compiles: a minute of them.
looked_into = pytest.mark.parametrize(
    "framework",
    [
        pytest.param("pytorch", marks=in_framework("pytorch")),
        pytest.param("jax", marks=in_framework("jax", pytest.mark.rare)),
    ],
)


@looked_into
def test_a_framework_trains_the_described_step(framework: str, observed: Observer) -> None:
    assert observed.alone(framework) == {}


@pytest.mark.parametrize("framework", [pytest.param("jax", marks=in_framework("jax", pytest.mark.rare))])
def test_two_frameworks_do_equal_work(framework: str, observed: Observer) -> None:
    assert observed.between("pytorch", framework) == {}


@each
def test_by_its_compiler_on_two_ranks_does_the_step_that_was_looked_into(
    framework: str, observed: Observer
) -> None:
    assert observed.following(framework, compiler=COMPILERS[framework], ranks=2) == {}


MISTAKES = [
    (
        "llama-neighbours",
        "neighbouring columns are turned together, and not those of a head's halves",
    ),
    ("llama-unscaled", "the frequencies of the rotation are not scaled"),
    ("llama-heads-in-turn", "heads of queries share keys and values in turn, and not neighbours the same"),
    ("llama-gelu", "the gate goes through GELU, and not through SiLU"),
    ("llama-layer-norm", "the norms take the mean away, as layer norms do"),
]


@pytest.mark.training
@in_pytorch
@pytest.mark.parametrize(("mistake", "said"), MISTAKES, ids=[name for name, _ in MISTAKES])
def test_a_mistake_is_found_and_named(observed: Observer, mistake: str, said: str) -> None:
    assert said in observed.alone("pytorch", mistake)[Subject.LOGITS]


@looked_into
def test_a_run_counts_tokens_and_is_looked_into(
    framework: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    flags = {"model": MODEL, "batch-per-device": 4, "sequence-length": 96, "accumulation": 2, "steps": 6}
    more = {"warmup-steps": 2, "compiler": COMPILERS[framework]}
    (ran,) = start(framework, tmp_path_factory.mktemp(framework), {**flags, **more})
    assert ran.code == 0, ran.stderr
    assert ran.last["work"] == {"tokens": 4 * 4 * 96, "sequences": 16}
    assert (ran.last["outcome"], ran.last["suspect"]) == ("ok", [])
    assert ran.parameters["actual"]["parameters"] == 125_248
    assert abs(ran.steps[0]["loss"] - math.log(512)) < 0.2
    optimizer = ran.parameters["optimizer"]
    assert (optimizer["learning_rate"], optimizer["weight_decay"], optimizer["clip_norm"]) == (3e-4, 0.1, 1)
    assert ran.last["after_window"]["learning_rate"] == pytest.approx(3e-4, rel=0.01)
    assert ran.last["after_window"]["gradient_factor"] == pytest.approx(1, rel=0.01)


@pytest.mark.parametrize("framework", ["tensorflow", "paddle"])
def test_what_trains_gpt_2_alone_says_so(framework: str) -> None:
    for model in (MODEL, "llama3.2_1b"):
        case = case_of(model=model, framework=framework, device="cpu", compiler="none")
        gap = find_gap(case, load_workloads().find(case).card, Device.CPU) or ""
        assert "trains GPT-2 alone" in gap


@pytest.mark.parametrize("framework", ["mxnet", "mindspore", "oneflow"])
def test_what_trains_no_language_model_says_so(framework: str) -> None:
    case = case_of(model=MODEL, framework=framework, device="cpu", compiler="none")
    with pytest.raises(NoCardError, match="does not train causal-lm"):
        load_workloads().find(case)
