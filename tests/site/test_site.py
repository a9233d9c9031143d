"""The pages of a site: whole, without any request, with text as text, and as a browser shows them."""

import json
import re
from datetime import timedelta
from html import unescape
from pathlib import Path

import pytest
import sample_results as sample
from browser import DARK, WINDOWS, Views, inspected, needs_browser, open_page
from site_pages import alone, broken, colours, contrast, pages_of

from trainmark.cli.main import main
from trainmark.errors import InputError
from trainmark.files import write_atomically
from trainmark.schema.names import RESULTS
from trainmark.schema.results import Results
from trainmark.site import open_source, write_site
from trainmark.site.evidence import log_line, within
from trainmark.store import Store, database_url

OWN_RESULTS = Path(__file__).parents[2] / "docs" / "results"


def later(results: Results, days: int, **changes: object) -> Results:
    """Return the same results of another day."""
    cases = tuple(
        case.model_copy(
            update={
                "runs": tuple(
                    run.model_copy(
                        update={"started_at": run.started_at and run.started_at + timedelta(days=days)}
                    )
                    for run in case.runs
                )
            }
        )
        for case in results.cases
    )
    moved = results.generated_at + timedelta(days=days)
    return results.model_copy(update={"cases": cases, "generated_at": moved, **changes})


def readable(results: Results) -> Results:
    """Return a sample as a document may have it: with a name of a suite, and with the manifests that runs name."""
    manifests = {**sample.ngc_v100().manifests, **results.manifests}
    return results.model_copy(update={"suite": "sample", "manifests": manifests})


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the site of several samples, two of which are campaigns of one suite."""
    folder = tmp_path_factory.mktemp("results")
    samples = {
        "first": sample.ngc_v100(),
        "second": later(sample.ngc_v100(), 3),
        "failures": readable(sample.only_failures()),
        "hostile": readable(sample.hostile()),
        "two-units": sample.two_units(),
    }
    for name, results in samples.items():
        (folder / name).mkdir()
        write_atomically(folder / name / RESULTS, results.to_json())
    out = tmp_path_factory.mktemp("site") / "out"
    write_site(open_source(str(folder)), out)
    return out


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the site of the repository's own results."""
    out = tmp_path_factory.mktemp("own") / "out"
    write_site(open_source(str(OWN_RESULTS)), out)
    return out


def test_every_link_leads_to_a_place(several: Path) -> None:
    assert list(broken(several)) == []


def test_every_link_of_the_repositorys_own_site_leads_to_a_place(own: Path) -> None:
    assert list(broken(own)) == []


def test_pages_load_their_style_and_their_script_only(several: Path) -> None:
    for page in pages_of(several).values():
        assert {Path(name).name for name in page.loaded} == {"site.css", "site.js"}
        (policy,) = (
            attributes["content"]
            for tag, attributes in page.tags
            if tag == "meta" and attributes.get("http-equiv")
        )
        assert policy is not None
        assert policy.startswith("default-src 'none'; style-src 'self' file:; script-src 'self' file:")
    texts = [path.read_text(encoding="utf-8") for path in (several / "assets").iterdir()]
    assert not any(re.search(r"https?://(?!www\.w3\.org/)|@import|url\(", text) for text in texts)


def test_both_languages_have_the_same_pages_and_lead_to_each_other(several: Path) -> None:
    pages = pages_of(several)
    english = {name for name in pages if not name.startswith(("zh/", "evidence/", "environments/"))}
    assert {f"zh/{name}" for name in english} == {name for name in pages if name.startswith("zh/")}
    for name in english:
        assert any(href.endswith(f"zh/{name}") for href in pages[name].links)


def test_a_number_leads_to_its_runs_its_command_and_its_environment(several: Path) -> None:
    pages = pages_of(several)
    first = next(href for href in pages["index.html"].links if href.startswith("results/first.html#"))
    name, _, anchor = first.partition("#")
    text = (several / name).read_text(encoding="utf-8")
    section = text.partition(f'id="{anchor}"')[2].partition("</section>")[0]
    assert re.search(r"[\d.]+ images/s \[[\d.]+, [\d.]+\], median of 5 runs", section)
    assert len(re.findall(r"<li>\d: [\d.]+ images/s", section)) == 5
    assert f'href="../evidence/first.html#{anchor}"' in section
    evidence = (several / "evidence" / "first.html").read_text(encoding="utf-8")
    part = evidence.partition(f'id="{anchor}"')[2].partition("</section>")[0]
    assert "<pre><code>" in part
    environment = re.search(r'href="\.\./(environments/\w+\.html)"', part)
    assert environment
    assert "Tesla V100" in (several / environment[1]).read_text(encoding="utf-8")


def test_a_number_leads_to_the_line_of_its_log(tmp_path: Path) -> None:
    results = sample.one_case(3)
    sample.write_runs(tmp_path / "in", results)
    write_atomically(tmp_path / "in" / RESULTS, results.to_json())
    events = tmp_path / "in" / results.cases[0].runs[0].directory / "events.jsonl"
    events.write_text(
        events.read_text() + 'DLLL {"step": [], "data": {"window_s": 12.5}}\n', encoding="utf-8"
    )
    count = len(events.read_text().splitlines())

    write_site(open_source(str(tmp_path / "in")), tmp_path / "out")

    text = unescape((tmp_path / "out" / "evidence" / "in.html").read_text(encoding="utf-8"))
    assert f"events.jsonl, line {count}" in text
    assert '{"window_s": 12.5}' in text


@pytest.mark.parametrize("path", ["../events.jsonl", "link/events.jsonl", "/etc/passwd", "a\0b"])
def test_no_file_outside_of_the_results_is_read(path: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "events.jsonl").write_text('DLLL {"step": [], "data": {"precious": 1}}\n')
    (tmp_path / "in" / "link").symlink_to(tmp_path)
    assert within(tmp_path / "in", path) is None
    (case,) = sample.one_case(3).cases
    led_away = case.runs[0].model_copy(update={"directory": str(Path(path).parent)})
    assert log_line(tmp_path / "in", led_away) is None


def test_scripts_in_names_are_text(several: Path) -> None:
    for name, page in pages_of(several).items():
        scripts = [attributes for tag, attributes in page.tags if tag == "script"]
        assert [list(one) for one in scripts] == [["defer", "src"]], name
        assert not any(key.startswith("on") for _, attributes in page.tags for key in attributes), name
    text = (several / "results" / "hostile.html").read_text(encoding="utf-8")
    assert "&lt;script&gt;" in text


def test_a_case_that_a_later_campaign_lacks_is_carried_over(tmp_path: Path) -> None:
    whole = sample.ngc_v100()
    without = later(whole, 3)
    missing = without.cases[0]
    fewer = without.model_copy(update={"cases": without.cases[1:], "findings": None})
    for name, results in (("old", whole), ("new", fewer)):
        (tmp_path / "in" / name).mkdir(parents=True)
        write_atomically(tmp_path / "in" / name / RESULTS, results.to_json())

    write_site(open_source(str(tmp_path / "in")), tmp_path / "out")

    text = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    rows = re.findall(r"<tr data-v=.*?</tr>", text)
    carried = [row for row in rows if "↷" in row]
    assert len(carried) == 1
    assert "results/old.html" in carried[0]
    assert 'class="older"' not in carried[0]
    assert "carried over: a later campaign" in text
    assert sum('class="older"' in row for row in rows) == sum(
        case.estimate is not None for case in whole.cases if case.id != missing.id
    )


def test_a_program_without_a_known_model_is_chosen_by_its_name(tmp_path: Path) -> None:
    for name, results in (("in/built-in", sample.ngc_v100()), ("in/foreign", sample.foreign_program())):
        (tmp_path / name).mkdir(parents=True)
        write_atomically(tmp_path / name / RESULTS, results.to_json())
    write_site(open_source(str(tmp_path / "in")), tmp_path / "out")
    page = (tmp_path / "out" / "index.html").read_text()
    (models,) = re.findall(r'<select[^>]*name="model".*?</select>', page, re.DOTALL)
    assert re.findall(r"<option[^>]*>([^<]*)", models)[1:] == ["resnet50_v1.5", "word_language_model"]


def test_the_site_of_a_database_is_that_of_its_campaigns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write_atomically(folder / RESULTS, sample.one_case(3).to_json())
    assert main(["store", "add", str(folder), "--to", str(tmp_path / "runs.db")]) == 0
    capsys.readouterr()

    assert main(["site", str(tmp_path / "runs.db"), "--out", str(tmp_path / "out"), "--json"]) == 0

    written = json.loads(capsys.readouterr().out)
    assert written["results"] == written["campaigns"] == 1
    assert list(broken(tmp_path / "out")) == []


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("x")
    with pytest.raises(InputError, match="has files that are not of a site"):
        write_site(open_source(str(OWN_RESULTS)), tmp_path)
    assert (tmp_path / "precious.txt").read_text() == "x"


def test_a_site_is_written_again_over_itself(several: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    write_atomically(tmp_path / "in" / RESULTS, sample.one_case(3).to_json())
    for _ in range(2):
        written = write_site(open_source(str(tmp_path / "in")), tmp_path / "out")
    assert written.files == sum(path.is_file() for path in (tmp_path / "out").rglob("*"))


@pytest.mark.parametrize("source", ["missing", "empty"])
def test_a_source_without_results_is_one_line(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if source == "empty":
        Store(database_url(str(tmp_path / source))).close()
    assert main(["site", str(tmp_path / source), "--out", str(tmp_path / "out")]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert source in error


def test_labels_of_a_table_that_is_a_list_are_words_in_each_language(several: Path) -> None:
    style = (several / "assets" / "site.css").read_text(encoding="utf-8")
    assert ':lang(zh-CN) [data-entries] td:nth-child(2)::before { content: "吞吐率"; }' in style
    assert "\\u" not in style


def test_text_has_enough_contrast_in_light_and_dark(several: Path) -> None:
    themes = list(colours((several / "assets" / "site.css").read_text(encoding="utf-8")))
    assert len(themes) == 2
    for theme in themes:
        for ink in ("ink", "muted", "link"):
            for paper in ("paper", "panel"):
                assert contrast(theme[ink], theme[paper]) >= 4.5, (ink, paper, theme)


_FLOW = """
<script>
addEventListener("load", () => {
  const table = document.querySelector("table[data-entries]");
  const visible = () => [...table.tBodies[0].rows].filter((row) => !row.hidden).length;
  const state = { all: table.tBodies[0].rows.length, newest: visible() };
  document.getElementById("older").click();
  state.withOlder = visible();
  const select = document.querySelector('#axes select[name="precision"]');
  select.value = "amp-fp16";
  select.dispatchEvent(new Event("change"));
  state.filtered = visible();
  state.hash = location.hash;
  const head = table.tHead.rows[0].cells[1];
  head.focus();
  head.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" }));
  state.sorted = head.ariaSort;
  const down = document.getElementById("down");
  down.value = [...down.options].find((option) => option.text === "devices").value;
  down.dispatchEvent(new Event("change"));
  state.pivot = [...document.querySelectorAll("#pivot th[scope=row]")].map((cell) => cell.textContent);
  const links = [...document.querySelectorAll("#pivot a")];
  state.links = links.every((link) => link.getAttribute("href").startsWith("results/"));
  const x = document.getElementById("x");
  x.value = "devices";
  x.dispatchEvent(new Event("change"));
  const plot = () => ({
    titles: [...document.querySelectorAll(".plot text[font-weight]")].map((title) => title.textContent),
    ticks: [...document.querySelectorAll(".plot text[text-anchor=end]")]
      .map((tick) => Number(tick.textContent.replaceAll(",", ""))),
    places: [...document.querySelectorAll(".plot text[text-anchor=middle]")].map((label) => label.textContent),
    marks: [...document.querySelectorAll(".plot a")].map((one) => one.textContent),
    inside: [...document.querySelectorAll(".plot a")].every((one) => one.getAttribute("href").startsWith("results/")),
  });
  state.filteredPlot = plot();
  const devices = document.querySelector('#axes select[name="devices"]');
  devices.value = "1";
  devices.dispatchEvent(new Event("change"));
  state.onePlot = plot();
  const words = document.getElementById("filter");
  words.value = "no such words";
  words.dispatchEvent(new Event("input"));
  state.emptyPlot = plot();
  state.saysEmpty = !document.getElementById("no-results").hidden;
  document.title = JSON.stringify(state);
});
</script>
"""


@pytest.mark.browser
@needs_browser
def test_filters_tables_and_plots_follow_the_address(several: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(alone(several, "index.html", _FLOW), encoding="utf-8")

    text, complaints = open_page(page)

    assert complaints == []
    title = re.search(r"<title>(.*?)</title>", text)
    assert title
    state = json.loads(unescape(title[1]))
    assert state["newest"] < state["withOlder"] == state["all"]
    assert 0 < state["filtered"] < state["all"]
    assert "precision=amp-fp16" in state["hash"]
    assert "older=1" in state["hash"]
    assert state["sorted"] == "descending"
    assert state["pivot"] == sorted(state["pivot"], key=lambda words: int(words.split()[0]))
    assert state["links"]
    filtered, one = state["filteredPlot"], state["onePlot"]
    assert all(title.endswith(" by devices") for title in filtered["titles"])
    assert 0 < len(filtered["marks"]) <= state["filtered"]
    assert filtered["inside"]
    # A filter changes the places and the scale: 1 device is slower than 32 by more than a factor of 10.
    assert one["places"] == ["1"]
    assert set(one["places"]) < set(filtered["places"])
    assert max(one["ticks"]) * 5 < max(filtered["ticks"])
    assert state["emptyPlot"]["marks"] == []
    assert state["saysEmpty"]


@pytest.mark.browser
@needs_browser
def test_a_page_opens_from_its_file_with_its_filter(own: Path) -> None:
    text, complaints = open_page(own / "index.html")

    assert complaints == []
    # The script has run: without it the table by two axes stays hidden.
    assert '<section id="table">' in text
    assert re.search(r"<output[^>]*>\d+ / 226</output>", text) or "226" in text


@pytest.fixture(scope="module")
def views(several: Path, own: Path, tmp_path_factory: pytest.TempPathFactory) -> Views:
    """Return what a browser shows of the pages."""
    pages = {
        "results": alone(own, "index.html"),
        "chinese": alone(several, "zh/index.html"),
        "hostile": alone(several, "results/hostile.html"),
        "detail": alone(own, "zh/results/h200.html"),
        "evidence": alone(own, "evidence/h200.html"),
        "compare": alone(own, "compare.html"),
        "history": alone(own, "history.html"),
        "references": alone(own, "references.html"),
    }
    return inspected(pages, tmp_path_factory.mktemp("views"), dark=("results",))


@pytest.mark.browser
@needs_browser
def test_nothing_is_cut_off_at_any_width(views: Views) -> None:
    cut = {window: view.cut_off for window, view in views.pages.items() if view.cut_off}
    assert cut == {}
    assert views.complaints == []


@pytest.mark.browser
@needs_browser
def test_pages_are_dark_where_the_reader_wants_that(views: Views) -> None:
    assert views.pages["results", *DARK].background == "rgb(21, 24, 27)"
    assert views.pages["results", *WINDOWS[2]].background == "rgb(255, 255, 255)"
