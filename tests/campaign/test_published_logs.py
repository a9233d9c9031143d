"""Logs under the names that a community expects, beside the runs' own folders."""

from fakes import Bench

TWICE = {"name": "adaptive", "steps": 12, "warmup_steps": 2, "repeats": 2}


def test_ngc_names_lead_to_the_untouched_logs(bench: Bench) -> None:
    bench.write({"batch_per_device": 256, "devices_per_node": 2}, naming="ngc", protocol=TWICE)
    results = bench.run()
    runs = results.cases[0].runs
    assert [run.log for run in runs] == ["logs/fake_gpu2_fp32_bs256.txt", "logs/fake_gpu2_fp32_bs256_r2.txt"]
    for run in runs:
        assert run.log is not None
        link = bench.out / run.log
        assert link.is_symlink()
        assert link.resolve() == (bench.out / run.directory / "train.log").resolve()
        assert b"step 2/12" in link.read_bytes()


def test_links_survive_a_move_of_the_directory(bench: Bench) -> None:
    bench.write(naming="dlperf")
    bench.run()
    moved = bench.out.rename(bench.folder / "moved")
    (link,) = (path for path in moved.glob("logs/*/*") if path.is_symlink())
    assert link.name == "good_b4_fp32_1.log"
    assert link.resolve().is_file()


def test_a_run_that_never_started_has_no_log(bench: Bench) -> None:
    bench.write({"nodes": 2}, naming="ngc")
    bench.run()
    assert not (bench.out / "logs").exists()
