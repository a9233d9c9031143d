"""The card that docs/reference/workloads.md gives to copy, and its suite."""

import re
from pathlib import Path

import pytest

from foreign_cards import planned
from trainmark.workload import read_card

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "workloads.md"


def test_the_card_in_the_docs_can_be_copied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, _, section = DOCS.read_text(encoding="utf-8").partition("## A card to copy\n")
    blocks = re.findall(r"```yaml\n# (\S+)\n(.*?)```", section.partition("\n## ")[0], re.DOTALL)
    for name, text in blocks:
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "my-trainer").mkdir()
    (tmp_path / "my-trainer" / "train.py").touch()

    assert [name for name, _ in blocks] == ["my-trainer.yaml", "suite.yaml"]
    assert read_card(tmp_path / "my-trainer.yaml").card.task == "program"
    suite = tmp_path / "suite.yaml"
    suite.write_text(f"{suite.read_text()}environment: system\n")
    cases = planned(suite, capsys)
    assert [case["id"] for case in cases] == [
        f"my-trainer-pytorch-b{batch}{ranks}" for batch in (32, 64) for ranks in ("", "-1n2g")
    ]
    assert cases[0]["cannot_run"] is None
    assert {"--batch-size=32", "--lr=0.1", "--steps=120"} <= set(cases[0]["commands"][0]["words"])
