"""The axes on which two ways of training can differ, and the conditions beside them; a task adds its own axes."""

from enum import StrEnum


class RecipeAxis(StrEnum):
    """One way in which the recipes of any two trainings can differ; a value's meaning stands beside each axis."""

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
        "max_predictions_per_seq"  # masked positions of a sequence that the loss looks at, at most
    )
    CHECKPOINT_IN_RUN = "checkpoint_in_run"  # true where the measured run also writes a checkpoint


AxisValue = bool | int | float | str


class Condition(StrEnum):
    """An axis that is not the recipe's but the machine's or the software's, or the size of the run."""

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
