"""The learning rate of every step."""

import math
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from trainmark.worker.core.optimizers import learning_rates
from trainmark.worker.core.settings import AdamRecipe
from trainmark.worker.tasks.image_classification.settings import ImageRecipe

RECIPE = ImageRecipe(
    learning_rate=0.8,
    momentum=0.875,
    weight_decay=0.0,
    bn_weight_decay=False,
    label_smoothing=0.1,
    schedule="cosine",
    epochs=10,
    warmup_epochs=2,
    loss_scale=None,
)


def test_the_warm_up_rises_by_the_same_amount_each_step_to_the_full_rate() -> None:
    rates = learning_rates(RECIPE, steps=8, epoch_samples=40, global_batch=10)

    assert rates == [0.8 * (step / 8) for step in range(1, 9)]


def test_cosine_is_half_way_down_in_the_middle_and_zero_at_the_end() -> None:
    rates = learning_rates(RECIPE, steps=50, epoch_samples=40, global_batch=10)

    assert rates[8] == 0.8
    assert math.isclose(rates[24], 0.4)
    assert math.isclose(rates[40], 0.0, abs_tol=1e-12)
    assert rates[49] == rates[40]


def test_the_step_schedule_divides_by_ten_at_epochs_30_60_and_80() -> None:
    recipe = replace(RECIPE, schedule="step", warmup_epochs=0, epochs=90)

    rates = learning_rates(recipe, steps=90, epoch_samples=10, global_batch=10)

    assert [rates[epoch] for epoch in (0, 29, 30, 60, 80)] == [0.8, 0.8, 0.08, 0.008, 0.0008]


def test_berts_rate_rises_from_zero_by_updates_and_falls_by_a_line_from_the_first_step() -> None:
    """As google-research/bert's optimization.py: the line is of all steps, and the warm-up stands over its begin."""
    common = {
        name: value
        for name, value in vars(RECIPE).items()
        if name not in ("bn_weight_decay", "label_smoothing")
    }
    recipe = AdamRecipe(
        **{**common, "schedule": "linear", "warmup_epochs": 0},
        optimizer="adamw",
        second_momentum=0.999,
        epsilon=1e-6,
        clip_norm=1.0,
        warmup_updates=4,
    )

    rates = learning_rates(recipe, steps=40, epoch_samples=40, global_batch=10)

    assert rates[:5] == [0.0, 0.2, 0.4, 0.8 * 3 / 4, 0.8 * (1 - 4 / 40)]
    assert math.isclose(rates[20], 0.4)


@given(
    st.sampled_from(["cosine", "step", "linear", "constant"]),
    st.integers(1, 300),
    st.integers(1, 2_000_000),
    st.integers(1, 65_536),
)
def test_no_rate_is_negative_or_above_the_full_one(
    schedule: str, steps: int, images: int, batch: int
) -> None:
    rates = learning_rates(replace(RECIPE, schedule=schedule), steps, images, batch)

    assert len(rates) == steps
    assert all(0 <= rate <= 0.8 for rate in rates)
