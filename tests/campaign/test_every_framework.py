"""Every framework trains both networks on real JPEGs in its own form, as two ranks."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from fakes import Silent
from frameworks import framework_python, needs_framework
from trainmark.campaign import Order, run_campaign
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import CaseResult
from trainmark.suite import load_suite

# The suite behind these tests takes some minutes.
pytestmark = [pytest.mark.training, pytest.mark.timeout(3600)]

OWN: Mapping[str, Mapping[str, str]] = {
    "pytorch": {"layout": "nchw", "compiler": "none"},
    "tensorflow": {"layout": "nhwc", "compiler": "graph"},
    "mxnet": {"layout": "nchw", "compiler": "hybridize"},
    "paddle": {"layout": "nchw", "compiler": "none"},
    "jax": {"layout": "nhwc", "compiler": "xla"},
    "mindspore": {"layout": "nchw", "compiler": "graph"},
}
FORMS = {"tensorflow": "tfrecord", "mxnet": "recordio"}
"""Of what a framework's own loader takes; the others take an image folder."""

HERE = [name for name in OWN if framework_python(name)]
"""Of which the one suite is made; the tests of the others are skipped by name."""

Requested = tuple[tuple[str, int], ...]
"""Models, each with a number of ranks."""

REQUESTED: Requested = (("mobilenet_v1", 2), ("resnet50_v1.5", 2))
"""One rank on real images, and ResNet-50's steps, are asked of each worker by itself (tests/worker)."""

Cases = dict[tuple[str, str, int], CaseResult]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Cases:
    """Run the matrix, and return its cases by framework, model and number of ranks."""
    folder = tmp_path_factory.mktemp("frameworks")
    home = folder / "home"
    (home / "envs").mkdir(parents=True)
    for name in HERE:
        (home / "envs" / name).symlink_to(Path(framework_python(name)).parents[1])
    document: dict[str, Any] = {
        "name": "every-framework",
        "protocol": {"name": "adaptive", "steps": 4, "warmup_steps": 2, "repeats": 1},
        "limits": {"timeout_s": 1200},
        "equivalence": False,
        "datasets": {"photos": {"make": {"images": 24, "classes": 2, "width": 64, "height": 48}}},
        "defaults": {"data": "photos", "batch_per_device": 2, "image_size": 32, "device": "cpu"},
        "zip": [
            {
                "framework": HERE,
                "layout": [OWN[name]["layout"] for name in HERE],
                "compiler": [OWN[name]["compiler"] for name in HERE],
            },
            {
                "model": [model for model, _ in REQUESTED],
                "devices_per_node": [ranks for _, ranks in REQUESTED],
            },
        ],
    }
    path = folder / "suite.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    suite = load_suite(path)
    order = Order(suite, suite.cases, folder / "out", False, home, ("trainmark", "run", str(path)))
    results = run_campaign(order, Silent()).results
    return {(c.case.framework, c.case.model, c.case.devices_per_node): c for c in results.cases}


@pytest.mark.rare
@pytest.mark.parametrize("framework", [pytest.param(name, marks=needs_framework(name)) for name in OWN])
@pytest.mark.parametrize(("model", "ranks"), REQUESTED)
def test_a_framework_trains_on_real_images_in_its_own_form(
    measured: Cases, model: str, ranks: int, framework: str
) -> None:
    case = measured[framework, model, ranks]
    (run,) = case.runs
    assert case.outcome is Outcome.OK, run.reason
    assert run.measurement is not None
    assert run.measurement.throughput > 0
    parameters = run.parameters.reported()
    assert parameters["framework"] == framework
    assert parameters["actual"]["world_size"] == ranks
    assert parameters["epoch_images"] == 24
    assert parameters["decoder"]
    form = FORMS.get(framework, "image-folder")
    assert (form in parameters["data"]) is (form != "image-folder")
