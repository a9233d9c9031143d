"""What all workers share: which GPU is whose, what was seen against what was asked, feeds, losses, failures."""

import math
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from worker_process import LONG_S, make_images

from trainmark.placement import free_ports
from trainmark.worker.core.arguments import parse
from trainmark.worker.core.choices import one_of, own_gpu, require_version
from trainmark.worker.core.facts import Facts, ObservedConfig, as_requested
from trainmark.worker.core.feed import LoadedFeed, Loader
from trainmark.worker.core.outcomes import (
    FAILED,
    LOST_PEER,
    OOM,
    OUT_OF_MEMORY,
    Known,
    RunError,
    classify,
    lost_peer,
    out_of_memory,
)
from trainmark.worker.core.peers import Peers
from trainmark.worker.core.place import Place, Ranks
from trainmark.worker.core.precision import Precision
from trainmark.worker.core.probes import shares_of
from trainmark.worker.core.window import EventTimers
from trainmark.worker.tasks.image_classification import TASK
from trainmark.worker.tasks.image_classification.decoding import Photos, collate
from trainmark.worker.tasks.image_classification.images import Draw
from trainmark.worker.tasks.image_classification.observing import layout_by_axes
from trainmark.worker.tasks.image_classification.settings import ImageSettings
from trainmark.worker.tasks.image_classification.training import ImageTraining

ALONE = Place(0, 1, 0, 1, None, None)
FLAGS = ["--framework=pytorch", "--batch-per-device=4", "--image-size=16", "--classes=10", "--steps=3"]


def settings(*more: str) -> ImageSettings:
    parsed = parse([*FLAGS, "--warmup-steps=1", *more], 1)
    assert isinstance(parsed, ImageSettings)
    return parsed


# Which GPU is whose.


@pytest.mark.parametrize(
    ("asked", "seen", "local_rank", "shown", "index"),
    [
        ("auto", 0, 1, False, None),
        ("cpu", 8, 1, False, None),
        ("auto", 4, 3, False, 3),
        ("cuda", 1, 0, False, 0),
        # A launcher that shows each rank its own GPU alone.
        ("cuda", 1, 3, True, 0),
    ],
)
def test_a_rank_gets_the_gpu_of_its_number(
    asked: str, seen: int, local_rank: int, shown: bool, index: int | None
) -> None:
    place = ALONE._replace(local_rank=local_rank)
    environment = {"CUDA_VISIBLE_DEVICES": "3"} if shown else {}

    assert own_gpu("PyTorch", asked, seen, place, environment) == index


@pytest.mark.parametrize(
    ("seen", "local_rank", "shown", "said"),
    [
        (0, 0, False, "cuda was requested, but MXNet finds no CUDA device here"),
        (1, 1, False, "local rank 1 has no GPU: MXNet finds 1 on this node"),
        (2, 2, True, "local rank 2 has no GPU: MXNet finds 2 on this node"),
    ],
)
def test_two_ranks_do_not_share_a_gpu_in_silence(seen: int, local_rank: int, shown: bool, said: str) -> None:
    environment = {"CUDA_VISIBLE_DEVICES": "0"} if shown else {}

    with pytest.raises(RunError, match=said):
        own_gpu("MXNet", "cuda", seen, ALONE._replace(local_rank=local_rank), environment)


def test_what_a_framework_lacks_is_said_with_what_it_has() -> None:
    one_of("JAX", "compiler", "xla", ("none", "xla"))
    with pytest.raises(RunError, match="unsupported: JAX has no compiler 'graph'; it has none, xla"):
        one_of("JAX", "compiler", "graph", ("none", "xla"))


@pytest.mark.parametrize("version", ["2.4.0", "2.11.0+cu130", "2.10rc1", "3"])
def test_a_version_that_is_new_enough_is_taken(version: str) -> None:
    require_version("PyTorch", version, (2, 4))


@pytest.mark.parametrize("version", ["2.3.1", "1.13", "unknown"])
def test_a_version_that_is_too_old_is_said_to_be_so(version: str) -> None:
    with pytest.raises(RunError, match=re.escape(f"PyTorch 2.4 or later is needed; this is {version}")):
        require_version("PyTorch", version, (2, 4))


# What was seen against what was asked.

LAYOUTS = {"activation_layout": "nchw", "weight_layout": "either"}
SEEN = ObservedConfig("float32", "float32", 4, False, False, LAYOUTS)
ASKED = {
    "compute_dtype": "float32",
    "weight_dtype": "float32",
    "activation_layout": "nchw",
    "weight_layout": "nchw",
    "batch_per_device": 4,
    "tf32_matmul": False,
    "tf32_convolution": False,
}


@pytest.mark.parametrize("name", list(ASKED))
def test_every_key_that_differs_from_what_was_asked_is_invalid(name: str) -> None:
    assert as_requested(SEEN, ASKED, "cuda")[name] == {**vars(SEEN), **LAYOUTS}[name]
    other: Any = "float64" if isinstance(ASKED[name], str) else not ASKED[name]

    seen: Any = {"axes": {**LAYOUTS, name: other}} if name in LAYOUTS else {name: other}

    with pytest.raises(RunError, match=f"invalid: {name} of the first step was {other}, not {ASKED[name]}"):
        as_requested(replace(SEEN, **seen), ASKED, "cuda")


def test_what_cannot_be_seen_is_declared_or_the_run_is_invalid() -> None:
    blind = replace(SEEN, compute_dtype=None, tf32_matmul=None)

    with pytest.raises(RunError, match="invalid: compute_dtype of the first step was not observed"):
        as_requested(blind, ASKED, "cuda")
    declared = as_requested(replace(blind, unseen=("tf32_matmul", "compute_dtype")), ASKED, "cuda")
    assert declared["compute_dtype"] is None
    assert declared["unseen"] == ["compute_dtype", "tf32_matmul"]


def test_a_cpu_has_no_tf32() -> None:
    found = as_requested(replace(SEEN, tf32_matmul=None, tf32_convolution=None), ASKED, "cpu")

    assert (found["tf32_matmul"], found["tf32_convolution"], found.get("unseen")) == (False, False, None)


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((2, 64, 8, 8), "nchw"),
        ((2, 8, 8, 64), "nhwc"),
        ((2, 64, 64, 64), "either"),
        ((2, 8, 8, 8), "neither"),
    ],
)
def test_a_layout_is_told_by_where_the_channels_are(shape: tuple[int, ...], layout: str) -> None:
    assert layout_by_axes(shape, 64) == layout


# The training that is the same for all.


class Mean(ImageTraining):
    """Trains nothing: its batch is its input, and its loss the mean of the images."""

    def __init__(self, asked: ImageSettings, ranks: Ranks) -> None:
        super().__init__(asked, ranks)
        self.seen_losses: list[float] = []
        self.weight = np.ones(3, np.float32)
        self.running = np.ones(3, np.float32)

    def train(self, index: int) -> None:
        self.seen_losses.append(float(self.batch[0].mean()))

    def own_losses(self) -> list[float]:
        return self.seen_losses

    def read_weights(self) -> dict[str, Any]:
        return {"stem.bn.weight": self.weight, "stem.bn.running_var": self.running}

    def facts(self) -> Facts:
        return Facts("1", "cpu", "a CPU", 3, 1, "none", others={"own": 1})

    def observed_config(self) -> ObservedConfig:
        return SEEN

    def expected(self) -> Precision:
        return Precision("float32")

    def synchronize(self) -> None:
        """Return at once."""

    def load_weights(self, weights: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def observe(self) -> Any:
        raise NotImplementedError


class TwoRanks(Ranks):
    """A rank beside another one that gave the same values, each higher by two of the last bit."""

    def gather(self, values: Sequence[int]) -> list[list[int]]:
        return [list(values), [value + 2 for value in values]]


def test_the_synthetic_batch_is_each_ranks_own_and_always_the_same() -> None:
    first, again, other = (TASK.synthetic(settings(), rank) for rank in (0, 0, 1))

    assert first[0].shape == (4, 3, 16, 16)
    assert (first[0].dtype, first[1].dtype) == (np.float32, np.int64)
    assert 0 <= first[1].min() <= first[1].max() < 10
    assert np.array_equal(first[0], again[0])
    assert not np.array_equal(first[0], other[0])


def test_losses_of_the_ranks_are_averaged_without_losing_a_bit() -> None:
    training = Mean(settings(), TwoRanks(ALONE))
    for index in range(2):
        training.step(index)

    own = training.seen_losses[0]
    between = np.nextafter(own, math.copysign(math.inf, own))
    losses = training.losses()
    assert losses[0] == between != own
    assert len(losses) == 3
    assert math.isnan(losses[2])


def test_a_digest_changes_with_the_last_bit_of_a_weight_and_not_with_running_statistics() -> None:
    training = Mean(settings(), Ranks(ALONE))
    before = training.digest()
    training.running += 1
    assert training.digest() == before

    training.weight[1] = np.nextafter(np.float32(1), np.float32(2))

    assert training.digest() != before
    assert 0 <= training.digest() < 1 << 63


def test_a_run_says_what_it_is_made_of_and_what_its_ranks_are() -> None:
    training = Mean(settings("--loss-scale=128"), Ranks(ALONE))
    described, actual = training.describe(), training.actual()

    assert described["optimizer"] == {"name": "SGD", "implementation": "none", "loss_scale": None}
    assert (described["own"], described["backend"], "loader_workers" in described) == (1, None, False)
    assert (actual["world_size"], actual["parameters"]) == (1, 3)


def test_the_loss_scale_is_described_where_the_loss_is_scaled(monkeypatch: pytest.MonkeyPatch) -> None:
    training = Mean(settings("--loss-scale=128"), Ranks(ALONE))
    monkeypatch.setattr(training, "expected", lambda: Precision("float16"))

    assert training.describe()["optimizer"]["loss_scale"] == 128.0


def test_ranks_that_the_framework_does_not_know_of_are_invalid() -> None:
    with pytest.raises(RunError, match="invalid: pytorch counts 1 ranks, but 2 were started"):
        Mean(settings(), Ranks(ALONE._replace(world_size=2))).actual()


def test_a_batch_that_is_given_takes_the_place_of_the_feed() -> None:
    training = Mean(settings(), Ranks(ALONE))
    training.set_batch(np.full((2, 3, 4, 4), 7, np.float32), np.zeros(2, np.int64))
    training.step(0)

    assert training.seen_losses == [7.0]


class Event:
    """A device event whose time is the number of those recorded before it."""

    def __init__(self, times: list[int]) -> None:
        self._times = times

    def record(self) -> None:
        self._times.append(0)
        self.at_ms = len(self._times)

    def elapsed_time(self, later: "Event") -> float:
        return later.at_ms - self.at_ms


def test_event_marks_give_the_seconds_between_two_events() -> None:
    times: list[int] = []
    marks = EventTimers(3, lambda: Event(times))
    for slot in range(3):
        marks.mark(slot)

    assert marks.seconds_between(0, 2) == 0.002


# Feeds and loaders.


def test_a_feed_raises_what_its_loader_could_not_read_and_drops_it_at_the_end() -> None:
    broken = RunError(FAILED, "a.jpg cannot be decoded")
    feed = LoadedFeed(iter([1, broken]), lambda loaded: loaded * 10, Loader(5, "pillow"))

    assert feed.next() == 10
    assert feed.wait_s > 0
    with pytest.raises(RunError, match=r"a\.jpg"):
        feed.next()
    feed.close()
    with pytest.raises(StopIteration):
        feed.next()


def test_photos_are_decoded_by_their_draw_and_a_broken_one_is_handed_over(tmp_path: Path) -> None:
    data = make_images(tmp_path / "data")
    (data / "class1" / "image 1.jpg").write_bytes(b"\xff\xd8 cut off")
    photos = Photos(settings(f"--data={data}"), ALONE)

    batch = collate([photos[Draw(0, 0)], photos[Draw(0, 1)]])
    assert batch[0].shape == (2, 16, 16, 3)
    assert batch[1].dtype == np.int64
    broken = next(index for index, path in enumerate(photos.images.paths) if path.endswith("image 1.jpg"))
    stopped = collate([photos[Draw(0, 0)], photos[Draw(0, broken)]])
    assert isinstance(stopped, RunError)
    assert "image 1.jpg cannot be decoded" in stopped.reason


# Failures.

RULES = (
    Known((RuntimeError,), OUT_OF_MEMORY, out_of_memory),
    Known((RuntimeError, ConnectionError), LOST_PEER, lost_peer),
)


@pytest.mark.parametrize(
    ("error", "outcome", "said"),
    [
        (RuntimeError("CUDA error: out of memory"), OOM, "out of memory: RuntimeError: CUDA error"),
        (MemoryError(), OOM, "the host could not allocate memory"),
        (ConnectionError("Connection reset\nby peer"), None, ""),
        (ConnectionError("[3] Connection closed by peer [10.0.0.1]"), FAILED, "Connection closed by peer"),
        (ValueError("out of memory"), None, ""),
    ],
)
def test_a_failure_is_known_by_its_kind_and_its_text(
    error: Exception, outcome: str | None, said: str
) -> None:
    known = classify(error, RULES)

    assert (known and known.outcome) == outcome
    assert known is None or said in known.reason
    assert known is None or known.peer_lost == (outcome == FAILED)


def test_the_cause_of_a_failure_counts_where_the_failure_itself_says_nothing() -> None:
    try:
        try:
            raise RuntimeError("std::bad_alloc")
        except RuntimeError as cause:
            raise ValueError("the step failed") from cause
    except ValueError as error:
        known = classify(error, RULES)

    assert known is not None
    assert known.outcome == OOM


# The connection between ranks.


def test_peers_exchange_values_and_the_loss_of_one_is_told_to_the_other() -> None:
    port = free_ports(8)
    places = [Place(rank, 2, rank, 2, "127.0.0.1", port) for rank in range(2)]
    lost: list[RunError] = []
    noticed = threading.Event()

    def on_lost(problem: RunError) -> None:
        lost.append(problem)
        noticed.set()

    met: dict[int, Peers] = {}
    gathered: dict[int, Any] = {}

    def meet(rank: int) -> None:
        met[rank] = Peers(places[rank], on_lost)
        gathered[rank] = met[rank].gather([rank, 2**62 + rank])

    threads = [threading.Thread(target=meet, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LONG_S)

    assert gathered[0] == gathered[1] == [[0, 2**62], [1, 2**62 + 1]]
    met[1]._links[0].close()
    assert noticed.wait(LONG_S)
    assert lost[0].peer_lost
    with pytest.raises(
        RunError, match=r"rank 1 has gone, while it was in \w+ \((peers|test_worker_shared)\.py:\d+\)$"
    ):
        met[0].barrier()
    met[0]._links[1].close()


def test_a_share_above_all_of_the_peak_is_none_and_the_peak_is_told_as_too_low() -> None:
    assert shares_of({"counted": 2.0}, 10.0, 40.0) == {"mfu": {"counted": 0.5}}
    told = shares_of({"counted": 2.0, "6N+12LHQT": 6.0}, 10.0, 40.0)
    assert told == {"mfu": {}, "mfu_unknown": "the measured peak is too low: the run did 1.5 times as much"}


def test_a_rank_is_known_by_its_address_in_numbers_and_never_by_the_loopback_of_another_node() -> None:
    # MindSpore and ps-lite take no names; Debian's installer gives a host's own name to 127.0.1.1.
    assert Place(0, 1, 0, 1, "localhost", 1).numeric_address_of(0) == "127.0.0.1"
    two = Place(0, 2, 0, 1, "192.0.2.7", 1, ("192.0.2.7", "192.0.2.8"))
    assert two.numeric_address_of(1) == "192.0.2.8"
    own = Place(0, 2, 0, 1, "localhost", 1, ("localhost", "127.0.0.2"))
    assert own.numeric_address_of(0).startswith("127.")
