"""The HTML report: it needs nothing from elsewhere, text from data stays text, and a real browser draws its charts."""

import json
import re
import sys
import zlib
from base64 import b64decode
from html.parser import HTMLParser
from pathlib import Path

import pytest
import sample_results as sample
from browser import WINDOWS, Views, inspected, needs_browser
from rendering import Example, Rendering

from trainmark.report import Language, render_html, write_reports
from trainmark.report.charts import theme
from trainmark.schema.results import Results
from trainmark.tasks import case_of

VOID = {"meta", "br", "hr", "img", "input", "link"}
EXAMPLES = [
    sample.ngc_v100,
    sample.two_frameworks,
    sample.only_failures,
    sample.one_case,
    sample.real_and_synthetic,
]


class Page(HTMLParser):
    """What a page holds: its elements with their attributes, its text by element, and tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.words: list[tuple[str, str]] = []
        self.unmatched: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.unmatched.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.append((self.open[-1] if self.open else "", data))

    def text(self, *without: str) -> str:
        return "".join(data for tag, data in self.words if tag not in without)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def rendered(results: Results, folder: Path, language: Language = Language.EN) -> str:
    sample.write_runs(folder, results)
    return render_html(results, folder, language)


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_element_is_closed(example: Example, rendering: Rendering) -> None:
    page = Page(rendering.html(example))
    assert page.unmatched == []
    assert page.open == []


@pytest.mark.parametrize("language", list(Language))
def test_the_page_asks_for_nothing_from_elsewhere(language: Language, rendering: Rendering) -> None:
    text = rendering.html(sample.two_sizes, language)
    page = Page(text)
    fetching = [
        value
        for _, attributes in page.elements
        for name in ("src", "href", "data", "srcset", "xlink:href", "action", "poster")
        if (value := attributes.get(name))
    ]
    assert fetching
    assert [value for value in fetching if not value.startswith(("#", "runs/"))] == []
    assert not page.named("link")
    assert not page.named("iframe")
    style = "".join(data for tag, data in page.words if tag == "style")
    assert "url(" not in style
    assert "@import" not in style
    policy = next(
        a["content"] for a in page.named("meta") if a.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    assert "http" not in policy


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    clean, hostile = (
        Page(rendered(sample.one_case(3), tmp_path / "a")),
        Page(rendered(sample.hostile(), tmp_path / "b")),
    )
    assert hostile.unmatched == []
    assert len(hostile.named("script")) == len(clean.named("script"))
    assert {tag for tag, _ in hostile.elements} <= {tag for tag, _ in clean.elements}
    assert not [a for _, a in hostile.elements if any(name.startswith("on") for name in a)]
    shown = hostile.text("script", "style")
    for words in (
        "<script>alert('suite')</script>",
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "&amp;",
    ):
        assert words in shown
    assert "\x1b" not in shown


def test_a_case_named_like_the_end_of_a_script_does_not_end_the_charts_data(tmp_path: Path) -> None:
    one = case_of(options={"note": "</script><b>"})
    cases = [(case, sample.ok_runs(case, 100.0, 3)) for case in (one, case_of())]
    text = rendered(sample.results(cases), tmp_path)
    page = Page(text)
    (held,) = re.findall(r'id="specifications">([^<]*)</script>', text)
    specifications = json.loads(zlib.decompress(b64decode(held)))
    assert list(specifications) == ["throughput", "steps"]
    assert "note=</script><b>" in json.dumps(specifications)
    assert page.unmatched == []
    assert "note=</script>" not in text


def test_every_chart_is_there_as_a_picture_before_any_script_runs(rendering: Rendering) -> None:
    page = Page(rendering.html(sample.two_sizes))
    charts = [a["id"] for a in page.named("div") if a.get("class") == "picture"]
    assert charts == ["chart-throughput", "chart-scaling", "chart-steps"]
    assert len(page.named("svg")) == len(charts)
    ids = [a["id"] for _, a in page.elements if a.get("id")]
    assert len(ids) == len(set(ids))


def test_a_report_without_charts_carries_no_chart_library(rendering: Rendering) -> None:
    assert len(rendering.html(sample.only_failures)) < 60_000


def test_the_page_says_its_language(rendering: Rendering) -> None:
    assert Page(rendering.html(sample.one_case, Language.ZH)).named("html") == [{"lang": "zh-CN"}]


def test_links_in_the_table_of_contents_lead_to_sections(rendering: Rendering) -> None:
    page = Page(rendering.html(sample.two_sizes))
    sections = [a["id"] for a in page.named("section")]
    assert [a["href"] for a in page.named("a")][: len(sections)] == [f"#{name}" for name in sections]


DRAWN = (sample.two_sizes, sample.hostile, sample.two_units)
WHOLE = (
    (sample.many_workloads, Language.EN),
    (sample.with_certificate, Language.ZH),
    (sample.two_units, Language.EN),
    (sample.hostile, Language.ZH),
)
WITHOUT_SCRIPTS = (sample.with_certificate, sample.two_units, sample.cluster)


@pytest.fixture(scope="session")
def views(rendering: Rendering, tmp_path_factory: pytest.TempPathFactory) -> Views:
    """Return what one browser sees of every page in every window."""
    pages = {f"drawn-{example.__name__}": rendering.html(example) for example in DRAWN}
    pages |= {f"whole-{example.__name__}": rendering.html(example, language) for example, language in WHOLE}
    pages |= {
        f"plain-{example.__name__}": re.sub(
            r"<script.*?</script>", "", rendering.html(example), flags=re.DOTALL
        )
        for example in WITHOUT_SCRIPTS
    }
    return inspected(pages, tmp_path_factory.mktemp("browser"))


@needs_browser
@pytest.mark.parametrize("example", DRAWN)
def test_a_browser_draws_every_chart_and_has_nothing_to_complain_about(
    example: Example, views: Views, rendering: Rendering
) -> None:
    name = f"drawn-{example.__name__}"
    assert views.complaints == []
    charts = re.findall(r'id="chart-([\w-]+)">', rendering.html(example))
    assert charts
    assert all(views.pages[name, *window].drawn == charts for window in WINDOWS)


@needs_browser
@pytest.mark.parametrize(("example", "language"), WHOLE)
def test_nothing_is_cut_off_on_a_phone_a_desk_or_paper(
    example: Example, language: Language, views: Views
) -> None:
    found = {window: views.pages[f"whole-{example.__name__}", *window].cut_off for window in WINDOWS}
    assert found == {window: [] for window in WINDOWS}


@needs_browser
@pytest.mark.parametrize("example", WITHOUT_SCRIPTS)
def test_no_label_is_cut_off_in_the_pictures_that_are_there_before_any_script(
    example: Example, views: Views, rendering: Rendering
) -> None:
    assert "<svg" in rendering.html(example)
    found = {window: views.pages[f"plain-{example.__name__}", *window].cut_off for window in WINDOWS}
    assert found == {window: [] for window in WINDOWS}


def test_a_page_of_thirty_runs_is_smaller_than_600_kb(tmp_path: Path) -> None:
    cases = [
        (case, sample.ok_runs(case, 370.0 * case.world_size, 5))
        for precision in ("fp32", "amp-fp16")
        for devices in (1, 8, 32)
        for case in [case_of(precision=precision, **sample.topology(devices))]
    ]
    results = sample.results(cases)
    assert sum(len(case.runs) for case in results.cases) == 30
    text = rendered(results, tmp_path)
    assert "chart-steps" in text
    assert len(text.encode()) < 600_000


@pytest.mark.parametrize("missing", ["altair", "vl_convert"])
def test_a_python_that_cannot_draw_writes_the_report_without_charts(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(theme, "PACKAGES", {missing: f"the package of {missing}"})
    monkeypatch.setattr(theme, "find_spec", lambda module: None if module == missing else module)
    monkeypatch.setitem(sys.modules, missing, None)
    results = sample.two_frameworks()
    sample.write_runs(tmp_path, results)

    written = write_reports(tmp_path, results)

    assert {path.name for path in written} == {"results.csv", "runs.csv", "report.md", "report.html"}
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert f"The charts are left out: pip install the package of {missing}." in page
    assert 'class="chart"' not in page
