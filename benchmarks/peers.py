r"""The worker's step beside the public programs of the same step, in turn on one machine: who is how fast.

Run it with a Python that has PyTorch; what else it lacks (torchvision, timm, JAX) is said and left out:

    PYTHON benchmarks/peers.py --device cuda --precision amp-fp16 --batch 256 --rounds 10 --json peers.json
    PYTHON benchmarks/peers.py --device cpu --precision fp32 --batch 8 --image-size 64 --steps 2 \
        --only trainmark-none trainmark-compile

How they take turns, and what is printed, stands in ``contest.py``. torchvision and timm train as their own
documentation and scripts write it: SGD with momentum, label smoothing as the worker's recipe, ``channels_last``,
autocast with a gradient scaler in FP16; beside that with torch's fused SGD, and with the whole step as one CUDA graph.
``flax`` is the step that a user of JAX, Flax and optax writes (``peer_flax.py``); ``flax-tuned`` has the flags of
JAX's page on GPU performance, ``flax-highest`` the precision of products that FP32 needs.
``--suite`` adds ``program``, somebody's unmodified program through its card, as NVIDIA's ConvNets: each of its blocks
is the whole run of the suite's one case. ``peers_lm.py`` does the same of language models.
"""

import argparse
import importlib
import importlib.metadata
import sys
from collections.abc import Callable

from contest import Contest, Contestant, Step, hold, ours_in_blocks, parser_of, torch_in_blocks
from contest import ours as opened_here
from peer_flax import flax
from program import by_card

PARAMETERS = 25_557_032
"""Of ResNet-50 v1.5 with 1000 classes."""


def ours(framework: str, compiler: str) -> Callable[[argparse.Namespace], Step]:
    """Return what opens a worker of trainmark's."""

    def opened(own: argparse.Namespace) -> Step:
        flags = [
            f"--compiler={compiler}", f"--precision={own.precision}", "--layout=nhwc", "--model=resnet50_v1.5",
            f"--image-size={own.image_size}",
        ]  # fmt: skip
        return ours_in_blocks(opened_here(framework, "image_classification", flags, own), framework)

    return opened


def theirs(
    package: str, compiled: str | None, fused: bool = False, recorded: bool = False
) -> Callable[[argparse.Namespace], Step]:
    """Return what opens the network of torchvision or timm in the loop that a user would write.

    ``fused``: with torch's fused SGD; ``recorded``: the whole step as one CUDA graph, as an expert would have it.
    """

    def opened(own: argparse.Namespace) -> Step:
        import torch

        device = torch.device(own.device)
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = own.precision == "tf32"
        if package == "timm":
            model = importlib.import_module("timm").create_model("resnet50")
        else:
            model = importlib.import_module("torchvision").models.resnet50()
        model = model.to(device, memory_format=torch.channels_last).train()
        network = model if compiled is None else torch.compile(model, mode=compiled)
        kind = {"amp-fp16": torch.float16, "amp-bf16": torch.bfloat16}.get(own.precision)
        size = (own.batch, 3, own.image_size, own.image_size)
        images = torch.randn(size, device=device, dtype=kind or torch.float32)
        images = images.contiguous(memory_format=torch.channels_last)
        labels = torch.randint(0, 1000, (own.batch,), device=device)
        loss_of = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
        rate = torch.tensor(1e-3, device=device) if recorded else 1e-3
        optimizer = torch.optim.SGD(
            model.parameters(), lr=rate, momentum=0.875, weight_decay=1e-4, fused=fused or None
        )
        scaler = torch.amp.GradScaler(device.type, enabled=own.precision == "amp-fp16")

        def step() -> None:
            with torch.autocast(device.type, dtype=kind, enabled=kind is not None):
                loss = loss_of(network(images), labels)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)

        versions = {package: importlib.metadata.version(package)}
        return torch_in_blocks(step, recorded, model, versions, device)

    return opened


FP16 = ("amp-fp16",)
PRECISIONS = ("fp32", "tf32", "amp-fp16", "amp-bf16")
"""What the public programs train in too."""

STAGES = ("folded", "quarter", "update")
"""Of our fused step, as ``worker/pytorch_fast/compilers.py`` has them."""

XLA_FLAGS = "--xla_gpu_triton_gemm_any=true --xla_gpu_enable_latency_hiding_scheduler=true"
"""What JAX's page on GPU performance names (docs.jax.dev/en/latest/gpu_performance_tips.html, 2026-11-24)."""

CONTESTANTS: dict[str, Contestant] = {
    "trainmark-fused-cudnn": Contestant(ours("pytorch", "fused-cudnn"), ("torch", "cudnn"), "cuda", FP16),
    **{
        f"trainmark-fused-cudnn-without-{'-'.join(stages)}": Contestant(
            ours("pytorch", "fused-cudnn"),
            ("torch", "cudnn"),
            "cuda",
            FP16,
            variables={"TRAINMARK_FUSED_WITHOUT": ",".join(stages)},
        )
        for stages in (*((stage,) for stage in STAGES), STAGES)
    },
    "trainmark-fused": Contestant(ours("pytorch", "fused"), ("torch",), "cuda"),
    "trainmark-compile": Contestant(ours("pytorch", "torch.compile"), ("torch",)),
    "trainmark-none": Contestant(ours("pytorch", "none"), ("torch",)),
    "trainmark-jax": Contestant(ours("jax", "xla"), ("jax", "flax")),
    "torchvision-eager": Contestant(theirs("torchvision", None), ("torchvision",)),
    "torchvision-compile": Contestant(theirs("torchvision", "default"), ("torchvision",)),
    "torchvision-reduce-overhead": Contestant(
        theirs("torchvision", "reduce-overhead"), ("torchvision",), "cuda"
    ),
    "torchvision-fused-sgd": Contestant(theirs("torchvision", "default", fused=True), ("torchvision",)),
    "torchvision-graph": Contestant(
        theirs("torchvision", "default", fused=True, recorded=True), ("torchvision",), "cuda"
    ),
    "timm-compile": Contestant(theirs("timm", "default"), ("timm",)),
    **{
        name: Contestant(flax, ("jax", "flax", "optax"), precisions=precisions, variables=variables)
        for name, precisions, variables in (
            ("flax", PRECISIONS, {}),
            ("flax-tuned", PRECISIONS, {"XLA_FLAGS": XLA_FLAGS}),
            ("flax-highest", ("amp-fp16", "amp-bf16"), {"JAX_DEFAULT_MATMUL_PRECISION": "highest"}),
        )
    },
    "program": Contestant(by_card, whole=True),
}


def main() -> int:
    parser = parser_of(__doc__, CONTESTANTS)
    parser.add_argument("--precision", default="amp-fp16", choices=PRECISIONS)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--suite", metavar="FILE", help="of one case: the program that contends too")
    parser.add_argument(
        "--trainmark",
        metavar="PYTHON",
        default=sys.executable,
        help="which has trainmark and measures that; this one",
    )
    own = parser.parse_args()
    contestants = CONTESTANTS if own.suite else {n: one for n, one in CONTESTANTS.items() if n != "program"}
    if "program" in (own.only or ()) and not own.suite:
        parser.error("program contends with --suite FILE alone, a suite of one case")
    kept, passed = ("precision", "image_size"), ("suite", "trainmark")
    contest = Contest(contestants, PARAMETERS, {"images": own.batch}, kept, passed)
    return hold(contest, own, __file__)


if __name__ == "__main__":
    sys.exit(main())
