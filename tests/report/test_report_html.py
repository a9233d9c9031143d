"""The HTML report: it needs nothing from elsewhere, text from data stays text, and a real browser draws its charts."""

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest
import sample_results as sample
from browser import DARK, WINDOWS, View, Views, inspected, needs_browser, printed_pages
from rendering import Example, Rendering

from trainmark.report import Language, render_html
from trainmark.schema.case import case_of
from trainmark.schema.results import Results
from trainmark.store import read_results

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


def test_a_case_named_like_the_end_of_a_script_stays_text_in_the_charts(tmp_path: Path) -> None:
    one = case_of(options={"note": "</script><b>"})
    cases = [(case, sample.ok_runs(case, 100.0, 3)) for case in (one, case_of())]
    text = rendered(sample.results(cases), tmp_path)
    page = Page(text)
    assert page.unmatched == []
    assert "note=</script>" not in text
    assert "note=&lt;/script&gt;" in text


def test_every_chart_is_there_as_a_picture_before_any_script_runs(rendering: Rendering) -> None:
    text = rendering.html(sample.two_sizes)
    page = Page(text)
    charts = [a["id"] for a in page.named("div") if a.get("class") == "picture"]
    assert charts == ["chart-throughput", "chart-scaling", "chart-steps"]
    assert text.count('<svg xmlns="http://www.w3.org/2000/svg"') >= len(charts)
    ids = [a["id"] for _, a in page.elements if a.get("id")]
    assert len(ids) == len(set(ids))


def test_a_report_without_charts_is_small(rendering: Rendering) -> None:
    assert len(rendering.html(sample.only_failures)) < 60_000


def test_the_page_says_its_language(rendering: Rendering) -> None:
    assert Page(rendering.html(sample.one_case, Language.ZH)).named("html") == [{"lang": "zh-CN"}]


def test_links_in_the_table_of_contents_lead_to_sections(rendering: Rendering) -> None:
    page = Page(rendering.html(sample.two_sizes))
    sections = [a["id"] for a in page.named("section")]
    assert sections[0] == "glance"
    assert {a["href"] for a in page.named("a")} >= {f"#{name}" for name in sections}


WHOLE = (
    (sample.many_workloads, Language.EN),
    (sample.precisions_of_two_frameworks, Language.EN),
    (sample.real_and_synthetic, Language.EN),
    (sample.foreign_program, Language.EN),
    (sample.with_certificate, Language.ZH),
    (sample.two_units, Language.EN),
    (sample.hostile, Language.ZH),
    (sample.cluster, Language.EN),
)
STORED = ("demo", "makemore", "frameworks", "h200-language", "h100-scaling", "cluster-ssh")
"""Kept results: six frameworks, three language models and two others, two sizes, and four hosts."""
WITHOUT_SCRIPT = "plain-two_units"
PAGES = (
    *(f"whole-{example.__name__}" for example, _ in WHOLE),
    *(f"stored-{name}" for name in STORED),
    WITHOUT_SCRIPT,
)


@pytest.fixture(scope="session")
def views(rendering: Rendering, tmp_path_factory: pytest.TempPathFactory) -> Views:
    """Return what one browser sees of every page in every window."""
    pages = {f"whole-{example.__name__}": rendering.html(example, language) for example, language in WHOLE}
    for name in STORED:
        folder = Path(__file__).parents[2] / "docs" / "results" / name
        pages[f"stored-{name}"] = render_html(read_results(folder / "results.json"), folder)
    plain = rendering.html(sample.two_units)
    pages[WITHOUT_SCRIPT] = re.sub(r"<script.*?</script>", "", plain, flags=re.DOTALL)
    assert set(pages) == set(PAGES)
    return inspected(pages, tmp_path_factory.mktemp("browser"), dark=[f"whole-{sample.two_units.__name__}"])


@needs_browser
def test_a_browser_has_nothing_to_complain_about(views: Views) -> None:
    assert views.complaints == []


@needs_browser
@pytest.mark.parametrize("page", PAGES)
def test_nothing_is_cut_off_or_overlaps_on_a_phone_a_desk_or_paper(page: str, views: Views) -> None:
    found = {window: views.pages[page, *window].cut_off for window in WINDOWS}
    assert found == {window: [] for window in WINDOWS}


@needs_browser
@pytest.mark.parametrize("page", PAGES)
def test_the_first_number_is_at_most_300_px_from_the_top(page: str, views: Views) -> None:
    found = {window: views.pages[page, *window].first for window in WINDOWS}
    assert all(first is not None and first <= 300 for first in found.values()), found


@needs_browser
@pytest.mark.parametrize("page", PAGES)
def test_every_table_is_a_table_on_a_desk_and_on_paper(page: str, views: Views) -> None:
    found = {(*window,): views.pages[page, *window].stacked for window in (("page", 1300), ("printed", 717))}
    assert found == {window: [] for window in found}


@needs_browser
@pytest.mark.parametrize("width", [400, 1300])
@pytest.mark.parametrize(("page", "least"), [("stored-h200-language", 5), ("stored-frameworks", 6)])
def test_the_first_screen_has_the_numbers_of_every_model_and_framework(
    page: str, least: int, width: int, views: Views
) -> None:
    assert views.pages[page, "page", width].numbers == least


@needs_browser
def test_a_dark_page_has_a_dark_background(views: Views) -> None:
    page = f"whole-{sample.two_units.__name__}"
    assert views.pages[page, "page", 1300].background == "rgb(255, 255, 255)"
    assert views.pages[page, *DARK].background == "rgb(21, 24, 27)"


A4_PX = 297 / 25.4 * 96
"""The height of A4 paper in CSS pixels."""


@needs_browser
@pytest.mark.parametrize("page", PAGES)
def test_no_chart_is_torn_between_two_printed_pages(page: str, views: Views) -> None:
    assert views.pages[page, "printed", 717].tallest < 0.85 * A4_PX


@needs_browser
@pytest.mark.browser
@pytest.mark.parametrize(("name", "most"), [("frameworks", 25), ("demo", 13)])
def test_a_report_prints_on_few_pages(name: str, most: int, tmp_path: Path) -> None:
    """Reports of 72 and 22 runs; the figures are a quarter above today's."""
    folder = Path(__file__).parents[2] / "docs" / "results" / name
    page = tmp_path / "page.html"
    page.write_text(render_html(read_results(folder / "results.json"), folder), encoding="utf-8")

    assert 2 < printed_pages(page) <= most


def luminance(colour: Sequence[float]) -> float:
    """Return the relative luminance of an sRGB colour of values up to 255 (WCAG 2)."""
    linear = [
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in (part / 255 for part in colour)
    ]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(view: View) -> float:
    """Return the contrast of a page's bars with its background, from 1 to 21."""
    assert view.bar is not None
    behind = [float(part) for part in re.findall(r"\d+", view.background)]
    fill = [float(part) for part in re.findall(r"\d+", view.bar[0])]
    opacity = view.bar[1]
    shown = [opacity * one + (1 - opacity) * other for one, other in zip(fill, behind, strict=True)]
    light, dark = sorted((luminance(shown), luminance(behind)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@needs_browser
@pytest.mark.parametrize("window", [("page", 1300), DARK])
def test_bars_stand_out_from_a_light_and_a_dark_page(window: tuple[str, int], views: Views) -> None:
    """WCAG 2 asks for a contrast of 3 of what a reader needs to see."""
    assert contrast(views.pages[f"whole-{sample.two_units.__name__}", *window]) >= 3


def test_a_page_of_thirty_runs_is_smaller_than_300_kb(tmp_path: Path) -> None:
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
    assert len(text.encode()) < 300_000
