"""The contract of a framework's backend: everything that the loop and the verification of a run ask of a framework.

``backends/FRAMEWORK/backend.py`` has a class that implements it, once for all tasks; a class in
``models/FRAMEWORK_TASK.py`` adds the network, its loss and the names of its weights. The loop (``window.py``,
``program.py``) and the verification (``post_window.py``, ``equivalence.py``) call nothing else of a framework.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from .facts import Facts, ObservedConfig, peak_resident_bytes
from .feed import Feed
from .optimizers import Moments
from .place import Place
from .task import Verified
from .window import Steps


class Observation(NamedTuple):
    """A forward and backward pass of a batch without an update, in training mode; arrays are numpy's, float32.

    What is unknown is None. A task that observes something else has a type of its own with a loss and gradients.
    """

    # Of the loss alone, without decay, by the shared names: all, or those verified.
    gradients: Mapping[str, Any]
    loss: Any = None
    logits: Any = None  # the outputs that the loss was computed from
    operations: Sequence[Any] = ()  # the network's observed convolutions or products, in forward order
    layers: Any = None  # the observations for ``Task.verify_layers``
    norm: float | None = None  # of all gradients together, if ``gradients`` are not all
    target_losses: Any = None  # of a language model, in the place of logits: the loss of each target
    loss_types: Mapping[str, str] | None = None  # of the logits and of the loss


def repeated(once: Callable[[], Any], wait: Callable[[], None]) -> Callable[[int], None]:
    """Return a probe's function: it calls ``once`` a given number of times, and waits."""

    def times(count: int) -> None:
        for _ in range(count):
            once()
        wait()

    return times


@contextmanager
def hooked(hooks: Iterable[Any]) -> Iterator[None]:
    """Remove the hooks, each by its ``remove``, at the end of the context."""
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class Backend(Steps, Protocol):
    """The device of a rank, loader and training step, weights, and observations.

    The constructor of a framework's class raises ``RunError`` (unsupported) for what it cannot train before the ranks
    meet, so that no rank waits for one that has left. The hot path is ``train`` and the fetch of the next batch.
    Parameters, running statistics and the optimizer's state are numpy arrays by the names of the task's ``Check``.
    Types, shapes and layers are read from the framework's own objects and never from the request. What a framework does
    not count, store or offer is None: a number of steps, moments, the function of a probe.
    """

    COUNTS_UPDATES: bool = True  # ``steps_taken`` excludes the steps that overflowed, which changed no weight

    @abstractmethod
    def facts(self) -> Facts:
        """Return the facts of the run: device, versions, implementations."""

    def peak_memory_bytes(self) -> int:
        """Return this rank's peak memory, of the kind in ``Facts.peak_memory_of`` (here: the process)."""
        return peak_resident_bytes()

    def profiling(
        self, _folder: Path
    ) -> AbstractContextManager[Callable[[str], AbstractContextManager[Any]]] | None:
        """Return a context that writes a trace into a folder and gives what opens a named span; None without one."""
        return None

    def products(self, _size: int) -> Callable[[int], None] | None:
        """Return a function that multiplies two square matrices in the run's type so many times, and waits."""
        return None

    def sums(self, _values: int) -> Callable[[int], None] | None:
        """Return a function that adds one array of four-byte values to another so many times, and waits."""
        return None

    def open_loader(self, _settings: Any, _place: Place) -> Feed | None:
        """Return a new feed of the loader that the settings name; None without loaders.

        The backend calls it before the ranks meet, if it can: data that cannot be read end a rank before others wait.
        """
        return None

    @abstractmethod
    def train(self, index: int) -> None:
        """Launch the whole step ``index`` on the device: forward and backward of ``self.batch``, update, loss stored.

        The rate is ``self.rates[index]``. Write it as a good user of the framework would.
        """

    @abstractmethod
    def own_losses(self) -> list[float]:
        """Return the losses of this rank's steps so far, in their order."""

    def alone(self) -> Callable[[], None] | None:
        """Return a function that passes the current batch forward and backward like the step, without exchange.

        It may launch everything without waiting, and must leave no gradient behind.
        """
        return None

    def all_reduce(self) -> tuple[int, Callable[[], None]] | None:
        """Return the bytes of gradients that a step exchanges, and an all-reduce of that size; None without one."""
        return None

    @abstractmethod
    def load_weights(self, weights: Mapping[str, Any]) -> None:
        """Load all parameters and running statistics (numpy, float32), without changing the optimizer's state."""

    @abstractmethod
    def read_weights(self) -> dict[str, Any]:
        """Return copies of the parameters and running statistics, as ``load_weights`` takes them."""

    def sampled_weights(self) -> dict[str, Any]:
        """Return the weights to verify: all, or of a large model some rows, as of ``read_moments`` and ``own_pass``."""
        return self.read_weights()

    def sampled_share(self) -> float:
        """Return the share of the parameters' elements that ``sampled_weights`` returns."""
        return 1.0

    def read_moments(self) -> Moments | None:
        """Return the moments of an adaptive optimizer."""
        return None

    def steps_taken(self) -> int | None:
        """Return the model's or the optimizer's own count of steps."""
        return None

    def updates_taken(self) -> int | None:
        """Return the optimizer's own count of its updates; forward passes must not raise it."""
        return None

    @abstractmethod
    def observed_config(self) -> ObservedConfig:
        """Return the observations of the first step. Called once, after it; hooks may be removed here."""

    @abstractmethod
    def observe(self) -> Observation:
        """Pass the batch forward and backward as ``train`` does, without an update; running statistics may change."""

    def loader_path(self) -> Verified | None:
        """Check the loader's output for a known sample; None if it cannot be observed."""
        return None
