"""The first table of 100,000 results, the server's memory, and 50 readers at once.

    python benchmarks/serve.py [--results 100000] [--database postgresql+psycopg://…]

A database is filled with campaigns of 10 cases (those of docs/results/h200, one run each) through the store's own
tables; ``trainmark serve`` answers as a process of its own. Every request is of another part or filter, so that no page
is answered from memory. Budget: the first table in < 1 s. For scale, one full scan of the runs is timed too.
"""

import argparse
import http.client
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
from sqlalchemy import insert, text

from trainmark.store import Store, database_url, read_results, rebuilt_suite
from trainmark.store.database import StoredCampaign, _add_manifest, _row
from trainmark.store.tables import campaigns, runs

RESULTS = Path(__file__).parents[1] / "docs" / "results" / "h200" / "results.json"
READERS = 50
REQUESTS = 4
PART = 100
BUDGET_S = 1.0
_BATCH = 200


def fill(store: Store, count: int) -> None:
    """Write ``count`` results."""
    results = read_results(RESULTS)
    cases = [(found.case, found.runs[0]) for found in results.cases]
    suite = rebuilt_suite(results)
    with store._engine.begin() as connection:
        for fingerprint, manifest in results.manifests.items():
            _add_manifest(connection, fingerprint, manifest)
        for first in range(1, count // len(cases) + 1, _BATCH):
            numbers = range(first, min(first + _BATCH, count // len(cases) + 1))
            row = {"suite": "h200", "suite_yaml": suite, "trainmark_version": "0"}
            connection.execute(
                insert(campaigns), [{**row, "id": n, "directory": f"/nonexistent/{n}"} for n in numbers]
            )
            rows = [_row(StoredCampaign(n), case, run) for n in numbers for case, run in cases]
            connection.execute(insert(runs), rows)


def timed(action: Callable[[], object]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def postgres_cpu() -> float:
    """Return the CPU time of all PostgreSQL processes of this machine, in seconds."""
    found = psutil.process_iter(["name", "cpu_times"])
    return sum(sum(one.info["cpu_times"][:2]) for one in found if one.info["name"] == "postgres")


def get(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
    connection.request("GET", path)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    assert answer.status == 200, (path, answer.status, body[:200])
    return body


def scan(store: Store) -> None:
    with store.reading() as connection:
        connection.execute(text("SELECT count(*), max(length(CAST(result AS TEXT))) FROM runs")).all()


def measure(port: int, process: psutil.Process, count: int, scanned: float) -> bool:
    """Print the figures; return whether they are within the budget."""
    before, database = sum(process.cpu_times()[:2]), postgres_cpu()
    first = timed(lambda: get(port, "/"))
    cpu = sum(process.cpu_times()[:2]) - before
    print(
        f"first table: {first:.2f} s (budget {BUDGET_S:g} s), CPU time {cpu:.2f} s of the server and "
        f"{postgres_cpu() - database:.2f} s of PostgreSQL; {first / scanned:.2f} of one full scan; "
        f"load {os.getloadavg()[0]:.0f}"
    )
    for name, path in (
        ("filtered", "/?precision=tf32"),
        ("the last part", f"/?first={count - PART}"),
        ("one campaign", "/results/c7.html"),
        ("its evidence", "/evidence/c7.html"),
        ("history, first time", "/history.html"),
        ("compare", "/compare.html?a=c1&b=c9"),
    ):
        print(f"{name}: {timed(lambda path=path: get(port, path)):.2f} s")  # type: ignore[misc]
    before = process.memory_info().rss
    with ThreadPoolExecutor(READERS) as readers:
        whole = timed(lambda: list(readers.map(lambda _: get(port, "/?first=300"), range(READERS))))
    print(f"{READERS} readers at once of one new part: all have it after {whole:.2f} s")
    with ThreadPoolExecutor(READERS) as readers:
        paths = [f"/?first={PART * (n + 4)}" for n in range(READERS * REQUESTS)]
        times: list[float] = []
        whole = timed(lambda: times.extend(readers.map(lambda path: timed(lambda: get(port, path)), paths)))
    print(
        f"{READERS} readers at once, {len(paths)} different parts: {len(paths) / whole:.1f} pages/s, "
        f"median {statistics.median(times):.2f} s, slowest {max(times):.2f} s"
    )
    again = timed(lambda: get(port, "/?first=400"))
    print(f"a part that was just shown: {again * 1000:.0f} ms")
    print(f"memory: {before / 1e6:.0f} MB before the readers, {process.memory_info().rss / 1e6:.0f} MB after")
    return first < BUDGET_S


def main() -> int:
    """Fill a database, serve it, print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--results", type=int, default=100_000)
    parser.add_argument("--database", help="an empty database; default: a SQLite file")
    chosen = parser.parse_args()
    program = shutil.which("trainmark", path=str(Path(sys.executable).parent)) or "trainmark"
    with tempfile.TemporaryDirectory() as folder:
        address = chosen.database or str(Path(folder) / "runs.sqlite")
        store = Store(database_url(address))
        took = timed(lambda: fill(store, chosen.results))
        scanned = statistics.median(timed(lambda: scan(store)) for _ in range(3))
        store.close()
        print(f"{chosen.results} results written in {took:.0f} s; one full scan: {scanned:.2f} s")
        with subprocess.Popen(
            [program, "serve", address, "--port", "0"], stdout=subprocess.PIPE, text=True
        ) as server:
            assert server.stdout is not None
            port = int(server.stdout.readline().split()[0].rstrip("/").rpartition(":")[2])
            try:
                fine = measure(port, psutil.Process(server.pid), chosen.results, scanned)
            finally:
                server.terminate()
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
