#!/usr/bin/env python3
"""Write the tables under "Measured" in README.md and README.zh-CN.md from docs/results; ``--check`` only compares."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from generated_section import DOCS, GeneratedSection

RESULTS = DOCS / "results"
BEGIN = "<!-- measured: written by scripts/measured_page.py -->"
END = "<!-- end of measured -->"


class Ratio(NamedTuple):
    """A ratio of two programs that trained in turn, with its interval, as text."""

    value: str
    interval: str


class Figures(NamedTuple):
    """The figures of the table, as text."""

    resnet: str
    resnet_ratio: Ratio
    gpt2: str
    gpt2_ratio: Ratio
    gpt2_h100: str
    bert: str
    bert_ratio: Ratio
    bert_masked: str
    llama: str
    llama_fp8: str
    llama_ratio: Ratio
    fp8_ratio: Ratio
    fp8_batch_8: Ratio
    jpeg: str
    jpeg_share: str
    two_h100: str
    two_h100_share: str


def figures() -> Figures:
    """Read the figures from the stored results."""
    resnet, gpt2 = _peers("peers-h200-amp-fp16"), _peers("peers-h200-gpt2-b64")
    bert = _peers("peers-h200-bert-unmasked-b128")
    own, masked = bert["trainmark-compile-graph"], bert["transformers-graph"]
    llama = _read("llama-fsdp2-fp8")["a"]["two_gpus"]["contestants"]
    jpeg, made_up = _loaders()
    both, alone = _two_h100()
    return Figures(
        _whole(resnet["trainmark-fused-cudnn"]["images_per_s"]),
        _ratio(resnet["trainmark-fused-cudnn"]),
        _whole(gpt2["trainmark-compile-fused"]["tokens_per_s"]),
        _ratio(gpt2["trainmark-compile-fused"]),
        _ratio(_peers("peers-h100-gpt2-b64")["trainmark-compile-fused"]).value,
        _whole(own["sequences_per_s"]),
        _ratio(own),
        f"{own['sequences_per_s'] / masked['sequences_per_s']:.3f}",
        _whole(llama["fsdp2-bf16"]["tokens_per_s"]),
        _whole(llama["fsdp2-fp8"]["tokens_per_s"]),
        _inverse(llama["titan"]),
        _of_baseline(llama["fsdp2-fp8"]),
        _of_baseline(_read("llama-fp8-larger-batch-h200")["two_gpus_1b_batch_8"]["contestants"]["fsdp2-fp8"]),
        _whole(jpeg),
        f"{100 * jpeg / made_up:.1f}",
        _whole(both),
        f"{100 * both / alone:.1f}",
    )


def _read(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def _peers(name: str) -> dict[str, Any]:
    """Return the programs of a comparison by their names."""
    return {row["name"]: row for row in _read(name)["rows"]}


def _loaders() -> tuple[float, float]:
    """Return the rates of DALI's pipeline and of synthetic data, both of 560 and 400 steps on machine b."""
    rows = [row for row in _read("loaders-h200")["rows"] if row["machine"] == "b" and row["steps"] > 150]
    real = next(row["throughput"] for row in rows if row["loader"] == "dali-gpu" and not row["variant"])
    return real, next(row["throughput"] for row in rows if row["loader"] is None)


def _two_h100() -> tuple[float, float]:
    """Return the rate of two ranks, and the sum of both GPUs training by themselves."""
    rows = [row for row in _read("two-h100")["rows"] if row["machine"] == "b"]
    both = next(row["throughput"] for row in rows if row["case"] == "fcudnn-flat16")
    return both, sum(row["throughput"] for row in rows if row["case"] == "fcudnn")


def _whole(value: float) -> str:
    return f"{value:,.0f}".replace(",", " ")


def _interval(ends: tuple[float, float]) -> str:
    return f"[{ends[0]:.3f}, {ends[1]:.3f}]"


def _ratio(row: Mapping[str, Any]) -> Ratio:
    return Ratio(f"{row['ratio']:.3f}", _interval(row["ratio_interval_95"]))


def _of_baseline(row: Mapping[str, Any]) -> Ratio:
    """Return the ratio of a program to the baseline that it was compared with."""
    return Ratio(f"{row['ratio']:.3f}", _interval(row["ratio_interval"]))


def _inverse(row: Mapping[str, Any]) -> Ratio:
    """Return the ratio of the baseline to a program that was compared with it."""
    low, high = row["ratio_interval"]
    return Ratio(f"{1 / row['ratio']:.3f}", _interval((1 / high, 1 / low)))


ENGLISH = """\
| work | trainmark | compared with |
| --- | ---: | --- |
| ResNet-50 v1.5, one H200, batch 256 | {f.resnet} images/s | **{f.resnet_ratio.value}** × torchvision {f.resnet_ratio.interval} (compiled, one CUDA graph) |
| GPT-2 124M, one H200, batch 64 | {f.gpt2} tokens/s | **{f.gpt2_ratio.value}** × nanoGPT's `bench.py` {f.gpt2_ratio.interval}; on an H100, {f.gpt2_h100} × a nanoGPT that we tuned (only the loss compiled, one CUDA graph) |
| BERT-base, one H200, batch 128, 128 tokens | {f.bert} sequences/s | **{f.bert_ratio.value}** × transformers {f.bert_ratio.interval} (compiled, one CUDA graph, without its unneeded attention mask; {f.bert_masked} × with it) |
| Llama 3.2 1B, two H200, FSDP2, 4 096 tokens | {f.llama} tokens/s; {f.llama_fp8} in FP8 | **{f.llama_ratio.value}** × torchtitan's step in BF16, written after its recipe {f.llama_ratio.interval}; FP8 **{f.fp8_ratio.value}** × BF16 {f.fp8_ratio.interval}, with batch 8 instead of 4 **{f.fp8_batch_8.value}** {f.fp8_batch_8.interval} |
| ResNet-50 v1.5 on real JPEGs, one H200 | {f.jpeg} images/s | {f.jpeg_share} % of its speed on synthetic images |
| ResNet-50 v1.5 on two H100 | {f.two_h100} images/s | {f.two_h100_share} % of ideal scaling from one H100 |"""  # noqa: E501 - a row of a table is one line
CHINESE = """\
| 任务 | trainmark | 对照 |
| --- | ---: | --- |
| ResNet-50 v1.5，一块 H200，批大小 256 | {f.resnet} images/s | 编译并录制为一个 CUDA graph 的 torchvision 的 **{f.resnet_ratio.value}** 倍 {f.resnet_ratio.interval} |
| GPT-2 124M，一块 H200，批大小 64 | {f.gpt2} tokens/s | nanoGPT `bench.py` 的 **{f.gpt2_ratio.value}** 倍 {f.gpt2_ratio.interval}；在 H100 上为我们调优过的 nanoGPT（仅编译损失，一个 CUDA graph）的 {f.gpt2_h100} 倍 |
| BERT-base，一块 H200，批大小 128，128 个词元 | {f.bert} sequences/s | 编译并录制为一个 CUDA graph、去掉多余注意力掩码的 transformers 的 **{f.bert_ratio.value}** 倍 {f.bert_ratio.interval}；带掩码时为 {f.bert_masked} 倍 |
| Llama 3.2 1B，两块 H200，FSDP2，4 096 个词元 | {f.llama} tokens/s；FP8 为 {f.llama_fp8} | BF16 为按 torchtitan 配方编写的一步的 **{f.llama_ratio.value}** 倍 {f.llama_ratio.interval}；FP8 为 BF16 的 **{f.fp8_ratio.value}** 倍 {f.fp8_ratio.interval}，批大小为 8 而非 4 时 **{f.fp8_batch_8.value}** 倍 {f.fp8_batch_8.interval} |
| ResNet-50 v1.5，真实 JPEG，一块 H200 | {f.jpeg} images/s | 合成数据速度的 {f.jpeg_share} % |
| ResNet-50 v1.5，两块 H100 | {f.two_h100} images/s | 单块 H100 理想扩展的 {f.two_h100_share} % |"""  # noqa: E501
PAGES: dict[str, str] = {"../README.md": ENGLISH, "../README.zh-CN.md": CHINESE}


def main() -> int:
    """Write or check both pages; return the exit code."""
    found = figures()
    codes = [
        GeneratedSection(name, BEGIN, END, f"scripts/{Path(__file__).name}").update(text.format(f=found))
        for name, text in PAGES.items()
    ]
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
