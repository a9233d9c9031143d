"""What the descriptions of language models say, and where they go in the database of others."""

import numpy as np
import pytest

from trainmark.report.exchange import mission_for
from trainmark.schema.case import Device, case_of
from trainmark.tasks import TASKS, published_name
from trainmark.tasks.causal_lm.llama_reference import inverse_frequencies
from trainmark.tasks.equal_work import REDUCED
from trainmark.worker.tasks.causal_lm.architectures import ARCHITECTURES as CAUSAL
from trainmark.worker.tasks.causal_lm.architectures import Llama, Rotation
from trainmark.worker.tasks.image_classification.architectures import ARCHITECTURES as IMAGES
from trainmark.worker.tasks.masked_lm.architectures import ARCHITECTURES as MASKED
from trainmark.workload import find_gap, load_workloads


def test_models_have_the_parameters_of_those_that_they_are_called_after() -> None:
    assert CAUSAL["gpt2_124m"].parameters() == 124_373_760
    assert CAUSAL["llama3.2_1b"].parameters() == 1_235_814_400
    assert CAUSAL["llama3.2_3b"].parameters() == 3_212_749_824
    assert MASKED["bert_base"].parameters() == 110_106_428


def test_operations_are_counted_by_two_conventions_that_differ_by_the_norms_alone() -> None:
    model = CAUSAL["gpt2_124m"]
    told = model.operations(1, 1024)
    assert told == {"counted": 854_654_976, "6N+12LHQT": 854_770_176}
    norms = (2 * model.layers + 1) * model.width
    assert told["6N+12LHQT"] - told["counted"] == 6 * norms


def test_operations_of_heads_that_share_keys_and_of_gated_products_are_counted_as_they_are_done() -> None:
    """By hand: 60 817 408 weights a block and a classifier of 262 668 288; scores of 32 heads of 64 columns."""
    model = CAUSAL["llama3.2_1b"]
    attention = 12 * 16 * 32 * 64 * 4096
    assert model.operations(1, 4096) == {
        "counted": 6 * (16 * 60_817_408 + 262_668_288) + attention,
        "6N+12LHQT": 6 * 1_235_814_400 + attention,
    }


@pytest.mark.parametrize("name", ["llama3.2_1b", "llama3.2_3b", "llama_tiny"])
def test_the_angles_of_llama_are_those_of_the_published_program(name: str) -> None:
    model = CAUSAL[name]
    assert isinstance(model, Llama)
    found = np.array(model.rotation.frequencies(model.head // 2))
    assert np.allclose(found, inverse_frequencies(model), rtol=1e-12, atol=0)
    assert not np.allclose(found, inverse_frequencies(model, stretched=False), rtol=1e-3, atol=0)


def test_llama_3_2_turns_by_the_published_constants() -> None:
    """Meta's ``params.json`` and ``apply_scaling``: by hand, the first, a middle and the last of 32 frequencies."""
    model = CAUSAL["llama3.2_1b"]
    assert isinstance(model, Llama)
    assert model.rotation == Rotation(base=500_000.0, factor=32.0, slow=1.0, fast=4.0, positions=8192)
    found = model.rotation.frequencies(32)
    assert (found[0], found[16], found[31]) == pytest.approx((1.0, 4.2956e-4, 9.4184e-8), rel=1e-3)


def test_operations_of_bert_leave_out_words_that_are_not_classified_or_count_them_all() -> None:
    told = MASKED["bert_base"].operations(128, 20)
    assert told == {"counted": 69_928_989_696, "6N+12LHQT": 86_070_506_496}


def test_images_are_counted_by_the_multiply_adds_of_their_networks() -> None:
    """Torchvision's own count of ResNet-50 is 4.09 of 10^9, of MobileNetV1 the authors' 569 of 10^6."""
    assert IMAGES["resnet50_v1.5"].multiply_adds(224, 1000) == 4_089_184_256
    assert IMAGES["mobilenet_v1"].multiply_adds(224, 1000) == 568_740_352


@pytest.mark.parametrize(
    ("model", "mission"), [("gpt2_124m", "语言模型"), ("llama3.2_1b", "语言模型"), ("bert_base", "语义表示")]
)
def test_language_models_go_to_the_missions_of_nlp(model: str, mission: str) -> None:
    found = mission_for(published_name(model))
    assert (found.name, found.direction) == (mission, 1)


@pytest.mark.parametrize("compiler", ["cuda-graph", "torch.compile-graph"])
@pytest.mark.parametrize("optimizer", ["adamw", "lamb"])
def test_either_optimizer_can_be_recorded_as_a_graph(compiler: str, optimizer: str) -> None:
    case = case_of(model="bert_base", optimizer=optimizer, compiler=compiler, device="cuda")
    card = load_workloads().find(case).card
    assert find_gap(case, card, Device.CUDA) is None
    assert "needs an NVIDIA GPU" in (find_gap(case.varied(device="cpu"), card, Device.CPU) or "")


def test_the_models_of_worker_and_house_are_the_same() -> None:
    for task, described in (("causal-lm", CAUSAL), ("masked-lm", MASKED)):
        assert list(TASKS[task].models) == [name for name in described if not name.endswith(REDUCED)]
