"""The reports and doubts of the built-in workers with a loader of known rate, behind 1 to 64 loader workers.

    python benchmarks/trust_loader.py                        every environment that is made, 1 to 64 workers
    python benchmarks/trust_loader.py --framework pytorch --workers 1 16 64

Every picture is held back by its loader process until ``workers / rate`` seconds have gone by since it was begun, so
that all of them together make ``rate`` pictures a second, whatever their number and however fast they decode. The
training is faster than that. Reported is the throughput of the run's own window: it has to be within 2 % of the rate,
or in doubt. A machine without cores to spare makes pictures more slowly than they are held back: ``made`` is the rate
at which they were counted in the window, and a report is no higher than that by 2 %, or in doubt. DALI and MXNet's
ImageRecordIter decode in C++ and cannot be held back so.
"""

import argparse
import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
WORKERS = (1, 2, 4, 8, 16, 32, 64)
WITHIN = 0.02
FLAGS = {
    "pytorch": {"layout": "nchw"},
    "tensorflow": {"layout": "nhwc", "compiler": "graph", "loader": "native-folder"},
    "mxnet": {"layout": "nchw", "compiler": "hybridize", "loader": "native-folder"},
    "paddle": {"layout": "nchw"},
    "jax": {"layout": "nhwc", "compiler": "xla"},
    "mindspore": {"layout": "nchw", "compiler": "graph"},
}


def main() -> int:
    """Return 1 where a rate is off and not in doubt."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--framework", nargs="+", choices=tuple(FLAGS), default=tuple(FLAGS))
    parser.add_argument("--workers", nargs="+", type=int, default=WORKERS)
    parser.add_argument("--rate", type=float, default=20.0, help="pictures a second")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--json", action="store_true", help="print one JSON object a run")
    given = parser.parse_args()
    print(
        "| framework | workers | rate | reported | off by | made | doubt |",
        "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
        sep="\n",
    )
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        pictures = make_pictures(Path(folder) / "pictures")
        for row in sweep(given, Path(folder), pictures):
            wrong += not row["holds"]
            if given.json:
                print(json.dumps(row), flush=True)
                continue
            off = f"{row['reported'] / row['rate'] - 1:+.1%}" if row["reported"] else "-"
            cells = (
                row["framework"], row["workers"], f"{row['rate']:.1f}", f"{row['reported'] or 0:.2f}", off,
                f"{row['made'] or 0:.2f}", ", ".join(row["doubts"]) or "none",
            )  # fmt: skip
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    return int(bool(wrong))


def make_pictures(root: Path) -> Path:
    """Write 24 small JPEGs in two class folders."""
    import numpy as np
    from PIL import Image

    noise = np.random.default_rng(0)
    for number in range(24):
        path = root / f"class{number % 2}" / f"{number}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise.integers(0, 255, (48, 64, 3), dtype=np.uint8)).save(path)
    return root


def sweep(given: argparse.Namespace, folder: Path, pictures: Path) -> Iterator[dict[str, Any]]:
    """Yield what each run reported, beside the rate that it had."""
    for framework in given.framework:
        for workers in given.workers:
            yield run(given, framework, workers, folder, pictures)


def run(
    given: argparse.Namespace, framework: str, workers: int, folder: Path, pictures: Path
) -> dict[str, Any]:
    """Train once behind a loader that was slowed down."""
    events = folder / "events.jsonl"
    events.unlink(missing_ok=True)
    flags = {
        "framework": framework, "model": "mobilenet_v1", "batch-per-device": given.batch, "image-size": 32,
        "steps": given.steps, "warmup-steps": 5, "threads": 1, "data": pictures, "loader-workers": workers,
        "events": events, **FLAGS[framework],
    }  # fmt: skip
    words = [
        python_of(framework),
        str(Path(__file__).resolve()),
        "--inside",
        *(f"--{k}={v}" for k, v in flags.items()),
    ]
    done = subprocess.run(
        words, env={**os.environ, "HELD_RATE": str(given.rate)}, capture_output=True, text=True, check=False
    )
    lines = events.read_text(encoding="utf-8").splitlines() if events.exists() else []
    last = json.loads(lines[-1].removeprefix("DLLL "))["data"] if lines else {}
    if last.get("outcome") != "ok":
        reason = last.get("reason") or done.stderr.strip().splitlines()[-1:]
        return {
            "framework": framework, "workers": workers, "rate": given.rate, "reported": None, "made": None,
            "doubts": [str(reason)], "holds": False,
        }  # fmt: skip
    doubts = [entry["code"] for entry in last["suspect"]]
    made = (last["loading"]["produced"][0] or 0) / last["window_s"]
    off = last["throughput"] / given.rate - 1
    return {
        "framework": framework, "workers": workers, "rate": given.rate, "reported": last["throughput"],
        "made": made, "doubts": doubts, "loading": last["loading"],
        # Slower than held is the machine's own; faster, without a doubt, is what must not be.
        "holds": bool(doubts) or abs(off) <= WITHIN or (off < 0 and last["throughput"] <= made * (1 + WITHIN)),
    }  # fmt: skip


def python_of(framework: str) -> str:
    """Return the Python of a framework's environment."""
    places = os.environ.get("TRAINMARK_TEST_ENVS") or Path.home() / ".local/share/trainmark/envs"
    return str(Path(places) / framework / "bin" / "python")


# What runs inside a framework's environment: the worker, whose pictures are held back.


def held(make: Callable[..., Any], seconds: float) -> Callable[..., Any]:
    """Return ``make``, which does not return before so many seconds have gone by."""

    def slowly(*words: Any, **named: Any) -> Any:
        end = time.perf_counter() + seconds
        made = make(*words, **named)
        time.sleep(max(end - time.perf_counter(), 0))
        return made

    return slowly


def know_the_worker() -> None:
    """Make the worker importable as ``trainmark_worker``."""
    sys.path.insert(0, str(ROOT / "src" / "trainmark" / "worker"))
    importlib.import_module("start")


def run_in_environment(flags: list[str]) -> int:
    """Run the worker with the flags, each picture held back."""
    know_the_worker()
    arguments = importlib.import_module("trainmark_worker.core.arguments")
    program: Any = importlib.import_module("trainmark_worker.core.program")
    settings = arguments.parse(flags, 1)
    hold(settings.framework, settings, float(os.environ["HELD_RATE"]))
    return int(program.main(flags))


def hold(framework: str, settings: Any, rate: float) -> None:
    """Hold each picture back where the framework's loader makes it, by as many as really make them."""
    queues: Any = importlib.import_module("trainmark_worker.core.queues")
    batch, loader_workers = settings.batch_per_device, settings.loader_workers
    if framework in ("pytorch", "paddle"):
        workers = queues.in_parts(batch, loader_workers).workers
        loading: Any = importlib.import_module("trainmark_worker.tasks.image_classification.decoding")
        loading.load_image = held(loading.load_image, workers / rate)
    elif framework == "mxnet":
        folder: Any = importlib.import_module("trainmark_worker.backends.mxnet.loading")
        workers = queues.in_parts(batch, loader_workers).workers
        folder.Images.__getitem__ = held(folder.Images.__getitem__, workers / rate)
    elif framework == "jax":
        native: Any = importlib.import_module("trainmark_worker.backends.jax.loading")
        workers = queues.in_parts(batch, loader_workers, native.TASKS, native.TASKS).workers
        native._part = SlowPart(native._part, workers / rate)
    elif framework == "tensorflow":
        np: Any = importlib.import_module("numpy")
        tf: Any = importlib.import_module("tensorflow")
        pipeline: Any = importlib.import_module("trainmark_worker.backends.tensorflow.loading")
        seconds, prepare = min(loader_workers, batch) / rate, pipeline.prepare

        def wait() -> Any:
            time.sleep(seconds)
            return np.int64(0)

        def slowly(*words: Any) -> Any:
            image, label = prepare(*words)
            # A picture takes a fraction of a millisecond here, which adds to the time it is held.
            waited = tf.numpy_function(wait, [], tf.int64, stateful=True)
            with tf.control_dependencies([waited]):
                return tf.identity(image), label

        pipeline.prepare = slowly
    elif framework == "mindspore":
        loader: Any = importlib.import_module("trainmark_worker.backends.mindspore.loading")
        # One thread of Python reads the files, whatever the number of those that decode.
        loader._read = held(loader._read, 1 / rate)


class SlowPart:
    """What makes a part of a batch, each picture held back; it is pickled with the time, into other processes."""

    def __init__(self, part: Callable[..., Any], seconds: float) -> None:
        self.part, self.seconds = part, seconds

    def __call__(self, photos: Any, epochs: Any, positions: range) -> Any:
        return held(self.part, self.seconds * len(positions))(photos, epochs, positions)


if __name__ == "__mp_main__":
    # A loader process that was spawned: it gets parts of the worker pickled.
    know_the_worker()

if __name__ == "__main__":
    sys.exit(run_in_environment(sys.argv[2:]) if sys.argv[1:2] == ["--inside"] else main())
