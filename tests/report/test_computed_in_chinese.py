"""Evidence, advice and reasons are computed in English; a Chinese report has each of them in Chinese."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from trainmark.insight import bound, findings
from trainmark.insight.bound import bound_table
from trainmark.report import Language, render_markdown, render_table
from trainmark.report.language import catalogue
from trainmark.store import read_results

STORED = Path(__file__).parents[2] / "docs" / "results"
CHINESE = re.compile(r"[一-鿿]")
ENGLISH = re.compile(r"\b[a-z]{3,} [a-z]{2,} [a-z]{2,}")
SIGNS_ALONE = {"MFU 7%"}


def without_values(node: ast.expr) -> str | None:
    """Return a sentence of the source with 7 for each value; None if it is no text."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(part.value if isinstance(part, ast.Constant) else "7" for part in parts)  # type: ignore[misc]
    return None


def sentences_of(source: Path, named: str) -> Iterator[str]:
    """Yield the texts that a module passes to calls of ``named``."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == named:
            values = [*node.args, *(keyword.value for keyword in node.keywords)]
            yield from filter(None, map(without_values, values))


def advised(source: Path) -> Iterator[str]:
    """Yield the texts of more than four words that a module has in its tuples and lists, which are steps of advice."""
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        found: list[ast.expr] = []
        if isinstance(node, ast.Tuple):
            found = node.elts
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append"
        ):
            found = node.args
        yield from (text for text in map(without_values, found) if text and len(text.split()) > 4)


def file_of(module: object) -> Path:
    return Path(str(module.__file__))  # type: ignore[attr-defined]


EVIDENCE = sorted(set(sentences_of(file_of(bound), "Reading")))
SHORT = sorted(
    text.format(share="7%") for rule in bound_table() for text in (rule.short, rule.settle, rule.fact) if text
)
ADVICE = sorted(set(advised(file_of(findings))))


def test_the_sources_have_sentences() -> None:
    assert len(EVIDENCE) > 20
    assert len(SHORT) > 20
    assert len(ADVICE) > 6


UNSAMPLED = [
    "measure again with telemetry: this run has none",
    "its window of 0.1 s is shorter than two sampling periods of 0.1 s (measure more steps: `steps` in the suite's "
    "protocol, or of the program)",
    "the samples cover only 0.5 s of its window of 1.5 s",
    "no sample was taken in its window",
]


@pytest.mark.parametrize("text", [*EVIDENCE, *SHORT, *ADVICE, *UNSAMPLED])
def test_every_sentence_of_evidence_and_advice_has_a_chinese_form(text: str) -> None:
    translated = catalogue(Language.ZH).translated(text)

    assert translated in SIGNS_ALONE or CHINESE.search(translated) or text == "the MFU", text
    assert not ENGLISH.search(re.sub(r"\(docs/.*\)|`.*?`|（docs/.*）", "", translated)), translated
    assert catalogue(Language.EN).translated(text) == text


def test_a_chinese_report_has_evidence_advice_and_reasons_in_chinese() -> None:
    for name in ("demo", "makemore"):
        results = read_results(STORED / name / "results.json")
        table = render_table(results, Language.ZH)
        for text in (table, render_markdown(results, STORED / name, Language.ZH)):
            for english in (
                "the program waits",
                "the machine disturbed",
                "would take about",
                "keeps the runs on",
            ):
                assert english not in text
    assert "程序在窗口的 87% 中等待 CPU，因为其他进程占用了 89% 的 CPU" in table
    assert "3 次运行中有 3 次受到机器干扰（cpu-shared）" in table


FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
SENTENCE = re.compile(r"(?<![\w_./=-])[a-z]{3,} [a-z]{2,} [a-z]{2,} [a-z]{2,}(?![\w_])")


@pytest.mark.parametrize(
    "folder", sorted(path for path in STORED.iterdir() if path.is_dir()), ids=lambda path: path.name
)
def test_english_sentences_of_a_chinese_report_are_doubts_names_and_the_suites_description(
    folder: Path,
) -> None:
    results = read_results(folder / "results.json")
    text = FENCED.sub("", render_markdown(results, folder, Language.ZH))
    labels = {case.case.topology for case in results.cases}

    left = [
        cell
        for line in text.splitlines()
        if results.description not in line and not re.search(r"\([a-z-]+\)|`foreign`", line)
        for cell in line.split("|")
        if SENTENCE.search(cell) and not any(label in cell for label in labels)
    ]

    assert left == []


def test_a_text_of_unknown_form_stays_as_it_is() -> None:
    say = catalogue(Language.ZH)

    assert (
        say.translated("exit code 1: no module named 'x'; and more")
        == "exit code 1: no module named 'x'；and more"
    )
    assert say.translated("not measured: the bandwidth, the power limit") == "未测量：带宽，功率上限"
    assert say.translated("GPU busy 31% at 200 W of 700 W, idle while the host launches kernels") == (
        "GPU 忙碌 31%，功率 200 W（上限 700 W），主机启动内核时空闲"
    )
