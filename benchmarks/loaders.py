"""How fast each loader decodes, crops and flips the same JPEG files, on one core, beside bare libjpeg-turbo.

    python benchmarks/loaders.py [--images 512] [--seconds 4] [--rounds 3] [--json] [--dali PYTHON]

A data set is made and converted first. Every loader runs in its own framework's environment (``trainmark env create``),
as a process of its own that is held on one core; the loaders take turns, round after round. The work is the same for
all: read from the page cache, decode, random-resized crop to 224 pixels, flip; bytes come out. A loader whose
environment is not there is named as absent. DALI is in no lock file: ``--dali`` names a Python with PyTorch and DALI.

Speeds are images for each second of processor time, of all threads and processes of the loader, so that other work on
the machine counts less; images/s by the clock stand beside them. The share is that of the limit, the whole pictures
decoded with simplejpeg (libjpeg-turbo) and nothing else, in the same round; shown are medians over the rounds.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

SIZE = 224
BATCH = 32
WARM_UP_S = 1.0
WORKER = Path(__file__).resolve().parents[1] / "src" / "trainmark" / "worker"
FOLDER, SHARDS, RECORDS = "photos", "photos.tfrecord", "photos.recordio"
LIMIT = "simplejpeg, decoding alone"


class Loader(NamedTuple):
    """A loader: the environment in which it runs, and what makes its endless row of image counts."""

    environment: str
    images: Callable[[Path], Iterator[int]]


def bare(data: Path) -> Iterator[int]:
    import simplejpeg

    for file in endless_files(data):
        simplejpeg.decode_jpeg(Path(file).read_bytes(), colorspace="RGB")
        yield 1


def endless_files(data: Path) -> Iterator[str]:
    files = sorted(str(path) for path in (data / FOLDER / "train").glob("*/*"))
    random.Random(0).shuffle(files)
    while True:
        yield from files


def with_decoder(name: str) -> Callable[[Path], Iterator[int]]:
    """Return trainmark's own decoding with one of its decoders, as a loader process does it."""

    def images(data: Path) -> Iterator[int]:
        package = worker()
        decoding, pictures = package("decoding"), package("images")
        decoding.single_threaded()
        decode, fit = {
            "simplejpeg": (decoding._decode_simplejpeg, decoding._fit_opencv),
            "opencv": (decoding._decode_opencv, decoding._fit_opencv),
            "pillow": (decoding._decode_pillow, decoding._fit_pillow),
        }[name]
        decoder = decoding.Decoder(name, decode, fit)
        for number, file in enumerate(endless_files(data)):
            decoding.load_image(file, pictures.Draw(0, number), SIZE, 0, decoder)
            yield 1

    return images


def in_pytorch(loader: str, source: str) -> Callable[[Path], Iterator[int]]:
    """Return a loader of the PyTorch worker, up to the bytes in host memory, with one loader process or thread."""

    def images(data: Path) -> Iterator[int]:
        package = worker()
        import torch

        torch.set_num_threads(1)
        settings = settings_of(package, "pytorch", loader, data / source)
        place = package("place").place_from({})
        feed = package("pytorch.loaders").open_loader(settings, place, torch.device("cpu"), torch.float32)
        for pixels, _ in feed._batches:
            yield len(pixels)

    return images


def in_tensorflow(loader: str, source: str) -> Callable[[Path], Iterator[int]]:
    """Return a source of the TensorFlow worker with its preparation of an image, in one thread of tf.data."""

    def images(data: Path) -> Iterator[int]:
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
        package = worker()
        import tensorflow as tf

        loaders, pipeline = package("tensorflow.loaders"), package("tensorflow.loaders.pipeline")
        settings = settings_of(package, "tensorflow", loader, data / source)
        found = loaders.LOADERS[loader](settings)
        numbered = tf.data.Dataset.zip(
            (tf.data.Dataset.counter(), found.examples(package("place").place_from({})))
        )
        batches = numbered.map(
            lambda number, example: pipeline.prepare(found, settings, number, example), num_parallel_calls=1
        ).batch(BATCH)
        options = tf.data.Options()
        options.threading.private_threadpool_size = 1
        options.threading.max_intra_op_parallelism = 1
        for pixels, _ in batches.with_options(options).prefetch(2):
            yield int(pixels.shape[0])

    return images


def in_mxnet(data: Path) -> Iterator[int]:
    import mxnet as mx

    iterator = mx.io.ImageRecordUInt8Iter(
        path_imgrec=str(data / RECORDS / "train.rec"),
        path_imgidx=str(data / RECORDS / "train.idx"),
        data_shape=(3, SIZE, SIZE),
        batch_size=BATCH,
        shuffle=True,
        random_resized_crop=True,
        min_random_area=0.08,
        max_random_area=1.0,
        min_aspect_ratio=3 / 4,
        max_aspect_ratio=4 / 3,
        rand_mirror=True,
        preprocess_threads=1,
        verbose=False,
    )
    while True:
        for batch in iterator:
            batch.data[0].wait_to_read()
            yield BATCH
        iterator.reset()


LOADERS: dict[str, Loader] = {
    LIMIT: Loader("pytorch", bare),
    "simplejpeg + OpenCV": Loader("pytorch", with_decoder("simplejpeg")),
    "OpenCV": Loader("pytorch", with_decoder("opencv")),
    "Pillow": Loader("pytorch", with_decoder("pillow")),
    "PyTorch native (DataLoader)": Loader("pytorch", in_pytorch("native", f"{FOLDER}/train")),
    "PyTorch dali-cpu (files)": Loader("dali", in_pytorch("dali-cpu", f"{FOLDER}/train")),
    "PyTorch dali-cpu-tfrecord": Loader("dali", in_pytorch("dali-cpu-tfrecord", SHARDS)),
    "TensorFlow native-folder (tf.data)": Loader(
        "tensorflow", in_tensorflow("native-folder", f"{FOLDER}/train")
    ),
    "TensorFlow native (tf.data, TFRecord)": Loader("tensorflow", in_tensorflow("native", SHARDS)),
    "MXNet native (ImageRecordIter)": Loader("mxnet", in_mxnet),
}


def worker() -> Callable[[str], Any]:
    """Load trainmark's worker as it is loaded inside an environment; return what imports its modules."""
    import importlib

    sys.path.insert(0, str(WORKER))
    importlib.import_module("start")
    return lambda name: importlib.import_module(f"trainmark_worker.{name}")


def settings_of(package: Callable[[str], Any], framework: str, loader: str, source: Path) -> Any:
    words = {
        "framework": framework,
        "model": "resnet50_v1.5",
        "batch-per-device": BATCH,
        "image-size": SIZE,
        "loader": loader,
        "loader-workers": 1,
        "data": source,
        "events": "unused",
        "device": "cpu",
    }
    return package("arguments").parse([f"--{name}={value}" for name, value in words.items()], 1)


def measure(name: str, data: Path, seconds: float, core: int) -> dict[str, float]:
    """Run one loader in this process, held on one core; return images/s by the clock and by processor time."""
    os.sched_setaffinity(0, {core})
    images = LOADERS[name].images(data)
    until = time.perf_counter() + WARM_UP_S
    while time.perf_counter() < until:
        next(images)
    count, began, began_cpu = 0, time.perf_counter(), processor_s()
    while time.perf_counter() - began < seconds:
        count += next(images)
    wall, cpu = time.perf_counter() - began, processor_s() - began_cpu
    return {"images_per_s": count / wall, "images_per_processor_s": count / cpu}


def processor_s() -> float:
    """Return the seconds of processor time that this process and its children have used."""
    ticks = 0
    for children in Path("/proc/self/task").glob("*/children"):
        for child in children.read_text().split():
            fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def run_loader(python: str, name: str, data: Path, given: argparse.Namespace) -> dict[str, float]:
    words = [
        "--measure",
        name,
        "--data",
        str(data),
        "--seconds",
        str(given.seconds),
        "--core",
        str(given.core),
    ]
    done = subprocess.run(
        [python, str(Path(__file__).resolve()), *words], capture_output=True, text=True, check=False
    )
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        sys.exit(f"{name}: failed: {last[0]}")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def pythons(dali: str) -> dict[str, str]:
    """Return the Python of each environment that is there."""
    from trainmark.environment import default_home, folder_of

    home = default_home(os.environ)
    paths = {name: folder_of(home, name) / "bin" / "python" for name in ("pytorch", "tensorflow", "mxnet")}
    return {name: str(path) for name, path in paths.items() if path.exists()} | (
        {"dali": dali} if dali else {}
    )


def make_data(folder: Path, images: int) -> None:
    from trainmark.dataset import Form, ImageFolderSpec, Sizes, available_cores, convert, make_image_folder

    jobs = available_cores()
    make_image_folder(folder / FOLDER, ImageFolderSpec(images=images, sizes=Sizes.FIXED), jobs)
    convert(folder / FOLDER, folder / SHARDS, Form.TFRECORD, jobs=jobs)
    convert(folder / FOLDER, folder / RECORDS, Form.RECORDIO, jobs=jobs)


def compare(data: Path, given: argparse.Namespace) -> list[dict[str, Any]]:
    """Let the loaders take turns; return a row for each, in the order of ``LOADERS``."""
    there = pythons(given.dali)
    if "pytorch" not in there:
        sys.exit("the limit is measured in the environment 'pytorch': trainmark env create pytorch")
    runs: dict[str, list[dict[str, float]]] = {
        name: [] for name, loader in LOADERS.items() if loader.environment in there
    }
    for number in range(given.rounds):
        for name, its in runs.items():
            its.append(run_loader(there[LOADERS[name].environment], name, data, given))
            speed = its[-1]["images_per_processor_s"]
            sys.stderr.write(f"round {number + 1}: {name}: {speed:.0f} images/s\n")
    rows: list[dict[str, Any]] = []
    for name, loader in LOADERS.items():
        row: dict[str, Any] = {"loader": name, "environment": loader.environment}
        if name in runs:
            for key in ("images_per_processor_s", "images_per_s"):
                row[key] = statistics.median(run[key] for run in runs[name])
            row["share_of_limit"] = statistics.median(
                run["images_per_processor_s"] / limit["images_per_processor_s"]
                for run, limit in zip(runs[name], runs[LIMIT], strict=True)
            )
        rows.append(row)
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    print(f"{'loader':<40}{'images/s of a core':>19}{'by the clock':>14}{'of the limit':>14}")
    for row in rows:
        if "share_of_limit" in row:
            print(
                f"{row['loader']:<40}{row['images_per_processor_s']:>19.0f}{row['images_per_s']:>14.0f}"
                f"{row['share_of_limit']:>13.0%}"
            )
        else:
            print(f"{row['loader']:<40}absent: no environment '{row['environment']}'")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=4.0, help="measured, of each loader in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
    parser.add_argument("--dali", default="", metavar="PYTHON")
    parser.add_argument("--data", type=Path, help="keep the data set in this folder, and use it again")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.measure:
        print(json.dumps(measure(given.measure, given.data, given.seconds, given.core)), flush=True)
        # Loaders' threads and processes have no end of their own.
        os._exit(0)
    with tempfile.TemporaryDirectory() as folder:
        data = (given.data or Path(folder)).absolute()
        data.mkdir(parents=True, exist_ok=True)
        make_data(data, given.images)
        rows = compare(data, given)
    if given.json:
        load = os.getloadavg()[0]
        today = datetime.datetime.now(datetime.UTC).date().isoformat()
        print(json.dumps({"date": today, "images": given.images, "load_at_end": load, "loaders": rows}))
    else:
        show(rows)


if __name__ == "__main__":
    main()
