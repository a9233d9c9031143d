"""The speed of each loader at decoding, cropping and flipping JPEG files on one core, relative to libjpeg-turbo.
libjpeg-turbo.

    python benchmarks/loaders.py [--images 512] [--seconds 4] [--rounds 3] [--json]

A data set is made and converted first. Every loader runs in its own framework's environment (``trainmark env create``),
as a process of its own that is held on one core; the loaders take turns, round after round. What runs is the worker's
own loader, with one loader process or thread, up to what it hands over in host memory. The work is the same for all:
read from the page cache, decode, random-resized crop to 224 pixels, flip. Bytes come out; the loaders of MXNet and
MindSpore also normalise, and floats come out. A loader whose environment is not there is named as absent; DALI is an
extra of PyTorch's (``trainmark env create pytorch --extra dali``). Not here: ``nvjpeg`` and ``dali-gpu``, which decode
on a GPU, and OneFlow's loader, for which there is no wheel to install.

Speeds are images for each second of processor time, of all threads and processes of the loader, so that other work on
the machine counts less; images/s by the clock stand beside them. The share is that of the limit, the whole pictures
decoded with simplejpeg (libjpeg-turbo) and nothing else, in the same round; shown are medians over the rounds.
"""

from __future__ import annotations

import argparse
import datetime
import importlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

SIZE = 224
BATCH = 32
WARM_UP_S = 1.0
WORKER = Path(__file__).resolve().parents[1] / "src" / "trainmark" / "worker"
FOLDER, SHARDS, RECORDS = "photos", "photos.tfrecord", "photos.recordio"
LIMIT = "simplejpeg, decoding alone"
DALI = "nvidia.dali"

# As inside an environment, and at module level: a spawned loader process imports this file before its work.
sys.path.insert(0, str(WORKER))
importlib.import_module("start")


Counts = Generator[int, None, None]
"""How many images came, batch after batch, without end; closing it ends the loader."""


class Loader(NamedTuple):
    """A loader: its environment, what makes its endless row of image counts, and a module that it needs besides."""

    environment: str
    images: Callable[[Path], Counts]
    needs: str | None = None

    @property
    def remedy(self) -> str:
        """Return the command that makes what the loader needs."""
        return f"trainmark env create {self.environment}" + (" --extra dali" if self.needs == DALI else "")


def bare(data: Path) -> Counts:
    import simplejpeg

    for file in endless_files(data):
        simplejpeg.decode_jpeg(Path(file).read_bytes(), colorspace="RGB")
        yield 1


def endless_files(data: Path) -> Iterator[str]:
    files = sorted(str(path) for path in (data / FOLDER / "train").glob("*/*"))
    random.Random(0).shuffle(files)
    while True:
        yield from files


def with_decoder(name: str) -> Callable[[Path], Counts]:
    """Return trainmark's own decoding with one of its decoders, as a loader process does it."""

    def images(data: Path) -> Counts:
        decoding, pictures = (
            worker("tasks.image_classification.decoding"),
            worker("tasks.image_classification.images"),
        )
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


def of_worker(framework: str, loader: str, source: str) -> Callable[[Path], Counts]:
    """Return a loader of a framework's worker, up to the batches in host memory, with one loader process or thread."""

    def images(data: Path) -> Counts:
        settings, place = settings_of(framework, loader, data / source), worker("core.place").place_from({})
        feed = OPENED[framework](settings, place)
        try:
            for batch in feed._batches:
                if isinstance(batch, Exception):
                    raise batch
                yield int(batch[0].shape[0])
        finally:
            feed.close()

    return images


def open_pytorch(settings: Any, place: Any) -> Any:
    loaders = worker("backends.pytorch.loading")
    import torch

    torch.set_num_threads(1)
    return loaders.open_images(settings, place, torch.device("cpu"), torch.float32)


def open_tensorflow(settings: Any, place: Any) -> Any:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    device = worker("backends.tensorflow.collectives").choose_device("cpu", place)
    loading = worker("backends.tensorflow.loading")
    return loading.open_pipeline(loading.find_source(settings), settings, place, device)


def open_mxnet(settings: Any, place: Any) -> Any:
    import mxnet

    return worker("backends.mxnet.loading").open_images(settings, place, mxnet.cpu())


def open_paddle(settings: Any, place: Any) -> Any:
    return worker("backends.paddle.loading").open_images(settings, place)


def open_jax(settings: Any, place: Any) -> Any:
    group = worker("backends.jax.collectives").Group(place, "cpu")
    return worker("backends.jax.loading").open_images(settings, place, group)


def open_mindspore(settings: Any, place: Any) -> Any:
    return worker("backends.mindspore.loading").open_images(settings, place)


OPENED: dict[str, Callable[[Any, Any], Any]] = {
    "pytorch": open_pytorch,
    "tensorflow": open_tensorflow,
    "mxnet": open_mxnet,
    "paddle": open_paddle,
    "jax": open_jax,
    "mindspore": open_mindspore,
}

PICTURES = f"{FOLDER}/train"

LOADERS: dict[str, Loader] = {
    LIMIT: Loader("pytorch", bare),
    "simplejpeg + OpenCV": Loader("pytorch", with_decoder("simplejpeg")),
    "OpenCV": Loader("pytorch", with_decoder("opencv")),
    "Pillow": Loader("pytorch", with_decoder("pillow")),
    "PyTorch native (DataLoader)": Loader("pytorch", of_worker("pytorch", "native", PICTURES)),
    "PyTorch dali-cpu (files)": Loader("pytorch", of_worker("pytorch", "dali-cpu", PICTURES), DALI),
    "PyTorch dali-cpu-tfrecord": Loader("pytorch", of_worker("pytorch", "dali-cpu-tfrecord", SHARDS), DALI),
    "TensorFlow native-folder (tf.data)": Loader(
        "tensorflow", of_worker("tensorflow", "native-folder", PICTURES)
    ),
    "TensorFlow native (tf.data, TFRecord)": Loader("tensorflow", of_worker("tensorflow", "native", SHARDS)),
    "MXNet native (ImageRecordIter), floats": Loader("mxnet", of_worker("mxnet", "native", RECORDS)),
    "MXNet native-folder (Gluon), floats": Loader("mxnet", of_worker("mxnet", "native-folder", PICTURES)),
    "Paddle native (paddle.io)": Loader("paddle", of_worker("paddle", "native", PICTURES)),
    "JAX native (Grain)": Loader("jax", of_worker("jax", "native", PICTURES)),
    "MindSpore native (dataset), floats": Loader("mindspore", of_worker("mindspore", "native", PICTURES)),
}


def worker(module: str) -> Any:
    """Import a module of trainmark's worker, as it is called inside an environment."""
    return importlib.import_module(f"trainmark_worker.{module}")


def settings_of(framework: str, loader: str, source: Path) -> Any:
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
    return worker("core.arguments").parse([f"--{name}={value}" for name, value in words.items()], 1)


def measure(name: str, data: Path, seconds: float, core: int) -> dict[str, float]:
    """Run one loader in this process, held on one core; return images/s by the clock and by processor time."""
    os.sched_setaffinity(0, {core})
    images = LOADERS[name].images(data)
    next(images)
    until = time.perf_counter() + WARM_UP_S
    while time.perf_counter() < until:
        next(images)
    count, began, began_cpu = 0, time.perf_counter(), processor_s()
    while time.perf_counter() - began < seconds:
        count += next(images)
    wall, cpu = time.perf_counter() - began, processor_s() - began_cpu
    images.close()
    return {"images_per_s": count / wall, "images_per_processor_s": count / cpu}


def processor_s() -> float:
    """Return the seconds of processor time that this process and those under it have used."""
    ticks = sum(map(ticks_of, descendants("self")))
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def descendants(process: str) -> Iterator[str]:
    """Yield the numbers of the processes that a process started, and of those that they did."""
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        for child in children.read_text().split():
            yield child
            yield from descendants(child)


def ticks_of(process: str) -> int:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


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


def pythons() -> dict[str, str]:
    """Return the Python of each environment that is there."""
    from trainmark.environment import folder_of
    from trainmark.files import default_home

    home = default_home(os.environ)
    names = {loader.environment for loader in LOADERS.values()}
    paths = {name: folder_of(home, name) / "bin" / "python" for name in names}
    return {name: str(path) for name, path in paths.items() if path.exists()}


def usable(there: dict[str, str]) -> list[str]:
    """Return the loaders whose environment is there and can import what they need."""
    found: dict[tuple[str, str], bool] = {}

    def imports(environment: str, module: str) -> bool:
        key = (environment, module)
        if key not in found:
            words = [there[environment], "-c", f"import {module}"]
            found[key] = not subprocess.run(words, capture_output=True, check=False).returncode
        return found[key]

    return [
        name
        for name, loader in LOADERS.items()
        if loader.environment in there and (loader.needs is None or imports(loader.environment, loader.needs))
    ]


def make_data(folder: Path, images: int) -> None:
    from trainmark.dataset import available_cores
    from trainmark.dataset.images import Form, ImageFolderSpec, Sizes, convert, make_image_folder

    jobs = available_cores()
    make_image_folder(folder / FOLDER, ImageFolderSpec(images=images, sizes=Sizes.FIXED), jobs)
    convert(folder / FOLDER, folder / SHARDS, Form.TFRECORD, jobs=jobs)
    convert(folder / FOLDER, folder / RECORDS, Form.RECORDIO, jobs=jobs)


def compare(data: Path, given: argparse.Namespace) -> list[dict[str, Any]]:
    """Run the loaders in turns; return a row for each, in the order of ``LOADERS``."""
    there = pythons()
    if "pytorch" not in there:
        sys.exit("the limit is measured in the environment 'pytorch': trainmark env create pytorch")
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in usable(there)}
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
            print(f"{row['loader']:<40}absent: {LOADERS[row['loader']].remedy}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=512)
    parser.add_argument("--seconds", type=float, default=4.0, help="measured, of each loader in each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--core", type=int, default=max(os.sched_getaffinity(0)))
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
