"""The TensorFlow worker as a real process: what it trains, and what it says it trained."""

import math
from pathlib import Path
from typing import Any

import pytest
from tensorflow_process import TENSORFLOW, in_tensorflow
from three_steps import three_steps
from worker_process import Ran, make_images, train

from frameworks import needs_framework
from trainmark.equivalence import Followed, Observation, compare, follows, party
from trainmark.tasks.image_classification.equal_work import ImageObservation

pytestmark = [pytest.mark.training, needs_framework(TENSORFLOW)]


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One run as a graph."""
    flags: dict[str, Any] = {"layout": "nhwc", "compiler": "graph", "classes": 10, "batch_per_device": 16}
    return train(tmp_path_factory.mktemp("ran"), TENSORFLOW, steps=8, warmup_steps=3, **flags)


def test_a_run_writes_parameters_then_every_step_then_the_summary(ran: Ran) -> None:
    assert ran.code == 0, ran.stderr
    assert [event["step"] for event in ran.events] == ["PARAMETER", *([0, i] for i in range(8)), []]
    assert ran.last["outcome"] == "ok"
    assert ran.last["suspect"] == []
    measured = [step["step_time_s"] for step in ran.steps if step["phase"] == "measured"]
    assert math.isclose(sum(measured), ran.last["window_s"], rel_tol=0.02)
    assert abs(ran.steps[0]["loss"] - math.log(10)) < 1


def test_a_run_says_what_it_was_made_of(ran: Ran) -> None:
    said = ran.parameters
    assert said["framework_version"].startswith("2.")
    assert said["compiler_mode"] == "tf.function"
    assert said["threads"] == 1
    assert said["backend"] is None
    assert said["parameters"] == 3_206_976 + 1025 * 10
    assert said["actual"] == {
        "compute_dtype": "float32",
        "weight_dtype": "float32",
        "tf32_matmul": False,
        "tf32_convolution": False,
        "activation_layout": "nhwc",
        "weight_layout": None,
        "batch_per_device": 16,
        "parameters": said["parameters"],
        "world_size": 1,
        "unseen": ["weight_layout"],
    }
    assert said["step_marks"] == "done"


def test_a_step_that_is_traced_again_in_the_window_is_counted(ran: Ran) -> None:
    assert ran.last["compiled_in_window"] == [0]

    counts = in_tensorflow("""
told = []
for compiler in ("none", "graph", "xla"):
    training = open_training(settings("--compiler", compiler), ALONE)
    told.append([])
    for step in range(3):
        training.step(step)
        told[-1].append(training.compilations())
    images, labels = training.batch
    training.batch = images[:1], labels[:1]
    training.step(3)
    told[-1].append(training.compilations())
print(json.dumps(told))
""")

    # The optimizer's variables exist from the start, so that nothing has to be traced twice.
    assert counts == [[0, 0, 0, 0], [1, 1, 1, 2], [1, 1, 1, 2]]


@pytest.mark.parametrize(
    ("precision", "compute", "flags"),
    [
        ("amp-bf16", "bfloat16", {"layout": "nchw", "compiler": "graph"}),
        ("amp-fp16", "float16", {"layout": "nhwc", "compiler": "none"}),
    ],
)
def test_mixed_precision_computes_in_it_and_keeps_the_weights_in_fp32(
    tmp_path: Path, precision: str, compute: str, flags: dict[str, str]
) -> None:
    ran = train(tmp_path, TENSORFLOW, precision=precision, steps=4, **flags)

    assert ran.code == 0, ran.stderr
    actual = ran.parameters["actual"]
    assert (actual["compute_dtype"], actual["weight_dtype"]) == (compute, "float32")
    assert actual["activation_layout"] == flags["layout"]
    assert all(step["loss"] is not None for step in ran.steps)


def test_a_step_that_computes_in_another_type_than_asked_is_invalid() -> None:
    told = in_tensorflow("""
from trainmark_worker.tensorflow.precision import PRECISIONS
training = open_training(settings(), ALONE)
training.step(0)
training._precision = PRECISIONS["amp-bf16"]
print(json.dumps(refused(training.actual)))
""")

    assert told == ["invalid", "compute_dtype of the first step was float32, not bfloat16 as asked for"]


def test_what_cannot_be_done_here_is_unsupported_before_any_step() -> None:
    told = in_tensorflow("""
asked = (
    ["--precision=tf32", "--device=cpu"], ["--precision=bf16"], ["--precision=amp-fp16", "--layout=nchw"],
    ["--compiler=torch.compile"],
    ["--data=/nowhere", "--loader=dali"],
)
print(json.dumps([refused(lambda: open_training(settings(*flags), ALONE)) for flags in asked]))
""")

    assert [outcome for outcome, _ in told] == ["unsupported"] * 5
    assert [reason.split("; it has")[0] for _, reason in told] == [
        "tf32 needs an NVIDIA GPU: a CPU has no TF32",
        "TensorFlow has no precision 'bf16'",
        "without XLA, TensorFlow computes nchw on a CPU through oneDNN, whose FP16 few of them have",
        "TensorFlow has no compiler 'torch.compile'",
        "TensorFlow has no loader 'dali'",
    ]


def test_nchw_without_onednn_is_unsupported_and_not_a_failure(tmp_path: Path) -> None:
    off = {"TF_ENABLE_ONEDNN_OPTS": "0"}
    ran = train(tmp_path, TENSORFLOW, variables=off, layout="nchw", compiler="graph")

    assert ran.code == 3
    assert ran.last["outcome"] == "unsupported"
    assert "through oneDNN, which is off here" in ran.last["reason"]
    assert "Traceback" not in ran.stderr


def test_a_batch_that_does_not_fit_the_memory_limit_is_an_oom(tmp_path: Path) -> None:
    big = {"batch_per_device": 20_000, "image_size": 64, "memory_limit": 2_000_000_000}
    ran = train(tmp_path, TENSORFLOW, layout="nhwc", compiler="graph", **big)

    assert ran.code == 3
    assert ran.last["outcome"] == "oom"
    assert "Traceback" not in ran.stderr


def test_an_allocation_that_tensorflow_cannot_have_is_an_oom_that_names_it() -> None:
    told = in_tensorflow("""
import resource
from trainmark_worker.tensorflow import stopped_by
tf.zeros(1)
resource.setrlimit(resource.RLIMIT_DATA, (2_000_000_000, 2_000_000_000))
try:
    tf.random.normal((20_000, 64, 64, 32))
except Exception as error:
    stopped = stopped_by(error)
print(json.dumps([stopped.outcome, stopped.reason]))
""")

    shape = "OOM when allocating tensor with shape[20000,64,64,32] and type float"
    assert told == ["oom", f"the host is out of memory: {shape}"]


@pytest.mark.parametrize("compiler", ["none", "graph"])
def test_one_thread_is_one_thread(compiler: str) -> None:
    share = in_tensorflow(
        """
import resource, time
training = open_training(settings("--image-size=64", "--batch-per-device=8", "--compiler", sys.argv[1]), ALONE)
training.step(0)
def cpu_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
wall, cpu = time.perf_counter(), cpu_s()
for index in range(1, 9):
    training.step(index)
print(json.dumps((cpu_s() - cpu) / (time.perf_counter() - wall)))
""",
        compiler,
    )

    assert share < 1.15


def test_only_a_cpu_is_bound_to_one_operation_at_a_time() -> None:
    told = in_tensorflow("""
from trainmark_worker.tensorflow.device import Device, limit_threads
told = []
for device in (Device("cuda", "a GPU"), Device("cpu", None)):
    limit_threads(4, device)
    threads = tf.config.threading
    told.append([threads.get_intra_op_parallelism_threads(), threads.get_inter_op_parallelism_threads()])
print(json.dumps(told))
""")

    # 0 is TensorFlow's own choice.
    assert told == [[4, 0], [4, 1]]


# The update.


def test_an_overflow_skips_the_update_and_halves_the_scale() -> None:
    told = in_tensorflow("""
from trainmark_worker.tensorflow.optimizer import LossScale, Momentum
import keras
recipe = settings("--momentum=0.5", "--weight-decay=0").recipe
weight = keras.Variable([1.0, 2.0])
optimizer, scale = Momentum([weight], [True], recipe), LossScale(True, recipe)
told = []
for gradient in ([65536.0, float("inf")], [32768.0, 0.0], [32768.0, 0.0]):
    scale.update([tf.constant(gradient)], lambda unscaled: optimizer.apply(unscaled, tf.constant(0.1)))
    told.append([weight.numpy().tolist(), float(scale._scale)])
print(json.dumps(told))
""")

    (skipped, halved), (first, _), (second, kept) = told
    assert skipped == [1.0, 2.0]
    assert halved == kept == 32768.0
    # v = 1, then v = 0.5 * 1 + 1.
    assert first == pytest.approx([0.9, 2.0])
    assert second == pytest.approx([0.75, 2.0])


def test_batch_norm_does_not_decay_unless_asked_and_everything_else_does() -> None:
    decaying = in_tensorflow("""
told = []
for more in ([], ["--bn-weight-decay"]):
    optimizer = open_training(settings(*more), ALONE)._optimizer
    pairs = zip(optimizer._variables, optimizer._decays)
    told.append(sum(int(np.prod(variable.shape)) for variable, decay in pairs if decay))
print(json.dumps(told))
""")

    batch_norm = 2 * (32 + 32 + sum(2 * width for width in (64, 128, 128, 256, 256, *[512] * 6, 1024)) + 1024)
    assert decaying == [4_231_976 - batch_norm + 0, 4_231_976]


# The same step whatever compiles it, and the same as PyTorch's.


def failing(checks: Any) -> list[Any]:
    return [check for check in checks if not check.holds]


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> Observation:
    """Three steps of MobileNetV1, eager."""
    folder = tmp_path_factory.mktemp("observed")
    return ImageObservation.model_validate(three_steps(folder, TENSORFLOW, "mobilenet_v1", layout="nhwc"))


@pytest.mark.parametrize(("compiler", "layout"), [("graph", "nchw"), ("xla", "nhwc")])
def test_a_compiled_step_is_the_eager_one(
    tmp_path: Path, observed: Observation, compiler: str, layout: str
) -> None:
    done = three_steps(tmp_path, TENSORFLOW, "mobilenet_v1", compiler=compiler, layout=layout)

    assert (
        failing(follows(observed, Followed.model_validate(done), {"layout": layout}, compiler).checks) == []
    )


def test_two_ranks_with_one_batch_make_the_update_of_one(tmp_path: Path, observed: Observation) -> None:
    done = three_steps(tmp_path, TENSORFLOW, "mobilenet_v1", 2, layout="nhwc", compiler="graph")

    assert failing(follows(observed, Followed.model_validate(done), {"layout": "nhwc"}, "graph").checks) == []


@needs_framework("pytorch")
def test_a_step_is_pytorchs(tmp_path: Path) -> None:
    mine, theirs = (
        ImageObservation.model_validate(three_steps(tmp_path, framework, "resnet50_v1.5", layout=layout))
        for framework, layout in ((TENSORFLOW, "nhwc"), ("pytorch", "nchw"))
    )

    assert failing([*party(mine, {"layout": "nhwc"}, None, None).checks, *compare(mine, theirs).checks]) == []
    # Closer than the certificate asks of any pair.
    for one, other in zip(mine.steps, theirs.steps, strict=True):
        assert one.loss == pytest.approx(other.loss, rel=1e-5)
    norms = {name: sketch.norm for name, sketch in theirs.steps[0].gradients.items()}
    rounding = 1e-5 * math.hypot(*norms.values())
    for name, gradient in mine.steps[0].gradients.items():
        assert gradient.norm == pytest.approx(norms[name], rel=1e-3, abs=rounding), name


# Eager, Keras asks each result for its shape, for which TensorFlow waits in this mode, and on a GPU does not.
@pytest.mark.parametrize("compiler", ["graph", "xla"])
def test_a_step_is_handed_over_and_the_windows_ends_wait_for_it(compiler: str) -> None:
    # TensorFlow's own asynchronous mode: the CPU computes behind the host, as a GPU does.
    in_the_steps, after_them = in_tensorflow(
        """
import threading
tf.config.experimental.set_synchronous_execution(False)
training = open_training(settings("--compiler", sys.argv[1]), ALONE)
training.step(0)
training.synchronize()
gate = threading.Event()
tf.py_function(lambda: gate.wait(60) and None, [], [])
training.mark(0)
for step in range(1, 4):
    training.step(step)
    training.mark(step)
in_the_steps = gate.is_set()
threading.Timer(0.2, gate.set).start()
training.synchronize()
print(json.dumps([in_the_steps, gate.is_set()]))
""",
        compiler,
    )

    assert (in_the_steps, after_them) == (False, True)


def test_the_loaders_threads_end_with_it(tmp_path: Path) -> None:
    make_images(tmp_path / "data")
    before, open_, closed = in_tensorflow(
        """
from pathlib import Path
def threads():
    return len(list(Path("/proc/self/task").iterdir()))
training = open_training(settings(), ALONE)
training.step(0)
before = threads()
training = open_training(settings("--data", sys.argv[1], "--loader=native-folder", "--loader-workers=3"), ALONE)
training.step(0)
opened = threads()
training.close()
print(json.dumps([before, opened, threads()]))
""",
        str(tmp_path / "data"),
    )

    assert open_ >= before + 3
    assert closed <= open_ - 3
