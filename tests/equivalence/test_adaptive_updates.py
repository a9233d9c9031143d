"""What an adaptive optimizer's step is solved to, from inner products alone."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from trainmark.equivalence.conventions import solve
from trainmark.schema.observation import Observation
from trainmark.worker.core.equivalence import _products

RATE = 0.01


def observed_step(
    updates: Mapping[str, Any], directions: Mapping[str, Any], weights: Mapping[str, Any]
) -> Observation:
    nothing = {name: {"norm": 1.0, "signed_sum": 1.0} for name in updates}
    moments = {
        name: _products(
            {"u": updates[name], "a": directions[name], "w": weights[name], "g": directions[name]}
        )
        for name in updates
    }
    step = {"loss": 1.0, "updates": nothing, "statistics": {}, "gradients": nothing, "moments": moments}
    fields = {"framework": "f", "model": "m", "parameters": 3, "steps": [step], "step_losses": [1.0]}
    return Observation.model_validate({**fields, "repeated_loss": 1.0})


def arrays(*, seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {
        "table": random.standard_normal((9, 4)),
        "weight": random.standard_normal((4, 4)),
        "bias": random.random(1),
    }


def test_the_rate_of_a_parameter_of_one_element_is_not_shared_with_a_decay() -> None:
    directions, weights = arrays(seed=1), arrays(seed=2)
    found = solve(
        observed_step({name: RATE * array for name, array in directions.items()}, directions, weights)
    )
    assert found.learning_rates == pytest.approx((RATE,))
    assert found.decays["bias"] == 0
    assert found.left[0][0] < 1e-6


def test_a_parameter_that_wrongly_did_not_change_violates_the_update_rule() -> None:
    directions, weights = arrays(seed=1), arrays(seed=2)
    updates = {name: RATE * array for name, array in directions.items()}
    found = solve(observed_step({**updates, "table": 0 * updates["table"]}, directions, weights))
    assert found.left[0] == (1.0, "table")


def test_a_parameter_without_a_gradient_may_stay_unchanged() -> None:
    directions, weights = arrays(seed=1), arrays(seed=2)
    directions["table"] = 0 * directions["table"]
    updates = {name: RATE * array for name, array in directions.items()}
    assert solve(observed_step(updates, directions, weights)).left[0][0] < 1e-6
