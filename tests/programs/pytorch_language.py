"""What PyTorch's language step does on large models and on GPUs, done on a CPU with small ones; prints JSON.

``classifier``: loss and gradients of BERT whose words are made even for their product, beside those without. ``lamb``:
its updates when it counts its steps on the device, beside the others. ``rows``: the last event of a run that is looked
into by rows. ``recomputed``: a verification that recomputes its blocks, beside one that does not. ``attention``: losses
where cuDNN's kernel is the first choice, beside torch's own. ``sizes``: how many parameters the modules of the large
models have, which are built without memory.
"""

import importlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src" / "trainmark" / "worker"))
importlib.import_module("start")


def of(name: str) -> Any:
    return importlib.import_module(f"trainmark_worker.{name}")


def training(task: str, *flags: str) -> Any:
    words = ["--framework=pytorch", "--device=cpu", "--threads=1", "--steps=9", "--warmup-steps=1", *flags]
    place = of("core.place").place_from({})
    return of(f"models.pytorch_{task}").open_training(of("core.arguments").parse(words, 1), place)


BERT = ("--model=bert_tiny", "--sequence-length=32", "--predictions=5", "--batch-per-device=2", "--dropout=0")


def classifier() -> dict[str, Any]:
    own = training("masked_lm", *BERT)
    first = own.own_pass()
    own.model.words.even = 96
    second = own.own_pass()
    worst = max(float(abs(second.gradients[name] - first.gradients[name]).max()) for name in first.gradients)
    logits = own.watched_pass().shape[-1]
    return {"losses": [first.loss, second.loss], "gradients": worst, "logits": logits}


def lamb() -> dict[str, Any]:
    weights, steps = [], []
    for on_device in (False, True):
        own = training("masked_lm", *BERT, "--optimizer=lamb", "--learning-rate=0.01", "--warmup-updates=0")
        for group in own.optimizer.param_groups:
            group["capturable"] = on_device
        for index in range(4):
            own.step(index)
        weights.append(own.read_weights())
        steps.append(own.steps_taken())
    worst = max(float(abs(weights[1][name] - weights[0][name]).max()) for name in weights[0])
    return {"weights": worst, "steps": steps}


def rows() -> dict[str, Any]:
    train = of("models.pytorch_causal_lm")
    train.WHOLE, train.FEW = 1 << 10, 1 << 8
    with tempfile.TemporaryDirectory() as folder:
        events = Path(folder, "events.jsonl")
        flags = ["--model=gpt2_tiny", "--sequence-length=32", "--batch-per-device=4", f"--events={events}"]
        flags += ["--clip-norm=0.5", "--steps=8", "--warmup-steps=2", "--device=cpu", "--threads=1"]
        of("core.program").main(["--framework=pytorch", *flags])
        last = events.read_text().splitlines()[-1]
    told: dict[str, Any] = json.loads(last.removeprefix("DLLL"))["data"]
    return told


def recomputed() -> dict[str, Any]:
    train, passes, calls = of("models.pytorch_causal_lm"), [], []
    for most in (train.RECOMPUTED, 0):
        train.RECOMPUTED = most
        own = training("causal_lm", "--model=llama_tiny", "--sequence-length=32", "--batch-per-device=2")
        called: list[Any] = []
        own.model.blocks[0].mlp.register_forward_pre_hook(lambda *_, called=called: called.append(1))
        passes.append(own.own_pass())
        calls.append(len(called))
    first, second = passes
    worst = max(float(abs(second.gradients[name] - first.gradients[name]).max()) for name in first.gradients)
    return {"gradients": worst, "calls": calls}


def attention() -> list[float]:
    losses = []
    for cudnn in (False, True):
        own = training("causal_lm", "--model=gpt2_tiny", "--sequence-length=32", "--batch-per-device=2")
        if cudnn:
            own.model.attend_by_cudnn()
        losses.append(own.own_pass().loss)
    return losses


def sizes() -> dict[str, int]:
    recommenders = of("tasks.recommendation.architectures").ARCHITECTURES
    build_clicks = of("models.pytorch_recommendation").build
    build_decoder = of("models.pytorch_causal_lm").build_model
    with torch.device("meta"):
        modules = {
            "bert_base": of("models.pytorch_masked_lm").build_model("bert_base", 0.1, False),
            "gpt2_124m": build_decoder("gpt2_124m", 1024),
            "llama3.2_1b": build_decoder("llama3.2_1b", 4096),
            "llama3.2_3b": build_decoder("llama3.2_3b", 4096),
            "wide_deep": build_clicks(recommenders["wide_deep"].with_tables(2_322_444, 32), 0.5, False),
            "dlrm": build_clicks(recommenders["dlrm"].with_tables(2_322_444, 128), 0.0, False),
        }
    return {
        name: sum(parameter.numel() for parameter in module.parameters()) for name, module in modules.items()
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    told = {
        "classifier": classifier(),
        "lamb": lamb(),
        "rows": rows(),
        "recomputed": recomputed(),
        "attention": attention(),
        "sizes": sizes(),
    }
    sys.stdout.write(json.dumps(told) + "\n")
