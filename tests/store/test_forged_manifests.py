"""Manifests under a key that the database has for another environment: each run stays with its own."""

import sys
from pathlib import Path

from sqlalchemy import URL

sys.path.append(str(Path(__file__).parents[1] / "report"))

import sample_results as sample

from trainmark.schema.manifest import Manifest
from trainmark.store import Store, rebuilt_suite


def test_a_document_cannot_change_the_environment_of_anothers_runs(url: URL) -> None:
    genuine = sample.one_case(3)
    (key,) = {run.manifest for case in genuine.cases for run in case.runs}
    assert key is not None
    forged = genuine.model_copy(
        update={
            "suite": "forged",
            "manifests": {key: sample.manifest({"cpu": {**sample.NODE["cpu"], "model": "another"}})},
        }
    )
    store = Store(url)
    for number, results in enumerate((forged, genuine)):
        store.put(results, rebuilt_suite(results), f"/nonexistent/{number}")

    models = []
    for campaign in store.campaigns():
        stored = store.runs_of(campaign)
        environments = [stored.manifests[run.manifest or ""] for runs in stored.runs.values() for run in runs]
        models.append({one.nodes[0].cpu.model for one in environments if isinstance(one, Manifest)})
    assert models == [{"another"}, {sample.MANIFEST.nodes[0].cpu.model}]
    again = store.put(genuine, rebuilt_suite(genuine), "/nonexistent/1")
    assert (again.new, again.changed, again.known) == (0, 0, 3)
    store.close()
