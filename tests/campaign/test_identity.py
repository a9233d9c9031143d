"""What was run is part of the run: runs of another program are refused by what differs, and never pooled."""

import json
import re
import shutil
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fakes import Bench, Listener, Silent
from trainmark.campaign import Progress, collect_results
from trainmark.errors import InputError
from trainmark.execution import ResultDirectory, read_suite
from trainmark.node.trees import WHOLE_BYTES, Trees
from trainmark.schema.case import UNKNOWN
from trainmark.schema.outcome import Entries, Identity, Outcome, Part, PartName
from trainmark.schema.results import RunResult

THREE: dict[str, Any] = {"name": "adaptive", "steps": 12, "warmup_steps": 2, "repeats": 3}
TRAINER = """import argparse, time
parser = argparse.ArgumentParser()
parser.add_argument("--iters", type=int)
parser.add_argument("--batch", type=int)
parser.add_argument("--pace", type=float, default=1.0)
given, _ = parser.parse_known_args()
from pace import STEP_S
for step in range(given.iters):
    print(f"Train: 0 [{step:4d}/{given.iters} ({100 * step // given.iters:3d}%)]  Loss: 6.9 (6.9)  "
          f"Time: {STEP_S * given.pace:.3f}s, {given.batch / STEP_S / given.pace:8.2f}/s  "
          f"({STEP_S * given.pace:.3f}s, {given.batch / STEP_S / given.pace:8.2f}/s)  LR: 1.000e-01  "
          "Data: 0.001 (0.001)")
"""
AXES: dict[str, object] = {
    "model": {}, "batch_per_device": {"flags": ["--batch={value}"]}, "devices_per_node": {}, "device": {},
}  # fmt: skip


class StopsAfterOneRun(Silent):
    def run_ended(self, result: RunResult, standing: Progress) -> None:
        raise KeyboardInterrupt


@pytest.fixture
def foreign(bench: Bench) -> Bench:
    """Return a bench whose program is somebody else's: two files in a folder, and timm's kind of log."""
    program = bench.folder / "program"
    program.mkdir()
    (program / "train.py").write_text(TRAINER)
    (program / "pace.py").write_text("STEP_S = 0.5\n")
    write(bench)
    return bench


def write(bench: Bench, **card: Any) -> None:
    bench.write(
        {},
        card={
            "source": {"kind": "folder", "path": "program"},
            "command": ["{source}/train.py", "--iters={steps}"],
            "options": {},
            "axes": AXES,
            "log_format": "timm",
            "rule": "mean-skip-2",
            **card,
        },
        protocol=THREE,
    )


def edit_a_file(bench: Bench) -> None:
    (bench.folder / "program" / "pace.py").write_text("STEP_S = 0.1\n")


def add_a_file(bench: Bench) -> None:
    (bench.folder / "program" / "sitecustomize.py").write_text("")


def edit_the_card(bench: Bench) -> None:
    write(bench, command=["{source}/train.py", "--iters={steps}", "--pace=0.2"])


CHANGES: list[tuple[Callable[[Bench], None], str]] = [
    (
        edit_a_file,
        r"source changed: folder .*/program \(was [0-9a-f]{8}…, now [0-9a-f]{8}…\): pace\.py has changed;",
    ),
    (add_a_file, r"source changed: .*: sitecustomize\.py is new;"),
    (
        edit_the_card,
        r"card changed: fake card fake \(was [0-9a-f]{8}…, now [0-9a-f]{8}…\): command was .* '--pace=0\.2';",
    ),
]


@pytest.mark.parametrize(("change", "reported"), CHANGES)
def test_a_resume_with_another_program_is_refused_by_what_differs(
    foreign: Bench, change: Callable[[Bench], None], reported: str
) -> None:
    foreign.run(StopsAfterOneRun())
    change(foreign)
    listener = Listener()
    with pytest.raises(InputError, match=reported + r" start a new --out, or delete those runs"):
        foreign.run(listener, resume=True)
    assert listener.started == [], "nothing runs before it is refused"


def test_after_the_runs_of_the_old_program_are_deleted_the_new_one_is_measured(foreign: Bench) -> None:
    foreign.run(StopsAfterOneRun())
    edit_a_file(foreign)
    shutil.rmtree(foreign.out / "runs")
    results = foreign.run(resume=True)
    assert [run.measurement and round(run.measurement.throughput) for run in results.cases[0].runs] == [
        40
    ] * 3
    assert len({run.identity and run.identity.digest for run in results.cases[0].runs}) == 1


def test_a_program_that_changes_between_two_repeats_ends_the_campaign(foreign: Bench) -> None:
    class Edits(Silent):
        def run_ended(self, result: RunResult, standing: Progress) -> None:
            edit_a_file(foreign)

    with pytest.raises(InputError, match=r"pace\.py has changed"):
        foreign.run(Edits())
    results = collect_results(read_suite(foreign.out), ResultDirectory(foreign.out), "trainmark run")
    assert len(results.cases[0].runs) == 1


def test_packages_that_change_between_two_repeats_end_the_campaign(foreign: Bench) -> None:
    venv.create(foreign.folder / "venv")
    (packages,) = (foreign.folder / "venv").glob("lib/python3*/site-packages")

    class Installs(Silent):
        def run_ended(self, result: RunResult, standing: Progress) -> None:
            made = packages / "faster-1.0.dist-info"
            made.mkdir()
            (made / "METADATA").write_text("Metadata-Version: 2.1\nName: faster\nVersion: 1.0\n")

    suite = foreign.suite.read_text().replace("environment: system", "environment: ./venv/bin/python")
    foreign.suite.write_text(suite)
    with pytest.raises(InputError, match=r"packages changed: .*: faster is new"):
        foreign.run(Installs())
    results = collect_results(read_suite(foreign.out), ResultDirectory(foreign.out), "trainmark run")
    assert len(results.cases[0].runs) == 1


@pytest.mark.parametrize(
    "name",
    ["ATEN_CPU_CAPABILITY", "JAX_DEFAULT_MATMUL_PRECISION", "TF_NUM_INTRAOP_THREADS", "LD_LIBRARY_PATH"],
)
def test_a_resume_with_a_variable_that_chooses_kernels_is_refused(
    foreign: Bench, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv(name, raising=False)
    foreign.run(StopsAfterOneRun())
    monkeypatch.setenv(name, "1")
    with pytest.raises(InputError, match=rf"variables changed: .*{name} is new"):
        foreign.run(resume=True)


def test_where_compiled_code_lies_is_no_part_of_what_is_run(
    foreign: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign.run(StopsAfterOneRun())
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "/tmp/elsewhere")
    foreign.run(resume=True)


def test_an_untouched_program_is_gone_on_with_though_it_was_moved_and_described_anew(foreign: Bench) -> None:
    foreign.run(StopsAfterOneRun())
    compiled = foreign.folder / "program" / "__pycache__" / "stale.pyc"
    compiled.parent.mkdir(exist_ok=True)
    compiled.write_bytes(b"compiled")
    (foreign.folder / "program").rename(foreign.folder / "elsewhere")
    write(foreign, description="in other words", source={"kind": "folder", "path": "elsewhere"})
    assert len(foreign.run(resume=True).cases[0].runs) == 3


def test_what_a_program_writes_into_its_own_folder_is_a_doubt_until_it_is_ignored(foreign: Bench) -> None:
    program = foreign.folder / "program" / "train.py"
    program.write_text(
        f"import os, sys; open(os.path.join(sys.path[0], 'last.ckpt'), 'w').write(str(os.getpid()))\n{TRAINER}"
    )
    write(foreign, source={"kind": "folder", "path": "program", "ignore": ["*.ckpt"]})
    (case,) = foreign.run().cases
    assert "source-changed" not in {doubt.code for run in case.runs for doubt in run.suspicions}
    other = Bench(foreign.folder, "other")
    write(foreign)
    (foreign.folder / "program" / "last.ckpt").unlink()
    first, second, *_ = other.run().cases[0].runs
    (doubt,) = (one for one in first.suspicions if one.code == "source-changed")
    assert "last.ckpt is new" in doubt.sentence
    assert second.outcome is Outcome.FAILED
    assert re.search(r"last\.ckpt is new; .*'ignore' of the card's source", second.reason or "")


def test_what_a_run_ran_is_in_its_outcome_and_in_the_results(foreign: Bench) -> None:
    (run, *others) = foreign.run().cases[0].runs
    assert run.identity is not None
    assert [part.name.value for part in run.identity.parts] == [
        "card", "source", "commands", "packages", "variables",
    ]  # fmt: skip
    assert {other.identity for other in others} == {run.identity}, "seeds, folders and times are not in it"
    record = json.loads((foreign.out / run.directory / "outcome.json").read_text())
    assert record["identity"]["digest"] == run.identity.digest
    for part in run.identity.parts:
        stored = foreign.out / "identity" / f"{part.digest.removeprefix('sha256:')[:32]}.json"
        assert Entries.model_validate_json(stored.read_bytes()).part == part


def test_a_card_without_a_known_framework_is_named_alone(bench: Bench) -> None:
    bench.write({"framework": UNKNOWN}, card={"framework": UNKNOWN})
    (run, *_) = bench.run().cases[0].runs
    assert run.identity is not None
    assert run.identity.parts[0].word == "card fake"


def test_a_card_without_a_known_framework_has_no_other_name_in_older_results() -> None:
    part = Part(name=PartName.CARD, word="unknown card mine", digest="sha256:00")
    assert part.word == "card mine"


def test_another_directory_on_another_day_gives_the_same_identity(foreign: Bench) -> None:
    one, two = (bench.run().cases[0].runs[0].identity for bench in (foreign, Bench(foreign.folder, "other")))
    assert one == two


def test_mixed_runs_are_not_pooled_by_a_report_or_a_store(foreign: Bench) -> None:
    foreign.run()
    edit_a_file(foreign)
    other = Bench(foreign.folder, "other")
    other.run()
    (there,) = foreign.out.glob("runs/*/3")
    (here,) = other.out.glob("runs/*/3")
    shutil.rmtree(there)
    shutil.copytree(here, there)
    with pytest.raises(
        InputError, match=r"runs 1 and 3 of .* ran different things and are not pooled: source changed"
    ):
        collect_results(read_suite(foreign.out), ResultDirectory(foreign.out), "trainmark run")


def test_runs_of_an_older_trainmark_are_compared_by_their_commands(foreign: Bench) -> None:
    foreign.run(StopsAfterOneRun())
    (path,) = foreign.out.glob("runs/*/1/outcome.json")
    record = json.loads(path.read_text())
    del record["identity"], record["doubts"]
    path.write_text(json.dumps(record))
    assert (
        collect_results(read_suite(foreign.out), ResultDirectory(foreign.out), "").cases[0].runs[0].identity
        is None
    )
    listener = Listener()
    foreign.run(listener, resume=True)
    assert len(listener.ended) == 2
    for folder in foreign.out.glob("runs/*/[23]"):
        shutil.rmtree(folder)
    edit_the_card(foreign)
    with pytest.raises(
        InputError, match=r"run 1 of .* was started by a different command \('' and is now '--pace=0\.2'\)"
    ):
        foreign.run(resume=True)


def test_an_older_directory_that_was_moved_is_still_gone_on_with(foreign: Bench) -> None:
    foreign.run(StopsAfterOneRun())
    (path,) = foreign.out.glob("runs/*/1/outcome.json")
    record = json.loads(path.read_text())
    del record["identity"]
    path.write_text(json.dumps(record))
    foreign.out.rename(foreign.folder / "moved")
    assert len(Bench(foreign.folder, "moved").run(resume=True).cases[0].runs) == 3


def part(name: PartName, **entries: str) -> Entries:
    return Entries(name=name, word="a word", entries=entries)


def test_an_identity_says_which_parts_differ_and_which_are_there_once_only() -> None:
    card, old, new = part(PartName.CARD, a="1"), part(PartName.SOURCE, f="1"), part(PartName.SOURCE, f="2")
    was, now = Identity.of((card.part, old.part)), Identity.of((card.part, new.part))
    assert was.describe_changes(was) == ""
    assert was.describe_changes(now) == (
        f"source changed: a word (was {old.part.digest[7:15]}…, now {new.part.digest[7:15]}…)"
    )
    assert (
        Identity.of((card.part,)).describe_changes(was).endswith(f"(was none, now {old.part.digest[7:15]}…)")
    )


def test_a_file_is_read_again_only_when_it_changed(tmp_path: Path) -> None:
    trees = Trees()
    (tmp_path / "a.py").write_text("1")
    before = trees.digests(tmp_path)
    (tmp_path / "a.py").write_text("2")
    (tmp_path / "link.py").symlink_to("a.py")
    after = trees.digests(tmp_path)
    assert before["a.py"] != after["a.py"] == after["link.py"]


def test_a_large_files_ends_and_size_are_part_of_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "train.bin"
    with path.open("wb") as file:
        file.truncate(WHOLE_BYTES + 1)
    found = [Trees().digests(tmp_path)["train.bin"]]
    for place in (0, WHOLE_BYTES):
        with path.open("r+b") as file:
            file.seek(place)
            file.write(b"x")
        found.append(Trees().digests(tmp_path)["train.bin"])
    assert len(set(found)) == 3


def test_results_and_virtual_environments_in_a_programs_folder_are_no_part_of_it(tmp_path: Path) -> None:
    for name in ("train.py", "results/suite.yaml", "results/.lock", ".venv/pyvenv.cfg", ".git/HEAD"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert list(Trees().digests(tmp_path)) == ["train.py"]
