"""NVIDIA DeepLearningExamples, PyTorch ConvNets: ``main.py`` prints every option."""

from collections.abc import Iterator

from trainmark.programs.options import Dialect, Parameters, RecipeSetting, backend, flag, typed, words
from trainmark.schema.recipe import RecipeAxis


def read(parameters: Parameters) -> Iterator[RecipeSetting]:
    """Yield the axes that the program prints."""
    yield from words(
        parameters,
        {
            "memory_format": "layout",
            "workers": RecipeAxis.WORKERS,
            "prefetch": RecipeAxis.PREFETCH,
            "label_smoothing": RecipeAxis.LABEL_SMOOTHING,
            "mixup": "mixup",
            "lr_schedule": RecipeAxis.LR_SCHEDULE,
            "optimizer": RecipeAxis.OPTIMIZER,
            "momentum": RecipeAxis.MOMENTUM,
            "weight_decay": RecipeAxis.WEIGHT_DECAY,
            "image_size": "image_size",
            "gpu_affinity": RecipeAxis.AFFINITY,
            "save_checkpoints": RecipeAxis.CHECKPOINT_IN_RUN,
        },
    )
    yield from backend(parameters, "data_backend", "imagenet")
    if "jit" in parameters:
        jit = parameters["jit"]
        yield RecipeAxis.COMPILER, "none" if jit.value == "no" else "torchscript", jit
    if flag(parameters, "amp"):
        dynamic = flag(parameters, "dynamic_loss_scale")
        if "static_loss_scale" in parameters:
            scale = parameters["static_loss_scale"]
            yield RecipeAxis.LOSS_SCALING, "dynamic" if dynamic else "static", scale
            yield RecipeAxis.LOSS_SCALE, typed(scale.value), scale
    yield from _accumulation(parameters)


def _accumulation(parameters: Parameters) -> Iterator[RecipeSetting]:
    """Yield the accumulation steps of ``main.py``: optimizer_batch_size / (world size x batch), 1 if negative."""
    wanted = ("optimizer_batch_size", "batch_size", "world_size")
    numbers = [typed(parameters[name].value) for name in wanted if name in parameters]
    if len(numbers) < len(wanted) or not all(isinstance(number, int) for number in numbers):
        return
    optimizer, batch, world = (int(number) for number in numbers)
    if batch > 0 and world > 0:
        steps = 1 if optimizer < 0 else max(1, optimizer // (batch * world))
        yield RecipeAxis.ACCUMULATION_STEPS, steps, parameters["optimizer_batch_size"]


DIALECT = Dialect(
    name="NVIDIA DeepLearningExamples PyTorch ConvNets main.py",
    marks=(("memory_format", "data_backend", "arch"), ("data_backend", "static_loss_scale", "raport_file")),
    read=read,
    flags={
        "layout": "--memory-format {value}",
        "workers": "--workers {value}",
        "prefetch": "--prefetch {value}",
        "loader": "--data-backend {value}",
        "label_smoothing": "--label-smoothing {value}",
        "mixup": "--mixup {value}",
        "lr_schedule": "--lr-schedule {value}",
        "momentum": "--momentum {value}",
        "weight_decay": "--weight-decay {value}",
        "loss_scale": "--static-loss-scale {value}",
        "accumulation_steps": "--optimizer-batch-size {optimizer_batch_size}",
        "affinity": "--gpu-affinity {value}",
        "batch_per_device": "--batch-size {value}",
        "checkpoint_in_run": "--no-checkpoints",
    },
    values={"loader": {"native": "pytorch"}},
)
