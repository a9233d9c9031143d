"""Every doubt that can be raised has its meaning in Chinese, and a Chinese report writes it."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import sample_results as sample

from trainmark.report import Language, render_markdown
from trainmark.report.language import catalogue, doubt_meaning
from trainmark.schema.case import case_of
from trainmark.schema.measurement import About, GateName, Suspicion

SOURCE = Path(__file__).parents[2] / "src" / "trainmark"
CODE = re.compile(r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
RAISED_BY = ("Suspicion", "Problem", "Doubt", "Gate")
NO_DOUBTS = {"amp-fp16"}
"""First words of pairs in the workers that are values of an axis."""
UNTRANSLATED: set[str] = set()
"""Codes that a Chinese report shows in English only."""


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}


@cache
def constants() -> dict[str, set[str]]:
    """Return the texts of module constants by their names."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for tree in trees().values():
        for node in tree.body:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                    found[name].add(text)
    return dict(found)


def texts(node: ast.expr | None) -> set[str]:
    """Return what an expression for a code may be; f-strings are left out."""
    match node:
        case ast.Constant(value=str(text)):
            return {text}
        case ast.Name(id=name):
            return constants().get(name, set())
        case ast.IfExp(body=one, orelse=other):
            return texts(one) | texts(other)
        case ast.Attribute(value=ast.Name(id="GateName"), attr=name):
            return {GateName[name].value}
    return set()


def code_of(node: ast.AST, *, is_worker: bool) -> ast.expr | None:
    match node:
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=keywords) if name in RAISED_BY:
            named = [keyword.value for keyword in keywords if keyword.arg == "code"]
            return next(iter([*named, *arguments]), None)
        case ast.Call(func=ast.Attribute(attr="doubt"), args=[code, *_]) if is_worker:
            return code
        case ast.Dict(keys=[ast.Constant(value="code"), ast.Constant(value="sentence")], values=[code, _]):
            return code
        case ast.Tuple(elts=[code, ast.Name(id="sentence") | ast.JoinedStr() | ast.Constant()]) if is_worker:
            return code
    return None


def raised() -> Iterator[str]:
    """Yield the codes of the doubts that the sources and the descriptions of formats raise."""
    for path, tree in trees().items():
        for node in ast.walk(tree):
            yield from texts(code_of(node, is_worker="worker" in path.parts))
    for path in SOURCE.rglob("*.yaml"):
        yield from re.findall(
            r"^ +(?:- )?code: ([a-z0-9-]+)$", path.read_text(encoding="utf-8"), re.MULTILINE
        )


def codes() -> set[str]:
    return {
        code for code in raised() if CODE.fullmatch(code) and ("-" in code or code in known())
    } - NO_DOUBTS


def known() -> set[str]:
    return set(catalogue(Language.ZH).doubts)


def test_every_doubt_has_its_meaning_in_chinese_or_is_listed() -> None:
    found = codes()

    assert len(found) > 120
    assert {
        code for code in found if doubt_meaning(catalogue(Language.ZH).doubts, code) is None
    } == UNTRANSLATED


def test_the_catalogue_has_no_doubt_that_nothing_raises() -> None:
    assert sorted(code for code in known() - codes() if "*" not in code) == []


def test_a_meaning_is_chinese_and_one_line() -> None:
    for code, meaning in catalogue(Language.ZH).doubts.items():
        assert re.search(r"[\u4e00-\u9fff]", meaning), code
        assert "\n" not in meaning
        assert not meaning.endswith("。"), code


@pytest.mark.parametrize(
    ("code", "meaning"),
    [
        ("cpu-shared", "其他进程在窗口内占用了处理器核心"),
        ("precision-differs", "实际的值与要求的不同"),
        ("of-tomorrow", None),
    ],
)
def test_a_chinese_report_writes_the_meaning_before_the_sentence(code: str, meaning: str | None) -> None:
    doubt = Suspicion(code=code, sentence="others took 30 %", about=About.MACHINE)
    run = sample.run(case_of(), 1, suspicions=(doubt,), measurement=sample.measurement(300.0, case_of()))
    results = sample.results([(case_of(), (run,))])
    chinese = render_markdown(results, Path(), Language.ZH)
    english = render_markdown(results, Path(), Language.EN)

    assert f"others took 30 % ({code})" in english
    assert (f"{meaning}：others took 30 % ({code})" in chinese) is (meaning is not None)
    assert f"others took 30 % ({code})" in chinese
