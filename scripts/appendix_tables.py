#!/usr/bin/env python3
"""Write tables of docs/appendix from the stored results that they show; ``--check`` only compares (exit code 1).

The tables of two and four GPUs and of loaders in gpus.md, and the deviations between frameworks in equal-work.md.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from generated_section import DOCS, GeneratedSection

RESULTS = DOCS / "results"
_SCRIPT = "scripts/appendix_tables.py"
Row = Mapping[str, Any]


def section(page: str, name: str) -> GeneratedSection:
    """Return the section ``name`` of an appendix page."""
    return GeneratedSection(
        f"appendix/{page}", f"<!-- {name}: written by {_SCRIPT} -->", f"<!-- end of {name} -->", _SCRIPT
    )


def two_h100() -> str:
    """Return two H100 against each alone; the rows of machine b, on which the present worker ran."""
    rows = [row for row in _rows("two-h100") if row["machine"] == "b"]
    cases = (
        ("ResNet-50 v1.5, batch 256, `amp-fp16`, nhwc, `none`", "none", ("none-flat16",)),
        ("the same, `torch.compile`", "compile", ("compile-flat16",)),
        ("the same, `fused-cudnn`", "fcudnn", ("fcudnn-flat16",)),
        ("the same, JAX (`xla`); with the flags for hiding latency", "jax", ("jax", "jax-flags")),
        ("GPT-2 124M, batch 64, 1 024 tokens, `torch.compile-fused`", "gpt-b64", ("gpt-b64-flat16",)),
        ("BERT-base, batch 1 024, 128 tokens, `torch.compile-graph`", "bert-b1024", ("bert-b1024-flat16",)),
    )
    lines = ["| | each GPU alone | two | efficiency |", "| --- | ---: | ---: | ---: |"]
    for title, alone_case, both_cases in cases:
        alone = _of(rows, alone_case, 1)
        both = [row for case in both_cases for row in _of(rows, case, 2)]
        lines.append(_line(title, f"{_rates(alone)} {alone[0]['unit']}", *_pair(alone, both)))
    return "\n".join(lines)


def two_h200() -> str:
    """Return two H200 against each alone, with their clocks."""
    rows = _rows("two-h200")
    lines = [
        "| ResNet-50 v1.5, batch 256, `amp-fp16`, nhwc | each GPU alone, both at once, images/s"
        " | two, `flat-16` | efficiency | SM clock alone; in one job, MHz |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    for case in ("none", "torch.compile", "fused-cudnn"):
        alone, both = _of(rows, case, 1), _of(rows, case, 2)
        clocks = "; ".join((_clocks(alone), _clocks(both[:1])))
        lines.append(_line(f"`{case}`", _rates(alone), *_pair(alone, both), clocks))
    return "\n".join(lines)


def four_h200() -> str:
    """Return four H200 against one, and two of them on real JPEGs and by FSDP2."""
    rows = {(row["case"].removeprefix("pytorch-"), row["devices"]): row for row in _rows("four-h200")}
    lines = ["| | GPUs | rate | of what | mean SM clock, MHz |", "| --- | ---: | ---: | --- | --- |"]
    resnet = "resnet50_v1.5-amp-fp16-b256-1n{}g-{}-nhwc-{}-224px-cuda-o16ce08de472bcb1d"
    for compiler in ("none", "fused-cudnn"):
        one = rows[resnet.format(1, "synthetic", compiler), 1]
        four = rows[resnet.format(4, "synthetic", compiler), 4]
        share = f"{100 * four['throughput'] / (4 * one['throughput']):.1f} % of 4 x {_rates([one])}"
        lines.append(
            _line(f"ResNet-50, `{compiler}`", "4", f"{_rates([four])} images/s", share, _speeds(four))
        )
    synthetic = rows[resnet.format(2, "synthetic", "fused-cudnn"), 2]
    photos = rows[resnet.format(2, "photos-nvjpeg", "fused-cudnn"), 2]
    share = (
        f"{100 * photos['throughput'] / synthetic['throughput']:.1f} % of {_rates([synthetic])} without JPEGs"
    )
    name = "ResNet-50, `fused-cudnn`, JPEGs by `nvjpeg`"
    lines.append(_line(name, "2", f"{_rates([photos])} images/s", share, _speeds(photos)))
    for mode, title in (
        ("fsdp2", "Llama 3.2 1B, FSDP2"),
        ("fsdp2-acselective", "with selective checkpointing"),
    ):
        llama = rows[f"llama3.2_1b-amp-bf16-b4-1n2g-synthetic-torch.compile-fused-4096tok-{mode}-cuda", 2]
        lines.append(_line(title, "2", f"{_rates([llama])} tokens/s", "", _speeds(llama)))
    return "\n".join(lines)


def _speeds(row: Row) -> str:
    gpus = row["of_the_gpus_in_the_window"]
    return ", ".join(f"{gpu['sm_clock_mhz']:,}".replace(",", " ") for gpu in gpus)


def loaders() -> str:
    """Return the loaders of JPEGs on one GPU, by machine."""
    rows = [row for row in _rows("loaders-h200") if not row["damaged_files"] and not row["variant"]]
    synthetic = {name: _of_loader(rows, name, None) for name in "ab"}
    lines = [
        "| machine | loader, processes or threads | images/s | share of synthetic there | waited |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    lines += [_line(name, "synthetic data", _rates(made), "", "") for name, made in synthetic.items()]
    known = {
        (row["machine"], row["loader"], row["loader_workers"]): None
        for row in rows
        if row["loader"] is not None
    }
    for name, loader, workers in sorted(known, key=lambda key: (key[1], key[0], -key[2])):
        found = [row for row in _of_loader(rows, name, loader) if row["loader_workers"] == workers]
        reference = _mean(row["throughput"] for row in synthetic[name])
        shares = ", ".join(f"{100 * row['throughput'] / reference:.1f}" for row in found)
        waited = ", ".join(f"{100 * row['waited_s'][0] / row['window_s']:.1f}" for row in found)
        lines.append(_line(name, f"`{loader}`, {workers}", _rates(found), f"{shares} %", f"{waited} %"))
    return "\n".join(lines)


def deviations() -> str:
    """Return the largest deviations of the stored certificates, of pairs and of other layouts and compilers."""
    document = json.loads((RESULTS / "equal-work" / "results.json").read_text(encoding="utf-8"))
    subjects = ("logits", "loss", "gradient-norm", "update-norm", "gradients", "updates")
    titles = {"mobilenet_v1": "MobileNetV1", "resnet50_v1.5": "ResNet-50 v1.5"}
    lines = [
        "| | logits | loss | norm of all gradients | of all updates | one parameter's gradient | its update |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for found in document["certificates"]:
        variants = [variant for party in found["parties"] for variant in party["variants"]]
        for title, checked in (
            (f"{len(found['pairs'])} pairs of frameworks", found["pairs"]),
            (f"{len(variants)} other layouts and compilers", variants),
        ):
            largest = [_largest(checked, subject) for subject in subjects]
            lines.append(_line(f"{titles[found['model']]}, {title}", *largest))
    return "\n".join(lines)


def _rows(name: str) -> list[Row]:
    rows: list[Row] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["rows"]
    return rows


def _of(rows: Iterable[Row], case: str, ranks: int) -> list[Row]:
    return [row for row in rows if row["case"] == case and row["ranks"] == ranks]


def _of_loader(rows: Iterable[Row], machine: str, loader: str | None) -> list[Row]:
    return [row for row in rows if row["machine"] == machine and row["loader"] == loader]


def _pair(alone: Sequence[Row], both: Sequence[Row]) -> tuple[str, str]:
    """Return the rates of two GPUs, and their shares of the sum of the rates of each."""
    each = sum(row["throughput"] for row in alone)
    shares = dict.fromkeys(f"{100 * row['throughput'] / each:.1f} %" for row in both)
    return _rates(both), "; ".join(shares)


def _rates(rows: Iterable[Row]) -> str:
    return ", ".join(f"{row['throughput']:,.0f}".replace(",", " ") for row in rows)


def _clocks(rows: Iterable[Row]) -> str:
    gpus = chain.from_iterable(row["of_the_gpu_in_the_window"] for row in rows)
    return ", ".join(f"{gpu['sm_clock_mhz']:,}".replace(",", " ") for gpu in gpus)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


def _largest(checked: Iterable[Row], subject: str) -> str:
    found = [check["deviation"] for one in checked for check in one["checks"] if check["subject"] == subject]
    return f"{max(found):.1e}".replace("e-0", "e-") if found else ""


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


SECTIONS = {
    section("gpus.md", "two H100"): two_h100,
    section("gpus.md", "two H200"): two_h200,
    section("gpus.md", "four H200"): four_h200,
    section("gpus.md", "loaders"): loaders,
    section("equal-work.md", "deviations"): deviations,
}

if __name__ == "__main__":
    raise SystemExit(max([each.update(table()) for each, table in SECTIONS.items()]))
