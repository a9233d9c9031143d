"""The PyTorch worker as a real process: what it trains, and what it says it trained."""

import math
from itertools import pairwise
from pathlib import Path

import pytest
from PIL import Image
from worker_process import in_pytorch, make_images, needs_pytorch, train

pytestmark = [pytest.mark.training, needs_pytorch]


def test_a_run_writes_parameters_then_every_step_then_the_summary(tmp_path: Path) -> None:
    ran = train(tmp_path, steps=7, warmup_steps=3)

    assert ran.code == 0, ran.stderr
    assert [event["step"] for event in ran.events] == ["PARAMETER", *([0, i] for i in range(7)), []]
    assert [step["phase"] for step in ran.steps] == ["first_step", *["warmup"] * 2, *["measured"] * 4]
    assert ran.parameters["schema"] == "trainmark.events/1"
    assert ran.parameters["parameters"] == 4_231_976
    assert ran.parameters["global_batch"] == 2
    assert ran.last["outcome"] == "ok"
    assert ran.last["suspect"] == []
    assert "first step" in ran.stdout.splitlines()


def test_the_window_is_the_sum_of_its_steps(tmp_path: Path) -> None:
    ran = train(tmp_path, steps=12, warmup_steps=2)

    measured = [step["step_time_s"] for step in ran.steps if step["phase"] == "measured"]
    assert len(measured) == 10
    assert math.isclose(sum(measured), ran.last["window_s"], rel_tol=0.02)
    assert ran.last["samples"] == 20
    assert ran.last["throughput"] == ran.last["samples"] / ran.last["window_s"]


def test_a_first_loss_is_near_that_of_guessing(tmp_path: Path) -> None:
    ran = train(tmp_path, classes=10, batch_per_device=16)

    assert abs(ran.steps[0]["loss"] - math.log(10)) < 1


# What a run really computed with.


@pytest.mark.parametrize(
    ("precision", "compute", "weights"),
    [
        ("fp32", "float32", "float32"),
        ("amp-bf16", "bfloat16", "float32"),
        ("bf16", "bfloat16", "bfloat16"),
        ("amp-fp16", "float16", "float32"),
        ("fp16", "float16", "float16"),
    ],
)
def test_a_run_says_in_which_type_it_really_computed(
    tmp_path: Path, precision: str, compute: str, weights: str
) -> None:
    ran = train(tmp_path, precision=precision, steps=4)

    assert ran.code == 0, ran.stderr
    actual = ran.parameters["actual"]
    assert actual["compute_dtype"] == compute
    assert actual["weight_dtype"] == weights
    assert actual["tf32_matmul"] is False
    assert actual["tf32_convolution"] is False
    assert all(step["loss"] is not None for step in ran.steps)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_a_run_says_which_layout_weights_and_activations_really_had(tmp_path: Path, layout: str) -> None:
    actual = train(tmp_path, layout=layout, steps=3).parameters["actual"]

    assert actual["activation_layout"] == layout
    assert actual["weight_layout"] == layout


def test_a_step_that_computes_in_another_type_than_asked_is_invalid() -> None:
    told = in_pytorch("""
from trainmark_worker.core.arguments import parse
from trainmark_worker.core.outcomes import RunError
from trainmark_worker.core.place import place_from
from trainmark_worker.pytorch.image_classification import open_training
flags = "--framework pytorch --model mobilenet_v1 --precision amp-bf16 --batch-per-device 2 --image-size 32"
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

    assert told == ["invalid", "compute_dtype of the first step was float32, not bfloat16 as asked for"]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"precision": "tf32", "device": "cpu"}, "a CPU has no TF32"),
        ({"compiler": "xla"}, "no compiler 'xla'"),
        ({"collective": "horovod"}, "no collective 'horovod'; it has native"),
        ({"data": "/nowhere", "loader": "dali"}, "no loader 'dali'"),
        ({"data": "/nowhere", "loader": "nvjpeg", "device": "cpu"}, "this run is on a CPU"),
    ],
)
def test_what_cannot_be_done_here_is_unsupported_before_any_step(
    tmp_path: Path, flags: dict[str, str], said: str
) -> None:
    ran = train(tmp_path, **flags)

    assert ran.code == 3
    assert ran.last["outcome"] == "unsupported"
    assert said in ran.last["reason"]
    assert ran.last["reason"] in ran.stderr
    assert len(ran.events) == 1


# The models and the recipe.


def test_resnet50_has_its_parameters_and_strides_in_the_3x3() -> None:
    count, strided, shape = in_pytorch("""
from trainmark_worker.pytorch.image_classification.models import build_model, count_parameters
model = build_model("resnet50_v1.5", 1000)
strided = [name for name, m in model.named_modules() if isinstance(m, torch.nn.Conv2d) and m.stride == (2, 2)]
model.eval()
shape = list(model.blocks(model.stem(torch.zeros(1, 3, 224, 224))).shape)
print(json.dumps([count_parameters(model), strided, shape]))
""")

    assert count == 25_557_032
    first_of_stage = (3, 7, 13)
    expected = [name for i in first_of_stage for name in (f"blocks.{i}.conv2", f"blocks.{i}.shortcut.0")]
    assert strided == ["stem.0", *expected]
    assert shape == [1, 2048, 7, 7]


def test_batch_norm_does_not_decay_unless_asked() -> None:
    groups = in_pytorch("""
from trainmark_worker.core.arguments import parse
from trainmark_worker.pytorch.image_classification.models import build_model
from trainmark_worker.pytorch.image_classification.train import make_optimizer
model = build_model("mobilenet_v1", 1000)
out = []
for extra in ([], ["--bn-weight-decay"]):
    optimizer = make_optimizer(model, parse(["--framework", "pytorch", *extra], 1))
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
from trainmark_worker.pytorch.image_classification.train import make_optimizer
model = torch.nn.Linear(64, 64)
optimizer = make_optimizer(model, parse(["--framework", "pytorch"], 1))
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


def test_label_smoothing_changes_the_loss_by_its_formula() -> None:
    loss, expected = in_pytorch("""
from trainmark_worker.core.arguments import parse
from trainmark_worker.core.place import place_from
from trainmark_worker.pytorch.image_classification import open_training
flags = "--framework pytorch --model mobilenet_v1 --batch-per-device 2 --image-size 32 --label-smoothing 0.3"
training = open_training(parse(flags.split(), 1), place_from({}))
logits, labels = torch.randn(5, 10), torch.arange(5)
log = logits.log_softmax(1)
expected = -(0.7 * log[range(5), labels] + 0.3 * log.mean(1)).mean()
print(json.dumps([training.loss(logits, labels).item(), expected.item()]))
""")

    assert loss == pytest.approx(expected, rel=1e-5)


def test_a_loss_that_becomes_nan_is_said_and_the_run_is_kept(tmp_path: Path) -> None:
    ran = train(tmp_path, learning_rate="1e30")

    assert ran.code == 0
    assert ran.last["outcome"] == "ok"
    assert [entry["code"] for entry in ran.last["suspect"]] == ["loss-not-finite"]
    assert any(step["loss"] is None and step["loss_finite"] is False for step in ran.steps)


def test_torch_compile_is_reported_by_itself_and_computes_what_was_asked(tmp_path: Path) -> None:
    ran = train(tmp_path, compiler="torch.compile", precision="amp-bf16", layout="nhwc", steps=6)

    assert ran.code == 0, ran.stderr
    assert 0 < ran.last["compile_s"] <= ran.last["first_step_s"]
    assert ran.parameters["actual"]["compute_dtype"] == "bfloat16"
    assert ran.parameters["actual"]["activation_layout"] == "nhwc"
    assert ran.last["suspect"] == []
    assert ran.last["compiled_in_window"] == [0]
    gaps = [later["step_time_s"] for _, later in pairwise(ran.steps)]
    assert max(gaps) < ran.last["first_step_s"]


def test_another_shape_is_a_compilation_that_is_counted() -> None:
    counts = in_pytorch("""
from trainmark_worker.pytorch.compilers import compilations, compile_model
model = compile_model(torch.nn.Linear(4, 4), "torch.compile", "nchw")
counts = [compilations("torch.compile")]
for batch in (2, 2, 3):
    model(torch.ones(batch, 4)).sum().backward()
    counts.append(compilations("torch.compile"))
print(json.dumps(counts))
""")

    assert counts == [0, 1, 1, 2]


def test_what_nvjpeg_refuses_is_given_to_pillow_and_what_is_cut_off_is_named(tmp_path: Path) -> None:
    data = make_images(tmp_path / "data", count=3)
    photos = sorted(data.glob("*/*.jpg"))
    whole = photos[1].read_bytes()
    Image.open(photos[0]).save(photos[0], format="PNG")
    photos[1].write_bytes(whole[:500])

    shapes, alone, said = in_pytorch(f"""
# There is no GPU here: in its place stands a decoder that refuses what nvJPEG does, everything but a JPEG.
from pathlib import Path
from trainmark_worker.tasks.image_classification.decoding import choose_decoder
from trainmark_worker.tasks.image_classification.images import Draw, ImageList
from trainmark_worker.core.outcomes import RunError
from trainmark_worker.pytorch.image_classification.loaders.nvjpeg import NvjpegFeed
class OnCpu(NvjpegFeed):
    def __init__(self):
        self._device, self.batches = torch.device("cpu"), []
        self._images = ImageList({[str(path) for path in photos]!r}, [0, 0, 1])
    def _on_gpu(self, files):
        self.batches.append(len(files))
        if any(file[:2] != b"\\xff\\xd8" for file in files):
            raise RuntimeError("Error while decoding JPEG images with nvJPEG. Error code: 3")
        decode = choose_decoder().decode
        return [torch.from_numpy(decode(file)).permute(2, 0, 1) for file in files]
feed = OnCpu()
draws = [Draw(0, image) for image in range(3)]
files = [feed._read(draw) for draw in draws]
shapes = [list(image.shape) for image in feed._decode([draws[0], draws[2]], [files[0], files[2]])]
try:
    feed._decode(draws, files)
except RunError as error:
    print(json.dumps([shapes, feed.batches, error.reason]))
""")

    assert shapes == [[3, 90, 120], [3, 90, 121 if photos[2].name == "image 1.jpg" else 122]]
    # Both together, and then one by one.
    assert alone[:3] == [2, 1, 1]
    assert said.startswith(str(photos[1]))
    assert "cannot be decoded: " in said
