"""The callbacks for other libraries, in trainings by these libraries, against a clock of the training script."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from frameworks import framework_python, in_frameworks
from trainmark.node import free_ports

SOURCE = Path(__file__).parents[2] / "src"
WARMUP, STEPS = 4, 34

HEAD = """\
import time
ends = []
def report(work, steps=30):
    print("outside", steps, work * steps / (ends[-1] - ends[-1 - steps]))
"""

KERAS = (
    HEAD
    + """\
import keras, numpy as np
from trainmark.integrations import KerasCallback
class Clock(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.01)
        ends.append(time.perf_counter())
model = keras.Sequential([keras.layers.Dense(64, activation="relu"), keras.layers.Dense(1)])
model.compile(optimizer="sgd", loss="mse")
x, y = np.random.rand(34 * 16, 32).astype("float32"), np.random.rand(34 * 16, 1).astype("float32")
ours = KerasCallback(16, warmup=4)
model.fit(x, y, batch_size=16, epochs=1, verbose=0, callbacks=[Clock(), ours])
report(16)
"""
)

HUGGING_FACE = (
    HEAD
    + """\
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainerCallback, TrainingArguments
from trainmark.integrations import HuggingFaceCallback
class Clock(TrainerCallback):
    def on_step_end(self, *args, **kwargs):
        time.sleep(0.02)
        ends.append(time.perf_counter())
torch.set_num_threads(1)
config = GPT2Config(n_layer=1, n_head=2, n_embd=32, vocab_size=64, n_positions=16)
row = {"input_ids": torch.zeros(16, dtype=torch.long), "labels": torch.zeros(16, dtype=torch.long)}
args = TrainingArguments(
    output_dir="out", per_device_train_batch_size=4, gradient_accumulation_steps=2, max_steps=34, report_to=[],
    disable_tqdm=True, save_strategy=SAVE, use_cpu=True, save_steps=10,
)
Trainer(
    GPT2LMHeadModel(config), args, train_dataset=[row] * 8 * 34,
    callbacks=[Clock(), HuggingFaceCallback(unit="tokens", warmup=4)],
).train()
report(8 * 16)
"""
)

LIGHTNING = (
    HEAD
    + """\
import lightning, torch
from trainmark.integrations import LightningCallback
class Clock(lightning.Callback):
    def on_train_batch_end(self, *args, **kwargs):
        time.sleep(0.02)
        ends.append(time.perf_counter())
class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)
    def training_step(self, batch, index):
        return self.layer(batch[0]).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)
torch.set_num_threads(1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.rand(34 * 16, 8)), batch_size=16)
trainer = lightning.Trainer(
    max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
    callbacks=[Clock(), LightningCallback(warmup=4)],
)
trainer.fit(Module(), loader)
report(16)
"""
)


def output(python: str, text: str, folder: Path) -> list[str]:
    """Run a training script; return the line of trainmark and that of its own clock."""
    (folder / "train.py").write_text(text, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "CUDA_VISIBLE_DEVICES": ""}
    ran = subprocess.run(
        [python, "train.py"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    return [line for line in ran.stdout.splitlines() if line.startswith(("trainmark: ", "outside "))]


def numbers(lines: list[str]) -> tuple[float, float]:
    ours, outside = lines
    assert f"({STEPS - WARMUP} steps in" in ours, ours
    return float(ours.split()[1]), float(outside.split()[2])


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the Python of a venv with transformers and Lightning, over the environment of PyTorch."""
    folder = tmp_path_factory.mktemp("libraries")
    base = framework_python("pytorch")
    subprocess.run([base, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    show = "import site; print(site.getsitepackages()[0])"
    ours, theirs = (subprocess.check_output([one, "-c", show], text=True).strip() for one in (python, base))
    (Path(ours) / "pytorch.pth").write_text(theirs + "\n", encoding="utf-8")
    installed = subprocess.run(
        [python, "-m", "pip", "install", "--quiet", "transformers", "accelerate", "lightning"],
        capture_output=True,
        text=True,
        check=False,
    )
    if installed.returncode:
        pytest.skip(f"transformers and lightning cannot be installed: {installed.stderr.splitlines()[-1]}")
    return python


def marked(*frameworks: str, rarely: bool) -> list[pytest.MarkDecorator]:
    return [*in_frameworks(*frameworks, rarely=rarely), pytest.mark.training]


@pytest.mark.parametrize(
    "python",
    [pytest.param(framework_python("tensorflow"), marks=marked("tensorflow", rarely=False))],
    ids=["keras"],
)
def test_keras_is_measured_as_by_a_clock_outside(python: str, tmp_path: Path) -> None:
    ours, outside = numbers(output(python, KERAS, tmp_path))

    assert ours == pytest.approx(outside, rel=0.01)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(HUGGING_FACE.replace("SAVE", '"no"'), marks=marked("pytorch", rarely=True)),
        pytest.param(LIGHTNING, marks=marked("pytorch", rarely=True)),
    ],
    ids=["hugging-face", "lightning"],
)
def test_a_trainer_is_measured_as_by_a_clock_outside(text: str, libraries: str, tmp_path: Path) -> None:
    lines = output(libraries, text, tmp_path)
    ours, outside = numbers(lines)

    assert ours == pytest.approx(outside, rel=0.01)
    assert "in doubt" not in lines[0]


@pytest.mark.parametrize("library", [pytest.param("hf", marks=marked("pytorch", rarely=True))])
def test_checkpoints_within_the_window_put_the_number_in_doubt(
    library: str, libraries: str, tmp_path: Path
) -> None:
    (ours, _) = output(libraries, HUGGING_FACE.replace("SAVE", '"steps"'), tmp_path)

    assert "in doubt: the window contains a checkpoint (3 times)" in ours


@pytest.mark.process
def test_a_library_that_is_missing_is_an_import_error_that_names_it() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", "from trainmark.integrations import HuggingFaceCallback"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert "No module named 'transformers'" in ran.stderr


RANKS = (
    HEAD
    + """\
import torch.distributed as dist
import trainmark as tm
dist.init_process_group("gloo")
rank = dist.get_rank()
with tm.measure(unit="tokens", warmup=4) as m:
    for step in range(34):
        dist.barrier()
        time.sleep(0.01)
        m.step(100 + rank)
        ends.append(time.perf_counter())
if rank == 0:
    report(201)
"""
)


def of_two_ranks(folder: Path) -> list[str]:
    """Run the script on two ranks of a process group; return the lines of rank 0."""
    (folder / "train.py").write_text(RANKS, encoding="utf-8")
    where = {"PYTHONPATH": str(SOURCE), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_ports(1))}
    processes = [
        subprocess.Popen(
            [framework_python("pytorch"), "train.py"],
            cwd=folder,
            env=os.environ | where | {"WORLD_SIZE": "2", "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    outputs = [process.communicate(timeout=200)[0] for process in processes]
    assert [line for line in outputs[1].splitlines() if line.startswith("trainmark")] == []
    return outputs[0].splitlines()


@pytest.mark.parametrize("_", [pytest.param(None, marks=marked("pytorch", rarely=True))], ids=["pytorch"])
def test_rank_0_adds_the_work_of_all_ranks(_: None, tmp_path: Path) -> None:
    ours, outside = numbers(of_two_ranks(tmp_path))

    assert ours == pytest.approx(outside, rel=0.02)


LATER = """
import time
import trainmark
{setup}
with trainmark.measure(unit="samples", warmup=4) as m:
    for number in range(16):
        state = step(state)
        m.step(1)
        if number == 3:
            {wait}
            began = time.perf_counter()
{wait}
print("outside", 12 / (time.perf_counter() - began))
"""
JAX = """
import jax, jax.numpy as jnp
@jax.jit
def step(state):
    for _ in range(12):
        state = jnp.tanh(state @ state) * 0.01
    return state
state = step(jnp.ones((500, 500)))
"""
MXNET = """
import mxnet as mx
def step(state):
    for _ in range(12):
        state = mx.nd.tanh(mx.nd.dot(state, state)) * 0.01
    return state
state = step(mx.nd.ones((500, 500)))
"""
MINDSPORE = """
from mindspore import ops
def step(state):
    for _ in range(12):
        state = ops.tanh(ops.matmul(state, state)) * 0.01
    return state
state = step(ops.ones((500, 500)))
"""


@pytest.mark.parametrize(
    ("python", "setup", "wait"),
    [
        pytest.param(
            framework_python("jax"), JAX, "state.block_until_ready()", marks=marked("jax", rarely=False)
        ),
        pytest.param(
            framework_python("mxnet"), MXNET, "state.wait_to_read()", marks=marked("mxnet", rarely=False)
        ),
    ],
    ids=["jax", "mxnet"],
)
def test_a_framework_that_computes_later_is_waited_for(
    tmp_path: Path, python: str, setup: str, wait: str
) -> None:
    ours, outside = output(python, LATER.format(setup=setup, wait=wait), tmp_path)

    # Without the wait it was 3 to 300 times as high.
    assert float(ours.split()[1]) == pytest.approx(float(outside.split()[1]), rel=0.1)
    assert "in doubt" not in ours


@pytest.mark.parametrize(
    "python", [pytest.param(framework_python("mindspore"), marks=marked("mindspore", rarely=True))], ids=[""]
)
def test_a_framework_that_cannot_be_waited_for_puts_the_number_in_doubt(tmp_path: Path, python: str) -> None:
    ours, _ = output(python, LATER.format(setup=MINDSPORE, wait="state.asnumpy()"), tmp_path)

    assert "in doubt: MindSpore computes after its calls return" in ours
