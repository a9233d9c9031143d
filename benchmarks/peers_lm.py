r"""The worker's language models beside the public programs of the same step, in turn on one machine: who is how fast.

Run it with a Python that has PyTorch; what else it lacks (transformers) is said and left out:

    PYTHON benchmarks/peers_lm.py --model gpt2_124m --batch 12 --nanogpt ../nanoGPT --json peers.json
    PYTHON benchmarks/peers_lm.py --model bert_base --length 512 --batch 32
    PYTHON benchmarks/peers_lm.py --model gpt2_124m --nanogpt ../nanoGPT --certify

How they take turns, and what is printed, stands in ``contest.py``. Whose programs they are:

``nanogpt``: the model of https://github.com/karpathy/nanoGPT in the loop of its ``bench.py``, imported from the
checkout that ``--nanogpt`` names: autocast, ``torch.compile``, its own AdamW (fused), and the loss read back after each
step. ``nanogpt-ahead`` reads no loss back, ``nanogpt-graph`` has the whole step as one CUDA graph, as an expert would.
Its compiled model returns logits that the step never reads; ``nanogpt-loss-graph`` compiles the loss alone, which needs
less memory, and is recorded in the same way. ``nanogpt-autotune-graph`` is that one compiled with
``max-autotune-no-cudagraphs``: Inductor measures its kernels, cuBLAS's and Triton's, before it chooses.

``transformers``: ``BertForPreTraining`` with random weights, autocast, ``torch.compile``, torch's fused AdamW, no mask
of attention, because no token is padding. It classifies every position and leaves those without a label out of the
loss; the published program of BERT, and the worker, classify the hidden words alone. That is a real difference of the
programs: fewer operations for the same loss. ``transformers-gathered`` is its encoder and heads with the hidden words
gathered before they are classified and the loss as its only output, ``transformers-graph`` that as one CUDA graph. When
compiled, its model builds a mask although no token is padding, and torch then computes attention without a fused
kernel: ``transformers-unmasked-graph`` calls the encoder without the mask, and ``transformers-autotune-graph`` is that
with measured kernels.

The worker trains with the same recipe: AdamW, no clipping of gradients, and BERT's dropout of 0.1 in both.
``--certify`` measures nothing: it gives each peer the worker's weights and batch, in FP32 without dropout, and prints
how far loss, gradients and the update by AdamW are apart.
"""

import argparse
import importlib
import importlib.metadata
import json
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

from contest import Contest, Contestant, Step, hold, ours, ours_in_blocks, parser_of, torch_in_blocks
from overhead import START

GPT2, BERT = ("gpt2_124m", "gpt2_tiny"), ("bert_base", "bert_tiny")
FULL_LENGTH = {"gpt2_124m": 1024, "bert_base": 128}
RATE, DECAY = 1e-4, 0.01
NAMES = {  # of a block's parts, in the worker and in the peers
    GPT2: {
        "attention.norm": "ln_1", "attention.qkv": "attn.c_attn", "attention.output": "attn.c_proj",
        "mlp.norm": "ln_2", "mlp.up": "mlp.c_fc", "mlp.down": "mlp.c_proj",
    },
    BERT: {
        "attention.output": "attention.output.dense", "attention.norm": "attention.output.LayerNorm",
        "mlp.up": "intermediate.dense", "mlp.down": "output.dense", "mlp.norm": "output.LayerNorm",
    },
}  # fmt: skip
WITHOUT_BLOCK = {
    GPT2: {
        "embedding.tokens": "transformer.wte.weight", "embedding.positions": "transformer.wpe.weight",
        "norm.weight": "transformer.ln_f.weight",
    },
    BERT: {
        "embedding.tokens": "bert.embeddings.word_embeddings.weight",
        "embedding.positions": "bert.embeddings.position_embeddings.weight",
        "embedding.segments": "bert.embeddings.token_type_embeddings.weight",
        "embedding.norm": "bert.embeddings.LayerNorm", "pooler": "bert.pooler.dense",
        "words.transform": "cls.predictions.transform.dense",
        "words.norm": "cls.predictions.transform.LayerNorm",
        "words.bias": "cls.predictions.bias", "sentences": "cls.seq_relationship",
    },
}  # fmt: skip


class Peer(NamedTuple):
    """A public program: its network, the loss of the worker's batch by it, and its optimizer."""

    model: Any
    loss_of: Callable[..., Any]
    optimizer: Any
    package: str
    version: str


def described(model: str) -> Any:
    """Return what the worker says of a model's layers."""
    import runpy

    runpy.run_path(str(START))
    task = "causal_lm" if model in GPT2 else "masked_lm"
    return importlib.import_module(f"trainmark_worker.tasks.{task}.architectures").ARCHITECTURES[model]


def task_of(model: str) -> str:
    return "causal_lm" if model in GPT2 else "masked_lm"


def worker(compiler: str, *more: str) -> Callable[[argparse.Namespace], Step]:
    """Return what opens the worker's step."""

    def opened(own: argparse.Namespace) -> Step:
        flags = [*flags_of(own), f"--compiler={compiler}", f"--precision={own.precision}", *more]
        return ours_in_blocks(ours("pytorch", task_of(own.model), flags, own), "pytorch")

    return opened


def flags_of(own: argparse.Namespace) -> list[str]:
    """Return the worker's flags for the work, and for a recipe that is the peers'."""
    flags = [f"--model={own.model}", f"--sequence-length={own.length}", "--clip-norm=0"]
    flags += [f"--learning-rate={RATE}", f"--weight-decay={DECAY}"]
    if own.model in BERT:
        flags += [f"--predictions={own.predictions}", "--optimizer=adamw", f"--dropout={own.dropout}"]
    return flags


def nanogpt(own: argparse.Namespace, loss_only: bool) -> Peer:
    """Return nanoGPT's model, as its ``bench.py`` makes it; ``loss_only``: wrapped so that it returns no logits."""
    import torch

    folder = Path(own.nanogpt).resolve()
    sys.path.insert(0, str(folder))
    program = importlib.import_module("model")
    shape = described(own.model)
    config = program.GPTConfig(
        block_size=shape.positions, vocab_size=shape.vocabulary, n_layer=shape.layers, n_head=shape.heads,
        n_embd=shape.width, dropout=0, bias=False,
    )  # fmt: skip
    model = program.GPT(config).to(own.device)
    optimizer = model.configure_optimizers(
        weight_decay=DECAY, learning_rate=RATE, betas=(0.9, 0.95), device_type=own.device
    )

    class LossOnly(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.public = model

        def forward(self, tokens: Any, targets: Any) -> Any:
            return self.public(tokens, targets)[1]

    def loss_of(network: Any, tokens: Any, targets: Any) -> Any:
        return network(tokens, targets) if loss_only else network(tokens, targets)[1]

    return Peer(
        LossOnly() if loss_only else model, loss_of, optimizer, "nanoGPT", own.nanogpt_commit or "unknown"
    )


def transformers_unmasked(own: argparse.Namespace, loss_only: bool) -> Peer:
    """Return BERT of transformers whose encoder is called without the mask that its model builds when compiled."""
    assert loss_only
    return transformers(own, loss_only, masked=False)


def transformers(own: argparse.Namespace, loss_only: bool, masked: bool = True) -> Peer:
    """Return BERT of transformers; ``loss_only``: classify only the hidden words."""
    import torch

    shape = described(own.model)
    package = importlib.import_module("transformers")
    config = package.BertConfig(
        vocab_size=shape.vocabulary, hidden_size=shape.width, num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads, intermediate_size=shape.inner, max_position_embeddings=shape.positions,
        hidden_dropout_prob=own.dropout, attention_probs_dropout_prob=own.dropout,
    )  # fmt: skip
    public = package.BertForPreTraining(config).to(own.device).train()

    class Gathered(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.public = public

        def forward(self, tokens: Any, segments: Any, places: Any, words: Any, follows: Any) -> Any:
            bert = self.public.bert
            if masked:
                hidden, pooled = bert(tokens, token_type_ids=segments)[:2]
            else:
                hidden = bert.encoder(bert.embeddings(input_ids=tokens, token_type_ids=segments))[0]
                pooled = bert.pooler(hidden)
            hidden = hidden.gather(1, places.unsqueeze(-1).expand(-1, -1, hidden.shape[2]))
            found, told = self.public.cls(hidden, pooled)
            loss_of = torch.nn.CrossEntropyLoss()
            return loss_of(found.flatten(0, 1), words.flatten()) + loss_of(told, follows)

    def loss_of(network: Any, tokens: Any, segments: Any, places: Any, words: Any, follows: Any) -> Any:
        if loss_only:
            return network(tokens, segments, places, words, follows)
        return network(tokens, token_type_ids=segments, labels=words, next_sentence_label=follows).loss

    optimizer = torch.optim.AdamW(
        public.parameters(), lr=RATE, betas=(0.9, 0.999), eps=1e-6, weight_decay=DECAY,
        fused=own.device == "cuda" or None,
    )  # fmt: skip
    model = Gathered() if loss_only else public
    return Peer(model, loss_of, optimizer, "transformers", importlib.metadata.version("transformers"))


def peers_batch(own: argparse.Namespace, batch: tuple[Any, ...], loss_only: bool) -> tuple[Any, ...]:
    """Return the worker's batch, of torch's tensors, as the peer's ``loss_of`` takes it."""
    import torch

    if own.model in GPT2:
        (tokens,) = batch
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    tokens, segments, _, places, words, _, follows = batch
    if loss_only:
        return tokens, segments, places, words, follows
    labels = torch.full_like(tokens, -100).scatter_(1, places, words)
    return tokens, segments, places, labels, follows


def made_up(own: argparse.Namespace) -> tuple[Any, ...]:
    """Return a batch of the worker's shapes on the device."""
    import torch

    shape, random = described(own.model), torch.Generator().manual_seed(1)
    size = (own.batch, own.length + (own.model in GPT2))
    tokens = torch.randint(shape.vocabulary, size, generator=random)
    if own.model in GPT2:
        return (tokens.to(own.device),)
    segments = (torch.arange(own.length) >= own.length // 2).long().expand(own.batch, -1).contiguous()
    places = torch.rand(own.batch, own.length, generator=random).argsort(1)[:, : own.predictions].sort(1)[0]
    words = torch.randint(shape.vocabulary, places.shape, generator=random)
    lengths = torch.full((own.batch,), own.length)
    follows = torch.randint(2, (own.batch,), generator=random)
    made = (tokens, segments, lengths, places, words, torch.ones(places.shape), follows)
    return tuple(tensor.to(own.device) for tensor in made)


def theirs(
    opened_by: Callable[[argparse.Namespace, bool], Peer],
    compiled: bool = True,
    loss_only: bool = False,
    recorded: bool = False,
    reads: bool = False,
    mode: str | None = None,
) -> Callable[[argparse.Namespace], Step]:
    """Return what opens a public program's step; ``reads``: the host waits for each loss; ``mode``: the compiler's."""

    def opened(own: argparse.Namespace) -> Step:
        import torch

        torch.manual_seed(1337)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = own.precision != "fp32"
        kind = {"amp-fp16": torch.float16, "amp-bf16": torch.bfloat16}.get(own.precision)
        model, loss_of, optimizer, package, version = opened_by(own, loss_only)
        network = torch.compile(model, mode=mode) if compiled else model
        batch = peers_batch(own, made_up(own), loss_only)
        if recorded:
            for group in optimizer.param_groups:
                group["capturable"] = True

        def step() -> None:
            with nullcontext() if kind is None else torch.autocast(own.device, dtype=kind):
                loss = loss_of(network, *batch)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            if reads:
                loss.item()

        device = torch.device(own.device)
        return torch_in_blocks(step, recorded, model, {package: version}, device)

    return opened


AUTOTUNE = "max-autotune-no-cudagraphs"
LOW = ("fp32", "tf32", "amp-bf16")
"""In FP16 the peers would need a scaler of the loss, which their programs have not."""

CONTESTANTS: dict[str, Contestant] = {
    "trainmark-compile-fused": Contestant(worker("torch.compile-fused"), ("torch",), "cuda", ("amp-bf16",), GPT2),
    "trainmark-compile-graph": Contestant(worker("torch.compile-graph"), ("torch",), "cuda"),
    "trainmark-compile": Contestant(worker("torch.compile"), ("torch",)),
    "trainmark-graph": Contestant(worker("cuda-graph"), ("torch",), "cuda"),
    "trainmark-none": Contestant(worker("none"), ("torch",)),
    "nanogpt": Contestant(theirs(nanogpt, reads=True), ("torch",), None, LOW, GPT2),
    "nanogpt-ahead": Contestant(theirs(nanogpt), ("torch",), None, LOW, GPT2),
    "nanogpt-graph": Contestant(theirs(nanogpt, recorded=True), ("torch",), "cuda", LOW, GPT2),
    "nanogpt-loss-graph": Contestant(
        theirs(nanogpt, loss_only=True, recorded=True), ("torch",), "cuda", LOW, GPT2
    ),
    "nanogpt-autotune-graph": Contestant(
        theirs(nanogpt, loss_only=True, recorded=True, mode=AUTOTUNE), ("torch",), "cuda", LOW, GPT2,
        tunes_kernels=True,
    ),
    "nanogpt-eager": Contestant(theirs(nanogpt, compiled=False), ("torch",), None, LOW, GPT2),
    "transformers": Contestant(theirs(transformers), ("transformers",), None, LOW, BERT),
    "transformers-gathered": Contestant(theirs(transformers, loss_only=True), ("transformers",), None, LOW, BERT),
    "transformers-graph": Contestant(
        theirs(transformers, loss_only=True, recorded=True), ("transformers",), "cuda", LOW, BERT
    ),
    "transformers-unmasked-graph": Contestant(
        theirs(transformers_unmasked, loss_only=True, recorded=True), ("transformers",), "cuda", LOW, BERT
    ),
    "transformers-autotune-graph": Contestant(
        theirs(transformers_unmasked, loss_only=True, recorded=True, mode=AUTOTUNE), ("transformers",), "cuda", LOW,
        BERT, tunes_kernels=True,
    ),
    "transformers-eager": Contestant(theirs(transformers, compiled=False), ("transformers",), None, LOW, BERT),
}  # fmt: skip


def main() -> int:
    parser = parser_of(__doc__, CONTESTANTS)
    parser.add_argument("--precision", default="amp-bf16", choices=("fp32", "tf32", "amp-bf16"))
    parser.add_argument("--model", choices=(*GPT2, *BERT), default="gpt2_124m")
    parser.add_argument("--length", type=int, help="tokens of a sequence: 1024, BERT 128")
    parser.add_argument(
        "--predictions", type=int, help="hidden words of a sequence of BERT's: 20, of 512 tokens 80"
    )
    parser.add_argument(
        "--dropout", type=float, default=0.1, help="of BERT, in the worker and the peers alike"
    )
    parser.add_argument("--nanogpt", metavar="FOLDER", help="a checkout of nanoGPT")
    parser.add_argument("--nanogpt-commit", metavar="COMMIT", help="which it is, to be kept with the result")
    parser.add_argument("--certify", action="store_true", help="compare one step in FP32; measure nothing")
    parser.set_defaults(batch=12)
    own = parser.parse_args()
    own.length = own.length or FULL_LENGTH.get(own.model, 64)
    own.predictions = own.predictions or max(1, own.length * 5 // 32)
    contestants = CONTESTANTS
    if own.nanogpt is None:
        contestants = {name: one for name, one in CONTESTANTS.items() if not name.startswith("nanogpt")}
        if any(name.startswith("nanogpt") for name in own.only or ()):
            parser.error("nanogpt contends with --nanogpt FOLDER alone, a checkout of it")
        if own.model in GPT2 and not own.contestant:
            print("nanogpt: left out, --nanogpt names no checkout of it", flush=True)
    if own.certify:
        return certify(own)
    contest = Contest(
        contestants,
        described(own.model).parameters(),
        {"tokens": own.batch * own.length, "sequences": own.batch},
        ("model", "precision", "length", *(("predictions", "dropout") if own.model in BERT else ())),
        ("nanogpt", "nanogpt_commit", "predictions", "dropout"),
    )
    return hold(contest, own, __file__)


def certify(own: argparse.Namespace) -> int:
    """Print, for each peer, how far a step of it is from the worker's; return 1 if it is another step."""
    own.dropout, own.precision, own.steps = 0.0, "fp32", 2
    flags = [*flags_of(own), "--compiler=none", "--precision=fp32", "--schedule=constant"]
    flags += ["--warmup-updates=0"]
    training = ours("pytorch", task_of(own.model), flags, own)
    training.load_weights(rounded(training.read_weights()))
    before, batch = training.read_weights(), training.batch
    seen = training.observe()
    training.step(0)
    after = training.read_weights()
    failed = False
    makers: dict[str, tuple[Callable[[argparse.Namespace, bool], Peer], bool]] = {}
    if own.model in GPT2 and own.nanogpt:
        makers = {"nanogpt": (nanogpt, False), "nanogpt-loss": (nanogpt, True)}
    if own.model in BERT:
        makers = {"transformers": (transformers, False), "transformers-gathered": (transformers, True)}
        makers["transformers-unmasked"] = (transformers_unmasked, True)
    for name, (opened_by, loss_only) in makers.items():
        told = compared(own, opened_by(own, loss_only), loss_only, batch, before, after, seen)
        failed = failed or not told["equal"]
        print(
            json.dumps({"peer": name, "model": own.model, "batch": own.batch, "length": own.length, **told})
        )
    return int(failed or not makers)


def rounded(weights: Mapping[str, Any]) -> dict[str, Any]:
    """Return the weights with biases that are not zero, so that a bias left out would be seen."""
    import numpy as np

    random = np.random.default_rng(1)
    return {
        name: weight + (0.02 * random.standard_normal(weight.shape)).astype(weight.dtype) * (weight.ndim == 1)
        for name, weight in weights.items()
    }


TOLERANCE = {"loss": 1e-5, "gradients": 1e-3, "updates": 5e-2}
"""Of FP32 sums in another order; an update by Adam divides by the root of what may be nearly zero."""


def compared(
    own: argparse.Namespace,
    peer: Peer,
    loss_only: bool,
    batch: tuple[Any, ...],
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    seen: Any,
) -> dict[str, Any]:
    """Return the relative differences of loss, gradients and updates, the worst over all parameters."""
    import numpy as np
    import torch

    # The worker lets biases and norms be, as BERT's authors and nanoGPT do; one group has all of them decay.
    if own.model in BERT:
        decaying = [
            one
            for name, one in peer.model.named_parameters()
            if not name.endswith("bias") and "LayerNorm" not in name
        ]
        others = [
            one for name, one in peer.model.named_parameters() if name.endswith("bias") or "LayerNorm" in name
        ]
        groups = [{"params": decaying, "weight_decay": DECAY}, {"params": others, "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=RATE, betas=(0.9, 0.999), eps=1e-6)
    else:
        optimizer = peer.optimizer
    named = dict(peer.model.named_parameters())
    if loss_only:
        named = {name.removeprefix("public."): tensor for name, tensor in named.items()}
    slots = {name: [named[one] for one in names_in_peer(own.model, name)] for name in before}
    covered = {id(tensor) for tensors in slots.values() for tensor in tensors}
    assert covered == {id(tensor) for tensor in named.values()}, "a parameter of the peer has no counterpart"
    with torch.no_grad():
        for name, tensors in slots.items():
            parts = np.split(before[name], len(tensors))
            for tensor, part in zip(tensors, parts, strict=True):
                tensor.copy_(torch.from_numpy(part))
    loss = peer.loss_of(peer.model, *peers_batch(own, batch, loss_only))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    gradients = {name: joined([tensor.grad for tensor in tensors]) for name, tensors in slots.items()}
    optimizer.step()
    moved = {name: joined(tensors) - before[name] for name, tensors in slots.items()}
    expected = {name: after[name] - before[name] for name in before}
    found = {
        "loss": abs(float(loss.detach()) - seen.loss) / abs(seen.loss),
        "gradients": max(apart(gradients[name], seen.gradients[name]) for name in before),
        "updates": max(apart(moved[name], expected[name]) for name in before),
    }
    return {**found, "equal": all(found[what] <= most for what, most in TOLERANCE.items())}


def names_in_peer(model: str, name: str) -> list[str]:
    """Return what the peer calls a parameter of the worker's: of BERT's queries, keys and values three names."""
    family = GPT2 if model in GPT2 else BERT
    whole = WITHOUT_BLOCK[family]
    if name in whole:
        return [whole[name]]
    stem, _, kind = name.rpartition(".")
    if stem in whole:
        return [f"{whole[stem]}.{kind}"]
    block, _, part = stem.partition(".")
    row = f"{'transformer.h' if family is GPT2 else 'bert.encoder.layer'}.{block.removeprefix('block')}"
    if family is BERT and part == "attention.qkv":
        return [f"{row}.attention.self.{which}.{kind}" for which in ("query", "key", "value")]
    return [f"{row}.{NAMES[family][part]}.{kind}"]


def joined(tensors: list[Any]) -> Any:
    import numpy as np

    return np.concatenate([tensor.detach().float().cpu().numpy() for tensor in tensors])


def apart(found: Any, expected: Any) -> float:
    """Return the norm of the difference over the norm of what is expected."""
    import numpy as np

    return float(np.linalg.norm(found - expected)) / max(float(np.linalg.norm(expected)), 1e-30)


if __name__ == "__main__":
    sys.exit(main())
