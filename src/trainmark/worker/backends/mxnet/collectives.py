"""The device of a rank in MXNet, and the exchange of gradients: MXNet's parameter server, or Horovod."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import mxnet as mx
from mxnet import gluon

from ...core.choices import own_gpu
from ...core.outcomes import UNSUPPORTED, RunError, first_sentence
from ...core.peers import Peers
from ...core.place import Place, Ranks


def choose_context(requested: str, place: Place) -> Any:
    """Return the device of this rank; raise ``RunError`` if it does not exist."""
    index = own_gpu("MXNet", requested, 0 if requested == "cpu" else mx.context.num_gpus(), place)
    return mx.cpu() if index is None else mx.gpu(index)


def algorithm_search() -> str:
    """Return how MXNet chooses cuDNN's algorithms; by default it measures them in a limited workspace."""
    chosen = os.environ.get("MXNET_CUDNN_AUTOTUNE_DEFAULT", "1")
    return {"0": "cudnn, heuristic", "1": "cudnn, measured, workspace limited"}.get(chosen, "cudnn, measured")


# The scheduler or a server of MXNet's parameter server, by ``DMLC_ROLE``; ``argv[1]`` is the process of its rank. It
# dies with that process. ``import mxnet`` does the work and returns when all ranks have left.
SERVER = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
if os.getppid() != int(sys.argv[1]):
    sys.exit("trainmark-worker: the rank that started this parameter server has ended")
sys.path[:] = [entry for entry in sys.path if entry]
import mxnet
"""

END_S = 10.0


class Collective(Ranks):
    """The exchange of gradients of a single rank: Gluon's trainer updates the weights in place.

    Those of several ranks exchange all else over the plain connections of ``Peers``.
    """

    divisor = 1  # the divisor of the sum of the ranks' gradients

    def trainer(self, parameters: Any, optimizer: dict[str, Any]) -> Any:
        """Return Gluon's trainer with MXNet's SGD; all ranks have the parameters of rank 0 then."""
        return gluon.Trainer(parameters, "sgd", optimizer, kvstore=None)


class ParameterServer(Collective, Peers):
    """MXNet's ``dist_sync``: gradients are pushed to servers, summed there and pulled, one server a node.

    The update happens in the workers (``update_on_kvstore=False``), because an optimizer on the servers cannot be
    given a new learning rate.
    """

    def __init__(self, place: Place, on_lost: Callable[[RunError], None]) -> None:
        super().__init__(place, on_lost)
        self.backend, self.divisor = "kvstore dist_sync", place.world_size
        # Of ps-lite: https://mxnet.apache.org/versions/1.9.1/api/faq/distributed_training. ZeroMQ connects to names,
        # but listens only on numeric addresses.
        os.environ.update(
            DMLC_PS_ROOT_URI=place.numeric_address_of(0),
            DMLC_PS_ROOT_PORT=str(place.port),
            DMLC_NUM_WORKER=str(place.world_size),
            DMLC_NUM_SERVER=str(place.world_size // place.local_world_size),
            DMLC_NODE_HOST=place.numeric_address_of(place.rank),
        )
        roles = ["scheduler"] * (place.rank == 0) + ["server"] * (place.local_rank == 0)
        command, none = [sys.executable, "-c", SERVER, str(os.getpid())], subprocess.DEVNULL
        self._helpers = [
            subprocess.Popen(command, env={**os.environ, "DMLC_ROLE": role}, stdin=none, stdout=none)
            for role in roles
        ]
        os.environ["DMLC_ROLE"] = "worker"
        self._store: Any = self.run(lambda: mx.kv.create("dist_sync"))

    def counted(self) -> int:
        return int(self._store.num_workers)

    def trainer(self, parameters: Any, optimizer: dict[str, Any]) -> Any:
        """Return Gluon's trainer around the store, with the weights of rank 0 in every rank.

        Gluon would send them around in the first step, under the names that its gradients have too; a rank's
        gradients could then come to the server before its weights were fetched, and the ranks would differ from
        there on (in 2 of 17 runs). So they are sent now, and all ranks wait for them.
        """
        trainer = gluon.Trainer(parameters, "sgd", optimizer, kvstore=self._store, update_on_kvstore=False)
        trainer._init_kvstore()
        trainer._init_params()
        self.run(mx.nd.waitall)
        self.barrier()
        return trainer

    def leave(self) -> None:
        self.barrier()
        # The trainer holds the store as well; its handle is what the servers wait for.
        self.run(self._store.__del__)
        self._store.handle = mx.base.KVStoreHandle()
        for helper in self._helpers:
            try:
                helper.wait(END_S)
            except subprocess.TimeoutExpired:
                helper.kill()
                helper.wait()
        super().leave()


class Horovod(Collective, Peers):
    """Horovod over gloo: a ring of all ranks, which rank 0's rendezvous server brings together."""

    def __init__(self, place: Place, on_lost: Callable[[RunError], None]) -> None:
        super().__init__(place, on_lost)
        self.backend, self._hvd = "horovod gloo", import_horovod()
        self._rendezvous: Any = _start_rendezvous(place) if place.rank == 0 else None
        port = 0 if self._rendezvous is None else self._rendezvous.server_port
        os.environ.update(_horovod_variables(place, self.gather(port)[0]))
        self.run(self._hvd.init)

    def counted(self) -> int:
        return int(self._hvd.size())

    def trainer(self, parameters: Any, optimizer: dict[str, Any]) -> Any:
        self._hvd.broadcast_parameters(parameters, root_rank=0)
        return self._hvd.DistributedTrainer(parameters, "sgd", optimizer)

    def leave(self) -> None:
        self.barrier()
        self.run(self._hvd.shutdown)
        self.barrier()
        if self._rendezvous is not None:
            self._rendezvous.shutdown()
        super().leave()


def import_horovod() -> Any:
    """Return ``horovod.mxnet``; raise ``RunError`` (unsupported), with the remedy, if it is missing."""
    try:
        import horovod.mxnet as hvd
    except ImportError as error:
        raise RunError(
            UNSUPPORTED,
            f"Horovod is not in this environment ({first_sentence(error)}); "
            "make one with: trainmark env create mxnet --extra horovod",
        ) from error
    return hvd


COLLECTIVES: dict[str, type[ParameterServer | Horovod]] = {"native": ParameterServer, "horovod": Horovod}


def _start_rendezvous(place: Place) -> Any:
    """Return Horovod's rendezvous server, which serves until it is shut down.

    Its own ``RendezvousServer`` would listen on every interface of the host.
    """
    from horovod.runner.common.util.hosts import get_host_assignments, parse_hosts
    from horovod.runner.http.http_server import RendezvousHandler, RendezvousHTTPServer

    nodes = place.world_size // place.local_world_size
    hosts = ",".join(f"node{node}:{place.local_world_size}" for node in range(nodes))
    server = RendezvousHTTPServer((place.address, 0), RendezvousHandler, 0)
    server.init(get_host_assignments(parse_hosts(hosts), place.world_size))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def _horovod_variables(place: Place, port: int) -> dict[str, str]:
    """Return the variables of ``horovodrun --gloo`` (horovod/runner/gloo_run.py)."""
    node, nodes = place.rank // place.local_world_size, place.world_size // place.local_world_size
    return {
        "HOROVOD_HOSTNAME": f"node{node}",
        "HOROVOD_RANK": str(place.rank),
        "HOROVOD_SIZE": str(place.world_size),
        "HOROVOD_LOCAL_RANK": str(place.local_rank),
        "HOROVOD_LOCAL_SIZE": str(place.local_world_size),
        "HOROVOD_CROSS_RANK": str(node),
        "HOROVOD_CROSS_SIZE": str(nodes),
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": str(place.address),
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(port),
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
    }
