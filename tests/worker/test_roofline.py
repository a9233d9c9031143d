"""The least time of a step: what layers compute and move is what torch sees them do; the longer of both counts."""

from types import SimpleNamespace
from typing import Any

import pytest
from worker_process import beside

from frameworks import needs_framework
from trainmark.worker.core.precision import Precision
from trainmark.worker.core.probes import Floor, floor_of, share_of_floor, share_of_peak
from trainmark.worker.core.task import Piece


def test_each_piece_takes_the_longer_of_its_operations_and_its_bytes() -> None:
    pieces = [Piece("product", 100.0, 10.0), Piece("sum", 1.0, 50.0)]
    assert floor_of(pieces, operations_per_s=10.0, bytes_per_s=5.0) == Floor(10.0 + 10.0, 10.1, 12.0)


def test_there_is_no_floor_where_memory_is_not_measured() -> None:
    rank: Any = SimpleNamespace(
        task=SimpleNamespace(
            operations=lambda _: {"counted": 1}, pieces=lambda *_: [Piece("product", 1.0, 1.0)]
        ),
        expected=lambda: Precision("float32"),
        facts=lambda: SimpleNamespace(device="cpu"),
        barrier=lambda: None,
        gather=lambda own: [own],
        products=lambda size: lambda _times: sum(range(size)),
        sums=lambda _values: None,
    )
    settings: Any = SimpleNamespace(batch_per_device=1)

    found = share_of_peak(rank, settings, 1.0)

    assert found["peak_operations_per_s"][0] > 0
    assert [found[name] for name in ("peak_bytes_per_s", "floor", "roofline")] == [None, None, None]


def test_there_is_no_share_above_one() -> None:
    floor = Floor(2.0, 2.0, 1.0)
    assert share_of_floor(floor, 4.0)["roofline"] == 0.5
    assert share_of_floor(floor, 1.0)["roofline"] is None


@pytest.mark.training
@needs_framework("pytorch")
@pytest.mark.xdist_group("worker-pytorch")
@pytest.mark.parametrize("model", ["resnet50_v1.5", "mobilenet_v1"])
def test_pieces_are_what_torch_counts_of_the_same_step(model: str) -> None:
    code = f"""
import torch
from torch.utils.flop_counter import FlopCounterMode
training = open_training(settings("--model={model}", "--image-size=64", "--batch-per-device=2"), ALONE)
moved = []
def note(layer, given, output):
    moved.append([given[0].numel(), output.numel(), layer.weight.numel()])
for layer in training.model.modules():
    if isinstance(layer, (torch.nn.Conv2d, torch.nn.Linear)):
        layer.register_forward_hook(note)
with FlopCounterMode(display=False) as counter:
    training._pass()
print(json.dumps([training.task.pieces(training.settings, 2), counter.get_total_flops(), moved]))
"""
    pieces, operations, layers = beside("pytorch", code)

    *passes, update = pieces
    # Of a grouped convolution torch counts the backward pass as if it had no groups.
    assert (sum(piece[1] for piece in passes) == operations) == (model == "resnet50_v1.5")
    forward, backward = sorted(passes[::2]), sorted(passes[1::2])
    assert sorted(piece[2] for piece in forward) == sorted(2 * sum(layer) for layer in layers)
    # The images have no gradient.
    inputs = sum(layer[0] for layer in layers) - layers[0][0]
    assert sum(piece[2] for piece in backward) == 2 * (
        sum(read + given + 2 * weights for read, given, weights in layers) + inputs
    )
    assert update[1:] == [0, 18 * sum(weights for _, _, weights in layers)]
