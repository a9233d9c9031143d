"""What MXNet's worker alone has: its witness, its graphs that are traced again, its velocity, its engine."""

import pytest
from mxnet_process import in_mxnet

from frameworks import needs_framework
from trainmark.schema.case import case_of
from trainmark.workload import load_workloads

pytestmark = [pytest.mark.training, needs_framework("mxnet"), pytest.mark.xdist_group("worker-mxnet")]


def test_a_step_that_computes_in_another_type_than_asked_is_invalid() -> None:
    told = in_mxnet("""
from trainmark_worker.core.arguments import parse
from trainmark_worker.models.mxnet_image_classification import open_training
from trainmark_worker.core.precision import PRECISIONS
from trainmark_worker.core.outcomes import RunError
from trainmark_worker.core.place import place_from
flags = "--framework mxnet --model mobilenet_tiny --batch-per-device 2 --image-size 32"
training = open_training(parse(flags.split(), 1), place_from({}))
training.precision = PRECISIONS["amp-bf16"]
training.step(0)
try:
    training.actual()
except RunError as error:
    print(json.dumps([error.outcome, error.reason]))
""")

    assert told == ["invalid", "compute_dtype of the first step was float32, not bfloat16 as requested"]


def test_a_network_that_is_traced_again_is_counted_and_one_that_is_not_compiled_never() -> None:
    counts = in_mxnet("""
from trainmark_worker.core.arguments import parse
from trainmark_worker.models.mxnet_image_classification import open_training
from trainmark_worker.core.place import place_from
flags = "--framework mxnet --model mobilenet_tiny --batch-per-device 2 --image-size 32 --compiler"
counts = []
for compiler in ("none", "hybridize"):
    training = open_training(parse([*flags.split(), compiler], 1), place_from({}))
    for index in range(3):
        training.step(index)
        if index == 1:
            training.actual()
            counts.append(training.compilations())
            # MXNet drops the graph, and the next pass traces the network anew.
            training.model.hybridize(compiler != "none", static_alloc=True, static_shape=True)
    counts.append(training.compilations())
print(json.dumps(counts))
""")

    assert counts == [0, 0, 1, 2]


def test_the_layout_that_is_told_is_the_one_that_was_computed_in_and_not_the_one_asked_for() -> None:
    told = in_mxnet("""
from types import SimpleNamespace
from trainmark_worker.models.mxnet_image_classification import MXNetImageTraining, blocks, build_model
training = object.__new__(MXNetImageTraining)
training.settings, training._traces = SimpleNamespace(model="mobilenet_v1"), 0
training.model = build_model("mobilenet_v1", 10, "NHWC", mx.cpu())
training._hook = blocks(training.model, mx.gluon.nn.Conv2D)[1].register_forward_hook(training._note)
# MXNet has no NHWC on a CPU: the hook is given what a GPU would have computed.
training._note(None, None, mx.nd.zeros((2, 16, 16, 32)))
seen = training.observed_config()
print(json.dumps([*seen.axes.values(), seen.batch_per_device, seen.unseen]))
""")

    assert told == ["nhwc", "nhwc", 2, ["tf32_matmul", "tf32_convolution"]]


def test_two_ranks_never_share_a_gpu_unless_each_is_shown_its_own() -> None:
    shared, own, two = in_mxnet("""
import os
from trainmark_worker.backends.mxnet.collectives import choose_context
from trainmark_worker.core.outcomes import RunError
from trainmark_worker.core.place import Place
second, told = Place(1, 2, 1, 2, "127.0.0.1", 1), []
for seen, visible in ((1, None), (1, "7"), (2, None)):
    mx.context.num_gpus = lambda: seen
    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
    if visible:
        os.environ["CUDA_VISIBLE_DEVICES"] = visible
    try:
        told.append(str(choose_context("cuda", second)))
    except RunError as error:
        told.append([error.outcome, error.reason])
print(json.dumps(told))
""")

    assert shared[0] == "unsupported"
    assert "local rank 1 has no GPU" in shared[1]
    assert (own, two) == ("gpu(0)", "gpu(1)")


# The models, the recipe, and the engine.


def test_the_networks_fit_both_layouts() -> None:
    shapes = in_mxnet("""
from trainmark_worker.models.mxnet_image_classification import build_model
shapes = []
for layout, images in (("NCHW", (1, 3, 224, 224)), ("NHWC", (1, 224, 224, 3))):
    model = build_model("resnet50_v1.5", 1000, layout, mx.cpu())
    inside = model(mx.sym.var("data")).get_internals()
    blocks = [name for name in inside.list_outputs() if name.endswith("activation0_output")]
    shapes.append(inside[blocks[-1]].infer_shape(data=images)[1])
print(json.dumps(shapes))
""")

    # MXNet computes NHWC on a GPU only; its shapes can be had without.
    assert shapes == [[[1, 2048, 7, 7]], [[1, 7, 7, 2048]]]


def test_the_velocity_follows_a_learning_rate_that_changes() -> None:
    weights = in_mxnet("""
from mxnet import autograd, gluon
from trainmark_worker.backends.mxnet.backend import Rate
out = []
for momentum in (0.9, 0.0):
    weight = gluon.Parameter("w", shape=(1,), init=mx.init.One())
    weight.initialize()
    trainer = gluon.Trainer([weight], "sgd", {"momentum": momentum, "wd": 0.0}, kvstore=None)
    rate = Rate(trainer, momentum)
    for value in (0.1, 0.2, 0.05, 0.0, 0.3):
        rate.set(value)
        with autograd.record():
            loss = weight.data() * 1.0
        loss.backward()
        trainer.step(1)
        out.append(float(weight.data().asscalar()))
print(json.dumps(out))
""")

    with_momentum, without = weights[:5], weights[5:]
    # v = 0.9 v + 1: 1, 1.9, 2.71, -, and from nothing again after a rate of 0.
    steps = [0.1 * 1, 0.2 * 1.9, 0.05 * 2.71, 0.0, 0.3]
    assert with_momentum == pytest.approx([1 - sum(steps[: i + 1]) for i in range(5)], abs=1e-5)
    assert without == pytest.approx([0.9, 0.7, 0.65, 0.65, 0.35], abs=1e-5)


def test_waiting_for_the_engine_ends_when_an_operator_fails_or_a_rank_is_lost() -> None:
    told = in_mxnet("""
from trainmark_worker.backends.mxnet.backend import Progress
from trainmark_worker.core.outcomes import FAILED, RunError
progress = Progress(2, [mx.nd.ones((4, 4)) * 2])
for slot in range(2):
    progress.mark(slot)
    progress.wait_to_read(progress.marked)
broken = mx.nd.random.normal(0, -1, shape=(2, 2))
progress.wait_to_read(progress.ticket(broken))
try:
    broken.wait_to_read()
    error = None
except mx.base.MXNetError as failure:
    error = str(failure)
progress.fail(RunError(FAILED, "gone", peer_lost=True))
try:
    progress.wait_to_read(1 << 40)
    lost = None
except RunError as failure:
    lost = failure.reason
print(json.dumps([progress.seconds_between(0, 1) > 0, error is not None, lost]))
""")

    assert told == [True, True, "gone"]


# The card.


def test_the_card_says_beforehand_what_mxnet_lacks() -> None:
    card = load_workloads().find(case_of(framework="mxnet")).card

    assert set(card.axes["precision"].choices or ()) == {"fp32", "amp-bf16", "amp-fp16"}
    lacking = [gap.when for gap in card.gaps]
    assert {"precision": "amp-fp16", "device": "cpu"} in lacking
    assert {"layout": "nhwc", "device": "cpu"} in lacking
