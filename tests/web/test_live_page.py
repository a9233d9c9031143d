"""The live page: what a running suite does is at a reader within seconds."""

import json
import re
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from urllib.request import urlopen

import psutil
import pytest
import sample_results as sample
from browser import CHROMIUM, needs_browser
from serving import Served

from trainmark.schema.names import DATABASE, SUITE
from trainmark.schema.outcome import Outcome
from trainmark.store import Store, StoredCampaign, rebuilt_suite, sqlite_url
from trainmark.suite import parse_suite
from trainmark.web.live import SuiteWatch
from trainmark.web.live_page import pace_of
from trainmark.web.streaming import LOOK_S

Serve = Callable[..., Served]
CASES = sample.cluster().cases


class RunningSuite:
    """A result directory as a campaign that has begun leaves it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "runs").mkdir(parents=True)
        text = rebuilt_suite(sample.cluster())
        (folder / SUITE).write_text(text, encoding="utf-8")
        self.store = Store(sqlite_url(folder / DATABASE))
        self.campaign: StoredCampaign = self.store.campaign(parse_suite(text, "suite"), ".", "0")

    def begin(self, case: int, repeat: int, step: int) -> Path:
        run = self.folder / "runs" / CASES[case].id / str(repeat)
        run.mkdir(parents=True, exist_ok=True)
        (run / "train.log").write_text(f"step {step}/120\n", encoding="utf-8")
        header = {"schema_version": 1, "pid": 1, "gpus": [{"index": 0, "name": "H200", "uuid": None}]}
        one = {"wall_s": time.time() - 5, "cpu": {"busy": 0.25}}
        gpu = {"index": 0, "sm_clock_mhz": 1755, "power_w": 640.4, "temperature_c": 61, "utilisation": 0.99}
        lines = [header, {**one, "gpus": [gpu]}]
        (run / "telemetry.jsonl").write_text(
            "".join(f"{json.dumps(line)}\n" for line in lines) + '{"torn', encoding="utf-8"
        )
        return run

    def end(self, case: int, repeat: int) -> None:
        result = next(run for run in CASES[case].runs if run.repeat == repeat)
        run = self.folder / "runs" / CASES[case].id / str(repeat)
        run.mkdir(parents=True, exist_ok=True)
        (run / "outcome.json").write_text("{}", encoding="utf-8")
        self.store.add(self.campaign, CASES[case].case, result.model_copy(update={"manifest": None}), None)


@pytest.fixture
def suite(tmp_path: Path) -> RunningSuite:
    """Return a suite that has begun."""
    return RunningSuite(tmp_path / "out")


def test_a_suite_counts_its_cases_and_shows_the_run_in_hand(suite: RunningSuite) -> None:
    watch = SuiteWatch("out", suite.folder)
    suite.begin(0, 1, 40)

    state = watch.state(time.time())

    assert state is not None
    assert (state.running, state.done, state.left, state.runs) == (True, 0, len(CASES), 0)
    hand = state.in_hand
    assert hand is not None
    assert (hand.case_id, hand.repeat, hand.step) == (CASES[0].id, 1, 40)
    assert hand.elapsed_s >= 5
    cpu, gpu = hand.devices
    assert cpu.busy == 0.25
    assert (gpu.device, gpu.clock_mhz, gpu.power_w) == ("GPU 0 (H200)", 1755, 640.4)
    for run in CASES[0].runs:
        suite.end(0, run.repeat)
    state = watch.state(time.time())
    assert state is not None
    assert state.in_hand is None
    assert state.runs == state.ok == len(CASES[0].runs)
    watch.close()


def test_the_slowest_rank_of_a_run_is_named(suite: RunningSuite, serve: Serve) -> None:
    number = next(
        number
        for number, case in enumerate(CASES)
        if any(run.ranks and run.ranks.slowest is not None for run in case.runs)
    )
    suite.end(number, CASES[number].runs[0].repeat)
    ranks = CASES[number].runs[0].ranks
    assert ranks is not None
    assert f"the slowest is rank {ranks.slowest} on " in serve(suite.folder).ask("/live.html").text


def test_the_pace_of_a_run_follows_its_log(suite: RunningSuite) -> None:
    watch, now = SuiteWatch("out", suite.folder), time.time()
    for look, step in enumerate((10, 20, 20, 40)):
        suite.begin(0, 1, step)
        state = watch.state(now + look)
    assert state is not None
    assert state.in_hand is not None
    assert [round(ms) for _, ms in pace_of(state.in_hand.steps)] == [100, 100]
    watch.close()


def test_a_run_that_nobody_runs_any_more_is_not_in_hand(suite: RunningSuite) -> None:
    suite.begin(0, 1, 40)
    watch = SuiteWatch("out", suite.folder)
    state = watch.state(time.time() + 3600)
    assert state is not None
    assert state.in_hand is None
    assert not state.running
    watch.close()


def test_a_database_that_is_no_database_does_not_stop_the_page(suite: RunningSuite) -> None:
    suite.store.close()
    (suite.folder / DATABASE).write_bytes(b"torn" * 1000)
    watch = SuiteWatch("out", suite.folder)
    assert watch.state(time.time()) is not None
    watch.close()


def test_a_reader_gets_a_change_within_two_looks(suite: RunningSuite, serve: Serve) -> None:
    suite.begin(0, 1, 40)
    server = serve(suite.folder)
    events = server.events()
    assert next(events)[0] == "revision"
    name, first = next(events)
    assert name == "state"
    assert "step 40." in first
    suite.end(0, 1)
    ended = time.monotonic()
    for name, data in events:
        if name == "state" and "1 run, 1 of them ok" in data:
            break
        assert time.monotonic() - ended < 60
    events.close()
    assert LOOK_S <= 1


PROGRAM = """
import sys, time
for step in range(1, 21):
    with open(sys.argv[1], "a") as printed:
        printed.write(f"{step} {time.time()}\\n")
    print(f"step {step}/20 loss 1.0 throughput: {500 + step % 3} samples/s", flush=True)
    time.sleep(0.25)
"""
READERS = 50
WITHIN_S = 2.0


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Return the directory of a suite that runs, and the file in which its program writes the time of each step."""
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    out, printed = tmp_path / "out", tmp_path / "printed"
    words = ["run", "--out", str(out), "--repeats", "2", "--skip", "2"]
    command = [sys.executable, str(tmp_path / "train.py"), str(printed)]
    program = [sys.executable, "-m", "trainmark", *words, "--", *command]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as suite:
        until = time.monotonic() + 120
        while not printed.exists() and suite.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        yield out, printed
        suite.terminate()


def follow(server: Served, ready: Callable[[str], bool]) -> dict[str, float]:
    """Return when each state came first to a reader, until one is ``ready``."""
    found: dict[str, float] = {}
    events = server.events()
    for name, data in events:
        if name == "state":
            found.setdefault(data, time.time())
            if ready(data):
                break
    events.close()
    return found


def test_fifty_readers_follow_a_running_suite_within_two_seconds(
    running: tuple[Path, Path], serve: Serve
) -> None:
    out, printed = running
    server = serve(out)

    with ThreadPoolExecutor(READERS) as readers:
        states = list(readers.map(lambda _: follow(server, lambda data: "2 runs," in data), range(READERS)))

    times = dict(line.split() for line in printed.read_text().splitlines()[20:])
    ended = {run: next(out.glob(f"runs/*/{run}/outcome.json")).stat().st_mtime for run in (1, 2)}
    delays, counted = [], []
    for reader in states:
        for data, at in reader.items():
            step = re.search(r"run 2.*?step (\d+)\.", data, re.DOTALL)
            if step and step[1] in times:
                delays.append(at - float(times[step[1]]))
        counted += [
            min(at for data, at in reader.items() if f"{run} run" in data) - ended[run] for run in (1, 2)
        ]
    # Each look shows the newest of the steps since the one before it.
    assert len(delays) > 3 * READERS
    for found in (sorted(delays), sorted(counted)):
        assert found[int(0.9 * len(found))] < WITHIN_S, (median(found), found[-1])


def test_doubts_and_failures_are_shown_as_they_arise_and_as_text(suite: RunningSuite, serve: Serve) -> None:
    hostile = sample.hostile().cases[0].runs[0]
    reason = "<img src=x onerror=alert(1)>"
    failed = {"outcome": Outcome.FAILED, "measurement": None, "manifest": None, "reason": reason}
    named = hostile.model_copy(update=failed)
    suite.store.add(suite.campaign, CASES[0].case, named, None)
    doubted = CASES[1].runs[0].model_copy(update={"suspicions": (sample.THROTTLED,), "manifest": None})
    suite.store.add(suite.campaign, CASES[1].case, doubted, None)
    server = serve(suite.folder)

    text = server.ask("/live.html").text

    doubt = "the GPU&#39;s clock was throttled in 12 % of the samples (clocks-throttled)"
    assert f"{CASES[1].id}, repeat {doubted.repeat}: {doubt}" in text
    assert "&lt;img src=x" in text
    assert "<img" not in text


def test_a_log_and_telemetry_of_nonsense_are_shown_as_far_as_they_go(suite: RunningSuite) -> None:
    run = suite.begin(0, 1, 40)
    (run / "train.log").write_text(f"step {'9' * 5000}/12\n", encoding="utf-8")
    nonsense = ["[" * 100_000, '{"cpu": 3, "gpus": [7, {}]}', '{"cpu": {"busy": 1e999}, "wall_s": "x"}']
    (run / "telemetry.jsonl").write_text("".join(f"{line}\n" for line in nonsense), encoding="utf-8")
    watch = SuiteWatch("out", suite.folder)
    state = watch.state(time.time())
    assert state is not None
    assert state.in_hand is not None
    assert state.in_hand.step is None
    watch.close()


def test_following_a_suite_changes_none_of_its_files(suite: RunningSuite) -> None:
    suite.end(0, 1)
    suite.store.close()
    with sqlite3.connect(suite.folder / DATABASE) as older:
        older.execute("UPDATE alembic_version SET version_num = '0004'")
    older.close()
    before = (suite.folder / DATABASE).read_bytes()
    watch = SuiteWatch("out", suite.folder)
    state = watch.state(time.time())
    assert state is not None
    assert state.runs == 0
    watch.close()
    assert (suite.folder / DATABASE).read_bytes() == before


def test_readers_stay_while_the_directory_is_gone(suite: RunningSuite, serve: Serve) -> None:
    suite.begin(0, 1, 40)
    server = serve(suite.folder)
    events = server.events()
    assert next(events)[0] == "revision"
    away = suite.folder.with_name("away")
    suite.folder.rename(away)
    time.sleep(2 * LOOK_S)
    away.rename(suite.folder)
    suite.begin(0, 1, 91)
    assert any(name == "state" and "step 91." in data for name, data in events)
    events.close()


def test_many_readers_share_one_look(suite: RunningSuite, serve: Serve) -> None:
    suite.begin(0, 1, 40)
    server = serve(suite.folder)
    readers = [server.events() for _ in range(20)]
    assert {next(reader)[0] for reader in readers} == {"revision"}
    for reader in readers:
        reader.close()
    assert server.ask("/index.html").status in (200, 404, 503)


def connections(port: int) -> int:
    """Return the number of clients that are connected to a port of this process."""
    found = psutil.Process().net_connections("tcp")
    return sum(one.status == psutil.CONN_ESTABLISHED and one.laddr.port == port for one in found)


@pytest.mark.browser
@needs_browser
def test_a_browser_shows_a_change_without_reloading(
    suite: RunningSuite, serve: Serve, tmp_path: Path
) -> None:
    suite.begin(0, 1, 40)
    server = serve(suite.folder)
    assert CHROMIUM is not None
    # The browser's time stands still while a request is open, so it prints the page once the server has gone.
    words = [
        CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--enable-logging=stderr",
        "--virtual-time-budget=2000", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom",
        f"http://127.0.0.1:{server.port}/live.html",
    ]  # fmt: skip
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as browser:
        until = time.monotonic() + 60
        while not connections(server.port) and time.monotonic() < until:
            time.sleep(0.1)
        events = server.events()
        suite.begin(0, 1, 77)
        assert any(name == "state" and "step 77." in data for name, data in events)
        events.close()
        # The browser has been sent the same; it may still be drawing.
        time.sleep(2 * LOOK_S)
        server.stop()
        text, errors = browser.communicate(timeout=120)
    assert "step 77." in text
    complaints = [line for line in errors.splitlines() if ":CONSOLE" in line]
    assert [
        line for line in complaints if "ERR_CONNECTION" not in line and "ERR_INCOMPLETE" not in line
    ] == []


def test_the_verb_answers_until_it_is_interrupted(suite: RunningSuite) -> None:
    program = shutil.which("trainmark", path=str(Path(shutil.os.sys.executable).parent))  # type: ignore[attr-defined]
    assert program is not None
    with subprocess.Popen(
        [program, "serve", str(suite.folder), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as server:
        assert server.stdout is not None
        found = re.match(r"http://127\.0\.0\.1:(\d+)/ ", server.stdout.readline())
        assert found
        with urlopen(f"http://127.0.0.1:{found[1]}/events", timeout=60) as page:
            assert page.readline().startswith(b"event: ")
            server.send_signal(2)
            # The page that is still open is told that its stream is over.
            page.read()
        assert server.communicate(timeout=60)[1] == ""
