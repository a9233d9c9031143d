r"""Check that a step in mixed precision does the same work as one in FP32, up to the rounding of mixed precision.

Run it with a Python that has PyTorch:

    PYTHON benchmarks/mixed.py --compiler fused-cudnn --precision amp-fp16
    PYTHON benchmarks/mixed.py --compiler none --precision amp-bf16 --model mobilenet_v1 --device cpu --batch 8 \
        --image-size 64 --own-layout nchw

Three workers train from the same weights on the same batches: in FP32 without a compiler (the truth), in the mixed
precision without a compiler (what that precision costs), and the step that is looked at: the very function that is
timed, which records its CUDA graph in the third step and replays it from then on. Before each step all of them get the
truth's weights. Of each parameter's updates, each batch norm's means and variances and the losses, taken together
over all steps, the distance to the truth is to be at most ``FACTOR`` times that of the step without a compiler, or of
the median of its kind, where that is more. No tolerance is invented: the plain step sets it. Exit code 0: it holds.

A ResNet begins with the last norm of each block at ``DAMPED``: at 1 each block multiplies what 16 bits have rounded
away, and the first layers' gradients are 0.7 of their length from FP32's; a limit there would pass an update of zero,
which is 1 away. What has no limit below ``TELLS`` is therefore not said to hold.
"""

import argparse
import importlib
import json
import runpy
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from overhead import START

FACTOR = 1.5

DAMPED, TELLS = 0.2, 0.5

RATE = 0.01
"""At which the loss stays where a training has it; at 0.1 it was 46 after four steps."""

FLOOR = 1e-5
"""Of what is compared: differences that FP32 makes itself, where weights are read before and after a step."""

KINDS = ("update", "batch-mean", "batch-variance", "loss")


class Followed(NamedTuple):
    """The record of a training: for each step the weights before it, and the values to compare, by kind and name."""

    starts: list[dict[str, Any]]
    subjects: dict[tuple[str, str], list[Any]]


class Finding(NamedTuple):
    """The relative distance of a subject from the truth, and the distances of the plain step and the limit."""

    kind: str
    name: str
    own: float
    plain: float
    limit: float

    @property
    def holds(self) -> bool:
        """Return whether it is within a limit that tells something; what is no number is not."""
        return self.own <= self.limit < TELLS


def distances(truth: Mapping[tuple[str, str], Sequence[Any]], other: Mapping[tuple[str, str], Sequence[Any]]) -> dict[tuple[str, str], float]:  # fmt: skip  # noqa: E501
    """Return each subject's distance to the truth over the truth's size, both over all steps together."""
    found = {}
    for key, steps in truth.items():
        pairs = [
            (np.asarray(a, np.float64), np.asarray(b, np.float64))
            for a, b in zip(steps, other[key], strict=True)
        ]
        away = sum(float(np.sum((b - a) ** 2)) for a, b in pairs)
        size = sum(float(np.sum(a**2)) for a, _ in pairs)
        found[key] = float(np.sqrt(away / size)) if size else float(np.sqrt(away))
    return found


def judged(truth: Any, plain: Any, own: Any) -> list[Finding]:
    """Return a finding for each subject; the three are subjects as ``Followed`` has them."""
    plainly, ours = distances(truth, plain), distances(truth, own)
    usual = {
        kind: statistics.median([value for key, value in plainly.items() if key[0] == kind])
        for kind, _ in truth
    }
    return [
        Finding(
            kind,
            name,
            ours[kind, name],
            plainly[kind, name],
            FACTOR * max(plainly[kind, name], usual[kind]) + FLOOR,
        )
        for kind, name in truth
    ]


def damped(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Return a network's first weights with the last norms of a ResNet's blocks at ``DAMPED``."""
    return {
        name: DAMPED * value if name.endswith(".c.bn.weight") else value for name, value in weights.items()
    }


def follow(training: Any, batches: Sequence[Any], starts: Sequence[Mapping[str, Any]]) -> Followed:
    """Train a step on each batch, from ``starts``: all of them, or the first one alone."""
    statistic = training.task.check(training.settings).statistic
    training.rates[:] = [RATE] * len(training.rates)
    found = Followed([], {})
    for index, batch in enumerate(batches):
        if index < len(starts):
            training.load_weights(starts[index])
        training.set_batch(*batch)
        before = training.read_weights()
        training.step(index)
        training.synchronize()
        after = training.read_weights()
        found.starts.append(before)
        observed: dict[tuple[str, str], Any] = {("loss", "loss"): training.own_losses()[index]}
        for name, old in before.items():
            if training.task.is_trainable(name):
                observed["update", name] = old - after[name]
            else:
                kind = "batch-mean" if "mean" in name else "batch-variance"
                observed[kind, name] = statistic(old, after[name])
        for key, value in observed.items():
            found.subjects.setdefault(key, []).append(value)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--compiler", default="fused-cudnn")
    parser.add_argument("--precision", default="amp-fp16")
    parser.add_argument("--model", default="resnet50_v1.5")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--steps", type=int, default=5, help="two of them before a graph is recorded")
    parser.add_argument("--own-layout", default="nhwc", help="of the step that is looked at")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where all findings go")
    own = parser.parse_args()

    runpy.run_path(str(START))
    arguments = importlib.import_module("trainmark_worker.core.arguments")
    place = importlib.import_module("trainmark_worker.core.place").place_from({})
    room = importlib.import_module("trainmark_worker.models.pytorch_image_classification")
    task: Any = None
    followed: list[Followed] = []
    for precision, compiler, layout in (
        ("fp32", "none", "nhwc"), (own.precision, "none", "nhwc"), (own.precision, own.compiler, own.own_layout),
    ):  # fmt: skip
        flags = [
            "--framework=pytorch", f"--model={own.model}", f"--precision={precision}", f"--compiler={compiler}",
            f"--layout={layout}", f"--batch-per-device={own.batch}", f"--image-size={own.image_size}",
            f"--device={own.device}", f"--steps={own.steps}", "--warmup-steps=1", "--loss-scale=128",
            "--momentum=0.875", "--weight-decay=3e-5", "--equivalence=given-here",
        ]  # fmt: skip
        settings = arguments.parse(flags, 1)
        training = room.open_training(settings, place)
        task = training.task
        batches = [task.synthetic(settings, index) for index in range(own.steps)]
        starts = followed[0].starts if followed else [damped(training.read_weights())]
        followed.append(follow(training, batches, starts))
        training.close()
    findings = judged(*(one.subjects for one in followed))
    return tell(own, findings)


def tell(own: argparse.Namespace, findings: Sequence[Finding]) -> int:
    wrong = [finding for finding in findings if not finding.holds]
    for kind in KINDS:
        those = [finding for finding in findings if finding.kind == kind]
        worst = max(those, key=lambda finding: finding.own / finding.limit)
        middle = [
            statistics.median(getattr(finding, which) for finding in those) for which in ("own", "plain")
        ]
        print(
            f"{kind}: {len(those)}; from FP32, median: this step {middle[0]:.2e}, the plain one {middle[1]:.2e};"
            f" nearest to its limit {worst.name}: {worst.own:.2e} of {worst.limit:.2e}"
        )
    for finding in wrong[:10]:
        word = "DIFFERS" if finding.limit < TELLS else "NOT TOLD"
        print(f"{word} {finding.kind} {finding.name}: {finding.own:.2e}, limit {finding.limit:.2e}")
    print(
        f"{own.model}, {own.precision}, {own.compiler}: {len(findings) - len(wrong)} of {len(findings)} hold"
    )
    if own.json:
        own.json.write_text(
            json.dumps([finding._asdict() | {"holds": finding.holds} for finding in findings])
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
