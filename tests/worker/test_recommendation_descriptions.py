"""What the descriptions of recommenders say, and where they go in the database of others."""

import pytest

from trainmark.report.exchange import mission_for
from trainmark.tasks import TASKS, case_of, published_name
from trainmark.words.case import Device
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
