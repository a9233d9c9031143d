r"""The least time of a training step, layer by layer: what each must compute and move, by two rates.

    python benchmarks/floor.py --batch 256 --bytes-of-value 2 --tera-operations 760 --tera-bytes 4.1
    python benchmarks/floor.py --model mobilenet_v1 --batch 8 --image-size 96 --tera-operations 0.1 --tera-bytes 0.01

The rates are those that a run told (``peak_operations_per_s`` and ``peak_bytes_per_s`` of its last event); what is
counted stands in ``worker/core/task.py``. Printed are for each layer and pass the operations and bytes, which of
the two is longer, and its time; then the step's.
"""

import argparse
import importlib
import runpy
import sys

from overhead import START


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="resnet50_v1.5")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--image-size", type=int, default=224)
    parser.add_argument("--bytes-of-value", type=int, default=2, help="2 in mixed precision, 4 in FP32")
    parser.add_argument("--tera-operations", type=float, required=True, help="a second, of a matrix product")
    parser.add_argument("--tera-bytes", type=float, required=True, help="a second, read and written")
    own = parser.parse_args()
    runpy.run_path(str(START))
    arguments = importlib.import_module("trainmark_worker.core.arguments")
    task = importlib.import_module("trainmark_worker.tasks.image_classification").TASK
    floor_of = importlib.import_module("trainmark_worker.core.probes").floor_of
    words = [
        "--framework=pytorch", f"--model={own.model}", f"--batch-per-device={own.batch}",
        f"--image-size={own.image_size}", "--steps=2", "--warmup-steps=1",
    ]  # fmt: skip
    pieces = task.pieces(arguments.parse(words, 1), own.bytes_of_value)
    rates = own.tera_operations * 1e12, own.tera_bytes * 1e12
    by_memory = 0
    print(f"{'':<34} {'10^9 operations':>16} {'10^6 bytes':>12} {'bound by':>10} {'us':>9}")
    for piece in pieces:
        floor = floor_of([piece], *rates)
        waits = floor.bytes_s >= floor.operations_s
        by_memory += waits
        print(
            f"{piece.name:<34} {piece.operations / 1e9:16.3f} {piece.moved_bytes / 1e6:12.2f} "
            f"{'memory' if waits else 'product':>10} {floor.step_s * 1e6:9.1f}"
        )
    whole = floor_of(pieces, *rates)
    print(
        f"a step at least {whole.step_s * 1e3:.3f} ms, at most {own.batch / whole.step_s:.1f} images/s; all operations "
        f"{whole.operations_s * 1e3:.3f} ms, all bytes {whole.bytes_s * 1e3:.3f} ms; {by_memory} of {len(pieces)} "
        "passes wait for memory"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
