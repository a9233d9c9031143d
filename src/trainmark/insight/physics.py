"""Limits of an effect that follow from arithmetic: devices, peaks of data sheets, operations of a token, bubbles.

A token's operations are 6N + causal attention (``measure.model_shapes``). Full activation checkpointing repeats the
forward pass, a third of the 3 forwards' worth of a step (Chen et al., "Training Deep Nets with Sublinear Memory Cost",
2016). A pipeline of p stages idles for (p - 1) / (v m) of its work with m micro-batches and v parts of the model on a
stage (Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", 2021,
section 2.2).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from trainmark.insight.recipe import StatedRecipe
from trainmark.measure.device_peaks import Peak, find_peak
from trainmark.measure.model_shapes import find_model
from trainmark.schema.recipe import AxisName, Condition, RecipeAxis


@dataclass(frozen=True, slots=True)
class Limit:
    """The factors between which an effect must be, and the arithmetic as a sentence."""

    low: float
    high: float
    sentence: str


def physical_limit(
    axis: AxisName, here: StatedRecipe, there: StatedRecipe, device: str | None
) -> Limit | None:
    """Return the limit of going from one value of an axis to the other; None if no arithmetic gives one.

    ``device`` is the device assumed for both sides.
    """
    if axis == Condition.PRECISION:
        return _precision(str(here.value(axis)), str(there.value(axis)), _peak(device))
    find = _LIMITS.get(axis)
    return None if find is None else find(here, there)


def _devices(one: StatedRecipe, other: StatedRecipe) -> Limit | None:
    here, there = one.value(Condition.DEVICES), other.value(Condition.DEVICES)
    if not isinstance(here, int) or not isinstance(there, int):
        return None
    factor = there / here
    return Limit(factor, factor, f"{there} devices do {factor:.4g} times the work of {here} at an equal rate")


def _precision(here: str, there: str, peak: Peak | None) -> Limit | None:
    if peak is None:
        return None
    one, other = peak.dense_tflops(here), peak.dense_tflops(there)
    if not one or not other:
        return None
    factor = other / one
    return Limit(
        min(1.0, factor),
        max(1.0, factor),
        f"{peak.device} does at most {one:g} TFLOP/s in {here} and {other:g} in {there}",
    )


def _device(here: StatedRecipe, there: StatedRecipe) -> Limit | None:
    one, other = (_peak(str(side.value(Condition.DEVICE))) for side in (here, there))
    precision = str(here.value(Condition.PRECISION) or there.value(Condition.PRECISION))
    if one is None or other is None:
        return None
    found = {
        "TFLOP/s": (one.dense_tflops(precision), other.dense_tflops(precision)),
        "GB/s of memory": (one.bandwidth_gb_per_s, other.bandwidth_gb_per_s),
    }
    known = [(name, was, is_) for name, (was, is_) in found.items() if was and is_]
    if len(known) < len(found):
        return None
    factors = [is_ / was for _, was, is_ in known]
    words = " and ".join(f"{was:g} against {is_:g} {name}" for name, was, is_ in known)
    return Limit(min(1.0, *factors), max(1.0, *factors), f"{one.device} against {other.device}: {words}")


def _sequence_length(here: StatedRecipe, there: StatedRecipe) -> Limit | None:
    """Return the limit of a token's operations, which grow with the length of its sequence."""
    model = find_model(str(here.value(Condition.MODEL) or there.value(Condition.MODEL)))
    lengths = [side.value(RecipeAxis.SEQUENCE_LENGTH) for side in (here, there)]
    if model is None or not all(isinstance(length, int) for length in lengths):
        return None
    one, other = (model.operations(int(length or 0), causal=True) for length in lengths)
    factor = one / other
    return Limit(
        min(1.0, factor),
        max(1.0, factor),
        f"6N + causal attention of {model.model} is {one / 1e9:.4g} GFLOP per token for {lengths[0]} tokens and "
        f"{other / 1e9:.4g} for {lengths[1]}",
    )


_RECOMPUTED = {"none": (0.0, 0.0), "selective": (0.0, 1 / 3), "full": (0.0, 1 / 3)}
"""The operations that activation checkpointing adds to a step, as a share of it: none to a whole forward pass."""


def _checkpointing(here: StatedRecipe, there: StatedRecipe) -> Limit | None:
    """Return the limit of the forward passes that are computed twice."""
    values = [str(side.value(RecipeAxis.ACTIVATION_CHECKPOINTING)) for side in (here, there)]
    if any(value not in _RECOMPUTED for value in values):
        return None
    one, other = (_RECOMPUTED[value] for value in values)
    return Limit(
        min(1.0, (1 + one[0]) / (1 + other[1])),
        max(1.0, (1 + one[1]) / (1 + other[0])),
        "a checkpointed layer computes its forward pass twice, at most a third more operations",
    )


def _bubble(here: StatedRecipe, there: StatedRecipe) -> Limit | None:
    """Return the limit of the time that the stages of a pipeline are idle."""
    one, other = _bubble_of(here), _bubble_of(there)
    if one is None or other is None:
        return None
    factor = (1 + one) / (1 + other)
    return Limit(
        min(1.0, factor),
        max(1.0, factor),
        f"the bubble (p - 1) / (v m) of the pipeline is {one:.1%} of its work here and {other:.1%} there",
    )


def _bubble_of(recipe: StatedRecipe) -> float | None:
    stages = _count(recipe, RecipeAxis.PIPELINE_PARALLEL)
    if stages in (None, 1):
        return None if stages is None else 0.0
    batches = _micro_batches(recipe)
    parts = _count(recipe, RecipeAxis.VIRTUAL_PIPELINE) or 1
    return None if not batches else (stages - 1) / (parts * batches)


def _micro_batches(recipe: StatedRecipe) -> float | None:
    """Return the micro-batches of a step of one copy of the model, as stated or by the global batch."""
    if (stated := _count(recipe, RecipeAxis.ACCUMULATION_STEPS)) is not None:
        return stated
    whole, micro = (_count(recipe, axis) for axis in (RecipeAxis.GLOBAL_BATCH, RecipeAxis.MICRO_BATCH))
    copies = _count(recipe, RecipeAxis.DATA_PARALLEL)
    devices = _count(recipe, Condition.DEVICES)
    if copies is None and devices is not None:
        shared = (RecipeAxis.TENSOR_PARALLEL, RecipeAxis.PIPELINE_PARALLEL, RecipeAxis.CONTEXT_PARALLEL)
        copies = devices // math.prod(_count(recipe, axis) or 1 for axis in shared)
    return None if not whole or not micro or not copies else whole / (micro * copies)


def _count(recipe: StatedRecipe, axis: AxisName) -> int | None:
    value = recipe.value(axis)
    return value if isinstance(value, int) and value > 0 else None


def _padding(here: StatedRecipe, there: StatedRecipe) -> Limit | None:
    """Return the limit of tokens that are computed for nothing."""
    shares = [side.value(RecipeAxis.PADDING_TOKENS) for side in (here, there)]
    if not all(isinstance(share, int | float) and 0 <= share < 1 for share in shares):
        return None
    one, other = (1 - float(share or 0) for share in shares)
    factor = other / one
    return Limit(
        min(1.0, factor),
        max(1.0, factor),
        f"{one:.1%} of the tokens here and {other:.1%} there are not padding; a rate that counts padding gains nothing",
    )


_LIMITS: Mapping[AxisName, Callable[[StatedRecipe, StatedRecipe], Limit | None]] = {
    Condition.DEVICES: _devices,
    Condition.DEVICE: _device,
    RecipeAxis.SEQUENCE_LENGTH: _sequence_length,
    RecipeAxis.ACTIVATION_CHECKPOINTING: _checkpointing,
    RecipeAxis.PIPELINE_PARALLEL: _bubble,
    RecipeAxis.VIRTUAL_PIPELINE: _bubble,
    RecipeAxis.PADDING_TOKENS: _padding,
}


def _peak(device: str | None) -> Peak | None:
    return None if device is None else find_peak(device)
