"""What the descriptions of recommenders say, and where they go in the database of others."""

from typing import Any

import pytest

from trainmark.report.exchange import mission_for
from trainmark.schema.case import Device, case_of
from trainmark.tasks import TASKS, published_name
from trainmark.worker.core.arguments import parse
from trainmark.worker.core.outcomes import RunError
from trainmark.worker.tasks.recommendation import task as described
from trainmark.worker.tasks.recommendation.architectures import ARCHITECTURES
from trainmark.worker.tasks.recommendation.settings import EMBEDDING_WIDTH, VOCABULARY
from trainmark.workload import find_gap, load_workloads


def test_wide_and_deep_has_the_parameters_of_the_published_setting() -> None:
    tables = VOCABULARY * (1 + EMBEDDING_WIDTH)
    layers = (429 * 1024 + 1024) + 6 * (1024 * 1024 + 1024) + (1024 + 1)
    whole = ARCHITECTURES["wide_deep"].with_tables(VOCABULARY, EMBEDDING_WIDTH)
    assert whole.parameters() == tables + layers == 46_220_493
    assert ARCHITECTURES["wide_deep_tiny"].with_tables(VOCABULARY, EMBEDDING_WIDTH).parameters() == 39_517_453
    assert whole.multiply_adds() == 429 * 1024 + 6 * 1024 * 1024 + 1024


def test_recommenders_go_to_the_mission_of_recommendation() -> None:
    found = mission_for(published_name("wide_deep"))
    assert (found.name, found.direction) == ("推荐模型", 2)


def test_the_models_and_defaults_of_worker_and_house_are_the_same() -> None:
    task = TASKS["recommendation"]
    assert list(task.models) == list(ARCHITECTURES)
    defaults = {"vocabulary": VOCABULARY, "embedding_width": EMBEDDING_WIDTH, "table_gradients": "dense"}
    assert task.axes().model_dump() == defaults
    for model in task.models:
        own = parse(("--framework=pytorch", f"--model={model}"), 1)
        said = case_of(model=model).task_axes.model_dump()
        assert {axis: getattr(own, axis) for axis in said} == said


def test_dlrm_has_the_layers_and_the_width_of_mlperf() -> None:
    case = case_of(model="dlrm")
    assert case.value("embedding_width") == 128
    assert "emb128" in case.id
    assert case_of(model="dlrm", embedding_width=64).value("embedding_width") == 64
    whole = ARCHITECTURES["dlrm"].with_tables(VOCABULARY, 128)
    bottom = 13 * 512 + 512 * 256 + 256 * 128
    top = (128 + 351) * 1024 + 1024 * 1024 + 1024 * 512 + 512 * 256 + 256
    biases = 512 + 256 + 128 + 1024 + 1024 + 512 + 256 + 1
    assert whole.parameters() == VOCABULARY * 128 + bottom + top + biases == 299_641_729
    assert whole.multiply_adds() == bottom + top + 351 * 128


def test_a_case_id_says_sparse_gradients_and_is_as_it_was_without() -> None:
    dense, sparse = (case_of(model="wide_deep", table_gradients=kind) for kind in ("dense", "sparse"))
    assert dense.id == "pytorch-wide_deep-fp32-b32-1n1g-synthetic-none-2322444rows-emb16"
    assert sparse.id == f"{dense.id}-sparse"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--model=wide_deep",), ", with gradients and moments, need 2.7 GB"),
        (("--model=wide_deep", "--table-gradients=sparse"), ", with moments, need 2.0 GB"),
        (("--model=dlrm", "--embedding-width=17"), ", with gradients, need 1.4 GB"),
        (("--model=dlrm", "--embedding-width=17", "--table-gradients=sparse"), " need 0.7 GB"),
    ],
)
def test_a_table_is_refused_with_all_that_lies_beside_it(
    words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(described, "memory_bytes", lambda: 500_000_000)
    settings: Any = parse(("--framework=pytorch", "--device=cpu", "--vocabulary=10000000", *words), 1)
    with pytest.raises(RunError) as refused:
        described.Recommendation().refuse(settings)
    assert refused.value.reason.startswith(f"tables of 10000000 rows{said}, and there are 0.5 GB of memory")


@pytest.mark.parametrize("framework", ["mxnet", "mindspore", "oneflow"])
def test_frameworks_without_a_recommender_say_why_before_anything_runs(framework: str) -> None:
    case = case_of(framework=framework, model="wide_deep")
    gap = find_gap(case, load_workloads().find(case).card, Device.CPU)
    assert (gap or "").endswith("worker has no recommender yet")


@pytest.mark.parametrize("ranks", [1, 2])
def test_the_ranks_of_a_host_share_its_memory(ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, str(ranks))
    for name in ("RANK", "LOCAL_RANK"):
        monkeypatch.setenv(name, "0")
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    monkeypatch.setenv("MASTER_PORT", "4000")
    monkeypatch.setattr(described, "memory_bytes", lambda: 3_000_000_000)
    words = ("--framework=pytorch", "--model=wide_deep", "--device=cpu", "--vocabulary=10000000")
    settings: Any = parse(words, ranks)
    if ranks == 1:
        described.Recommendation().refuse(settings)
        return
    with pytest.raises(RunError, match=r"need 2\.7 GB, and there are 1\.5 GB of memory for each of 2 ranks"):
        described.Recommendation().refuse(settings)
