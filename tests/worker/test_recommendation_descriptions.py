"""What the descriptions of recommenders say, and where they go in the database of others."""

import pytest

from trainmark.report.exchange import mission_for
from trainmark.tasks import TASKS, case_of, published_name
from trainmark.words.case import Device
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
    assert task.axes().model_dump() == {"vocabulary": VOCABULARY, "embedding_width": EMBEDDING_WIDTH}


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
    settings = parse(words, ranks)
    if ranks == 1:
        described.Recommendation().refuse(settings)
        return
    with pytest.raises(RunError, match=r"need 2\.7 GB, and there are 1\.5 GB of memory for each of 2 ranks"):
        described.Recommendation().refuse(settings)
