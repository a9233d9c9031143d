"""Documents packed into sequences: what a batch contains, what a run counts, that documents do not see each other."""

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from preloaded_worker import COMPILERS, start

from frameworks import framework_python, in_pytorch, needs_framework, of_each
from trainmark.schema.case import Device, case_of
from trainmark.worker.tasks.causal_lm.architectures import ARCHITECTURES
from trainmark.worker.tasks.causal_lm.packing import attended, number, pack, predicted
from trainmark.worker.tasks.causal_lm.task import packed_loss
from trainmark.workload import find_gap, load_workloads

PROGRAM = Path(__file__).parents[1] / "programs" / "packed_attention.py"
RUN = {"model": "llama_tiny", "packing": "documents", "batch-per-device": 4, "sequence-length": 64}
SHORT = {**RUN, "steps": 6, "warmup-steps": 2}
BY_HAND = number([[3, 2], [4]], 4)
"""Two sequences of 5 places: three tokens and two, and four with padding."""


def test_a_document_is_whole_and_padding_is_at_the_end() -> None:
    assert BY_HAND.tolist() == [[1, 1, 1, 2, 2], [1, 1, 1, 1, 0]]


def test_no_document_predicts_the_next_one_or_padding() -> None:
    assert predicted(BY_HAND).tolist() == [[True, True, False, True], [True, True, True, False]]


def test_attention_is_counted_by_document() -> None:
    """The last place of a sequence is only predicted: 3 and 1 tokens are passed, and 4."""
    assert attended(BY_HAND) == (8, 9 + 1 + 16)


@pytest.mark.parametrize(("sequences", "length"), [(1, 32), (4, 64), (4, 4096), (12, 1024)])
def test_documents_of_unlike_lengths_fill_the_sequences(sequences: int, length: int) -> None:
    packed = pack(sequences, length, seed=1)
    documents = number(packed, length)
    assert documents.shape == (sequences, length + 1)
    assert all(2 <= one <= length + 1 for row in packed for one in row)
    assert len({one for row in packed for one in row}) > 2
    assert [np.bincount(row)[1:].tolist() for row in documents] == packed
    assert (documents > 0).mean() > 0.9
    assert pack(sequences, length, seed=2) != packed


def test_a_long_document_may_fill_a_sequence() -> None:
    assert max(one for row in pack(64, 256, seed=1) for one in row) == 257


def test_losses_of_known_mistakes_differ_from_the_mean_of_what_counts() -> None:
    losses = np.arange(8.0).reshape(2, 4)
    found = packed_loss(losses, BY_HAND)
    assert found.loss == pytest.approx((0 + 1 + 3 + 4 + 5 + 6) / 6)
    assert found.targets == 6
    assert found.mistakes == {
        "it counts padding, and each document's first token": pytest.approx(3.5),
        "it counts the first token of the next document": pytest.approx(21 / 7),
        "it counts only the first half of the batch": pytest.approx(4 / 3),
        "it counts only the second half of the batch": pytest.approx(5),
        "it is the mean of the sequences' means": pytest.approx((4 / 3 + 5) / 2),
    }


@pytest.mark.training
@of_each({name: COMPILERS[name] for name in ("pytorch", "jax")}, rarely=["jax"])
@pytest.mark.parametrize("model", ["llama_tiny", "gpt2_tiny"])
def test_a_run_counts_useful_tokens_and_the_attention_that_is_done(
    framework: str, model: str, tmp_path: Path
) -> None:
    given = {**SHORT, "model": model, "accumulation": 2, "compiler": COMPILERS[framework]}
    (ran,) = start(framework, tmp_path, given)
    assert ran.code == 0, ran.stderr
    assert (ran.last["outcome"], ran.last["suspect"]) == ("ok", [])
    documents = number(pack(4, 64, ran.parameters["seed"]), 64)
    useful = int(predicted(documents).sum())
    assert ran.last["work"] == {"tokens": 4 * 4 * 64, "sequences": 4 * 4, "useful_tokens": 4 * useful}
    assert ran.last["throughput"] == pytest.approx(4 * 4 * 64 / ran.last["window_s"])
    assert ran.parameters["actual"]["useful_tokens"] == useful < 4 * 64
    assert ran.parameters["packing"] == "documents"
    operations = ran.last["operations_per_sample"]
    assert operations["counted"] == ARCHITECTURES[model].operations(*attended(documents))["counted"] // 4
    assert operations["counted"] < ARCHITECTURES[model].operations(64, 64 * 64)["counted"]
    looked = ran.last["after_window"]
    assert looked["targets_in_loss"] == useful
    assert looked["gradient_factor"] == pytest.approx(1, rel=0.01)
    assert len(set(looked["isolation_losses"])) == 1


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return start("pytorch", tmp_path_factory.mktemp("plain"), SHORT, ranks=2)[0]


@in_pytorch
@pytest.mark.training
@pytest.mark.parametrize(
    "more",
    [
        {"parallel": "fsdp2", "activation-checkpointing": "selective"},
        {"parallel": "fsdp2", "accumulation": 4, "activation-checkpointing": "full"},
    ],
    ids=["fsdp2-selective", "fsdp2-accumulated-full"],
)
def test_two_ranks_train_on_documents_as_with_ddp(tmp_path: Path, plain: Any, more: dict[str, Any]) -> None:
    """Parts have unlike numbers of useful tokens; the loss is the mean of them all."""
    ran = start("pytorch", tmp_path, {**SHORT, **more}, ranks=2)[0]
    assert ran.code == 0, ran.stderr
    losses = [[step["loss"] for step in one.steps] for one in (ran, plain)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert (ran.last["outcome"], ran.last["suspect"]) == ("ok", [])
    assert ran.last["after_window"]["not_checked"] == []


@in_pytorch
@pytest.mark.training
@pytest.mark.parametrize(("model", "precision"), [("gpt2_tiny", "amp-bf16"), ("llama_tiny", "fp32")])
@pytest.mark.parametrize("mistake", ["packed-crossing", "packed-counted"])
def test_documents_that_see_each_other_or_padding_are_a_doubt(
    mistake: str, model: str, precision: str, tmp_path: Path
) -> None:
    (ran,) = start("pytorch", tmp_path, {**SHORT, "model": model, "precision": precision}, mistake)
    assert ran.code == 0, ran.stderr
    found = {one["code"]: one["sentence"] for one in ran.last["suspect"]}
    assert "attention crosses the borders of documents" in found["documents-not-isolated"]
    if (mistake, precision) == ("packed-counted", "fp32"):
        assert "it counts padding, and each document's first token" in found["loss-differs"]


@needs_framework("pytorch")
@pytest.mark.training
def test_the_kernel_of_a_gpu_gets_the_documents_that_the_mask_describes() -> None:
    """FlashAttention is emulated by its interface: this tests what it is given, and no GPU's kernel."""
    ran = subprocess.run([framework_python("pytorch"), PROGRAM], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout.splitlines()[-1])
    # Padding is a document; a sequence with fewer documents than five has empty ones at its end.
    assert told["ends"] == [0, 3, 5, 6, 8, 8, 16, 16, 16, 16, 16]
    assert told["positions"] == [[0, 1, 2, 0, 1, 0, 0, 1], [0, 1, 2, 3, 4, 5, 6, 7]]
    assert max(max(distances) for distances in told["distances"].values()) < 1e-5
    for by_mask, by_kernel in told["losses"].values():
        assert by_kernel == pytest.approx(by_mask, rel=1e-6)


@in_pytorch
@pytest.mark.training
def test_a_file_of_tokens_has_no_documents(tmp_path: Path) -> None:
    np.zeros(4096, np.uint16).tofile(tmp_path / "train.bin")
    (ran,) = start("pytorch", tmp_path, {**SHORT, "data": tmp_path})
    assert ran.last["outcome"] == "unsupported"
    assert "a file of tokens has no borders of documents" in ran.last["reason"]


@pytest.mark.parametrize("framework", ["tensorflow", "paddle"])
def test_frameworks_without_attention_within_documents_say_so(framework: str) -> None:
    case = case_of(model="gpt2_tiny", framework=framework, device="cpu", packing="documents")
    gap = find_gap(case, load_workloads().find(case).card, Device.CPU) or ""
    assert "no attention within packed documents" in gap


def test_packing_is_in_a_case_s_name_if_it_is_not_the_default() -> None:
    common = {"model": "llama_tiny", "framework": "pytorch", "device": "cuda"}
    assert "packed" in case_of(**common, packing="documents").id.split("-")
    assert "packed" not in case_of(**common).id
