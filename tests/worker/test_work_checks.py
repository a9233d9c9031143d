"""The loss, the learning rates and the weight decay of a run are verified by formulas that it does not use itself."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainmark.worker.core.optimizers import Moments, adam, learning_rates
from trainmark.worker.core.precision import Precision
from trainmark.worker.core.recipe_checks import (
    UNDECAYED,
    binary_cross_entropy,
    check_decay,
    check_loss,
    check_rates,
    cross_entropy,
    scheduled_rate,
)
from trainmark.worker.core.settings import AdamRecipe, Recipe
from trainmark.worker.core.task import Verified
from trainmark.worker.core.update_checks import Unexplained, WitnessedStep, check_update, sampled
from trainmark.worker.tasks.causal_lm.task import CausalLM, losses_of_tokens

RANDOM = np.random.default_rng(0)
LOGITS, LABELS = RANDOM.standard_normal((8, 10)), RANDOM.integers(10, size=8)


def training(loss: float, plain: Any, decay: float = 3e-5, tf32: bool = False) -> Any:
    """Return a training whose last loss is ``loss``; its task's formula gives ``plain``."""
    task = SimpleNamespace(
        plain_loss=lambda *_: plain, decay=lambda _settings, name: 0.0 if "bn" in name else decay
    )
    return SimpleNamespace(
        task=task,
        losses=lambda: [0.0, loss],
        mean_over_ranks=list,
        expected=lambda: Precision("float32", tf32=tf32),
    )


def adam_step(gradient: float, seen: float) -> tuple[dict[str, Any], list[str]]:
    """Return the report and doubts of a step of Adam whose moments hold ``gradient``, where ``seen`` is observed."""
    recipe = AdamRecipe(
        learning_rate=1e-3, momentum=0.9, weight_decay=0.0, schedule="constant", epochs=1, warmup_epochs=0,
        loss_scale=None, second_momentum=0.999, epsilon=1e-8, optimizer="adam", clip_norm=None, warmup_updates=0,
    )  # fmt: skip
    pattern = RANDOM.standard_normal(64)
    first, second = 0.01 * pattern, 1e-4 * pattern**2 + 1e-6
    after = (
        np.float32(0.9 * first + 0.1 * gradient * pattern),
        0.999 * second + 1e-3 * (gradient * pattern) ** 2,
    )
    direction, _, _ = adam(gradient * pattern, first, second, 9, recipe)
    weights = {"w": RANDOM.standard_normal(64)}
    moments = (Moments(8, {"w": first}, {"w": second}), Moments(9, {"w": after[0]}, {"w": after[1]}))
    rank: Any = SimpleNamespace(
        task=SimpleNamespace(is_trainable=lambda _: True, is_lazy=lambda *_: False, decay=lambda *_: 0.0),
        expected=lambda: Precision("float32"),
        ranks=SimpleNamespace(place=SimpleNamespace(world_size=1)),
    )
    moved = {"w": weights["w"] - 1e-3 * direction}
    mean = {"w": sampled({"w": seen * pattern}, "w")}
    settings: Any = SimpleNamespace(recipe=recipe)
    step = WitnessedStep(rank, settings, 1e-3, (weights, weights, moved), moments, alone(), mean, moves=True)
    found, _ = check_update(step)
    return found.data, [code for code, _ in found.doubts]


def sgd_step(
    momentum: float, times: float, noise: float = 0.5, of_bias: float = 5e-4, ranks: int = 1
) -> Verified:
    """Return the check of a step in 16 bits whose gradients, and whose own pass's, have noise in all layers but one.

    0.875 and a rate of 0.01 are requested. The exact layer is a classifier's bias of 1000 elements.
    """
    random, rate = np.random.default_rng(1), 0.01
    layers = {f"layer{number}": (5000, noise) for number in range(8)} | {
        "bias": (1000, of_bias),
        "tiny": (2, 0.0),
    }
    before, between, after, own = {}, {}, {}, {}
    for name, (size, of_layer) in layers.items():
        true, velocity = random.standard_normal((2, size)) * [[0.5], [2.0]]
        step, own[name] = (true + of_layer * 0.5 * random.standard_normal(size) for _ in range(2))
        between[name] = random.standard_normal(size)
        before[name] = between[name] + rate * velocity
        after[name] = between[name] - times * rate * (momentum * velocity + step)
    rank: Any = SimpleNamespace(
        task=SimpleNamespace(is_trainable=lambda _: True, decay=lambda *_: 0.0),
        expected=lambda: Precision("float16"),
        ranks=SimpleNamespace(place=SimpleNamespace(world_size=ranks)),
    )
    settings: Any = SimpleNamespace(recipe=SimpleNamespace(momentum=0.875))
    mean = {name: sampled(own, name) for name in own}
    weights = (before, between, after)
    step_seen = WitnessedStep(rank, settings, rate, weights, (None, None), alone(own), mean, moves=True)
    return check_update(step_seen)[0]


def test_noise_of_16_bits_in_most_layers_does_not_hide_rate_and_momentum() -> None:
    """Solve a step by the layer whose gradient is accurate; a plain fit of all layers is wrong by a tenth."""
    found = sgd_step(0.875, 1.0)

    assert found.doubts == []
    assert not found.data["fit_is_vague"]
    assert found.data["momentum"] == pytest.approx(0.875, abs=0.005)
    assert found.data["learning_rate"] == pytest.approx(0.01, rel=0.005)
    assert found.data["residual"] > 0.1


@pytest.mark.parametrize(
    ("momentum", "times", "words"),
    [
        (0.9, 1.0, "the momentum is 0.9 instead of 0.875"),
        (0.875, 1.2, "the gradients count 1.2 times"),
        (0.0, 1.0, "the momentum is "),
    ],
)
def test_another_rate_or_momentum_is_found_behind_the_noise_of_16_bits(
    momentum: float, times: float, words: str
) -> None:
    ((code, text),) = sgd_step(momentum, times).doubts

    assert code == "update-differs"
    assert words in text


def test_noise_in_all_layers_of_several_ranks_is_vague_and_no_doubt() -> None:
    found = sgd_step(0.9, 1.0, noise=3.0, of_bias=3.0, ranks=2)

    assert found.doubts == []
    assert found.data["fit_is_vague"]


DECAYING: Any = SimpleNamespace(recipe=SimpleNamespace(weight_decay=3e-5))


def alone(gradients: Any = None, types: Any = None) -> Any:
    return SimpleNamespace(
        gradients=gradients or {}, loss_types=types or {"logits": "float32", "loss": "float32"}
    )


def checked(loss: float, plain: Any, own: Any = None, tf32: bool = False) -> Verified:
    settings: Any = SimpleNamespace(steps=0)
    return check_loss(training(loss, plain, tf32=tf32), settings, [1], own or alone())


def smoothed(logits: Any, labels: Any, smoothing: float = 0.1) -> float:
    """Return the loss by another formula: a sum over samples of -log p, and of its mean over the classes."""
    rows = [[math.log(sum(map(math.exp, row))) - value for value in row] for row in logits.tolist()]
    own = [row[label] for row, label in zip(rows, labels, strict=True)]
    even = [sum(row) / len(row) for row in rows]
    pairs = zip(own, even, strict=True)
    return float(sum((1 - smoothing) * a + smoothing * b for a, b in pairs) / len(rows))


def test_the_formula_is_cross_entropy_with_smoothed_labels_and_its_gradient() -> None:
    plain = cross_entropy(LOGITS, LABELS, 0.1)
    assert plain.loss == pytest.approx(smoothed(LOGITS, LABELS))
    assert plain.targets == 8
    moved = LOGITS.copy()
    moved[:, 3] += 1e-6
    slope = (smoothed(moved, LABELS) - smoothed(LOGITS, LABELS)) / 1e-6
    assert plain.gradients["classifier.bias"][3] == pytest.approx(slope, abs=1e-6)


def test_a_right_loss_is_in_no_doubt_and_its_targets_are_counted() -> None:
    plain = cross_entropy(LOGITS, LABELS, 0.1)
    found = checked(plain.loss * (1 + 1e-6), plain)
    assert (found.doubts, found.not_checked, found.data["targets_in_loss"]) == ([], [], 8)


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        (smoothed(LOGITS, LABELS, 0), "it has no label smoothing"),
        (smoothed(LOGITS[:4], LABELS[:4]), "it counts only the first half of the batch"),
        (smoothed(LOGITS, LABELS) * 1.01, "it is off by 0.01"),
    ],
)
def test_another_loss_is_a_doubt_that_says_what_it_is(loss: float, reason: str) -> None:
    found = checked(loss, cross_entropy(LOGITS, LABELS, 0.1))
    assert [code for code, _ in found.doubts] == ["loss-differs"]
    assert found.doubts[0][1].endswith(f"for its batch: {reason}.")
    assert found.data["targets_in_loss"] is None


def test_rounded_products_may_change_the_loss_but_not_by_a_known_mistake() -> None:
    plain = cross_entropy(LOGITS, LABELS, 0.1)
    assert checked(plain.loss * 1.01, plain, tf32=True).doubts == []
    assert checked(plain.mistakes["it has no label smoothing"], plain, tf32=True).doubts != []


def test_a_gradient_that_is_not_that_of_the_formula_is_a_doubt() -> None:
    plain = cross_entropy(LOGITS, LABELS, 0.1)
    own = {"classifier.bias": plain.gradients["classifier.bias"]}
    other = {"classifier.bias": cross_entropy(LOGITS, LABELS, 0).gradients["classifier.bias"]}
    assert checked(plain.loss, plain, alone(own)).doubts == []
    (doubt,) = checked(plain.loss, plain, alone(other)).doubts
    assert doubt[0] == "loss-differs"
    assert "The gradient of classifier.bias is off by" in doubt[1]


def test_the_loss_of_each_token_follows_from_logits_in_any_framework() -> None:
    logits, tokens = RANDOM.standard_normal((2, 5, 7)), RANDOM.integers(7, size=(2, 6))
    losses = losses_of_tokens(logits, tokens)
    for row in range(2):
        for place in range(5):
            scores = logits[row, place]
            expected = math.log(sum(map(math.exp, scores))) - scores[tokens[row, place + 1]]
            assert losses[row, place] == pytest.approx(expected)
    plain = CausalLM().plain_loss(SimpleNamespace(), (tokens,), SimpleNamespace(logits=logits))  # type: ignore[arg-type]
    assert plain is not None
    assert plain.loss == pytest.approx(losses.mean())
    assert plain.targets == 10
    assert losses_of_tokens(logits[:, :4], tokens) is None
    assert losses_of_tokens(None, tokens) is None


def test_the_loss_of_clicks_follows_from_logits() -> None:
    logits, labels = np.array([0.5, -2.0, 800.0, -800.0]), np.array([1.0, 0.0, 1.0, 0.0])
    plain = binary_cross_entropy(logits, labels)
    expected = (math.log1p(math.exp(-0.5)) + math.log1p(math.exp(-2.0))) / 4
    assert plain.loss == pytest.approx(expected)
    assert plain.targets == 4


def test_the_types_of_logits_and_loss_are_checked_where_they_are_shown() -> None:
    plain = cross_entropy(LOGITS, LABELS, 0.1)
    types = {"softmax of the logits": "bfloat16", "loss": "float32"}
    (doubt,) = checked(plain.loss, plain, alone(types=types)).doubts
    assert doubt == (
        "loss-type-differs",
        "The softmax of the logits is computed in bfloat16, not in float32.",
    )
    nothing = SimpleNamespace(gradients={})
    assert checked(plain.loss, plain, nothing).not_checked == ["types of logits and loss"]
    assert checked(plain.loss, None).not_checked == ["loss"]


RECIPES = st.builds(
    Recipe,
    learning_rate=st.floats(1e-5, 1),
    momentum=st.just(0.9),
    weight_decay=st.just(0.0),
    schedule=st.sampled_from(["cosine", "linear", "step", "constant"]),
    epochs=st.integers(1, 100),
    warmup_epochs=st.integers(0, 10),
    loss_scale=st.none(),
)
ADAM: dict[str, Any] = {"optimizer": "adamw", "second_momentum": 0.99, "epsilon": 1e-8, "clip_norm": None}


@given(RECIPES, st.integers(0, 50), st.integers(1, 5000), st.integers(1, 64))
def test_the_second_schedule_is_the_first(recipe: Recipe, rising: int, epoch: int, batch: int) -> None:
    for one in (recipe, AdamRecipe(**vars(recipe), **ADAM, warmup_updates=rising)):
        rates = learning_rates(one, 40, epoch, batch)
        again = [scheduled_rate(one, step, epoch / batch) for step in range(40)]
        assert again == pytest.approx(rates, abs=1e-9 * recipe.learning_rate)


def test_a_rate_without_its_warm_up_is_a_doubt() -> None:
    recipe = Recipe(0.256, 0.9, 0.0, "cosine", 90, 8, None)
    settings: Any = SimpleNamespace(recipe=recipe, steps=6, batch_per_device=4)
    ranks = SimpleNamespace(place=SimpleNamespace(world_size=2))
    run: Any = SimpleNamespace(epoch_samples=800, ranks=ranks, rates=learning_rates(recipe, 6, 800, 8))
    assert check_rates(run, settings).doubts == []
    run.rates = [0.256] * 6
    assert check_rates(run, settings).doubts == [
        ("rate-differs", "The learning rate of step 0 is 0.256, but the recipe's schedule gives 0.00032.")
    ]


def update(decay: float, noise: float, size: int = 2000, seed: int = 0) -> Unexplained:
    random = np.random.default_rng(seed)
    weights = 0.05 * random.standard_normal(size)
    return Unexplained(weights, decay * weights + noise * random.standard_normal(size))


def parameters(**decays: float) -> dict[str, Unexplained]:
    names = {"block": "block1.conv.weight", "bn": "block1.bn.weight", "classifier": "classifier.weight"}
    return {names[name]: update(decay, 2e-6, seed=seed) for seed, (name, decay) in enumerate(decays.items())}


def test_the_recipes_decay_is_in_no_doubt() -> None:
    found = check_decay(training(0, None), DECAYING, parameters(block=3e-5, bn=0, classifier=3e-5))
    assert found.doubts == []
    assert found.data["decay"]["the classifier"] == pytest.approx(3e-5, rel=0.1)
    assert abs(found.data["decay"][UNDECAYED]) < 3e-6


@pytest.mark.parametrize(
    ("decays", "sentence"),
    [
        ({"block": 0, "bn": 0, "classifier": 3e-5}, "the other parameters that decay is"),
        ({"block": 3e-5, "bn": 3e-5, "classifier": 3e-5}, "the parameters that do not decay is 2.9e-05 instead of 0."),
        ({"block": 3e-5, "bn": 0, "classifier": 0}, "the classifier is"),
    ],
)  # fmt: skip
def test_another_decay_is_a_doubt(decays: dict[str, float], sentence: str) -> None:
    doubts = check_decay(training(0, None), DECAYING, parameters(**decays)).doubts
    assert [code for code, _ in doubts] == ["decay-differs"]
    assert f"The weight decay of {sentence}" in doubts[0][1]


def test_a_decay_that_drowns_in_rounding_is_not_checked_and_never_clean() -> None:
    found = check_decay(training(0, None), DECAYING, {"block1.conv.weight": update(0, 1e-3)})
    assert found.data["decay"] == {"the other parameters that decay": None}
    assert found.doubts == []
    # Parameters that contradict each other make the mean uncertain.
    apart = {f"block{seed}.conv.weight": update(3e-5 * (seed % 2) * 8, 2e-6, seed=seed) for seed in range(6)}
    assert check_decay(training(0, None), DECAYING, apart).data["decay"] == {
        "the other parameters that decay": None
    }


def test_the_gradients_of_adams_step_are_compared_with_the_observed_ones() -> None:
    found, doubts = adam_step(gradient=0.02, seen=0.02)
    assert (found["gradient_factor"], doubts) == (pytest.approx(1, rel=1e-3), [])
    found, doubts = adam_step(gradient=0.04, seen=0.02)
    assert (found["gradient_factor"], doubts) == (pytest.approx(2, rel=1e-3), ["update-differs"])


def test_gradients_below_the_rounding_of_the_moments_are_not_checked_and_never_in_doubt() -> None:
    """A batch that is learned by heart: the gradients are 1e-12, the first moment is 0.01 in FP32."""
    found, doubts = adam_step(gradient=1e-12, seen=1e-12)
    assert doubts == []
    assert found["gradient_factor"] is None
    assert found["learning_rate"] == pytest.approx(1e-3)


def test_a_decay_that_one_large_weight_decides_is_no_doubt() -> None:
    weights = 1e-5 * np.random.default_rng(0).standard_normal(32)
    rest = 1e-8 * np.random.default_rng(1).standard_normal(32)
    weights[7], rest[7] = 0.018, -0.018 * 2.9e-5

    found = check_decay(training(0, None), DECAYING, {"stem.bn.bias": Unexplained(weights, rest)})

    assert found.doubts == []
    assert found.data["decay"][UNDECAYED] is None
