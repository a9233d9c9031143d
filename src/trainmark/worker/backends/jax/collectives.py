"""The devices of the ranks in JAX, as one mesh: gloo between CPUs, NCCL between GPUs, both called by XLA's programs."""

import contextlib
import ctypes
import importlib.util
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from ...core.choices import own_gpu
from ...core.outcomes import FAILED, UNSUPPORTED, RunError
from ...core.place import Place, Ranks
from ...core.window import HostTimers

CPU = "cpu"
CUDA = "cuda"
CUDA_PLUGINS = ("jax_cuda13_plugin", "jax_cuda12_plugin")


def choose_platform(requested: str, place: Place) -> str:
    """Return ``cpu`` or ``cuda`` and let JAX see that platform, and this rank's GPU, alone.

    The ranks must meet before JAX may be asked for its devices, so a GPU is looked for without asking it: there is
    one where a CUDA plugin is installed and the driver's control device exists.
    """
    plugin = any(importlib.util.find_spec(name) is not None for name in CUDA_PLUGINS)
    driver = Path("/dev/nvidiactl").exists()
    if requested == CUDA and not plugin:
        reason = f"cuda needs one of JAX's plugins, {' or '.join(CUDA_PLUGINS)}: none is here"
        raise RunError(UNSUPPORTED, reason)
    if requested == CUDA and not driver:
        raise RunError(UNSUPPORTED, "cuda was requested, but there is no NVIDIA driver here (/dev/nvidiactl)")
    gpu = own_gpu("JAX", requested, _gpus_shown() if plugin and driver else 0, place)
    platform = CPU if gpu is None else CUDA
    jax.config.update("jax_platforms", platform)
    if gpu is None:
        # More than one would turn a rank into several.
        jax.config.update("jax_num_cpu_devices", 1)
    else:
        jax.config.update("jax_cuda_visible_devices", str(gpu))
    return platform


def _gpus_shown() -> int:
    """Return the GPUs that this process may use: those that the variable names, or the driver's devices."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return len([name for name in named.split(",") if name])
    return len([path for path in Path("/dev").glob("nvidia*") if path.name[len("nvidia") :].isdigit()])


def own_device() -> Any:
    """Return this rank's device, starting JAX; raise ``RunError`` if it does not come up."""
    try:
        return jax.local_devices()[0]
    except RuntimeError as error:
        text = " ".join(str(error).split())
        if "initialize backend" in text:
            raise RunError(UNSUPPORTED, f"JAX finds no device to compute on: {text[:300]}") from error
        raise


def compute_threads() -> int:
    """Return how many threads of XLA's pool this process has, counted by their name in the system."""
    count = 0
    for task in Path("/proc/self/task").iterdir():
        # A thread may end meanwhile.
        with contextlib.suppress(OSError):
            count += (task / "comm").read_text(encoding="utf-8").startswith("tf_XLAEigen")
    return count


RANKS = "ranks"  # the mesh axis over which the batch is split
WHOLE, SPLIT = P(), P(RANKS)  # equal on every rank; the first axis divided among the ranks
# After how long without a sign of life JAX's own service gives a rank up, where no collective noticed it before.
LOST_AFTER_S = 20

_HANDLER = ctypes.CFUNCTYPE(None, ctypes.c_int)
_HANDLERS: list[Any] = []  # the handler that C may call as long as the process lives


def meet(place: Place, platform: str) -> None:
    """Join the other ranks at the place's address, if a launcher gave one; JAX must not have started."""
    if not place.distributed:
        return
    if platform == CPU:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
    assert place.address is not None
    assert place.port is not None
    # The ranks reach each other directly, whatever proxy is set for the world outside.
    os.environ.setdefault("no_grpc_proxy", place.address)
    jax.config.update("jax_check_proxy_envs", False)
    service = f"{place.address}:{place.port}"
    loopback = place.address in ("127.0.0.1", "localhost")
    jax.distributed.initialize(
        service,
        num_processes=place.world_size,
        process_id=place.rank,
        cluster_detection_method="deactivate",
        coordinator_bind_address=service if loopback else None,
        heartbeat_timeout_seconds=LOST_AFTER_S,
    )
    if place.rank != 0:
        _report_lost_service(place.address, place.port)


def _report_lost_service(address: str, port: int) -> None:
    """Report an abort of this process as a lost rank 0 from now on, if its address does not answer any more.

    JAX's client aborts the process as soon as the service's connection ends, often before gloo has noticed anything,
    and takes no other callback from Python (jaxlib 0.10.2 cannot pass it the status). Any other abort is left to the
    earlier handler, such as Python's, which shows the stack.
    """
    set_handler = ctypes.CDLL(None).signal
    set_handler.restype, set_handler.argtypes = ctypes.c_void_p, (ctypes.c_int, ctypes.c_void_p)

    def on_abort(number: int) -> None:
        try:
            socket.create_connection((address, port), timeout=1).close()
        except OSError:
            threading.Thread(target=_lost, name="lost-service").start()
            time.sleep(LOST_AFTER_S)
        else:
            set_handler(number, before)
            # It arrives when this has returned, so that this handler is not in the stack that is shown.
            signal.pthread_kill(threading.get_ident(), number)

    handler = _HANDLER(on_abort)
    _HANDLERS.append(handler)
    before = set_handler(signal.SIGABRT, ctypes.cast(handler, ctypes.c_void_p))


def _lost() -> None:
    # An error that a thread raises ends the run; in the handler it would be lost.
    raise RunError(FAILED, "lost contact with another rank: JAX's service has ended", peer_lost=True)


class CompileClock:
    """The programs that XLA compiled in this process, and its seconds without tracing, by ``jax.monitoring``."""

    def __init__(self) -> None:
        self.seconds, self.programs, self.cache_hits = 0.0, 0, 0
        jax.monitoring.register_event_duration_secs_listener(self._note_duration)
        jax.monitoring.register_event_listener(self._note_event)

    def _note_duration(self, event: str, seconds: float, **_facts: Any) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            self.seconds += seconds
            self.programs += 1

    def _note_event(self, event: str, **_facts: Any) -> None:
        if event == "/jax/compilation_cache/cache_hits":
            self.cache_hits += 1


class CompletionTimers(HostTimers):
    """The moments at which each step's loss is ready, with the host never more than one step ahead of the device.

    JAX has no events to record, so the host waits for a step's loss, but only after it has handed over the next step:
    the device always has its next work while the host waits.
    """

    def __init__(self, steps: int) -> None:
        super().__init__(steps)
        self._result: Any = None
        self._slot = -1
        self._handed: Any = None

    def hand_over(self, result: Any) -> None:
        """Take the result by which the next mark is known to be reached."""
        self._handed = result

    def mark(self, slot: int) -> None:
        """Note the end of what was marked before, and remember this mark; without any work before it, it is now."""
        self.synchronize()
        if self._handed is None:
            super().mark(slot)
            return
        self._result, self._slot, self._handed = self._handed, slot, None

    def synchronize(self) -> None:
        """Wait for the last mark that was not reached yet."""
        if self._result is not None:
            self._result.block_until_ready()
            super().mark(self._slot)
            self._result = None


class Group(Ranks):
    """One device of each rank, in the order of the ranks; every method does the obvious thing for a single one."""

    def __init__(self, place: Place, platform: str) -> None:
        """Make the mesh, and pass the barrier once, so that it is compiled before anything is timed."""
        super().__init__(place)
        if place.distributed:
            self.backend = "gloo" if platform == CPU else "nccl"
        self.alone = place.world_size == 1
        devices = jax.local_devices()[:1] if self.alone else jax.devices()
        assert len(devices) == place.world_size, f"{len(devices)} devices for {place.world_size} ranks"
        self.mesh = Mesh(np.array(devices), (RANKS,))
        self.shared, self.split = NamedSharding(self.mesh, WHOLE), NamedSharding(self.mesh, SPLIT)
        """Whole on every rank; the first axis divided among the ranks."""
        self._show = jax.jit(lambda values: values, out_shardings=self.shared)
        self.barrier()

    def part(self, own: Any) -> Any:
        """Return the global array of which this rank has ``own``; the copy to the device may still be under way."""
        return jax.make_array_from_process_local_data(self.split, own)

    def whole(self, tree: Any) -> Any:
        """Return global arrays that are alike on every rank, of a tree of this rank's."""
        if self.alone:
            return jax.device_put(tree)
        return jax.tree.map(lambda own: jax.make_array_from_process_local_data(self.shared, own), tree)

    def parts(self, tree: Any) -> Any:
        """Return global arrays with a first axis for the ranks, of a tree of this rank's; alone, without the axis."""
        return jax.device_put(tree) if self.alone else jax.tree.map(lambda own: self.part(own[None]), tree)

    def own_whole(self, tree: Any) -> Any:
        """Return this rank's copies of what is alike on every rank."""
        return jax.tree.map(lambda array: np.array(array.addressable_data(0)), tree)

    def own_part(self, tree: Any) -> Any:
        """Return this rank's of arrays with a first axis for the ranks; alone, there is no such axis."""
        own = self.own_whole(tree)
        return own if self.alone else jax.tree.map(lambda array: array[0], own)

    def counted(self) -> int:
        return int(jax.process_count())

    def all_gather(self, values: Sequence[int]) -> list[list[int]]:
        """Exchange the values as halves, because JAX has no 64 bits by default."""
        halves = np.array([values], np.int64).view(np.uint32)
        return np.ascontiguousarray(self._show(self.part(halves))).view(np.int64).tolist()

    def leave(self) -> None:
        """End together: the service must outlive the last rank that talks to it."""
        if self.place.distributed:
            self.barrier()
            jax.distributed.shutdown()


def over_ranks(step: Callable[[Any, Any], Any], mesh: Any, specs: Any) -> Callable[[Any, Any], Any]:
    """Return the step over all ranks' devices, each with its part of the batch and its own running statistics.

    ``specs`` declares weights equal on all ranks, and JAX proves at tracing time that the step leaves them so.
    """

    def own_part(state: Any, batch: Any) -> Any:
        batch_stats = jax.tree.map(lambda s: s[0], state.batch_stats)
        state, loss = step(state.replace(batch_stats=batch_stats), batch)
        return state.replace(batch_stats=jax.tree.map(lambda s: s[None], state.batch_stats)), loss[None]

    return jax.shard_map(own_part, mesh=mesh, in_specs=(specs, SPLIT), out_specs=(specs, SPLIT))
