"""What a reader does on a report page, in a real browser: sorting, filtering, coming back by the address, saving."""

import base64
import json
import re
import struct
from collections.abc import Mapping
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest
import sample_results as sample
from browser import needs_browser, open_page

from trainmark.report import render_html

pytestmark = [pytest.mark.browser, needs_browser]

ACT = """
<script>
const wait = (ms) => new Promise((done) => setTimeout(done, ms));
const saved = [];
HTMLAnchorElement.prototype.click = function () { saved.push([this.download, this.href]); };
addEventListener("load", async () => {
  const report = {};
  const table = document.querySelector("#throughput table");
  const head = [...table.tHead.rows[0].cells];
  const at = head.findIndex((cell) => cell.tabIndex === 0 && cell.matches(".number"));
  const shown = () => [...table.tBodies[0].rows].filter((row) => !row.hidden)
    .map((row) => row.cells[at].querySelector("div").firstChild?.textContent.trim() ?? "");
  report.before = shown();
  head[at].click();
  report.descending = [shown(), head[at].ariaSort, location.hash];
  head[at].dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
  report.ascending = [shown(), head[at].ariaSort, location.hash];
  const filter = document.getElementById("filter");
  filter.value = "8";
  filter.dispatchEvent(new Event("input"));
  report.filtered = [shown().length, document.querySelector("output").value, location.hash];
  location.hash = "#" + new URLSearchParams({ filter: "no such row" });
  await wait(50);
  report.nothing = [shown().length, filter.value];
  location.hash = report.descending[2];
  await wait(50);
  report.again = [shown(), head[at].ariaSort];
  for (const button of document.querySelectorAll("figure:has(svg) .save button")) {
    button.click();
    await wait(300);
  }
  report.saved = saved;
  document.title = JSON.stringify(report);
});
</script>
"""


@pytest.fixture(scope="module")
def acted(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Any]:
    """What the page shows after each action."""
    page = tmp_path_factory.mktemp("page") / "report.html"
    text = render_html(sample.ngc_v100(), Path("/nowhere"))
    page.write_text(text.replace("</body>", f"{ACT}</body>"), encoding="utf-8")
    dom, complaints = open_page(page)
    assert complaints == []
    title = re.search(r"<title>(.*?)</title>", dom, re.DOTALL)
    assert title
    found: Mapping[str, Any] = json.loads(unescape(title[1]))
    return found


def numbers(texts: list[str]) -> list[float]:
    """Return the cells as numbers; an outcome is below every number."""
    return [
        float(found[0]) if (found := re.match(r"[\d.]+", text.replace(",", ""))) else float("-inf")
        for text in texts
    ]


def test_a_column_is_sorted_by_a_click_and_turned_round_by_the_keyboard(acted: Mapping[str, Any]) -> None:
    down, up = acted["descending"], acted["ascending"]

    assert (down[1], up[1]) == ("descending", "ascending")
    assert sorted(acted["before"]) == sorted(down[0]) == sorted(up[0])
    assert numbers(down[0]) == sorted(numbers(down[0]), reverse=True)
    assert numbers(up[0]) == sorted(numbers(up[0]))
    assert numbers(down[0]) != numbers(up[0])


def test_the_address_has_the_choice_and_brings_it_back(acted: Mapping[str, Any]) -> None:
    assert re.search(r"sort=\d+\.\d+\.-1$", acted["descending"][2])
    assert re.search(r"sort=\d+\.\d+\.1$", acted["ascending"][2])
    assert "filter=8" in acted["filtered"][2]
    assert "sort=" in acted["filtered"][2]
    assert acted["again"] == acted["descending"][:2]


def test_a_filter_counts_and_a_table_without_a_match_stays(acted: Mapping[str, Any]) -> None:
    count, output, _ = acted["filtered"]
    shown, of = map(int, output.split(" / "))

    assert 0 < count <= len(acted["before"])
    assert 0 < shown < of
    assert acted["nothing"] == [len(acted["before"]), "no such row"]


def test_a_chart_is_saved_as_svg_and_png(acted: Mapping[str, Any]) -> None:
    files = dict(acted["saved"])
    assert {name.rpartition(".")[2] for name in files} == {"svg", "png"}
    assert {name.rpartition(".")[0] for name in files if name.endswith("svg")} == {
        name.rpartition(".")[0] for name in files if name.endswith("png")
    }
    for name, address in files.items():
        head, _, data = address.partition(",")
        if name.endswith(".svg"):
            assert head == "data:image/svg+xml;charset=utf-8"
            root = ElementTree.fromstring(unquote(data))
            size = (float(root.attrib["width"]), float(root.attrib["height"]))
            assert root.tag == "{http://www.w3.org/2000/svg}svg"
            assert "amp-fp16 b256" in " ".join(root.itertext())
            picture = base64.b64decode(files[name.replace(".svg", ".png")].partition(",")[2])
            assert picture.startswith(b"\x89PNG\r\n\x1a\n")
            assert struct.unpack(">II", picture[16:24]) == pytest.approx((2 * size[0], 2 * size[1]), abs=2)
            assert len(picture) > 5_000
