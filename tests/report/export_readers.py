"""Read exports back with the readers of MLflow, TensorBoard and wandb; run by the Python of their environment."""

import json
import struct
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read_mlflow(address: str) -> list[dict[str, Any]]:
    """Return the runs of all experiments, as MLflow's client reads them."""
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=address)
    found = []
    for experiment in client.search_experiments():
        for run in client.search_runs([experiment.experiment_id]):
            data = run.data
            own = {"experiment": experiment.name, "name": run.info.run_name, "status": run.info.status}
            found.append({**own, "metrics": data.metrics, "params": data.params, "tags": data.tags})
    return found


def read_tensorboard(folder: str) -> dict[str, Any]:
    """Return scalars and texts of each run of TensorBoard, as its event accumulator reads them."""
    from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer

    multiplexer = EventMultiplexer(size_guidance={"tensors": 0, "scalars": 0}).AddRunsFromDirectory(folder)
    multiplexer.Reload()
    found, plugins = {}, multiplexer.PluginRunToTagToContent("hparams")
    for run, kinds in multiplexer.Runs().items():
        scalars = {
            tag: [(event.step, event.value) for event in multiplexer.Scalars(run, tag)]
            for tag in kinds["scalars"]
        }
        texts = {
            tag: multiplexer.Tensors(run, tag)[0].tensor_proto.string_val[0].decode()
            for tag in kinds["tensors"]
            if tag.endswith("/text_summary")
        }
        found[run] = {"scalars": scalars, "texts": texts, "hparams": sorted(plugins.get(run, ()))}
    return found


def read_wandb(folder: str) -> list[dict[str, Any]]:
    """Return the offline runs, from wandb's own records in the files that ``wandb sync`` uploads."""
    from wandb.proto import wandb_internal_pb2 as records

    found = []
    for path in sorted(Path(folder).glob("offline-run-*/run-*.wandb")):
        run: dict[str, Any] = {"config": {}, "summary": {}, "history": 0, "exit": None}
        for raw in _leveldb_records(path.read_bytes()):
            record = records.Record()
            record.ParseFromString(raw)
            kind = record.WhichOneof("record_type")
            if kind == "run":
                run |= {"name": record.run.display_name, "group": record.run.run_group}
                run |= {"job": record.run.job_type, "tags": list(record.run.tags), "notes": record.run.notes}
                _update(run["config"], record.run.config.update)
            elif kind == "config":
                _update(run["config"], record.config.update)
            elif kind == "summary":
                _update(run["summary"], record.summary.update)
            elif kind == "history":
                run["history"] += 1
            elif kind == "exit":
                run["exit"] = record.exit.exit_code
        found.append(run)
    return found


def _update(words: dict[str, Any], items: Any) -> None:
    for item in items:
        words[item.key or "/".join(item.nested_key)] = json.loads(item.value_json)


def _leveldb_records(data: bytes) -> Iterator[bytes]:
    """Yield the records of a LevelDB log: blocks of 32 KiB, of chunks with checksum, length and kind."""
    block, at, parts = 32768, 7, b""
    while at + 7 <= len(data):
        left = block - at % block
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        parts += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield parts
            parts = b""


if __name__ == "__main__":
    reader, source = sys.argv[1:]
    sys.stdout.write(json.dumps({"found": globals()[f"read_{reader}"](source)}))
