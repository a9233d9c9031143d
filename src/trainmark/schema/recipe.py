"""The axes on which recipes of training can differ, and conditions such as the machine; a task adds its own axes."""

from enum import StrEnum


class RecipeAxis(StrEnum):
    """An axis on which the recipes of any two trainings can differ; the comments list its values."""

    COMPILER = "compiler"  # none, xla, torchscript, static-graph
    DATA = "data"  # synthetic, or the form or the name of real data
    LOADER = "loader"  # native, dali-cpu, dali-gpu
    WORKERS = "workers"  # loader processes or threads per device
    PREFETCH = "prefetch"  # batches prepared ahead
    LOSS_SCALING = "loss_scaling"  # static, dynamic
    LOSS_SCALE = "loss_scale"  # the static scale, or the first dynamic one
    ACCUMULATION_STEPS = "accumulation_steps"  # forward-backward passes for each optimizer step
    LABEL_SMOOTHING = "label_smoothing"
    LR_SCHEDULE = "lr_schedule"  # step, cosine
    OPTIMIZER = "optimizer"
    MOMENTUM = "momentum"
    WEIGHT_DECAY = "weight_decay"
    DISTRIBUTION = "distribution"  # ddp, data-parallel, horovod, parameter-server
    AFFINITY = "affinity"  # how processes are bound to cores
    SEQUENCE_LENGTH = "sequence_length"  # tokens of one sequence
    MAX_PREDICTIONS = (
        "max_predictions_per_seq"  # maximum number of masked positions of a sequence in the loss
    )
    GLOBAL_BATCH = "global_batch"  # sequences or samples of one optimizer step, over all devices
    MICRO_BATCH = "micro_batch"  # sequences of one forward pass of one copy of the model
    DATA_PARALLEL = "data_parallel"  # copies of the model that see other samples
    FSDP_SHARDS = "fsdp_shards"  # devices over which parameters are sharded; 0 without sharding
    TENSOR_PARALLEL = "tensor_parallel"  # devices that share each layer
    PIPELINE_PARALLEL = "pipeline_parallel"  # stages
    VIRTUAL_PIPELINE = "virtual_pipeline"  # parts of the model on each stage
    CONTEXT_PARALLEL = "context_parallel"  # devices that share each sequence
    EXPERT_PARALLEL = "expert_parallel"  # devices that share the experts
    ACTIVATION_CHECKPOINTING = "activation_checkpointing"  # none, selective, full
    ATTENTION = "attention"  # the kernel: eager, sdpa, flash, flex, cudnn
    PADDING_TOKENS = "padding_tokens"  # the share of the counted tokens that are padding, 0 to 1
    CHECKPOINT_IN_RUN = "checkpoint_in_run"  # true where the measured run also writes a checkpoint


OF_LARGE_MODELS = frozenset(
    {
        RecipeAxis.GLOBAL_BATCH,
        RecipeAxis.MICRO_BATCH,
        RecipeAxis.DATA_PARALLEL,
        RecipeAxis.FSDP_SHARDS,
        RecipeAxis.TENSOR_PARALLEL,
        RecipeAxis.PIPELINE_PARALLEL,
        RecipeAxis.VIRTUAL_PIPELINE,
        RecipeAxis.CONTEXT_PARALLEL,
        RecipeAxis.EXPERT_PARALLEL,
        RecipeAxis.ACTIVATION_CHECKPOINTING,
        RecipeAxis.ATTENTION,
        RecipeAxis.PADDING_TOKENS,
    }
)
"""Axes of models that are divided over devices; programs whose devices have whole copies do not state them."""

AxisValue = bool | int | float | str


class Condition(StrEnum):
    """An axis of the machine, the software or the size of the run, not of the recipe."""

    FRAMEWORK = "framework"
    MODEL = "model"
    PRECISION = "precision"
    BATCH_PER_DEVICE = "batch_per_device"
    DEVICES = "devices"
    NODES = "nodes"
    DEVICE = "device"
    DEVICE_MEMORY_GB = "device_memory_gb"
    SYSTEM = "system"
    HOST_CPU = "host_cpu"
    FRAMEWORK_VERSION = "framework_version"
    CONTAINER = "container"
    CUDA = "cuda"
    CUDNN = "cudnn"
    NCCL = "nccl"
    DRIVER = "driver"
    OS = "os"


AxisName = str
"""A ``RecipeAxis``, a ``Condition``, or an axis that a task declares (``trainmark.tasks.recipe_axes``)."""
