"""What is a framework's own in the conformance suite: how it is asked to train here, and what it must answer."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Flags = Mapping[str, Any]


@dataclass(frozen=True)
class Idiom:
    """One framework on a CPU."""

    flags: Flags
    """How its users train with it: layout and compiler."""

    eager: Flags | None
    """The flags without a compiler; nothing where ``flags`` has none."""

    version: str
    """What its version begins with."""

    backend: str
    """By what its ranks speak."""

    decoder: str
    """What decodes JPEGs in its loader begins with this."""

    images: Flags = field(default_factory=dict)
    """The loader of a folder of images, where the native one takes another form."""

    drawn_crops: bool = True
    """Whether an image's crop is drawn for the image, whichever thread or rank of the framework's makes it."""

    deals_batches: bool = True
    """Whether ranks take turns by whole batches of the one row of images, and not by single images."""

    workers: tuple[int, int] = (0, 2)
    """The loader workers that it says it has, asked for 0 and for 2."""

    unseen: tuple[str, ...] = ()
    """What it cannot show of its own first step."""

    actual: Flags = field(default_factory=dict)
    """What it says of its first step besides what all say."""

    eager_actual: Flags = field(default_factory=dict)
    """The same of a first step without a compiler."""

    compiles_operations: bool = False
    """Whether without a compiler each operation is a program of its own, which is compiled when it comes first."""

    said: Flags = field(default_factory=dict)
    """What it says of a run besides what all say."""

    precisions: tuple[tuple[Flags, str, str], ...] = ()
    """Flags of a run in another precision, the type that it computes in, and that of its weights."""

    refused: tuple[tuple[Flags, str], ...] = ()
    """Flags that cannot be honoured here, and what is said to them."""

    shows_nan: bool = True
    """Whether a loss is NaN once the weights are."""

    little_memory: Flags = field(default_factory=dict)
    """A run that gets less memory than it needs."""


def flags(**given: Any) -> Flags:
    return given


IDIOMS: Mapping[str, Idiom] = {
    "pytorch": Idiom(
        flags=flags(layout="nchw", compiler="none"),
        eager=None,
        version="2.",
        backend="gloo",
        decoder="",
        precisions=(
            (flags(precision="amp-bf16", layout="nhwc"), "bfloat16", "float32"),
            (flags(precision="amp-bf16", layout="nhwc", compiler="torch.compile"), "bfloat16", "float32"),
            (flags(precision="bf16"), "bfloat16", "bfloat16"),
            (flags(precision="amp-fp16", layout="nhwc"), "float16", "float32"),
            (flags(precision="fp16"), "float16", "float16"),
        ),
        refused=(
            (flags(precision="tf32", device="cpu"), "a CPU has no TF32"),
            (flags(compiler="xla"), "no compiler 'xla'"),
            (flags(compiler="cuda-graph", device="cpu"), "cuda-graph needs an NVIDIA GPU"),
            (
                flags(compiler="fused", layout="nhwc", model="resnet50_v1.5", device="cpu"),
                "needs an NVIDIA GPU",
            ),
            (flags(compiler="fused-cudnn", layout="nchw"), "fused-cudnn: its kernels support only nhwc"),
            (flags(collective="horovod"), "no collective 'horovod'; it has native"),
            (flags(data="/nowhere", loader="dali"), "no loader 'dali'"),
            (flags(data="/nowhere", loader="nvjpeg", device="cpu"), "this run is on a CPU"),
        ),
        little_memory=flags(batch_per_device=6_000, image_size=64, memory_limit=1_500_000_000),
    ),
    "tensorflow": Idiom(
        flags=flags(layout="nhwc", compiler="graph"),
        eager=flags(layout="nhwc", compiler="none"),
        version="2.",
        backend="ring",
        decoder="tf.io.decode_and_crop_jpeg",
        images=flags(loader="native-folder"),
        deals_batches=False,
        # One thread of the pipeline at least.
        workers=(1, 2),
        unseen=("weight_layout",),
        said=flags(compiler_mode="tf.function", step_marks="done"),
        precisions=(
            (flags(precision="amp-bf16", layout="nchw", compiler="graph"), "bfloat16", "float32"),
            (flags(precision="amp-fp16", compiler="none"), "float16", "float32"),
        ),
        refused=(
            (flags(precision="tf32", device="cpu"), "a CPU has no TF32"),
            (flags(precision="bf16"), "TensorFlow has no precision 'bf16'"),
            (flags(precision="amp-fp16", layout="nchw"), "with oneDNN, whose FP16 few CPUs support"),
            (flags(compiler="torch.compile"), "TensorFlow has no compiler 'torch.compile'"),
            (flags(data="/nowhere", loader="dali"), "TensorFlow has no loader 'dali'"),
            (flags(collective="horovod"), "no collective 'horovod'; it has native"),
        ),
        little_memory=flags(batch_per_device=20_000, image_size=64, memory_limit=2_000_000_000),
    ),
    "mxnet": Idiom(
        flags=flags(layout="nchw", compiler="hybridize"),
        eager=flags(layout="nchw", compiler="none"),
        version="1.9.",
        backend="kvstore dist_sync",
        decoder="opencv",
        images=flags(loader="native-folder"),
        unseen=("tf32_convolution", "tf32_matmul"),
        precisions=(
            (flags(precision="amp-bf16"), "bfloat16", "float32"),
            (flags(precision="amp-bf16", compiler="none"), "bfloat16", "float32"),
        ),
        refused=(
            (flags(precision="tf32"), "a CPU has no TF32"),
            (flags(precision="bf16"), "no precision 'bf16'"),
            (flags(precision="amp-fp16", device="cpu"), "cannot compute FP16 convolutions on a CPU"),
            (flags(compiler="xla"), "no compiler 'xla'"),
            (flags(layout="nhwc", device="cpu"), "support only the layout nchw"),
            (flags(data="/nowhere", loader="dali"), "no loader 'dali'"),
            (flags(collective="mpi"), "no collective 'mpi'"),
        ),
        little_memory=flags(batch_per_device=32, image_size=224, memory_limit=700_000_000),
    ),
    "paddle": Idiom(
        flags=flags(layout="nchw", compiler="to_static"),
        eager=flags(layout="nchw", compiler="none"),
        version="3.",
        backend="gloo",
        decoder="simplejpeg+opencv",
        # Its weights lie in one order, whatever the layout.
        unseen=("weight_layout",),
        actual=flags(compiled_programs=1),
        eager_actual=flags(compiled_programs=0),
        shows_nan=False,
        refused=(
            (flags(compiler="xla"), "no compiler 'xla'; it has none, to_static, to_static-cinn"),
            (flags(precision="fp16"), "no precision 'fp16'; it has fp32, tf32, amp-fp16, amp-bf16"),
            (flags(device="cuda"), "built for CPUs only"),
            (flags(data="/nowhere", loader="dali"), "no loader 'dali'"),
            (flags(collective="horovod"), "no collective 'horovod'; it has native"),
        ),
        little_memory=flags(batch_per_device=64, image_size=64, memory_limit=400_000_000),
    ),
    "jax": Idiom(
        flags=flags(layout="nhwc", compiler="xla"),
        eager=flags(layout="nhwc", compiler="none"),
        version="0.",
        backend="gloo",
        decoder="",
        unseen=("weight_layout",),
        actual=flags(compiled_layout="nhwc", compiled_dtype="f32"),
        eager_actual=flags(compiled_dtype=None),
        compiles_operations=True,
        precisions=(
            (flags(precision="amp-bf16"), "bfloat16", "float32"),
            # The scale fits: its batches of few, small images have gradients that overflow for ten steps.
            (flags(precision="amp-fp16", loss_scale="8"), "float16", "float32"),
            (flags(precision="bf16"), "bfloat16", "bfloat16"),
        ),
        refused=(
            (flags(precision="tf32", device="cpu"), "a CPU has no TF32"),
            (flags(precision="fp16"), "JAX has no precision 'fp16'"),
            (flags(compiler="torch.compile"), "no compiler 'torch.compile'"),
            (flags(layout="nchw"), "support only the layout nhwc"),
            (flags(data="/nowhere", loader="dali"), "no loader 'dali'"),
            (flags(collective="horovod"), "no collective 'horovod'; it has native"),
        ),
        little_memory=flags(batch_per_device=20_000, image_size=64, memory_limit=3_000_000_000),
    ),
    "mindspore": Idiom(
        flags=flags(layout="nchw", compiler="graph"),
        eager=flags(layout="nchw", compiler="none"),
        version="2.",
        backend="mccl",
        decoder="mindspore.dataset",
        drawn_crops=False,
        # One thread of its engine reads, whatever was asked for.
        workers=(1, 2),
        precisions=(
            (flags(precision="amp-fp16", loss_scale=128), "float16", "float32"),
            (flags(precision="amp-fp16", loss_scale=128, compiler="none"), "float16", "float32"),
        ),
        refused=(
            (flags(precision="amp-bf16"), "no bfloat16 convolution"),
            (flags(layout="nhwc"), "support only nchw"),
            (flags(collective="horovod"), "no collective 'horovod'; it has native"),
            (flags(compiler="xla"), "no compiler 'xla'"),
            (flags(device="cuda"), "on CPUs only"),
            (flags(data="/nowhere", loader="dali"), "no loader 'dali'"),
        ),
        little_memory=flags(batch_per_device=64, image_size=224, memory_limit=700_000_000),
    ),
}
