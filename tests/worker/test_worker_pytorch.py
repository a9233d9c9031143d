"""What PyTorch's worker alone has: its recipe, its launcher, its decoders, and how its loaders can end."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from worker_process import (
    LONG_S,
    beside,
    command,
    end_group,
    ended,
    make_images,
    rank_variables,
    read_events,
    start_rank,
    train,
    wait_for_steps,
)

from frameworks import framework_python, needs_framework
from trainmark.placement import free_ports

pytestmark = [pytest.mark.training, needs_framework("pytorch"), pytest.mark.xdist_group("worker-pytorch")]


def in_pytorch(code: str) -> Any:
    return beside("pytorch", "import torch\n" + code)


def test_a_step_that_computes_in_another_type_than_asked_is_invalid() -> None:
    told = in_pytorch("""
from trainmark_worker.core.arguments import parse
from trainmark_worker.core.outcomes import RunError
from trainmark_worker.core.place import place_from
from trainmark_worker.models.pytorch_image_classification import open_training
flags = "--framework pytorch --model mobilenet_tiny --precision amp-bf16 --batch-per-device 2 --image-size 32"
training = open_training(parse(flags.split(), 1), place_from({}))
training.autocast = torch.autocast("cpu", enabled=False)
training.network.float()
training.batch = (training.batch[0].float(), training.batch[1])
training.step(0)
try:
    training.actual()
except RunError as error:
    print(json.dumps([error.outcome, error.reason]))
""")

    assert told == ["invalid", "compute_dtype of the first step was float32, not bfloat16 as requested"]


# The models and the recipe.


def test_resnet50_has_its_parameters_and_strides_in_the_3x3() -> None:
    count, strided, shape = in_pytorch("""
from trainmark_worker.models.pytorch_image_classification import build_model, count_parameters
model = build_model("resnet50_v1.5", 1000)
strided = [name for name, m in model.named_modules() if isinstance(m, torch.nn.Conv2d) and m.stride == (2, 2)]
model.eval()
shape = list(model[:-3](torch.zeros(1, 3, 224, 224)).shape)
print(json.dumps([count_parameters(model.parameters()), strided, shape]))
""")

    assert count == 25_557_032
    # Behind the four layers of the stem.
    first_of_stage = (4 + 3, 4 + 7, 4 + 13)
    expected = [name for i in first_of_stage for name in (f"{i}.conv2", f"{i}.shortcut.0")]
    assert strided == ["0", *expected]
    assert shape == [1, 2048, 7, 7]


def test_batch_norm_does_not_decay_unless_asked() -> None:
    groups = in_pytorch("""
from trainmark_worker.core.arguments import parse
from trainmark_worker.models.pytorch_image_classification import build_model
from trainmark_worker.tasks.image_classification.observing import decay_groups
from trainmark_worker.pytorch_fast.optimizers import sgd
model = build_model("mobilenet_v1", 1000)
out = []
for extra in ([], ["--bn-weight-decay"]):
    settings = parse(["--framework", "pytorch", *extra], 1)
    optimizer = sgd(decay_groups(model, torch.nn.BatchNorm2d, settings.recipe), settings.recipe)
    out.append([[sum(p.numel() for p in g["params"]), g["weight_decay"]] for g in optimizer.param_groups])
print(json.dumps(out))
""")

    batch_norm = 2 * (
        32 + sum(2 * width for width in (32, 64, 128, 128, 256, 256, *[512] * 6, 1024)) + 1024 - 32
    )
    decay = 3.0517578125e-05
    (others, without), (with_others, asked) = groups
    assert others == with_others == [4_231_976 - without[0], decay]
    assert without[1] == 0.0
    assert asked[1] == decay
    assert without[0] == batch_norm


def test_a_skipped_first_step_leaves_no_rubbish_in_the_momentum() -> None:
    finite = in_pytorch("""
from trainmark_worker.core.arguments import parse
from trainmark_worker.tasks.image_classification.observing import decay_groups
from trainmark_worker.pytorch_fast.optimizers import sgd
model = torch.nn.Linear(64, 64)
settings = parse(["--framework", "pytorch"], 1)
optimizer = sgd(decay_groups(model, torch.nn.BatchNorm2d, settings.recipe), settings.recipe)
scaler = torch.amp.GradScaler("cpu")
before = model.weight.detach().clone()
for factor in (float("inf"), 1.0):
    scaler.scale((model(torch.ones(2, 64)) * factor).sum()).backward()
    scaler.step(optimizer); scaler.update(); optimizer.zero_grad()
moved = (model.weight - before).abs().max().item()
print(json.dumps([bool(torch.isfinite(model.weight).all()), moved]))
""")

    assert finite[0] is True
    # One step of 0.032 along a gradient of 2, and no momentum but its own.
    assert finite[1] == pytest.approx(0.064, rel=0.01)


def test_lamb_under_a_scaled_loss_reads_nothing_back_and_leaves_a_step_that_overflows_out() -> None:
    read, still, counts, apart = in_pytorch("""
from torch.utils._python_dispatch import TorchDispatchMode
from trainmark_worker.core.arguments import parse
from trainmark_worker.pytorch_fast.optimizers import Lamb, steps_taken
class Watch(TorchDispatchMode):
    read = 0
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.read += "_local_scalar_dense" in str(function)
        return function(*args, **(kwargs or {}))
flags = "--framework pytorch --task masked-lm --optimizer lamb --precision amp-fp16"
recipe = parse(flags.split(), 1).recipe
def made():
    torch.manual_seed(1)
    model = torch.nn.Linear(16, 16)
    return model, Lamb([([model.weight], 0.1), ([model.bias], 0.0)], recipe)
(scaled, lamb), (plain, other) = made(), made()
scaler, watch = torch.amp.GradScaler("cpu", init_scale=4.0), Watch()
given, start = torch.randn(8, 16), [p.detach().clone() for p in scaled.parameters()]
still, counts = [], []
for factor in (float("inf"), 1.0, float("nan"), 2.0):
    scaler.scale((scaled(given) * factor).square().mean()).backward()
    with watch:
        scaler.step(lamb)
    scaler.update(4.0); lamb.zero_grad()
    if factor in (1.0, 2.0):
        (plain(given) * factor).square().mean().backward()
        other.step(); other.zero_grad()
    still.append(all(torch.equal(a, b) for a, b in zip(start, scaled.parameters())))
    start = [p.detach().clone() for p in scaled.parameters()]
    counts.append(steps_taken(lamb))
apart = max((a - b).abs().max().item() for a, b in zip(scaled.parameters(), plain.parameters()))
print(json.dumps([watch.read, still, counts, apart]))
""")

    assert read == 0
    assert still == [True, False, True, False]
    assert counts == [0, 1, 1, 2]
    assert apart < 1e-6


def test_label_smoothing_changes_the_loss_by_its_formula() -> None:
    loss, expected = in_pytorch("""
from trainmark_worker.core.arguments import parse
from trainmark_worker.core.place import place_from
from trainmark_worker.models.pytorch_image_classification import open_training
flags = "--framework pytorch --model mobilenet_tiny --batch-per-device 2 --image-size 32 --label-smoothing 0.3"
training = open_training(parse(flags.split(), 1), place_from({}))
logits, labels = torch.randn(5, 10), torch.arange(5)
log = logits.log_softmax(1)
expected = -(0.7 * log[range(5), labels] + 0.3 * log.mean(1)).mean()
print(json.dumps([training.loss(logits, labels).item(), expected.item()]))
""")

    assert loss == pytest.approx(expected, rel=1e-5)


@pytest.mark.rare
def test_another_shape_is_a_compilation_that_is_counted() -> None:
    counts = in_pytorch("""
from trainmark_worker.pytorch_fast.compilers import compilations, compile_model
model = compile_model(torch.nn.Linear(4, 4), "torch.compile", {})
counts = [compilations("torch.compile")]
for batch in (2, 2, 3):
    model(torch.ones(batch, 4)).sum().backward()
    counts.append(compilations("torch.compile"))
print(json.dumps(counts))
""")

    assert counts == [0, 1, 1, 2]


def test_what_nvjpeg_refuses_is_given_to_pillow_and_what_nothing_decodes_is_left_out_and_named(
    tmp_path: Path,
) -> None:
    data = make_images(tmp_path / "data", count=5)
    photos = sorted(data.glob("*/*.jpg"))
    whole = photos[1].read_bytes()
    with Image.open(photos[0]) as image:
        image.save(photos[0], format="PNG")
    photos[1].write_bytes(whole[:500])
    with Image.open(photos[2]) as image:
        image.convert("CMYK").save(photos[2], format="JPEG")
    with Image.open(photos[3]) as image:
        image.save(photos[3], format="JPEG", comment=b"odd")

    in_slots, shapes, crops, asked, unreadable, same = in_pytorch(f"""
# There is no GPU here: in its place stands a decoder that refuses what nvJPEG may, here by its comment.
import numpy as np
from trainmark_worker.tasks.image_classification.decoding import choose_decoder
from trainmark_worker.tasks.image_classification.images import Draw, ImageList
from trainmark_worker.pytorch_fast.images.nvjpeg_loader import Maker, Files, Slots, Task, unpack_parts
images = ImageList({[str(path) for path in photos]!r}, [0, 0, 1, 1, 1])
unreadable = []
class OnCpu(Maker):
    def __init__(self):
        self._device, self.asked = torch.device("cpu"), []
        self._leave_out = lambda photo, why: unreadable.append(images.paths[photo.image])
    def _on_gpu(self, photos, files):
        self.asked.append(len(files))
        data = [file.numpy().tobytes() for file in files]
        if any(b"odd" in file[:100] for file in data):
            raise ValueError("nvJPEG: this kind of JPEG is not supported")
        return [torch.from_numpy(choose_decoder().decode(file)).permute(2, 0, 1) for file in data]
maker, slots = OnCpu(), Slots(2, 1)
files = Files(images, 0, slots)
draws = [Draw(0, image) for image in range(5)]
parts = [files.__getitems__(Task(0, 0, draws[:2]))]
slots.size = 1
parts.append(files.__getitems__(Task(1, 0, draws[2:])))
in_slots = [part.files is None for part in parts]
photos, apart = unpack_parts(parts, slots)
decoded = maker._decode(photos, apart)
shapes = [image if image is None else list(image.shape) for image in decoded]
alone = maker._decode([photos[0], photos[4]], [apart[0], apart[4]])
same = all(bool((one == other).all()) for one, other in zip(alone, [decoded[0], decoded[4]]))
crops = [list(photo.crop) for photo in photos]
print(json.dumps([in_slots, shapes, crops, maker.asked, unreadable, same]))
""")

    # What is too much for its slot is handed over by itself.
    assert in_slots == [True, False]
    sizes = []
    for photo in photos[3:]:
        with Image.open(photo) as image:
            sizes.append([3, image.height, image.width])
    # Of what a process has decoded it hands over no more than what is trained on.
    assert shapes == [[3, *crops[0][2:]], None, [3, *crops[2][2:]], *sizes]
    assert crops[0][:2] == crops[2][:2] == [0, 0]
    # Those that JPEG engines read together, and since they are refused one by one; without the odd one at once.
    assert asked == [2, 1, 1, 1]
    assert unreadable == [str(photos[1])]
    assert same


def test_files_and_pictures_reach_nvjpeg_through_slots_that_are_used_again_and_again(tmp_path: Path) -> None:
    data = make_images(tmp_path / "data", count=12)

    inspected = in_pytorch(f"""
import time
from pathlib import Path
from types import SimpleNamespace
from trainmark_worker.core.place import place_from
from trainmark_worker.core.queues import in_parts
from trainmark_worker.tasks.image_classification.decoding import choose_decoder, decode_whole
from trainmark_worker.tasks.image_classification.images import Draw, read_images, random_resized_crop, randomness
from trainmark_worker.pytorch_fast.images.nvjpeg_loader import (
    DECODED, read_in_processes, unpack_parts
)
images = read_images({str(data)!r}, 10)
files = [Path(path).read_bytes() for path in images.paths]
pictures = [decode_whole(file, choose_decoder()) for file in files]

def is_right(epoch, photo, data):
    data = data.numpy().tobytes()
    picture = pictures[photo.image]
    height, width = picture.shape[:2]
    box = random_resized_crop(width, height, randomness(1, Draw(epoch, photo.image)))
    if photo.state == DECODED:
        part = picture[box.top : box.top + box.height, box.left : box.left + box.width]
        return data == part.tobytes() and photo.crop == (0, 0, *part.shape[:2])
    crop = (box.top, box.left, box.height, box.width)
    return data == files[photo.image] and photo.crop == crop and photo.shape == (3, height, width)

told = []
for batch, workers, by_host in ((8, 3, 0.4), (6, 2, 0.0), (4, 0, 1.0)):
    settings = SimpleNamespace(batch_per_device=batch, seed=1)
    share = in_parts(batch, workers, ahead=2)
    slots, batches = read_in_processes(images, settings, place_from({{}}), share, by_host)
    decoded, wrong = 0, 0
    for number in range(24):
        photos, data = unpack_parts(next(batches), slots)
        epochs = [(number * batch + index) // 12 for index in range(batch)]
        decoded += sum(photo.state == DECODED for photo in photos)
        # Long enough for the processes to write wherever they may.
        time.sleep(0.02)
        wrong += sum(not is_right(*one) for one in zip(epochs, photos, data))
    told.append([wrong, decoded, slots.count < 24 * share.in_batch])
print(json.dumps(told))
""")

    # None is another one's, each batch has its share decoded, and there are fewer slots than parts that were read.
    assert inspected == [[0, 24 * round(0.4 * 8), True], [0, 0, True], [0, 24 * 4, True]]


def test_a_process_decodes_no_picture_that_would_take_the_room_of_the_files_after_it(tmp_path: Path) -> None:
    data = make_images(tmp_path / "data", count=4)

    ways = in_pytorch(f"""
import os
from trainmark_worker.tasks.image_classification.images import Draw, read_images
from trainmark_worker.pytorch_fast.images.nvjpeg_loader import DECODED, Files, Slots, Task
images = read_images({str(data)!r}, 10)
slots = Slots(1, 4)
ways = []
as_files = sum(os.path.getsize(path) for path in images.paths)
for size in (2**20, int(1.2 * as_files), as_files - 1):
    slots.size = size
    part = Files(images, 0, slots).__getitems__(Task(0, 4, [Draw(0, image) for image in range(4)]))
    ways.append([sum(photo.state == DECODED for photo in part.photos), part.files is None])
print(json.dumps(ways))
""")

    (all_of_them, fit), (some, fit_too), (none, too_large) = ways
    assert (all_of_them, none) == (4, 0)
    assert 0 <= some < 4, "as many as fit, with the files"
    assert (fit, fit_too, too_large) == (True, True, False)


def test_nvjpegs_batches_are_of_their_own_files_and_what_goes_wrong_ends_them(
    tmp_path: Path,
) -> None:
    data = make_images(tmp_path / "data", count=12)

    told = in_pytorch(f"""
# There is no GPU here: in the place of its maker stands one that takes its time, and looks at the files twice.
import multiprocessing, random, time
from pathlib import Path
from types import SimpleNamespace
from trainmark_worker.core.outcomes import RunError
from trainmark_worker.core.place import place_from
from trainmark_worker.pytorch_fast.images import nvjpeg_loader
overwritten, unpinned = [], []
nvjpeg_loader.Slots.pin = lambda slots: None
nvjpeg_loader.Slots.unpin = lambda slots: unpinned.append(1)
class Slow:
    def __init__(self, device, resample, slots, decoder, leave_out):
        self.slots = slots
    def make(self, parts):
        photos, files = nvjpeg_loader.unpack_parts(parts, self.slots)
        once = [file.numpy().tobytes() for file in files]
        time.sleep(0.03 * random.random())
        overwritten.extend(a != b.numpy().tobytes() for a, b in zip(once, files))
        return torch.zeros(len(photos)), torch.tensor([photo.image for photo in photos])
    def close(self):
        pass
nvjpeg_loader.Maker = Slow
def opened(batch, workers):
    settings = SimpleNamespace(batch_per_device=batch, seed=1, data={str(data)!r}, classes=10, loader_workers=workers)
    return nvjpeg_loader.NvjpegFeed(settings, place_from({{}}), None, None, SimpleNamespace(hardware=True))
def batch_of(feed):
    made = feed.timed(feed._ready.get)
    if isinstance(made, RunError):
        raise made
    return made[1].tolist()
orders = []
for batch, workers in ((6, 2), (4, 0)):
    feed = opened(batch, workers)
    images = sum((batch_of(feed) for _ in range(24)), [])
    feed.close()
    orders.append(all(sorted(images[at : at + 12]) == list(range(12)) for at in range(0, len(images), 12)))
feed = opened(6, 2)
batch_of(feed)
next(iter(Path({str(data)!r}).glob("*/*.jpg"))).unlink()
try:
    for _ in range(40):
        batch_of(feed)
    said = None
except RunError as error:
    said = str(error)
feed.close()
shares = [round(nvjpeg_loader.by_processes(workers), 2) for workers in (0, 8, 14)]
left = len(multiprocessing.active_children())
print(json.dumps([orders, any(overwritten), said, left, len(unpinned), shares]))
""")

    orders, overwritten, said, processes, unpinned, shares = told
    assert orders == [True, True]
    assert not overwritten
    assert "cannot read" in said
    assert (processes, unpinned) == (0, 3)
    # The look at a known picture, without processes, sees either way of decoding.
    assert shares == [0.16, 0.16, 0.28]


def test_nvjpeg_asks_for_a_hardware_queue_for_each_stream_unless_somebody_has_said_how_many() -> None:
    said = in_pytorch("""
import os
from trainmark_worker.pytorch_fast.images.nvjpeg import request_queues
said = []
for asked in (None, "8"):
    os.environ.pop("CUDA_DEVICE_MAX_CONNECTIONS", None)
    if asked is not None:
        os.environ["CUDA_DEVICE_MAX_CONNECTIONS"] = asked
    request_queues()
    said.append(os.environ["CUDA_DEVICE_MAX_CONNECTIONS"])
print(json.dumps(said))
""")

    assert said == ["32", "8"]


# Launchers, and how a run can end.


@pytest.mark.rare
def test_torchrun_starts_it(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    torchrun = [
        framework_python("pytorch"),
        "-m",
        "torch.distributed.run",
        "--nproc-per-node=2",
        f"--master-port={free_ports(1)}",
    ]

    done = subprocess.run(
        [*torchrun, *command({}, events)[1:]], capture_output=True, text=True, timeout=LONG_S, check=False
    )

    assert done.returncode == 0, done.stderr
    assert read_events(events)[-1]["data"]["world_size"] == 2


def test_a_failure_of_another_rank_than_the_first_has_a_file_of_its_own(tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"

    # Alone, because its failure comes before the ranks meet.
    second = start_rank({"data": str(tmp_path / "nowhere")}, events, rank_variables(1, 2, free_ports(1)))
    with second:
        _, stderr = second.communicate(timeout=LONG_S)

    assert second.returncode == 3
    assert "trainmark-worker: rank 1: failed: the data set" in stderr
    last = read_events(tmp_path / "events.jsonl.rank1")[-1]["data"]
    assert (last["rank"], last["outcome"]) == (1, "failed")
    assert "does not exist" in last["reason"]
    assert not events.exists()


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ("/nowhere/at/all/events.jsonl", "cannot write the events to"),
        ("/dev/full", "No space left on device"),
    ],
)
def test_events_that_cannot_be_written_are_said_on_standard_error(events: str, said: str) -> None:
    with start_rank({}, Path(events)) as process:
        _, stderr = process.communicate(timeout=LONG_S)

    assert process.returncode == 3
    assert said in stderr.splitlines()[-1]


def test_a_loader_process_that_is_killed_fails_the_run(tmp_path: Path) -> None:
    data = str(make_images(tmp_path / "data"))
    events = tmp_path / "events.jsonl"
    process = start_rank({"steps": "1000000", "data": data}, events, {})
    try:
        wait_for_steps(process)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii")
        os.kill(int(children.split()[0]), signal.SIGKILL)
        process.communicate(timeout=LONG_S)
    finally:
        end_group(process)

    assert process.returncode == 3
    last = read_events(events)[-1]["data"]
    assert last["outcome"] == "failed"
    assert last["reason"].startswith("a loader process ended")


def test_a_data_set_that_is_missing_or_empty_fails_before_any_step(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    missing, empty = train(tmp_path, data=tmp_path / "nowhere"), train(tmp_path, data=tmp_path / "empty")

    assert [ran.last["outcome"] for ran in (missing, empty)] == ["failed", "failed"]
    assert "does not exist" in missing.last["reason"]
    assert "no JPEG images" in empty.last["reason"]
    assert len(missing.events) == len(empty.events) == 1


def test_a_run_that_was_started_ahead_does_the_same_work_as_others(tmp_path: Path) -> None:
    plain = train(tmp_path, anew=True)
    run, events = tmp_path / "run", tmp_path / "run" / "events.jsonl"
    process = subprocess.Popen(
        command({}, events),
        env={**os.environ, "TRAINMARK_WAITS": str(run)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    maps, deadline = Path(f"/proc/{process.pid}/maps"), time.monotonic() + 300
    while "libtorch_python" not in maps.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert not run.exists()
    run.mkdir()
    assert process.stdin is not None
    process.stdin.write("\n")

    ahead = ended(process, events)

    assert (ahead.code, ahead.stderr) == (0, "")
    assert ahead.parameters == plain.parameters
    assert [step["loss"] for step in ahead.steps] == [step["loss"] for step in plain.steps]
    assert ahead.last.keys() == plain.last.keys()
    assert ahead.last["after_window"] == plain.last["after_window"]
    assert ahead.doubts == plain.doubts == []
