"""The server's pages: the same as a site's, each rendered when it is requested, with live ones and ingest."""

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import Annotated, Any
from urllib.parse import urlencode
from weakref import WeakValueDictionary

from anyio import Event
from anyio.to_thread import current_default_thread_limiter
from fastapi import FastAPI, Header, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse, RedirectResponse
from sse_starlette import EventSourceResponse
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from trainmark.errors import InputError, TrainmarkError
from trainmark.printable import printable_line
from trainmark.report.blocks import Paragraph, Section, Span
from trainmark.report.language import Catalogue, Language, catalogue
from trainmark.schema.names import LOG
from trainmark.site import DirectorySource, StoreSource
from trainmark.site.entries import anchor_of
from trainmark.site.evidence import environments_of, within
from trainmark.site.explorer import explorer
from trainmark.site.history import history_sections
from trainmark.site.pages import Choice, Form, Frame, Page, PageKind, Paging, assets, render, render_sections
from trainmark.site.writing import (
    comparison_page,
    detail_page,
    environment_page,
    evidence_page,
    references_page,
)
from trainmark.web.ingest import MOST_BYTES, Ingest
from trainmark.web.listing import MOST_POINTS, PAGE, DirectoryListing, Listing, StoreListing
from trainmark.web.live import LiveSuites
from trainmark.web.live_page import live_sections
from trainmark.web.policy import Policy
from trainmark.web.streaming import END_S, KEEP_S, Look, Stream

MENU = tuple(PageKind)
MOST_CACHED_BYTES = 32 << 20
MOST_OF_LOG_BYTES = 16 << 20
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
_MOST_CHOICES = 200
THREADS = 8


class _Turn:
    """The lock of one page; it exists while somebody waits for the page."""

    def __init__(self) -> None:
        self.lock = Lock()


class Server:
    """State that the answers share: the listing of results, the pages rendered last, and the suites in hand."""

    def __init__(self, source: DirectorySource | StoreSource) -> None:
        self.source = source
        self.listing: Listing = (
            DirectoryListing(source) if isinstance(source, DirectorySource) else StoreListing(source)
        )
        self.live = LiveSuites(lambda: folders_of(source))
        self._pages: OrderedDict[tuple[str, ...], bytes] = OrderedDict()
        self._held_bytes = 0
        self._lock = Lock()
        self._rendering: WeakValueDictionary[tuple[str, ...], _Turn] = WeakValueDictionary()

    def page(self, frame: Frame, query: str, make: Callable[[], Page]) -> Response:
        """Return a page as of the newest results; a page that was rendered for them is not rendered again.

        Readers who ask for a page at once wait for one rendering of it.
        """
        key = (self.listing.revision(), frame.language.value, frame.path, query)
        with self._lock:
            turn = self._rendering.setdefault(key, _Turn())
        with turn.lock:
            held = self._held(key)
            if held is None:
                held = render(make(), frame).encode("utf-8")
                self._hold(key, held)
        return Response(held, media_type="text/html; charset=utf-8")

    def _held(self, key: tuple[str, ...]) -> bytes | None:
        with self._lock:
            if key in self._pages:
                self._pages.move_to_end(key)
            return self._pages.get(key)

    def _hold(self, key: tuple[str, ...], content: bytes) -> None:
        """Store a page; drop those that were not requested for longest while all are too large."""
        with self._lock:
            before = self._pages.pop(key, b"")
            self._pages[key] = content
            self._held_bytes += len(content) - len(before)
            while self._held_bytes > MOST_CACHED_BYTES and self._pages:
                _, dropped = self._pages.popitem(last=False)
                self._held_bytes -= len(dropped)

    def look(self) -> Look:
        """Return the state of the suites and the revision of the results."""
        states = self.live.states()
        html = {one.value: render_sections(live_sections(states, one), one) for one in Language}
        return Look(_short(self.listing.revision()), html)

    def close(self) -> None:
        """Close the databases of the suites."""
        self.live.close()


def folders_of(source: DirectorySource | StoreSource) -> Iterable[tuple[str, Path]]:
    """Return the result directories of a source by their keys, as far as they are on this machine."""
    if isinstance(source, DirectorySource):
        return [(key, source.folder(key)) for key in source.keys()]  # noqa: SIM118
    if "://" in source.address:
        return []
    near = Path(source.address).resolve().parent
    found = ((f"c{one.id}", near / one.directory) for one in source.store.campaigns()[-_MOST_CHOICES:])
    return [(key, folder) for key, folder in found if folder.is_dir()]


def make_app(
    source: DirectorySource | StoreSource, names: Collection[str] | None, ingest: Ingest | None = None
) -> Policy:
    """Return the server of a source; ``names`` are the host names that requests may give, see ``Policy``."""
    server = Server(source)
    stream = Stream(server.look)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        # Rendering is computing: more threads would not be faster, and each holds a page's results in memory.
        current_default_thread_limiter().total_tokens = THREADS
        yield
        server.close()

    # The documentation that FastAPI offers would load scripts from another server.
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.add_exception_handler(TrainmarkError, _refused)
    app.add_exception_handler(ClientDisconnect, _gone)
    _add_assets(app)
    for language in Language:
        _add_pages(app, server, language)
    _add_evidence(app, server)
    _add_stream(app, stream)
    if ingest is not None:
        _add_ingest(app, ingest)
    # Outside of all else: an answer to an unexpected error carries the policy too.
    return Policy(app, names)


async def _refused(_: Request, error: Exception) -> Response:
    status = 404 if isinstance(error, InputError) else 503
    return PlainTextResponse(f"{printable_line(str(error))}\n", status)


async def _gone(_: Request, __: Exception) -> Response:
    return PlainTextResponse("the request was cut off\n", 400)


def _add_assets(app: FastAPI) -> None:
    held = {path: text.encode("utf-8") for path, text in assets().items()}

    def asset(name: str) -> Response:
        content = held.get(f"assets/{name}")
        if content is None:
            return PlainTextResponse("no such file\n", 404)
        return Response(content, media_type=_TYPES[Path(name).suffix])

    app.get("/assets/{name}")(asset)


def _add_pages(app: FastAPI, server: Server, language: Language) -> None:
    base = "" if language is Language.EN else f"/{language.value}"
    listing = server.listing

    def frame(path: str) -> Frame:
        return Frame(language, path, MENU)

    def results(request: Request) -> Response:
        chosen = {name: value for name, value in request.query_params.items() if value}
        first = _whole(chosen.pop("first", "0"))
        query = str(sorted(chosen.items())) + f"#{first}"
        return server.page(frame("index.html"), query, lambda: results_page(listing, language, chosen, first))

    def compare(a: str = "", b: str = "") -> Response:
        return server.page(
            frame("compare.html"), f"{a}#{b}", lambda: compare_page(server.source, listing, language, a, b)
        )

    def history(case: str = "", first: str = "0") -> Response:
        start = _whole(first)
        return server.page(
            frame("history.html"), f"{case}#{start}", lambda: over_time_page(listing, language, case, start)
        )

    def references() -> Response:
        return server.page(frame("references.html"), "", lambda: references_page(listing.models(), language))

    def live() -> Response:
        say = catalogue(language)
        page = Page(
            say("menu_live"),
            say("live_lead"),
            live_sections(server.live.states(), language),
            live=True,
            stream=f"{frame('live.html').root}events?language={language.value}",
        )
        return Response(render(page, frame("live.html")), media_type="text/html; charset=utf-8")

    def details(key: str) -> Response:
        return server.page(
            frame(f"results/{key}.html"), "", lambda: detail_page(listing.campaign(key), language)
        )

    if base:
        app.get(base)(lambda: RedirectResponse(f"{base}/"))
    app.get(f"{base}/")(results)
    for name, answer in (
        ("index", results),
        ("compare", compare),
        ("history", history),
        ("references", references),
        ("live", live),
        ("results/{key}", details),
    ):
        app.get(f"{base}/{name}.html")(answer)


def results_page(listing: Listing, language: Language, chosen: Mapping[str, str], first: int) -> Page:
    """Return the page with a part of all results."""
    say = catalogue(language)
    choices = listing.choices(say)
    known = {
        name: value for name, value in chosen.items() if choices and name in {one.name for one in choices}
    }
    part = listing.part(known, first)
    lead = say("site_lead_part", total=part.total)
    paging = None if choices is None else _paging(known, first, len(part.entries), part.total)
    return Page(
        say("menu_index"),
        lead,
        explorer=explorer(part.entries, say, choices=choices),
        paging=paging,
        stream=f"{'' if language is Language.EN else '../'}events?language={language.value}",
        revision=_short(listing.revision()),
    )


def _paging(chosen: dict[str, str], first: int, shown: int, total: int) -> Paging:
    def address(start: int) -> str:
        return f"index.html?{urlencode({**chosen, 'first': str(start)})}"

    return Paging(
        first=first + 1 if shown else 0,
        last=first + shown,
        total=total,
        newer=address(max(0, first - PAGE)) if first > 0 else None,
        older=address(first + PAGE) if first + PAGE < total else None,
        chosen=chosen,
    )


def compare_page(
    source: DirectorySource | StoreSource, listing: Listing, language: Language, a: str, b: str
) -> Page:
    """Return the page that compares two campaigns; without a choice the newest two of a suite."""
    say = catalogue(language)
    keys = list(source.keys())[-_MOST_CHOICES:]
    if not (a and b):
        pairs = listing.newest_pairs()
        a, b = pairs[-1] if pairs else ("", "")
    options = tuple((key, key) for key in reversed(keys))
    form = Form(
        (
            Choice("a", say("column_baseline"), options, a),
            Choice("b", say("column_candidate"), options, b),
        ),
        say("compare_choose"),
    )
    pairs_shown = [(listing.campaign(a), listing.campaign(b))] if a and b else []
    return comparison_page(pairs_shown, language, say("compare_choose_lead"), form)


def over_time_page(listing: Listing, language: Language, case: str, first: int) -> Page:
    """Return the page of results over time: of a case, in parts, or of those with most results."""
    say = catalogue(language)
    found = listing.over_time(case, first)
    several = [(name, f"{name} ({count})") for name, count in found.cases.items() if count > 1]
    form = Form(
        (Choice("case", say("column_case"), (("", say("most_results")), *several), case),), say("show_case")
    )
    sections = history_sections(found.points, found.times, found.suites, language)
    if found.total is not None and (links := _parts_of_case(case, first, found.total, say)):
        sections = (*sections, Section("parts", say("history_parts"), (Paragraph(links),)))
    return Page(say("menu_history"), say("history_lead"), sections, form=form if several else None)


def _parts_of_case(case: str, first: int, total: int, say: Catalogue) -> tuple[Span, ...]:
    """Return links to the newer and older results of a case; nothing if a page has all of them."""
    if first == 0 and total <= MOST_POINTS:
        return ()
    last = max(first, min(first + MOST_POINTS, total))
    found = [Span(say("paging", first=min(first + 1, total), last=last, total=total))]
    for start, words in ((first - MOST_POINTS, "newer_results"), (first + MOST_POINTS, "older_results")):
        if 0 <= start < total:
            address = f"history.html?{urlencode({'case': case, 'first': str(start)})}"
            found += [Span(" "), Span(say(words), href=address)]
    return tuple(found)


def _add_evidence(app: FastAPI, server: Server) -> None:
    listing = server.listing

    def once(path: str) -> Frame:
        return Frame(Language.EN, path, MENU, once=True)

    def evidence(key: str) -> Response:
        return server.page(
            once(f"evidence/{key}.html"), "", lambda: evidence_page(listing.campaign(key), logs="../logs/")
        )

    def environment(key: str, name: str) -> Response:
        found = environments_of(listing.campaign(key)).get(name)
        if found is None:
            return PlainTextResponse("no such environment\n", 404)
        return server.page(once(f"environments/{key}/{name}.html"), "", lambda: environment_page(name, found))

    def log(key: str, anchor: str, repeat: int) -> Response:
        campaign = listing.campaign(key)
        runs = (
            run
            for case in campaign.results.cases
            if anchor_of(case.id) == anchor
            for run in case.runs
            if run.repeat == repeat
        )
        run = next(runs, None)
        path = None if run is None else within(campaign.folder, f"{run.directory}/{LOG}")
        if path is None:
            return PlainTextResponse("no such log\n", 404)
        with path.open("rb") as file:
            content = file.read(MOST_OF_LOG_BYTES)
        return Response(content, media_type="text/plain; charset=utf-8")

    app.get("/evidence/{key}.html")(evidence)
    app.get("/environments/{key}/{name}.html")(environment)
    app.get("/logs/{key}/{anchor}/{repeat}")(log)


def _add_stream(app: FastAPI, stream: Stream) -> None:
    async def events(language: Language = Language.EN) -> Response:
        if stream.full:
            return PlainTextResponse("too many readers\n", 503)
        # A response that is cut off at the end of the server is an error of its log.
        end = Event()
        return EventSourceResponse(
            stream.events(language.value, end),
            ping=int(KEEP_S),
            sep="\n",
            shutdown_event=end,
            shutdown_grace_period=END_S,
        )

    app.get("/events", response_model=None)(events)


def _add_ingest(app: FastAPI, ingest: Ingest) -> None:
    async def add(request: Request, authorization: Annotated[str | None, Header()] = None) -> Response:
        if not ingest.permits(authorization):
            return PlainTextResponse("a valid token is needed\n", 401, {"WWW-Authenticate": "Bearer"})
        content = bytearray()
        async for part in request.stream():
            content += part
            if len(content) > MOST_BYTES:
                return PlainTextResponse(f"the document has more than {MOST_BYTES >> 20} MiB\n", 413)
        try:
            added = await run_in_threadpool(ingest.add, bytes(content))
        except InputError as error:
            return PlainTextResponse(f"{printable_line(str(error))}\n", 422)
        found: dict[str, Any] = {
            "campaign": added.campaign,
            "new": added.new,
            "changed": added.changed,
            "known": added.known,
        }
        return JSONResponse(found)

    app.post("/ingest", response_model=None)(add)


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0


def _short(revision: str) -> str:
    return sha256(revision.encode("utf-8", "replace")).hexdigest()[:16]
