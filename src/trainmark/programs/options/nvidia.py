"""NVIDIA DeepLearningExamples: the options that its ConvNets and BERT programs print, or their command lines."""

from collections.abc import Iterator, Mapping

from trainmark.programs.options import NONE, Dialect, Parameters, RecipeSetting, backend, flag, typed, words
from trainmark.schema.recipe import RecipeAxis


def _read_mxnet_convnets(parameters: Parameters) -> Iterator[RecipeSetting]:
    """Yield the axes that the program prints."""
    yield from words(
        parameters,
        {
            "conv_layout": "layout",
            "label_smoothing": RecipeAxis.LABEL_SMOOTHING,
            "mixup": "mixup",
            "lr_schedule": RecipeAxis.LR_SCHEDULE,
            "optimizer": RecipeAxis.OPTIMIZER,
            "mom": RecipeAxis.MOMENTUM,
            "wd": RecipeAxis.WEIGHT_DECAY,
            "kv_store": RecipeAxis.DISTRIBUTION,
            "dali_threads": RecipeAxis.WORKERS,
            "dali_prefetch_queue": RecipeAxis.PREFETCH,
        },
    )
    yield from backend(parameters, "data_backend", "recordio")
    fused = [flag(parameters, name) for name in ("fuse_bn_relu", "fuse_bn_add_relu")]
    if None not in fused:
        yield "fused_batch_norm", all(fused), parameters["fuse_bn_relu"]


def _read_pytorch_bert(parameters: Parameters) -> Iterator[RecipeSetting]:
    """Yield the axes that the program prints; ``run_pretraining.py`` has one optimizer, LAMB."""
    yield from words(
        parameters,
        {
            "max_predictions_per_seq": RecipeAxis.MAX_PREDICTIONS,
            "max_seq_length": RecipeAxis.SEQUENCE_LENGTH,
            "gradient_accumulation_steps": RecipeAxis.ACCUMULATION_STEPS,
        },
    )
    yield RecipeAxis.OPTIMIZER, "lamb", parameters["max_predictions_per_seq"]


def _read_pytorch_convnets(parameters: Parameters) -> Iterator[RecipeSetting]:
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


def _read_tensorflow_bert(parameters: Parameters) -> Iterator[RecipeSetting]:
    """Yield the axes in the command; LAMB is the program's default optimizer."""
    yield from words(
        parameters,
        {
            "max_predictions_per_seq": RecipeAxis.MAX_PREDICTIONS,
            "max_seq_length": RecipeAxis.SEQUENCE_LENGTH,
            "num_accumulation_steps": RecipeAxis.ACCUMULATION_STEPS,
            "optimizer_type": RecipeAxis.OPTIMIZER,
        },
    )
    if "optimizer_type" not in parameters:
        yield RecipeAxis.OPTIMIZER, "lamb", parameters["num_accumulation_steps"]
    if (xla := flag(parameters, "use_xla")) is not None:
        yield RecipeAxis.COMPILER, "xla" if xla else "none", parameters["use_xla"]


def _read_tensorflow_convnets(parameters: Parameters) -> Iterator[RecipeSetting]:
    """Yield the axes that the program prints."""
    yield from words(
        parameters,
        {
            "data_format": "layout",
            "label_smoothing": RecipeAxis.LABEL_SMOOTHING,
            "mixup": "mixup",
            "momentum": RecipeAxis.MOMENTUM,
            "weight_decay": RecipeAxis.WEIGHT_DECAY,
        },
    )
    for name in ("xla", "use_xla"):
        if (xla := flag(parameters, name)) is not None:
            yield RecipeAxis.COMPILER, "xla" if xla else "none", parameters[name]
    for name in ("cosine_lr", "use_cosine_lr"):
        if (cosine := flag(parameters, name)) is not None:
            yield RecipeAxis.LR_SCHEDULE, "cosine" if cosine else "step", parameters[name]
    real = "data_dir" in parameters and parameters["data_dir"].value.lower() not in NONE
    if "data_dir" in parameters:
        yield RecipeAxis.DATA, "tfrecord" if real else "synthetic", parameters["data_dir"]
    for name in ("dali", "use_dali"):
        if real and (dali := flag(parameters, name)) is not None:
            yield RecipeAxis.LOADER, "dali" if dali else "native", parameters[name]
    if flag(parameters, "amp") and (static := flag(parameters, "use_static_loss_scaling")) is not None:
        yield (
            RecipeAxis.LOSS_SCALING,
            "static" if static else "dynamic",
            parameters["use_static_loss_scaling"],
        )
        for name in ("static_loss_scale", "loss_scale"):
            if static and name in parameters:
                yield RecipeAxis.LOSS_SCALE, typed(parameters[name].value), parameters[name]
                break


DIALECTS: Mapping[str, Dialect] = {
    "ngc-mxnet-convnets": Dialect(
        name="NVIDIA DeepLearningExamples MXNet RN50v1.5 train.py",
        marks=(("conv_layout", "data_backend", "kv_store"),),
        read=_read_mxnet_convnets,
        flags={
            "layout": "--conv-layout {value} --batchnorm-layout {value} --pooling-layout {value}",
            "loader": "--data-backend {value}",
            "label_smoothing": "--label-smoothing {value}",
            "mixup": "--mixup {value}",
            "workers": "--dali-threads {value}",
            "fused_batch_norm": "--fuse-bn-relu 1 --fuse-bn-add-relu 1",
        },
        values={"layout": {"nhwc": "NHWC", "nchw": "NCHW"}, "loader": {"native": "mxnet"}},
    ),
    "ngc-pytorch-bert": Dialect(
        name="NVIDIA DeepLearningExamples PyTorch BERT run_pretraining.py",
        marks=(("gradient_accumulation_steps", "max_predictions_per_seq"),),
        read=_read_pytorch_bert,
        flags={
            RecipeAxis.MAX_PREDICTIONS: "--max_predictions_per_seq={value}",
            RecipeAxis.ACCUMULATION_STEPS: "--gradient_accumulation_steps={value}",
        },
    ),
    "ngc-pytorch-convnets": Dialect(
        name="NVIDIA DeepLearningExamples PyTorch ConvNets main.py",
        marks=(
            ("memory_format", "data_backend", "arch"),
            ("data_backend", "static_loss_scale", "raport_file"),
        ),
        read=_read_pytorch_convnets,
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
    ),
    "ngc-tensorflow-bert": Dialect(
        name="NVIDIA DeepLearningExamples TensorFlow BERT run_pretraining.py",
        marks=(("num_accumulation_steps", "max_predictions_per_seq"),),
        read=_read_tensorflow_bert,
        flags={
            RecipeAxis.MAX_PREDICTIONS: "--max_predictions_per_seq={value}",
            RecipeAxis.ACCUMULATION_STEPS: "--num_accumulation_steps={value}",
        },
    ),
    "ngc-tensorflow-convnets": Dialect(
        name="NVIDIA DeepLearningExamples TensorFlow ConvNets main.py",
        marks=(("data_idx_dir", "label_smoothing", "arch"),),
        read=_read_tensorflow_convnets,
        flags={
            "layout": "--data_format {value}",
            "compiler": "--xla",
            "loader": "--dali",
            "label_smoothing": "--label_smoothing {value}",
            "mixup": "--mixup {value}",
            "loss_scale": "--static_loss_scale {value}",
            "batch_per_device": "--batch_size {value}",
        },
        values={"layout": {"nhwc": "NHWC", "nchw": "NCHW"}},
    ),
}
