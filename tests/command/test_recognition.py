"""What a command line shows about its program."""

from pathlib import Path

import pytest

from trainmark.workload import program_files, program_name, recognise


@pytest.mark.parametrize(
    ("command", "launcher", "devices"),
    [
        ("python train.py", "python", 1),
        ("env A=1 python3 train.py", "python", 1),
        ("torchrun train.py", "torchrun", 1),
        ("torchrun --nproc-per-node 4 train.py", "torchrun", 4),
        ("torchrun --nproc_per_node=2 train.py", "torchrun", 2),
        ("torchrun --nproc-per-node=gpu train.py", "torchrun", None),
        ("python -m torch.distributed.run --nproc-per-node 8 train.py", "torchrun", 8),
        ("accelerate launch --num_processes 2 train.py", "accelerate", 2),
        ("accelerate launch train.py", "accelerate", None),
        ("deepspeed --num_gpus 4 train.py", "deepspeed", 4),
        ("mpirun -np 2 python train.py", "mpirun", 2),
        ("srun -n 16 python train.py", "srun", 16),
        ("bash train.sh", None, None),
    ],
)
def test_the_launcher_says_how_many_processes_there_are(
    command: str, launcher: str | None, devices: int | None, tmp_path: Path
) -> None:
    found = recognise(command.split(), tmp_path, {"PATH": ""})

    assert (found.launcher, found.devices) == (launcher, devices)


@pytest.mark.parametrize(
    ("source", "framework"),
    [
        ("import torch\nfrom torch import nn\n", "pytorch"),
        ("from flax import linen\nimport jax\n", "jax"),
        ("import numpy\n", None),
        ("import torch\nimport tensorflow\n", None),
        ("def broken(:\n", None),
    ],
)
def test_the_framework_is_the_one_that_the_script_imports(
    source: str, framework: str | None, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(source)

    found = recognise(["python", "train.py"], tmp_path, {"PATH": ""})

    assert (found.framework, found.script) == (framework, tmp_path / "train.py")


@pytest.mark.parametrize(
    ("command", "name", "framework"),
    [
        ("python -m examples.mnist_classifier --epochs 2", "mnist_classifier", "jax"),
        ("python -m trainer", "trainer", "pytorch"),
        ("python -m torch.distributed.run pretrain.py", "pretrain", "pytorch"),
        ("python -m litgpt.pretrain", "pretrain", None),
        ("env A=1 python3.11 -u -m examples.mnist_classifier", "mnist_classifier", "jax"),
        ("litgpt pretrain pythia-14m", "litgpt", None),
    ],
)
def test_a_module_is_a_program_like_its_file(
    command: str, name: str, framework: str | None, tmp_path: Path
) -> None:
    for folder in ("examples", "trainer"):
        (tmp_path / folder).mkdir()
    (tmp_path / "examples" / "mnist_classifier.py").write_text("import jax\n")
    (tmp_path / "trainer" / "__main__.py").write_text("import torch\n")
    (tmp_path / "pretrain.py").write_text("import numpy\n")

    found = recognise(command.split(), tmp_path, {"PATH": ""})

    assert (program_name(command.split(), found, tmp_path), found.framework) == (name, framework)
    if found.script is not None:
        assert str(found.script) in program_files(command.split(), found, tmp_path)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["bash", "train.sh"], "train"),
        (["sh", "-e", "./scripts/pretrain.sh", "--steps", "20"], "pretrain"),
        (["./train_gpt.sh", "8"], "train_gpt"),
        (["srun", "-n", "8", "bash", "run.sh"], "run"),
        (["env", "A=1", "bash", "-x", "launch"], "launch"),
        (["bash", "-c", "cd src && python finetune.py --lr 1e-4; date"], "finetune"),
        (["bash", "-lc", "make train"], "bash"),
        (["make", "train"], "make"),
    ],
)
def test_a_shell_is_named_by_its_script(words: list[str], name: str, tmp_path: Path) -> None:
    assert program_name(words, recognise(words, tmp_path, {"PATH": ""}), tmp_path) == name


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("imagenet/main.py", "imagenet"),
        ("nanoGPT/train.py", "nanoGPT"),
        ("nanoGPT/src/train.py", "nanoGPT"),
        ("nanoGPT/scripts/run.py", "nanoGPT"),
        ("nanoGPT/pretrain.py", "pretrain"),
        ("nanoGPT/scripts/train.sh", "nanoGPT"),
        ("train.py", "train"),
        ("src/main.py", "main"),
    ],
)
def test_a_script_with_a_common_name_is_named_by_its_project(
    script: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / script).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / script).touch()

    # By its path from elsewhere, and in its own folder.
    launchers = [["bash"], []] if script.endswith(".sh") else [["python"], ["torchrun"]]
    for launcher, here in zip(launchers, (tmp_path, (tmp_path / script).parent), strict=True):
        words = [*launcher, f"./{(tmp_path / script).relative_to(here)}"]
        assert program_name(words, recognise(words, here, {"PATH": ""}), here) == name


def test_a_script_in_a_folder_above_is_named_by_its_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    here = tmp_path / "nanoGPT" / "runs"
    here.mkdir(parents=True)
    (tmp_path / "nanoGPT" / "train.py").touch()
    words = ["python", "../train.py"]

    assert program_name(words, recognise(words, here, {"PATH": ""}), here) == "nanoGPT"


def test_the_program_is_its_script_and_the_sources_next_to_it(tmp_path: Path) -> None:
    for name in (
        "train.py",
        "model.py",
        "config.yaml",
        "weights.bin",
        "out/log.txt",
        "pkg/net.py",
        ".git/x.py",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("pass\n")
    words = ["python", "train.py", "weights.bin"]

    files = program_files(words, recognise(words, tmp_path, {"PATH": ""}), tmp_path)

    names = [str(Path(path).relative_to(tmp_path.resolve())) for path in files]
    assert names == ["train.py", "weights.bin", "config.yaml", "model.py", "pkg/net.py"]


@pytest.mark.parametrize("marker", ["suite.yaml", "command.yaml", "blocks.json", "bisect.json"])
def test_results_next_to_a_program_are_no_part_of_it(marker: str, tmp_path: Path) -> None:
    (tmp_path / "results" / "pair").mkdir(parents=True)
    for name in ("train.py", f"results/pair/{marker}", "results/pair/card.yaml"):
        (tmp_path / name).write_text("pass\n")
    words = ["python", "train.py"]

    files = program_files(words, recognise(words, tmp_path, {"PATH": ""}), tmp_path)

    assert files == (str((tmp_path / "train.py").resolve()),)


def test_the_python_of_mpirun_is_one_of_its_words(tmp_path: Path) -> None:
    python = tmp_path / "python3"
    python.touch(mode=0o755)

    found = recognise(["mpirun", "-np", "2", str(python), "train.py"], tmp_path, {"PATH": "/usr/bin"})

    assert found.interpreter == python


def test_a_relative_python_is_that_of_the_folder_in_which_the_command_starts(tmp_path: Path) -> None:
    (tmp_path / "base").touch(mode=0o755)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(tmp_path / "base")

    found = recognise([".venv/bin/python", "train.py"], tmp_path, {"PATH": "/usr/bin"})

    assert found.interpreter == python
    assert found.launcher == "python"
