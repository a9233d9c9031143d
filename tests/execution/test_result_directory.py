"""Who may use a result directory, and what stays when it is refused."""

import json
import os
import re
from pathlib import Path

import pytest

from fakes import Bench
from trainmark.errors import InputError
from trainmark.execution import ResultDirectory, open_results, read_suite, write_record
from trainmark.schema.case import case_of
from trainmark.schema.outcome import Outcome, OutcomeRecord
from trainmark.schema.suite import Limits


def test_a_folder_with_other_things_in_it_is_refused_and_stays_as_it_was(bench: Bench) -> None:
    bench.write()
    bench.out.mkdir()
    (bench.out / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="is neither empty nor a result directory; give another --out"):
        bench.run()
    assert [path.name for path in bench.out.iterdir()] == ["thesis.tex"]


def test_the_directory_of_another_suite_is_refused_by_name(bench: Bench) -> None:
    bench.write(name="first")
    bench.run()
    bench.write(name="second")
    with pytest.raises(
        InputError, match=r"belongs to another suite \('first', .*suite\.yaml\), or to this one before"
    ):
        bench.run(resume=True)


def test_finished_runs_are_not_overwritten_without_resume(bench: Bench) -> None:
    bench.write()
    bench.run()
    with pytest.raises(
        InputError,
        match="holds finished runs of this suite; add --resume to continue, or",
    ):
        bench.run()


def test_more_runs_can_be_added_later_and_fewer_are_refused(bench: Bench) -> None:
    def protocol(repeats: int) -> dict[str, object]:
        return {"name": "adaptive", "steps": 12, "warmup_steps": 2, "repeats": repeats}

    bench.write(protocol=protocol(1))
    bench.run()
    bench.write(protocol=protocol(3))
    with pytest.raises(InputError, match="holds finished runs of this suite; add --resume"):
        bench.run()
    (case,) = bench.run(resume=True).cases
    assert [run.repeat for run in case.runs] == [1, 2, 3]
    assert read_suite(bench.out).protocol.min_repeats == 3
    bench.write(protocol=protocol(2))
    with pytest.raises(InputError, match="was started with 3 to 3 runs per case; their number can be raised"):
        bench.run(resume=True)


def test_the_suite_as_resolved_can_be_run_from_the_directory_itself(bench: Bench) -> None:
    bench.write({}, {"batch_per_device": 8})
    bench.run()
    again = Bench(bench.folder / "elsewhere")
    again.folder.mkdir()
    again.suite.symlink_to(bench.out / "suite.yaml")
    assert len(again.run().cases) == 2


def test_a_suite_that_an_older_trainmark_wrote_in_other_words_is_the_same_suite(bench: Bench) -> None:
    bench.write()
    bench.run()
    there = bench.out / "suite.yaml"
    there.write_text(f"# written by another version\n{there.read_text()}")
    assert bench.run(resume=True).complete


def test_a_raised_limit_goes_on_with_the_finished_runs_and_is_recorded(bench: Bench) -> None:
    bench.write(limits={"timeout_s": 60, "memory": "8GiB"})
    before = bench.run()
    bench.write(limits={"timeout_s": 90})
    after = bench.run(resume=True)
    runs = [[run.started_at for run in found.runs] for found in (before.cases[0], after.cases[0])]
    assert runs[0] == runs[1]
    assert read_suite(bench.out).limits == Limits(timeout_s=90)


@pytest.mark.parametrize(
    ("limits", "lowered"),
    [
        ({"timeout_s": 50}, "limits.timeout_s is 50, and was 60"),
        ({"timeout_s": 60, "memory": "8GiB"}, "limits.memory is 8589934592, and was none"),
    ],
)
def test_a_lowered_limit_is_refused_by_name(bench: Bench, limits: dict[str, object], lowered: str) -> None:
    bench.write(limits={"timeout_s": 60})
    bench.run()
    bench.write(limits=limits)
    with pytest.raises(InputError, match=f"{re.escape(lowered)}; .*raised later, not lowered"):
        bench.run(resume=True)
    assert read_suite(bench.out).limits == Limits(timeout_s=60)


def test_a_file_is_no_result_directory(bench: Bench) -> None:
    bench.write()
    bench.out.write_text("")
    with pytest.raises(InputError, match="cannot be made a result directory"):
        bench.run()


def test_a_living_owner_keeps_others_out_and_is_named(bench: Bench) -> None:
    suite = bench.write()
    reported = f"is in use by process {os.getpid()}; wait for it"
    with open_results(bench.out, suite, resume=False, hosts=()), pytest.raises(InputError, match=reported):
        bench.run()
    assert bench.run().complete


def test_what_a_killed_owner_left_half_written_is_no_obstacle(bench: Bench) -> None:
    bench.write()
    bench.out.mkdir()
    (bench.out / ".lock").write_text("process 1")
    (bench.out / ".suite.yaml.4711.tmp").write_text("name: fak")
    assert bench.run().complete
    assert not list(bench.out.glob(".*.tmp"))


def test_an_interrupted_attempt_is_set_aside_and_not_lost(bench: Bench) -> None:
    (case,) = bench.write().cases
    directory = ResultDirectory(bench.out)
    folder = directory.run(case, 1)
    for _ in range(2):
        directory.begin(folder)
        (folder / "train.log").write_text("half")
    directory.begin(folder)
    assert sorted(path.name for path in folder.parent.iterdir()) == [
        "1",
        "1.interrupted-1",
        "1.interrupted-2",
    ]
    assert directory.finished(case) == {}


def test_an_outcome_that_cannot_be_read_is_reported_by_its_path(tmp_path: Path, bench: Bench) -> None:
    (case,) = bench.write().cases
    directory = ResultDirectory(tmp_path)
    folder = directory.run(case, 1)
    directory.begin(folder)
    write_record(folder, OutcomeRecord(case_id=case.id, repeat=1, outcome=Outcome.OK))
    assert list(directory.finished(case)) == [1]
    (folder / "outcome.json").write_text('{"outcome": "o')
    assert directory.finished(case) == {}
    (reported,) = directory.set_damaged_aside()
    assert reported.startswith(f"{folder / 'outcome.json'}: damaged; its run counts as interrupted")
    assert (tmp_path / "runs" / case.id / "1.interrupted-1").is_dir()


def test_an_outcome_document_has_its_schema_and_no_unknown_key(bench: Bench) -> None:
    bench.write()
    bench.run()
    document = json.loads(next(bench.out.glob("runs/*/1/outcome.json")).read_text())
    assert document["schema_name"] == "trainmark.outcome/1"
    assert sorted(document) == sorted(OutcomeRecord.model_fields)


TOO_MUCH = "it used 9 bytes of memory, more than 8 (limits.memory)"


@pytest.mark.parametrize(
    ("run", "left"),
    [
        (None, {"probe-b1", "probe-b2.interrupted-1"}),
        (
            (Outcome.OOM, f"no batch fits: {TOO_MUCH}"),
            {"probe-b1", "probe-b2.interrupted-1", "1.interrupted-1"},
        ),
        ((Outcome.OK, None), {"probe-b1", "probe-b2", "1"}),
        ((Outcome.OOM, "the GPU has no more"), {"probe-b1", "probe-b2", "1"}),
    ],
    ids=["no run", "no batch", "a run of the batch", "no memory"],
)
def test_a_case_without_a_run_searches_its_batch_again_within_higher_limits(
    tmp_path: Path, run: tuple[Outcome, str | None] | None, left: set[str]
) -> None:
    case, directory = case_of(batch_per_device="max"), ResultDirectory(tmp_path)
    ends = {directory.probe(case, 1): (Outcome.OK, None), directory.probe(case, 2): (Outcome.OOM, TOO_MUCH)}
    if run is not None:
        ends[directory.run(case, 1)] = run
    for folder, (outcome, reason) in ends.items():
        folder.mkdir(parents=True)
        write_record(folder, OutcomeRecord(case_id=case.id, repeat=1, outcome=outcome, reason=reason))

    directory.set_failed_aside([case])

    assert {folder.name for folder in directory.probe(case, 1).parent.iterdir()} == left
