"""A program in a git repository: its pinned commit is fetched, proven, prepared and run, and its log is read."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from fakes import Bench, Silent
from repositories import CARD, Repository, card, program
from trainmark.schema.outcome import Outcome
from trainmark.schema.results import RunResult
from trainmark.store import read_results

SETTINGS: dict[str, Any] = {
    "protocol": {"name": "adaptive", "steps": 30, "warmup_steps": 5, "repeats": 1},
}
LONG = {"steps": 40, "warmup_steps": 20}
CASE = {"workload": "linear", "framework": "python"}


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "repository")


def first_commit(repository: Repository) -> str:
    # Attributes that came after the file: git would convert its line ends on the way out, and find it changed.
    repository.commit({"README": "one\r\ntwo\r\n"})
    return repository.commit({"code/train.py": program("first"), ".gitattributes": "README text\n"})


def run(bench: Bench, document: dict[str, Any], resume: bool = False, **case: Any) -> RunResult:
    bench.write({**CASE, **case}, card=document | {"fixed": {}}, **SETTINGS)
    return bench.run(resume=resume).cases[0].runs[-1]


def tampered(path: Path) -> Path:
    """Return the file that git keeps a commit's largest object in, made writable."""
    pack = max((path / "objects").rglob("*"), key=lambda file: file.stat().st_size if file.is_file() else 0)
    pack.chmod(0o644)
    return pack


def cache(bench: Bench) -> Path:
    (found,) = (bench.folder / "home" / "sources").glob("*.git")
    return found


def test_a_pinned_commit_runs_and_its_log_becomes_a_throughput(bench: Bench, repository: Repository) -> None:
    commit = first_commit(repository)
    document = card(repository, commit) | {"fixed": {}}
    bench.write({**CASE, "batch_per_device": 4}, card=document, protocol={**SETTINGS["protocol"], **LONG})
    done = bench.call("--json")
    # Its steps take milliseconds: one in which the machine does something else is a doubt, and the exit code 1.
    assert done.returncode in (0, 1), done.stderr
    assert f"fetching {repository.url} at {commit}" in done.stderr
    results = read_results(bench.out / "results.json")
    (result,) = results.cases[0].runs
    assert (result.outcome, result.reason) == (Outcome.OK, None)
    assert result.measurement is not None
    folder = bench.out / result.directory
    log = (folder / "train.log").read_text()
    times = [float(line.split("Time")[1].split()[0]) for line in log.splitlines() if line.startswith("Epoch")]
    assert (len(times), result.measurement.measured_steps) == (40, 20)
    # Equal times give the bound itself, but for the last bit of a sum of floats.
    slowest, fastest = 4 / max(times), 4 / min(times)
    assert slowest * (1 - 1e-9) <= result.measurement.throughput <= fastest * (1 + 1e-9)
    assert "=> creating model 'first'" in log
    assert json.loads((folder / "source.json").read_text())["commit"] == commit
    assert "--lr 0.0004" in result.commands[0]
    assert not (folder / "source").exists(), "the working tree is not kept"
    assert (folder / "checkpoint").exists(), "what the program wrote is"


def test_a_program_that_takes_no_steps_is_not_in_doubt_for_their_number(
    bench: Bench, repository: Repository
) -> None:
    command = [*CARD["command"][:1], "--steps", "40", *CARD["command"][3:]]
    result = run(bench, card(repository, first_commit(repository), command=command))
    assert result.measurement is not None
    assert not [doubt for doubt in result.suspicions if doubt.code == "steps-differ"]


def test_the_pinned_commit_still_runs_after_the_branch_has_moved_on(
    bench: Bench, repository: Repository
) -> None:
    commit = first_commit(repository)
    newer = repository.commit({"code/train.py": program("second")})
    result = run(bench, card(repository, commit))
    assert result.outcome is Outcome.OK, result.reason
    assert "model 'first'" in (bench.out / result.directory / "train.log").read_text()
    other = Bench(bench.folder, "other")
    result = run(other, card(repository, commit), options={"commit": newer})
    assert "model 'second'" in (other.out / result.directory / "train.log").read_text()


def test_a_submodule_is_left_empty_and_is_no_change(bench: Bench, repository: Repository) -> None:
    first = first_commit(repository)
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{first},code/submodule")
    repository.git("commit", "--quiet", "--message", "a submodule")
    result = run(bench, card(repository, repository.git("rev-parse", "HEAD")))
    assert result.outcome is Outcome.OK, result.reason


def test_a_cached_commit_runs_without_its_repository(bench: Bench, repository: Repository) -> None:
    document = card(repository, first_commit(repository))
    assert run(bench, document).outcome is Outcome.OK
    shutil.rmtree(repository.folder)
    again = Bench(bench.folder, "again")
    assert run(again, document).outcome is Outcome.OK


def test_a_program_that_changes_its_own_source_does_not_change_the_next_run(
    bench: Bench, repository: Repository
) -> None:
    rewriting = program("first") + "open(__file__, 'w').write('raise SystemExit(3)')\n"
    document = card(repository, repository.commit({"code/train.py": rewriting}))
    bench.write(CASE, card=document | {"fixed": {}}, protocol={**SETTINGS["protocol"], "repeats": 2})
    assert [result.outcome for result in bench.run().cases[0].runs] == [Outcome.OK, Outcome.OK]


@pytest.mark.parametrize("how", ["bytes", "object"])
def test_a_cache_that_was_tampered_with_is_refused(bench: Bench, repository: Repository, how: str) -> None:
    commit = first_commit(repository)
    assert run(bench, card(repository, commit)).outcome is Outcome.OK
    if how == "bytes":
        pack = tampered(cache(bench))
        data = bytearray(pack.read_bytes())
        data[len(data) // 2] ^= 0xFF
        pack.write_bytes(data)
    else:
        put_in_the_place_of(repository, commit, cache(bench))
    again = Bench(bench.folder, "again")
    result = run(again, card(repository, commit))
    assert result.outcome is Outcome.FAILED
    assert str(cache(bench)) in (result.reason or "")
    assert "remove it" in (result.reason or "")
    assert "\n" not in (result.reason or "")
    assert not (again.out / result.directory / "train.log").exists()


def part_of(repository: Repository, commit: str, *paths: str) -> dict[str, Any]:
    """Return a card that fetches only these paths, from a repository that lacks the bytes of every other file."""
    repository.git("config", "uploadpack.allowFilter", "true")
    document = card(repository, commit)
    document["source"]["paths"] = list(paths)
    for line in repository.git("ls-tree", "-r", commit).splitlines():
        entry, name = line.split("\t")
        if not name.startswith("code/"):
            blob = entry.split()[2]
            (repository.folder / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    return document


def test_only_the_paths_of_a_card_are_fetched_and_in_the_tree(bench: Bench, repository: Repository) -> None:
    listing = "\nimport pathlib\nprint(sorted(p.name for p in pathlib.Path(__file__).parents[1].iterdir()))\n"
    commit = repository.commit({"code/train.py": program("first") + listing, "docs/tour.gif": "large"})
    document = part_of(repository, commit, "code")
    result = run(bench, document)
    assert result.outcome is Outcome.OK, result.reason
    assert "['.git', 'code']" in (bench.out / result.directory / "train.log").read_text()
    shutil.rmtree(repository.folder)
    again = Bench(bench.folder, "again")
    assert run(again, document).outcome is Outcome.OK


def test_a_repository_without_some_files_of_the_commit_is_named(bench: Bench, repository: Repository) -> None:
    document = part_of(repository, first_commit(repository), "code")
    del document["source"]["paths"]
    result = run(bench, document)
    assert result.outcome is Outcome.FAILED
    assert f"{repository.url} lacks files of " in (result.reason or "")
    assert "paths: [" in (result.reason or "")


def test_a_tampered_cache_of_a_part_is_refused(bench: Bench, repository: Repository) -> None:
    commit = first_commit(repository)
    document = part_of(repository, commit, "code")
    assert run(bench, document).outcome is Outcome.OK
    put_in_the_place_of(repository, commit, cache(bench))
    result = run(Bench(bench.folder, "again"), document)
    assert result.outcome is Outcome.FAILED
    assert "it was modified; remove it" in (result.reason or "")


def put_in_the_place_of(repository: Repository, commit: str, there: Path) -> None:
    """Let the cache hold another program's bytes under the name of the commit's own: git alone does not notice."""
    wanted = repository.git("rev-parse", f"{commit}:code/train.py")
    (repository.folder / "evil").write_text(program("tampered"))
    evil = repository.git("hash-object", "-w", "evil")
    objects = repository.folder / ".git" / "objects"
    for pack in (there / "objects" / "pack").glob("*"):
        pack.chmod(0o644)
        pack.unlink()
    # Loose copies of all that the commit needs, one of them exchanged.
    for loose in objects.glob("??/*"):
        to = there / "objects" / loose.parent.name / loose.name
        to.parent.mkdir(exist_ok=True)
        shutil.copyfile(loose, to)
    target = there / "objects" / wanted[:2] / wanted[2:]
    shutil.copyfile(objects / evil[:2] / evil[2:], target)


BAD: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"commit": "f" * 40}, {}, "has no commit ffffffff"),
    ({"folder": "cod"}, {}, "has no folder 'cod' at"),
    ({"paths": ["code", "cod"]}, {}, "has no 'cod' at "),
    ({"url": "file:///nowhere/at-all"}, {}, "file:///nowhere/at-all cannot be fetched: fatal: "),
    ({"commit": None}, {}, "does not say which commit of file://"),
    (
        {},
        {"commit": "main"},
        "'main' is not a whole commit; give the case options: {commit: 40 hexadecimal digits}",
    ),
]


@pytest.mark.parametrize(
    ("source", "options", "reported"), BAD, ids=[reported[:30] for _, _, reported in BAD]
)
def test_a_source_that_cannot_be_had_is_reported_in_one_line(
    bench: Bench, repository: Repository, source: dict[str, Any], options: dict[str, Any], reported: str
) -> None:
    document = card(repository, first_commit(repository))
    document["source"] = {**document["source"], **source}
    result = run(bench, document, options=options)
    assert result.outcome in (Outcome.FAILED, Outcome.UNSUPPORTED)
    assert reported in (result.reason or "")
    assert "\n" not in (result.reason or "")
    assert result.started_at is None


def test_without_git_the_case_is_unsupported(
    bench: Bench, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = card(repository, first_commit(repository))
    monkeypatch.setenv("PATH", "/nowhere")
    result = run(bench, document)
    assert result.outcome is Outcome.UNSUPPORTED
    assert (result.reason or "").startswith("git was not found on this machine")


def steps(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"prepare": [{"description": "words", "where": "host", **step} for step in steps]}


def test_a_prepare_step_runs_once_for_all_runs_and_sees_the_source(
    bench: Bench, repository: Repository
) -> None:
    step = {
        "words": ["sh", "-c", "date +%N >> {prepared}/made; cp {source}/train.py {prepared}/"],
        "leaves": ["made"],
    }
    document = card(repository, first_commit(repository), **steps(step))
    document["command"] = ["{prepared}/train.py", *document["command"][1:]]
    bench.write(CASE, {**CASE, "batch_per_device": 5}, card=document | {"fixed": {}}, **SETTINGS)
    results = bench.run()
    assert [case.outcome for case in results.cases] == [Outcome.OK, Outcome.OK], results.cases[0].reason
    (made,) = (bench.folder / "home" / "prepared").glob("*/made")
    assert len(made.read_text().splitlines()) == 1


def test_a_tree_that_a_killed_call_left_is_not_what_a_prepare_step_sees(
    bench: Bench, repository: Repository
) -> None:
    step = {"words": ["cp", "{source}/train.py", "{prepared}/copy"], "leaves": ["copy"]}
    document = card(repository, first_commit(repository), **steps(step))
    assert run(bench, document).outcome is Outcome.OK
    (copy,) = (bench.folder / "home" / "prepared").glob("*/copy")
    copy.unlink()
    left = copy.parent / "source" / "code" / "train.py"
    left.parent.mkdir(parents=True)
    left.write_text("something else")
    assert run(Bench(bench.folder, "again"), document).outcome is Outcome.OK
    assert copy.read_text() == program("first")


@pytest.mark.parametrize(
    ("step", "reported"),
    [
        (
            {"words": ["sh", "-c", "echo no space for it; exit 3"]},
            "prepare step 'words' ended with exit code 3: no space for it (",
        ),
        ({"words": ["true"], "leaves": ["index"]}, "prepare step 'words' ended normally, but without "),
        ({"words": ["no-such-program"]}, "prepare step 'words' cannot be started: No such file"),
    ],
)
def test_a_prepare_step_that_fails_is_reported_once_and_tried_once(
    bench: Bench, repository: Repository, step: dict[str, Any], reported: str
) -> None:
    document = card(repository, first_commit(repository), **steps(step))
    bench.write(CASE, {**CASE, "batch_per_device": 5}, card=document | {"fixed": {}}, **SETTINGS)
    listener = Readying()
    for case in bench.run(listener).cases:
        assert case.outcome is Outcome.FAILED
        assert reported in (case.reason or "")
    assert [line for line in listener.heard if line.startswith("preparing")] == listener.heard[-1:]


class Readying(Silent):
    """An audience that remembers what was made ready."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def readying(self, what: str) -> None:
        self.heard.append(what)


def test_a_run_that_does_not_leave_what_its_card_expects_is_invalid(
    bench: Bench, repository: Repository
) -> None:
    document = card(repository, first_commit(repository), expects=["raport.json"])
    result = run(bench, document)
    assert result.outcome is Outcome.INVALID
    assert result.reason == "the run ended normally, but without raport.json, which its card expects"


def test_a_program_that_needs_a_container_is_unsupported_without_an_engine(
    bench: Bench, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = card(repository, first_commit(repository), image={"reference": "python:3.11"})
    git = Path(shutil.which("git") or "").parent
    (bench.folder / "bin").mkdir()
    (bench.folder / "bin" / "git").symlink_to(git / "git")
    monkeypatch.setenv("PATH", str(bench.folder / "bin"))
    for engine in ("docker", "apptainer"):
        other = Bench(bench.folder, engine)
        other.write(CASE, card=document | {"fixed": {}}, **{**SETTINGS, "environment": engine})
        case = other.run().cases[0]
        assert case.outcome is Outcome.UNSUPPORTED
        assert case.reason == f"{engine} was not found on this machine, but the program runs in a container"


def test_a_program_without_an_image_cannot_run_in_a_container(bench: Bench, repository: Repository) -> None:
    document = card(repository, first_commit(repository))
    bench.write(CASE, card=document | {"fixed": {}}, **{**SETTINGS, "environment": "docker"})
    case = bench.run().cases[0]
    assert (case.outcome, case.reason) == (
        Outcome.UNSUPPORTED,
        "workload 'linear' names no image, so it cannot run in docker",
    )
