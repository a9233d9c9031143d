"""The manifest of a run carries the peaks that this very run measured; what is pooled does not depend on them."""

import json
from pathlib import Path
from typing import Any

import pytest

from fakes import Bench, Silent, behaving
from trainmark.campaign import Progress, collect_results
from trainmark.campaign.executor import complete_manifest
from trainmark.execution import ResultDirectory, read_suite
from trainmark.schema.manifest import Manifest, PeakQuantity
from trainmark.schema.names import EVENTS, MANIFEST
from trainmark.schema.results import RunResult

TELLS = behaving("tells-peaks", precision="bf16")
PROTOCOL: dict[str, Any] = {"name": "adaptive", "steps": 12, "warmup_steps": 2, "repeats": 2}


class StopsAfterOneRun(Silent):
    def run_ended(self, result: RunResult, standing: Progress) -> None:
        raise KeyboardInterrupt


def manifests(bench: Bench) -> list[Manifest]:
    return [
        Manifest.model_validate_json(path.read_bytes())
        for path in sorted(bench.out.glob(f"runs/*/*/{MANIFEST}"))
    ]


def test_the_manifest_of_a_run_has_what_its_devices_were_measured_to_do(bench: Bench) -> None:
    (case,) = bench.write({**TELLS, "devices_per_node": 2}, protocol=PROTOCOL).cases
    bench.run()
    first, second = (held.nodes[0].peaks for held in manifests(bench))
    assert first is not None
    assert second is not None
    assert [(held.case_id, held.repeat) for held in (first, second)] == [(case.id, 1), (case.id, 2)]
    assert first.measured_by == "this run"
    assert first.precision == "bf16"
    reported = [(p.rank, p.quantity, p.rate, p.unit, p.type) for p in first.peaks]
    assert reported == [
        (0, PeakQuantity.MATRIX_PRODUCT, 1000, "FLOP/s", "bfloat16"),
        (0, PeakQuantity.MEMORY, 100, "bytes/s", "float32"),
        (1, PeakQuantity.MATRIX_PRODUCT, 1001, "FLOP/s", "bfloat16"),
        (1, PeakQuantity.MEMORY, 101, "bytes/s", "float32"),
    ]
    assert first.peaks[0].of == "product of 768 x 768 matrices, bfloat16"


def test_each_node_has_the_peaks_of_its_own_ranks(bench: Bench) -> None:
    (case,) = bench.write(TELLS).cases
    bench.run()
    (held,) = manifests(bench)
    (folder,) = bench.out.glob("runs/*/1")
    event = {"peak_operations_per_s": [4, 3, 2, 1], "peak_bytes_per_s": [9, 9, 9]}
    (folder / EVENTS).write_text(f"DLLL {json.dumps({'step': [], 'data': event})}\n")
    of_two = case.varied(nodes=2, devices_per_node=2)
    complete_manifest(folder, Manifest(nodes=held.nodes * 2), of_two, of_two.id, 1)
    found = [node.peaks for node in manifests(bench)[0].nodes]
    # A rate is missing: nobody knows whose.
    reported = [[(peak.rank, peak.rate) for peak in peaks.peaks] for peaks in found if peaks is not None]
    assert reported == [[(0, 4), (1, 3)], [(2, 2), (3, 1)]]


@pytest.mark.parametrize("behaviour", ["well", "crash", "tells-peaks-and-fails", "tells-peaks-of-nonsense"])
def test_a_run_that_ended_without_measuring_has_none(bench: Bench, behaviour: str) -> None:
    bench.write(behaving(behaviour))
    bench.run()
    assert [held.nodes[0].peaks for held in manifests(bench)] == [None]


def test_peaks_are_the_runs_and_change_nothing_of_what_is_pooled(bench: Bench) -> None:
    bench.write(TELLS, protocol=PROTOCOL)
    one = bench.run(StopsAfterOneRun())
    both = bench.run(resume=True)
    assert [len(results.cases[0].runs) for results in (one, both)] == [1, 2]
    assert one.manifests.keys() == both.manifests.keys()
    # Runs with one environment share what results keep of it: nothing that only one of them has is in it.
    stored = list(both.manifests.values())
    assert [node.peaks for held in stored if isinstance(held, Manifest) for node in held.nodes] == [None]
    assert collect_results(read_suite(bench.out), ResultDirectory(bench.out), "").manifests == both.manifests


def test_a_manifest_of_before_is_read_and_pooled_with_those_of_now(bench: Bench) -> None:
    bench.write(TELLS, protocol=PROTOCOL)
    bench.run(StopsAfterOneRun())
    (path,) = bench.out.glob(f"runs/*/1/{MANIFEST}")
    without_peaks(path)
    assert len({run.manifest for run in bench.run(resume=True).cases[0].runs}) == 1
    old, new = (held.nodes[0].peaks for held in manifests(bench))
    assert (old is None, new is None) == (True, False)


def without_peaks(path: Path) -> None:
    document = json.loads(path.read_text())
    for node in document["nodes"]:
        del node["peaks"]
    path.write_text(json.dumps(document))
