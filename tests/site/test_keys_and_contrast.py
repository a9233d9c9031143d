"""A reader without a mouse, a reader of dark pages, a reader of Chinese: the own site in a real browser."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import needs_browser
from devtools import Tab, browser_tab

from trainmark.site import open_source, write_site

OWN_RESULTS = Path(__file__).parents[2] / "docs" / "results"
PAGES = (
    "index",
    "history",
    "compare",
    "references",
    "results/h200",
    "evidence/h200",
    "zh/index",
    "zh/history",
)
MOST_STOPS = 60

pytestmark = [pytest.mark.browser, needs_browser]

_FOCUSED = """
(() => {
  const one = document.activeElement, style = getComputedStyle(one), place = one.getBoundingClientRect();
  return JSON.stringify({
    name: one.id || one.name || one.textContent.trim(), tag: one.tagName, inMain: !!one.closest("main"),
    ring: style.outlineStyle === "solid" && parseFloat(style.outlineWidth) >= 2,
    visible: place.width > 0 && place.top >= 0 && place.left >= 0
      && place.bottom <= innerHeight && place.right <= innerWidth,
  });
})()
"""

_CONTRAST = """
(() => {
  const channel = (one) => (one / 255 <= 0.04045 ? one / 255 / 12.92 : ((one / 255 + 0.055) / 1.055) ** 2.4);
  const colour = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const over = ([r, g, b, a = 1], under) => [r, g, b].map((one, i) => one * a + under[i] * (1 - a));
  const paper = (node) => {
    const layers = [];
    for (let one = node; one; one = one.parentElement) layers.push(colour(getComputedStyle(one).backgroundColor));
    return layers.reverse().reduce((under, top) => over(top, under), [255, 255, 255]);
  };
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT), low = [];
  let count = 0;
  while (words.nextNode()) {
    const node = words.currentNode.parentElement, text = words.currentNode.data.trim();
    if (!text || !node.getClientRects().length || ["TITLE", "OPTION"].includes(node.tagName)) continue;
    const style = getComputedStyle(node), under = paper(node);
    const ink = light(over(colour(node.ownerSVGElement ? style.fill : style.color), under)), ground = light(under);
    count += 1;
    if ((Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05) < 4.5) low.push(text.slice(0, 40));
  }
  return JSON.stringify({ count, low });
})()
"""


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the site of the repository's own results."""
    out = tmp_path_factory.mktemp("own") / "out"
    write_site(open_source(str(OWN_RESULTS)), out)
    return out


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """Return a page of a browser."""
    with browser_tab(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


def address(own: Path, page: str) -> str:
    return (own / f"{page}.html").as_uri()


def focused(tab: Tab) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(tab.evaluate(_FOCUSED))
    return found


def move_to(tab: Tab, name: str) -> list[dict[str, Any]]:
    """Press Tab until an element has the focus; return all that had it on the way."""
    found: list[dict[str, Any]] = []
    while not found or found[-1]["name"] != name:
        assert len(found) < MOST_STOPS, [one["name"] for one in found]
        tab.press("Tab")
        found.append(focused(tab))
    return found


def test_every_control_is_reached_by_tab_with_a_visible_ring(own: Path, tab: Tab) -> None:
    tab.open(address(own, "index"))
    stops = move_to(tab, "across")
    names = [one["name"] for one in stops]
    assert names[0] == "Skip to the content"
    assert [name for name in names if name in ("model", "filter", "older", "x", "series", "down")] == [
        "model", "filter", "older", "x", "series", "down",
    ]  # fmt: skip
    assert [one["name"] for one in stops if not (one["ring"] and one["visible"])] == []


def test_the_menu_is_skipped_by_one_key(own: Path, tab: Tab) -> None:
    tab.open(address(own, "index"))
    tab.press("Tab")
    tab.press("Enter")
    tab.press("Tab")
    assert focused(tab)["inMain"]


def test_a_reader_filters_sorts_and_opens_by_keys(own: Path, tab: Tab) -> None:
    tab.open(address(own, "index"))
    rows = "[...document.querySelectorAll('[data-entries] tbody tr')].filter((row) => !row.hidden).length"
    before = tab.evaluate(rows)
    move_to(tab, "framework")
    tab.press("ArrowDown")
    assert tab.evaluate("document.activeElement.value") == "jax"
    assert 0 < tab.evaluate(rows) < before
    assert "framework=jax" in tab.evaluate("location.hash")
    move_to(tab, tab.evaluate("document.querySelector('main details > summary').textContent.trim()"))
    tab.press("Enter")
    assert tab.evaluate("document.activeElement.parentElement.open")
    tab.evaluate("document.querySelector('[data-entries] th:nth-child(2)').focus()")
    for direction in ("descending", "ascending"):
        tab.press("Space")
        assert tab.evaluate("document.activeElement.ariaSort") == direction


def test_a_filter_of_a_page_without_tables_chooses_sections(own: Path, tab: Tab) -> None:
    tab.open(f"{address(own, 'history')}#filter=jax")
    sections = "[...document.querySelectorAll('main > section:not([hidden])')].map((one) => one.textContent)"
    shown = tab.evaluate(sections)
    assert shown
    assert all("jax" in text for text in shown)
    tab.open(address(own, "history"))
    assert len(tab.evaluate(sections)) > len(shown)


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_every_word_has_enough_contrast(page: str, dark: bool, own: Path, tab: Tab) -> None:
    tab.open(address(own, page), dark=dark)
    found = json.loads(tab.evaluate(_CONTRAST))
    assert found["count"] > 40
    assert found["low"] == []


def test_chinese_pages_have_chinese_words_where_english_pages_have_english_ones(own: Path, tab: Tab) -> None:
    words = "[...document.querySelectorAll('h1, h2, th, label, nav a, summary, .footnote, .machine')]"
    words += ".map((one) => one.firstChild?.textContent.trim() ?? '')"
    for page in ("index", "history", "compare", "references"):
        tab.open(address(own, page))
        english = {text for text in tab.evaluate(words) if " " in text and text.islower()}
        tab.open(address(own, f"zh/{page}"))
        assert english & set(tab.evaluate(words)) == set()


@pytest.mark.parametrize("page", ["index", "zh/index", "history"])
def test_a_phone_shows_no_word_smaller_than_eight_pixels(page: str, own: Path, tab: Tab) -> None:
    tab.open(address(own, page), 400, 900)
    drawn = (
        "[...document.querySelectorAll('.picture > svg')].map((one) => 12 * one.getBoundingClientRect().width"
    )
    sizes = tab.evaluate(f"{drawn} / one.viewBox.baseVal.width)")
    assert sizes
    assert min(sizes) >= 7.9
