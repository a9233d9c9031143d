"""How each known training program names its settings, and what its words mean on trainmark's axes."""

import math
from collections.abc import Callable, Iterator, Mapping

from trainmark.insight.parameters import Parameter
from trainmark.insight.recipe import AnyAxis, Place, Reading, Recipe
from trainmark.reference import Axis, AxisValue
from trainmark.suite import Layout

Parameters = Mapping[str, Parameter]
Said = tuple[AnyAxis, AxisValue, Parameter]

_NONE = {"none", "null", ""}
_TRUE = {"true": True, "1": True, "false": False, "0": False}


def recipe_from(parameters: Parameters) -> Recipe:
    """Return the recipe that the settings say, and the program that prints such settings, where it is known.

    What a program leaves at its default and prints is read like anything else; what it does not print is
    not stated.
    """
    for program, marks, dialect in _DIALECTS:
        if all(mark in parameters for mark in marks):
            readings: dict[AnyAxis, Reading] = {
                axis: Reading(value, parameter.where) for axis, value, parameter in dialect(parameters)
            }
            return Recipe(readings, program)
    return Recipe()


def _words(parameters: Parameters, names: Mapping[str, AnyAxis]) -> Iterator[Said]:
    for name, axis in names.items():
        parameter = parameters.get(name)
        if parameter is None or parameter.value.lower() in _NONE:
            continue
        if axis is not Axis.LAYOUT or parameter.value.lower() in set(Layout):
            # A version such as 2.10 is a word; as a number it would lose its end.
            typed = parameter.value if isinstance(axis, Place) else _typed(parameter.value)
            yield axis, typed, parameter


def _typed(word: str) -> AxisValue:
    if word.lower() in ("true", "false"):
        return word.lower() == "true"
    for number in (int, float):
        try:
            value = number(word)
        except ValueError:
            continue
        return value if math.isfinite(value) else word.lower()
    return word.lower()


def _flag(parameters: Parameters, name: str) -> bool | None:
    return _TRUE.get(parameters[name].value.lower()) if name in parameters else None


def _ngc_pytorch(parameters: Parameters) -> Iterator[Said]:
    """NVIDIA DeepLearningExamples, PyTorch ConvNets: ``main.py`` prints every option."""
    yield from _words(
        parameters,
        {
            "memory_format": Axis.LAYOUT,
            "workers": Axis.WORKERS,
            "prefetch": Axis.PREFETCH,
            "label_smoothing": Axis.LABEL_SMOOTHING,
            "mixup": Axis.MIXUP,
            "lr_schedule": Axis.LR_SCHEDULE,
            "optimizer": Axis.OPTIMIZER,
            "momentum": Axis.MOMENTUM,
            "weight_decay": Axis.WEIGHT_DECAY,
            "image_size": Axis.IMAGE_SIZE,
            "gpu_affinity": Axis.AFFINITY,
            "save_checkpoints": Axis.CHECKPOINT_IN_RUN,
        },
    )
    yield from _backend(parameters, "data_backend", "imagenet")
    if "jit" in parameters:
        jit = parameters["jit"]
        yield Axis.COMPILER, "none" if jit.value == "no" else "torchscript", jit
    if _flag(parameters, "amp"):
        dynamic = _flag(parameters, "dynamic_loss_scale")
        if "static_loss_scale" in parameters:
            scale = parameters["static_loss_scale"]
            yield Axis.LOSS_SCALING, "dynamic" if dynamic else "static", scale
            yield Axis.LOSS_SCALE, _typed(scale.value), scale
    yield from _accumulation(parameters)


def _accumulation(parameters: Parameters) -> Iterator[Said]:
    """``main.py``: optimizer_batch_size / (world size x batch), 1 when it is negative."""
    wanted = ("optimizer_batch_size", "batch_size", "world_size")
    numbers = [_typed(parameters[name].value) for name in wanted if name in parameters]
    if len(numbers) < len(wanted) or not all(isinstance(number, int) for number in numbers):
        return
    optimizer, batch, world = (int(number) for number in numbers)
    if batch > 0 and world > 0:
        steps = 1 if optimizer < 0 else max(1, optimizer // (batch * world))
        yield Axis.ACCUMULATION_STEPS, steps, parameters["optimizer_batch_size"]


def _backend(parameters: Parameters, name: str, data: str) -> Iterator[Said]:
    if name not in parameters:
        return
    backend = parameters[name]
    word = backend.value.lower()
    if word in ("synthetic", "syntetic"):
        yield Axis.DATA, "synthetic", backend
        return
    yield Axis.LOADER, word if word.startswith("dali") else "native", backend
    yield Axis.DATA, data, backend


def _ngc_tensorflow(parameters: Parameters) -> Iterator[Said]:
    """NVIDIA DeepLearningExamples, TensorFlow 1 ConvNets."""
    yield from _words(
        parameters,
        {
            "data_format": Axis.LAYOUT,
            "label_smoothing": Axis.LABEL_SMOOTHING,
            "mixup": Axis.MIXUP,
            "momentum": Axis.MOMENTUM,
            "weight_decay": Axis.WEIGHT_DECAY,
        },
    )
    for name in ("xla", "use_xla"):
        if (xla := _flag(parameters, name)) is not None:
            yield Axis.COMPILER, "xla" if xla else "none", parameters[name]
    for name in ("cosine_lr", "use_cosine_lr"):
        if (cosine := _flag(parameters, name)) is not None:
            yield Axis.LR_SCHEDULE, "cosine" if cosine else "step", parameters[name]
    real = "data_dir" in parameters and parameters["data_dir"].value.lower() not in _NONE
    if "data_dir" in parameters:
        yield Axis.DATA, "tfrecord" if real else "synthetic", parameters["data_dir"]
    for name in ("dali", "use_dali"):
        if real and (dali := _flag(parameters, name)) is not None:
            yield Axis.LOADER, "dali" if dali else "native", parameters[name]
    if _flag(parameters, "amp") and (static := _flag(parameters, "use_static_loss_scaling")) is not None:
        yield Axis.LOSS_SCALING, "static" if static else "dynamic", parameters["use_static_loss_scaling"]
        for name in ("static_loss_scale", "loss_scale"):
            if static and name in parameters:
                yield Axis.LOSS_SCALE, _typed(parameters[name].value), parameters[name]
                break


def _ngc_mxnet(parameters: Parameters) -> Iterator[Said]:
    """NVIDIA DeepLearningExamples, MXNet RN50v1.5."""
    yield from _words(
        parameters,
        {
            "conv_layout": Axis.LAYOUT,
            "label_smoothing": Axis.LABEL_SMOOTHING,
            "mixup": Axis.MIXUP,
            "lr_schedule": Axis.LR_SCHEDULE,
            "optimizer": Axis.OPTIMIZER,
            "mom": Axis.MOMENTUM,
            "wd": Axis.WEIGHT_DECAY,
            "kv_store": Axis.DISTRIBUTION,
            "dali_threads": Axis.WORKERS,
            "dali_prefetch_queue": Axis.PREFETCH,
        },
    )
    yield from _backend(parameters, "data_backend", "recordio")
    fused = [_flag(parameters, name) for name in ("fuse_bn_relu", "fuse_bn_add_relu")]
    if None not in fused:
        yield Axis.FUSED_BATCH_NORM, all(fused), parameters["fuse_bn_relu"]


def _paddleclas(parameters: Parameters) -> Iterator[Said]:
    """PaddleClas: the configuration that ``ppcls`` prints, name by name."""
    yield from _words(
        parameters, {"data_format": Axis.LAYOUT, "num_workers": Axis.WORKERS, "momentum": Axis.MOMENTUM}
    )
    if (dali := _flag(parameters, "use_dali")) is not None:
        yield Axis.LOADER, "dali" if dali else "native", parameters["use_dali"]
    if (dynamic := _flag(parameters, "use_dynamic_loss_scaling")) is not None:
        yield Axis.LOSS_SCALING, "dynamic" if dynamic else "static", parameters["use_dynamic_loss_scaling"]
    if "scale_loss" in parameters:
        yield Axis.LOSS_SCALE, _typed(parameters["scale_loss"].value), parameters["scale_loss"]


def _trainmark(parameters: Parameters) -> Iterator[Said]:
    """trainmark's own workers: the axes by their own names, the optimizer's settings below ``optimizer``."""
    yield from _words(
        parameters,
        {
            "layout": Axis.LAYOUT,
            "compiler": Axis.COMPILER,
            "data": Axis.DATA,
            "loader": Axis.LOADER,
            "loader_workers": Axis.WORKERS,
            "image_size": Axis.IMAGE_SIZE,
            "optimizer.name": Axis.OPTIMIZER,
            "optimizer.momentum": Axis.MOMENTUM,
            "optimizer.weight_decay": Axis.WEIGHT_DECAY,
            "optimizer.label_smoothing": Axis.LABEL_SMOOTHING,
            "optimizer.schedule": Axis.LR_SCHEDULE,
            "framework_version": Place.FRAMEWORK_VERSION,
            "cuda": Place.CUDA,
            "cudnn": Place.CUDNN,
        },
    )
    if "optimizer.loss_scale" in parameters and parameters["optimizer.loss_scale"].value.lower() not in _NONE:
        scale = parameters["optimizer.loss_scale"]
        yield Axis.LOSS_SCALING, "dynamic" if scale.value == "dynamic" else "static", scale


_DIALECTS: tuple[tuple[str, tuple[str, ...], Callable[[Parameters], Iterator[Said]]], ...] = (
    ("ngc-pytorch-convnets", ("memory_format", "data_backend", "arch"), _ngc_pytorch),
    ("ngc-pytorch-convnets", ("data_backend", "static_loss_scale", "raport_file"), _ngc_pytorch),
    ("ngc-tensorflow-convnets", ("data_idx_dir", "label_smoothing", "arch"), _ngc_tensorflow),
    ("ngc-mxnet-rn50", ("conv_layout", "data_backend", "kv_store"), _ngc_mxnet),
    ("trainmark", ("layout", "compiler", "batch_per_device"), _trainmark),
    ("paddleclas", ("pretrained_model", "output_dir"), _paddleclas),
)
