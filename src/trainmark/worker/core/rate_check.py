"""Verification of the learning rates that a run trains with, against the recipe's schedule, written once more."""

import math
from typing import Any

from .settings import AdamRecipe, Recipe, Settings
from .training import Training

OFF = 1e-6
"""The allowed deviation of a rate, relative to the recipe's."""


def check_rates(training: Training, settings: Settings) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the rates of the first and the last step for the events, and a doubt if a step has another rate."""
    recipe, steps = settings.recipe, settings.steps
    epoch_steps = training.epoch_samples / (settings.batch_per_device * training.ranks.place.world_size)
    rates = training.rates[:steps]
    report = {"first": rates[0], "last": rates[-1]}
    for step, rate in enumerate(rates):
        expected = scheduled_rate(recipe, step, epoch_steps)
        if abs(rate - expected) > OFF * abs(recipe.learning_rate):
            asked = f"but the recipe's schedule gives {expected:.3g}"
            sentence = f"The learning rate of step {step} is {rate:.3g}, {asked}."
            return {"rates": report}, [("rate-differs", sentence)]
    return {"rates": report}, []


def scheduled_rate(recipe: Recipe, step: int, epoch_steps: float) -> float:
    """Return the rate of a step: rising in the warm-up, then by the recipe's schedule; an epoch has ``epoch_steps``."""
    peak = recipe.learning_rate
    if isinstance(recipe, AdamRecipe) and step < recipe.warmup_updates:
        return peak / recipe.warmup_updates * step
    rising = round(epoch_steps * recipe.warmup_epochs)
    if step < rising:
        return peak / rising * (step + 1)
    epochs_done = step / epoch_steps
    if recipe.schedule == "cosine":
        falling = max(recipe.epochs - recipe.warmup_epochs, 1)
        angle = math.pi * min((epochs_done - recipe.warmup_epochs) / falling, 1.0)
        return peak * math.cos(angle / 2) ** 2
    if recipe.schedule == "linear":
        return peak * max(0.0, 1.0 - epochs_done / recipe.epochs)
    if recipe.schedule == "step":
        for milestone in (30, 60, 80):
            peak = peak / 10 if epochs_done >= milestone else peak
    return peak
