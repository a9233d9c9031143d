"""What TensorFlow's worker alone has: its traces, its threads, its update, and how far it runs ahead of the device."""

from pathlib import Path

import pytest
from tensorflow_process import TENSORFLOW, in_tensorflow
from worker_process import make_images, train

from frameworks import needs_framework

pytestmark = [pytest.mark.training, needs_framework(TENSORFLOW), pytest.mark.xdist_group("worker-tensorflow")]


@pytest.mark.rare
def test_a_step_that_is_traced_again_in_the_window_is_counted() -> None:
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


def test_a_step_that_computes_in_another_type_than_asked_is_invalid() -> None:
    told = in_tensorflow("""
from trainmark_worker.core.precision import PRECISIONS
training = open_training(settings(), ALONE)
training.step(0)
training.precision = PRECISIONS["amp-bf16"]
print(json.dumps(refused(training.actual)))
""")

    assert told == ["invalid", "compute_dtype of the first step was float32, not bfloat16 as requested"]


def test_nchw_without_onednn_is_unsupported_and_not_a_failure(tmp_path: Path) -> None:
    # Read while TensorFlow is imported.
    off = {"TF_ENABLE_ONEDNN_OPTS": "0"}
    ran = train(tmp_path, TENSORFLOW, off, anew=True, layout="nchw", compiler="graph")

    assert ran.code == 3
    assert ran.last["outcome"] == "unsupported"
    assert "through oneDNN, which is off here" in ran.last["reason"]
    assert "Traceback" not in ran.stderr


def test_an_allocation_that_tensorflow_cannot_have_is_an_oom_that_names_it() -> None:
    told = in_tensorflow("""
import resource
from trainmark_worker.backends.tensorflow import FAILURES
from trainmark_worker.core.outcomes import classify
tf.zeros(1)
resource.setrlimit(resource.RLIMIT_DATA, (2_000_000_000, 2_000_000_000))
try:
    tf.random.normal((20_000, 64, 64, 32))
except Exception as error:
    stopped = classify(error, FAILURES)
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
from trainmark_worker.backends.tensorflow.collectives import Device, limit_threads
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
from trainmark_worker.backends.tensorflow.backend import LossScale, Momentum
import keras
recipe = settings("--momentum=0.5", "--weight-decay=0").recipe
weight = keras.Variable([1.0, 2.0])
optimizer, scale = Momentum([weight], [0.0], recipe), LossScale(True, recipe)
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
    optimizer = open_training(settings(*more), ALONE).optimizer
    pairs = zip(optimizer._variables, optimizer._decays)
    told.append(sum(int(np.prod(variable.shape)) for variable, decay in pairs if decay))
print(json.dumps(told))
""")

    batch_norm = 2 * (24 + 24 + 32 + 32 + 64)
    assert decaying == [69_320 - batch_norm, 69_320]


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
tf.py_function(lambda: gate.wait(300) and None, [], [])
training.marks.mark(0)
for step in range(1, 4):
    training.step(step)
    training.marks.mark(step)
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


def test_the_pipeline_never_holds_more_batches_than_it_says(tmp_path: Path) -> None:
    images = make_images(tmp_path / "images")
    flags = f"--data={images} --loader=native-folder --loader-workers=2 --batch-per-device=4".split()
    told = in_tensorflow(
        """
import time
held = []
for seed in range(6):
    feed = open_training(settings(*sys.argv[1:], "--seed", str(seed)), ALONE).feed
    for _ in range(3):
        feed.next()
        time.sleep(0.1)
        made = feed.loading()
        held.append(made.produced / 4 - made.taken)
print(json.dumps([feed.ahead, held]))
""",
        *flags,
    )

    # Two in the queue, and two images of a batch between what makes images and what puts batches together.
    assert told[0] == 2.5
    assert max(told[1]) <= 2.5
    assert max(told[1]) > 1
