"""The axes on which two ways of training can differ, and those of the machine and the software beside them."""

from enum import StrEnum


class Axis(StrEnum):
    """One way in which two training recipes can differ; a value's meaning stands beside each axis."""

    LAYOUT = "layout"  # nchw, nhwc
    COMPILER = "compiler"  # none, xla, torchscript, static-graph
    DATA = "data"  # imagenet, tfrecord, recordio, synthetic
    LOADER = "loader"  # native, dali-cpu, dali-gpu
    WORKERS = "workers"  # loader processes or threads per device
    PREFETCH = "prefetch"  # batches prepared ahead
    LOSS_SCALING = "loss_scaling"  # static, dynamic
    LOSS_SCALE = "loss_scale"  # the static scale, or the first dynamic one
    ACCUMULATION_STEPS = "accumulation_steps"  # forward-backward passes for each optimizer step
    LABEL_SMOOTHING = "label_smoothing"
    MIXUP = "mixup"
    LR_SCHEDULE = "lr_schedule"  # step, cosine
    OPTIMIZER = "optimizer"
    MOMENTUM = "momentum"
    WEIGHT_DECAY = "weight_decay"
    IMAGE_SIZE = "image_size"  # side in pixels
    DISTRIBUTION = "distribution"  # ddp, data-parallel, horovod, parameter-server
    FUSED_BATCH_NORM = "fused_batch_norm"  # true where batch norm is fused with ReLU and addition
    AFFINITY = "affinity"  # how processes are bound to cores
    CHECKPOINT_IN_RUN = "checkpoint_in_run"  # true where the measured run also writes a checkpoint


AxisValue = bool | int | float | str


class Place(StrEnum):
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


AnyAxis = Axis | Place

ALL_AXES: tuple[AnyAxis, ...] = (*Axis, *Place)
"""Every axis on which two measurements are laid side by side, in the order in which lists name them."""
