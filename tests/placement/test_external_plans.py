"""The plans of the external programs for the commands of the original documents, held by golden files.

``TRAINMARK_UPDATE_GOLDEN=1 pytest`` writes them anew. No container engine and no network were at hand when they were
written: they hold what would be run, not that it was.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from trainmark.campaign import run_environment
from trainmark.cli.main import main
from trainmark.node import local
from trainmark.schema.plan import NodeResources
from trainmark.suite import load_suite, log_name
from trainmark.workload import card

SUITES = Path(__file__).parents[2] / "suites"
GOLDEN = Path(__file__).with_name("golden") / "external"
EXTERNAL = sorted(path.stem for path in SUITES.glob("external-*.yaml"))
DGX = NodeResources(cores=80, gpus=8)


@pytest.fixture(autouse=True)
def _somebody_elses_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "this_machine", lambda _host: DGX)
    monkeypatch.setattr(run_environment, "user_and_group", lambda: "1000:1000")
    monkeypatch.setenv("TRAINMARK_HOME", "/trainmark")
    # The generator of stand-ins is a part of this checkout, run by its interpreter.
    monkeypatch.setattr(card, "sys", SimpleNamespace(executable="/usr/bin/python3"))
    monkeypatch.setattr(card, "_GENERATE", Path("/usr/lib/trainmark/workload/generate.py"))


_PLANS: dict[Path, str] = {}
"""The plans of whole suites, each made once."""


def planned(capsys: pytest.CaptureFixture[str], suite: Path) -> str:
    if suite not in _PLANS:
        assert main(["plan", str(suite), "--out", "/results"]) == 0
        _PLANS[suite] = capsys.readouterr().out
    return _PLANS[suite]


def commands(text: str) -> Iterator[str]:
    return (line for line in text.splitlines() if line and not line.startswith("#"))


@pytest.mark.parametrize("name", EXTERNAL)
def test_an_external_suites_plan_reads_as_its_golden_file(
    capsys: pytest.CaptureFixture[str], name: str
) -> None:
    text = planned(capsys, SUITES / f"{name}.yaml")
    golden = GOLDEN / f"{name}.txt"
    if os.environ.get("TRAINMARK_UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", EXTERNAL)
def test_every_case_of_an_external_suite_has_a_command(capsys: pytest.CaptureFixture[str], name: str) -> None:
    text = planned(capsys, SUITES / f"{name}.yaml")
    for block in text.split("\n\n")[1:]:
        assert list(commands(block)), block
    reported = set(re.findall(r"# cannot run here: (.*)", text))
    assert all("nodes are required" in reason for reason in reported), reported


def planned_in(capsys: pytest.CaptureFixture[str], tmp_path: Path, engine: str, name: str, cases: str) -> str:
    suite = tmp_path / "suite.yaml"
    text = (SUITES / f"{name}.yaml").read_text(encoding="utf-8")
    suite.write_text(text.replace("protocol:", f"environment: {engine}\nprotocol:", 1), encoding="utf-8")
    assert main(["plan", str(suite), "--out", "/results", "--only", cases]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("external-ngc-pytorch-21.03", "precision=amp-fp16,devices_per_node=8,nodes=1"),
        ("external-pytorch-imagenet", "batch_per_device=128,devices_per_node=4"),
        ("external-ngc-tensorflow-xla", "devices_per_node=4"),
    ],
)
def test_the_same_case_in_apptainer_reads_as_its_golden_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, cases: str
) -> None:
    text = planned_in(capsys, tmp_path, "apptainer", name, cases)
    golden = GOLDEN / f"apptainer-{name.removeprefix('external-')}.txt"
    if os.environ.get("TRAINMARK_UPDATE_GOLDEN"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")


def test_docker_is_an_environment_of_a_card_that_has_a_venv_too(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    name, cases = "external-pytorch-imagenet", "batch_per_device=128,devices_per_node=1"
    (line,) = (
        line for line in commands(planned_in(capsys, tmp_path, "docker", name, cases)) if "docker run" in line
    )
    assert "pytorch/pytorch:1.6.0-cuda10.1-cudnn7-runtime python " in line


def names_of_logs(suite: str) -> set[str]:
    loaded = load_suite(SUITES / f"{suite}.yaml")
    return {log_name(case, repeat, loaded.naming) for case in loaded.cases for repeat in (1, 2, 3, 4, 5)}


NGC_LOGS = [
    f"pytorch_gpu{gpus}_{precision}_bs{batch}.txt"
    for gpus in (1, 8)
    for precision in ("fp32", "amp")
    for batch in (128, 256)
]
DLPERF_PLACES = ("1n1g", "1n4g", "1n8g", "2n8g", "4n8g")


@pytest.mark.parametrize(
    ("suite", "listed"),
    [
        ("external-ngc-pytorch-20.07", NGC_LOGS),
        ("external-ngc-pytorch-21.03", [name for name in NGC_LOGS if "bs256" in name]),
        (
            "external-ngc-tensorflow",
            [f"{place}/r50_b128_fp32_{repeat}.log" for place in DLPERF_PLACES for repeat in (1, 2, 3, 4, 5)],
        ),
        ("external-ngc-tensorflow", [f"{place}/r50_b224_amp_1.log" for place in DLPERF_PLACES]),
        ("external-ngc-tensorflow-xla", [f"{place}/r50_b224_amp_1.log" for place in DLPERF_PLACES]),
        (
            "external-gluon-cv",
            ["clas_MobileNetV1_sp_bs64_fp32_1_speed", "clas_MobileNetV1_mp_bs64_fp32_8_speed"],
        ),
        ("dlperf-fp32", ["1n8g/r50_b128_fp32_1.log"]),
        ("dlperf-amp", ["1n8g/r50_b224_amp_1.log"]),
        ("dlperf-amp-compiled", ["1n8g/r50_b224_amp_1.log"]),
    ],
)
def test_logs_have_the_names_that_the_document_lists(suite: str, listed: list[str]) -> None:
    assert set(listed) <= names_of_logs(suite)


class Command(NamedTuple):
    """A command of an original document: the suite and cases that plan it, and what must stand in the plan.

    ``words`` stand in every program that is started, ``absent`` in none; ``before`` stands somewhere in the plan.
    """

    document: str
    suite: str
    cases: str
    programs: int
    words: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    before: tuple[str, ...] = ()


FIRST, SECOND = "external-ngc-pytorch-20.07", "external-ngc-pytorch-21.03"
TF, XLA, DATA = "external-ngc-tensorflow", "external-ngc-tensorflow-xla", "external-ngc-tensorflow-data"
GLUON = "external-gluon-cv"
TEST_ALL = ("--arch resnet50", "--training-only -p 1 --raport-file ", "--epochs 1 --prof 100 ", " /imagenet")
SCALE = "--static-loss-scale 256"
DLPERF = (
    "--mode=train ",
    "--iter_unit=batch --num_iter=120 ",
    "--use_cosine_lr --label_smoothing=0.1 --lr_init=0.256 --lr_warmup_epochs=8 --momentum=0.875 "
    "--weight_decay=3.0517578125e-05 --weight_init=fan_in",
    "--display_every=1",
)
DLPERF_AMP = (*DLPERF, "--use_tf_amp", "--use_static_loss_scaling --loss_scale=128")
WITH_DALI = ("--data_dir=/data/tfrecords ", "--use_dali --data_idx_dir=/trainmark/prepared/")
NOT_AMP = ("--use_tf_amp", "loss_scal", "--use_xla")
RECIPE = (
    "cosine",
    "label_smoothing",
    "loss_scal",
    "lr_",
    "momentum",
    "weight_",
    "--use_dali",
    "--mode=train ",
)
CHECKOUT = "fetch --quiet --depth 1 --no-tags https://github.com/NVIDIA/DeepLearningExamples "

PT_BERT, TF_BERT, MEGATRON, OF_GPT = (
    "external-ngc-pytorch-bert",
    "external-ngc-tensorflow-bert",
    "external-megatron-lm-gpt",
    "external-oneflow-gpt",
)
WIDE, HUGECTR = "external-oneflow-wide-deep", "external-hugectr-wide-deep"
BERT = ("=128 ", "max_predictions_per_seq=20 ")
"""128 tokens, of which 20 are predicted."""

PUBLISHED: list[Command] = [
    *(
        Command(
            f"DLPerf, NGC PyTorch BERT: run_single_node.sh, batch {batch}, {precision}, {gpus}",
            *(PT_BERT, f"nodes=1,devices_per_node={gpus},batch_per_device={batch},precision={precision}", 1),
            words=(
                *BERT,
                f"--train_batch_size={batch} ",
                "--max_steps=150 ",
                "--learning_rate=0.006 --warmup_proportion=1 ",
                *(("--fp16 ",) if precision == "amp-fp16" else ()),
                *(
                    ("-mtorch.distributed.launch --master_addr ", f"--nproc_per_node {gpus} ")
                    if gpus > 1
                    else ()
                ),
            ),
            absent=() if precision == "amp-fp16" else ("--fp16",),
            before=(
                f"{CHECKOUT}5cc03caa153faab7a2c3b1b5b5d63663f06ce1b4",
                "nvcr.io/nvidia/pytorch:20.03-py3",
            ),
        )
        for gpus in (1, 8)
        for batch, precision in ((32, "fp32"), (96, "amp-fp16"))
    ),
    *(
        Command(
            f"DLPerf, NGC TensorFlow BERT: {script} {precision} {compiler}",
            *(TF_BERT, f"{cases},batch_per_device=64,compiler={compiler}", 1),
            words=(
                *BERT,
                "--train_batch_size=64 --num_train_steps=120 ",
                "--num_accumulation_steps=1 ",
                "--optimizer_type=adam ",
                "--use_fp16 ",
                *(("--use_xla ",) if compiler == "xla" else ()),
                *ranks,
            ),
            absent=(*(() if compiler == "xla" else ("xla ",)), *(() if ranks else ("--horovod", "mpirun"))),
            before=(f"{CHECKOUT}fed7ba99cde958fda12c9e81d12b3d7e738e0590",),
        )
        for precision, compiler in (("fp16", "none"), ("fp16", "xla"))
        for script, cases, ranks in (
            ("run_single_node.sh (1)", "nodes=1,devices_per_node=1", ()),
            ("run_single_node.sh (8)", "nodes=1,devices_per_node=8", ("mpirun ", " -np 8 ", "--horovod ")),
            ("run_multi_node.sh", "nodes=4", (" -np 32 ", "NODE0:8,NODE1:8,NODE2:8,NODE3:8 ", "--horovod ")),
        )
    ),
    Command(
        "PaddlePaddle/Perf, PaddleNLP BERT: 32 devices",
        *("external-paddlenlp-bert", "nodes=4,precision=amp-fp16", 4),
        words=(
            "-m paddle.distributed.launch --ips=NODE0,NODE1,NODE2,NODE3 --gpus=0,1,2,3,4,5,6,7 ",
            "--max_steps=500 --logging_steps=10 ",
            "--use_amp=True --batch_size=96 --max_predictions_per_seq=80 ",
            "--learning_rate=5e-05 --weight_decay=0.0 --adam_epsilon=1e-08 ",
            "--scale_loss=32768 --gradient_merge_steps=88 --fuse_transformer=True ",
        ),
        before=("b429aa8a936709f4a831a7aa855daba4b1fd6666",),
    ),
    Command(
        "DLPerf, OneFlow BERT: bert_base_pretrain.sh 4 8 96",
        *("external-oneflow-bert", "nodes=4,batch_per_device=96,precision=fp32", 4),
        words=(
            "--num_nodes=4 --gpu_num_per_node=8 --node_ips=NODE0,NODE1,NODE2,NODE3 ",
            "--iter_num=140 --loss_print_every_n_iter=20 ",
            "--num_hidden_layers=12 --num_attention_heads=12 --batch_size_per_device=96 --seq_length=128 ",
        ),
        absent=("use_fp16",),
    ),
    *(
        Command(
            f"DLPerf, {program} GPT: {case}",
            *(suite, cases, nodes),
            words=(f" {batch} ", *words, f"{start}{steps} ", "--checkpoint-activations"),
        )
        for program, suite, start, steps in (
            ("Megatron-LM", MEGATRON, "--train-iters ", 130),
            ("OneFlow", OF_GPT, "--train-iters ", 100),
        )
        for case, cases, nodes, batch, words in (
            (
                "DP_32x1x1_64_1536x16",
                "nodes=4,model=gpt_1536x16",
                4,
                "--global-batch-size 64",
                ("--micro-batch-size 2 ", "--num-layers 16 --hidden-size 1536 "),
            ),
            (
                "MP_1x1x1_8_768x12",
                "model=gpt2_124m",
                1,
                "--global-batch-size 8",
                ("--micro-batch-size 8 ", "--num-layers 12 --hidden-size 768 "),
            ),
            (
                "2D_4x8x1_32_2304x24",
                "nodes=4,model=gpt_2304x24",
                4,
                "--global-batch-size 32",
                ("--tensor-model-parallel-size 8 ", "--micro-batch-size 8 ", "--num-layers 24 "),
            ),
        )
    ),
    *(
        Command(
            f"DLPerf, OneFlow Wide & Deep: fix_bsz.sh, {batch} on {nodes} x 8",
            *(WIDE, f"nodes={nodes},devices_per_node=8,batch_per_device={batch // nodes // 8}", nodes),
            words=(
                "--max_iter=1100 ",
                "--hidden_units_num=7 --hidden_size=1024 ",
                f"--batch_size={batch} --wide_vocab_size=2322444 --deep_vocab_size=2322444 ",
                "--deep_embedding_vec_size=32 --dataset_format=ofrecord ",
            ),
            before=("42c55158c5119f45601a3f2957c4a5bd69321ad0", "oneflow_cu102==0.2.0"),
        )
        for nodes in (1, 4)
        for batch in (16384, 16384 * 8 * nodes)
    ),
    *(
        Command(
            f"DLPerf, HugeCTR Wide & Deep: fix_bsz, {batch} on 8",
            *(HUGECTR, f"devices_per_node=8,batch_per_device={batch // 8}", 1),
            words=(
                "--gpu_num_per_node=8 ",
                "--wide_workspace_size_per_gpu_in_mb=9 --deep_workspace_size_per_gpu_in_mb=284 ",
                f"--batch_size={batch} --deep_embedding_vec_size=32 ",
            ),
        )
        for batch in (16384, 131072)
    ),
]

COMMANDS: list[Command] = [
    Command(
        "000 git clone, docker build, nvidia-docker run",
        *(FIRST, "*-fp32-b128-1n1g-*", 1),
        words=("--volume /imagenet:/imagenet:ro", "--ipc=host"),
        before=(
            f"{CHECKOUT}99b1c898cead5603c945721162270c2fe077b4a2",
            "docker build --tag nvidia_rn50_pytorch:99b1c898cead",
            "FROM_IMAGE_NAME=nvcr.io/nvidia/pytorch:20.07-py3",
        ),
    ),
    *(
        Command(
            f"000 test_all.sh: gpu{gpus} {precision} bs{batch}",
            *(FIRST, f"precision={precision},batch_per_device={batch},nodes=1,devices_per_node={gpus}", 1),
            words=(
                *TEST_ALL,
                f"-b {batch} ",
                *(("--amp",) if precision == "amp-fp16" else ()),
                *((SCALE,) if precision == "amp-fp16" else ()),
                *(("multiproc.py ", "--nproc_per_node 8 ") if gpus == 8 else ()),
            ),
            absent=(
                *(() if precision == "amp-fp16" else ("--amp", "loss-scale")),
                *(() if gpus == 8 else ("multiproc",)),
            ),
        )
        for gpus in (1, 8)
        for precision in ("fp32", "amp-fp16")
        for batch in (128, 256)
    ),
    *(
        Command(
            f"001 sh train.sh resnet50 {','.join(map(str, range(gpus)))} {batch}",
            *("external-pytorch-imagenet", f"nodes=1,devices_per_node={gpus},batch_per_device={batch}", 1),
            words=(
                f"CUDA_VISIBLE_DEVICES={','.join(map(str, range(gpus)))} ",
                "main.py /datasets/ImageNet/imagenet_1k --epochs 1 ",
                "--arch resnet50",
                f"--batch-size {batch * gpus}",
                f"--lr {batch * gpus / 1000:g} ",
                "--momentum 0.9 --print-freq 1",
            ),
            absent=("--multiprocessing-distributed",),
        )
        for gpus in (1, 2, 4, 8)
        for batch in (32, 64, 128, 160)
    ),
    Command(
        "002 git clone, docker build, docker run, dali_index.sh",
        *(TF, "nodes=1,devices_per_node=1,precision=fp32", 1),
        words=(
            *("--shm-size=16g --ulimit memlock=-1", "--network host"),
            "--volume /data/tfrecords:/data/tfrecords:ro",
        ),
        absent=("--privileged",),
        before=(
            f"{CHECKOUT}fed7ba99cde958fda12c9e81d12b3d7e738e0590",
            "docker build --tag nvidia_rn50_tf:fed7ba99cde9",
            "FROM_IMAGE_NAME=nvcr.io/nvidia/tensorflow:20.03-tf1-py3",
            "utils/dali_index.sh /data/tfrecords /trainmark/prepared/",
        ),
    ),
    *(
        Command(
            f"002 {script}{arguments}",
            *(TF, f"{cases},precision={precision}", programs),
            words=(*words, *WITH_DALI, *ranks),
            absent=NOT_AMP if precision == "fp32" else ("--use_xla",),
        )
        for script, cases, programs, ranks in (
            ("run_single_node.sh (1)", "nodes=1,devices_per_node=1", 1, ("python3 /results",)),
            (
                "run_single_node.sh (4)",
                "nodes=1,devices_per_node=4",
                1,
                ("mpirun --allow-run-as-root", " -np 4 "),
            ),
            (
                "run_single_node.sh (8)",
                "nodes=1,devices_per_node=8",
                1,
                ("mpirun --allow-run-as-root", " -np 8 "),
            ),
            ("run_two_node.sh", "nodes=2", 1, (" -np 16 ", "NODE0:8,NODE1:8")),
            ("run_multi_node.sh", "nodes=4", 1, (" -np 32 ", "NODE0:8,NODE1:8,NODE2:8,NODE3:8")),
        )
        for arguments, precision, words in (
            ("", "fp32", (*DLPERF, "--precision=fp32", "--batch_size=128 ")),
            (" 224 amp", "amp-fp16", (*DLPERF_AMP, "--batch_size=224 ")),
        )
    ),
    *(
        Command(
            f"002 USE_DALI=1 USE_XLA=1 on {gpus}",
            *(XLA, f"nodes={nodes},devices_per_node={gpus // nodes}", 1),
            words=(*DLPERF_AMP, "--batch_size=224 ", "--use_xla", *WITH_DALI),
        )
        for nodes, gpus in ((1, 1), (1, 4), (1, 8), (2, 16), (4, 32))
    ),
    Command(
        "002 real data, XLA",
        *(DATA, "data=imagenet,loader=native", 3),
        words=(*DLPERF_AMP, "--batch_size=224 ", "--use_xla", "--data_dir=/data/tfrecords "),
        absent=("--use_dali", "data_idx_dir"),
    ),
    Command(
        "002 real data, XLA, DALI",
        *(DATA, "data=imagenet,loader=dali", 3),
        words=(*DLPERF_AMP, "--batch_size=224 ", "--use_xla", *WITH_DALI),
    ),
    Command(
        # The program refuses --mode=train without data, so the mode is not the document's.
        "002 without --data_dir",
        *(DATA, "data=synthetic", 3),
        words=(
            "--mode=training_benchmark",
            *(words for words in DLPERF_AMP if "--mode" not in words),
            "--use_xla",
        ),
        absent=("--data_dir", "--use_dali", "/data/tfrecords"),
    ),
    *(
        Command(
            f"002 NVIDIA's own script: {precision}, {compiler}",
            *("external-ngc-tensorflow-published", f"precision={precision},compiler={compiler}", 2),
            words=(
                "--mode=training_benchmark",
                "--warmup_steps=200 ",
                f"--batch_size={batch} ",
                "--data_dir=/data/tfrecords",
                *(("--use_tf_amp",) if precision == "amp-fp16" else ()),
                *(("--use_xla",) if compiler == "xla" else ()),
            ),
            absent=RECIPE,
        )
        for precision, batch, compiler in (
            ("fp32", 128, "none"),
            ("amp-fp16", 256, "none"),
            ("amp-fp16", 256, "xla"),
        )
    ),
    Command(
        "003 git clone, docker build, nvidia-docker run",
        *(SECOND, "precision=fp32,nodes=1,devices_per_node=1", 1),
        words=("--volume /imagenet:/imagenet:ro", "--ipc=host"),
        before=(
            f"{CHECKOUT}fc9c09b08d6d39fb13c79c8a7e08f85b03dbf3d1",
            "docker build --tag nvidia_rn50_pytorch:fc9c09b08d6d",
            "FROM_IMAGE_NAME=nvcr.io/nvidia/pytorch:21.03-py3",
        ),
    ),
    *(
        Command(
            f"003 pytorch_test_all.sh: gpu{gpus} {precision}",
            *(SECOND, f"precision={precision},nodes=1,devices_per_node={gpus}", 1),
            words=(
                *TEST_ALL,
                "-b 256 ",
                *(("--amp", SCALE) if precision == "amp-fp16" else ()),
                *(("multiproc.py ", "--nproc_per_node 8 ") if gpus == 8 else ()),
            ),
            absent=() if precision == "amp-fp16" else ("--amp", "loss-scale"),
        )
        for gpus in (1, 8)
        for precision in ("fp32", "amp-fp16")
    ),
    *(
        Command(
            f'003 mpirun run_benchmark.sh 256 8 "{amp}"',
            *(SECOND, f"nodes=4,precision={precision}", 4),
            words=(
                "multiproc.py --nnodes 4 --node_rank ",
                *("--master_addr NODE0 --master_port ", "--nproc_per_node 8 "),
                *TEST_ALL,
                "-b 256 ",
                *((f"{amp} -b 256 ",) if amp else ()),
            ),
            absent=("loss-scale", *(() if amp else ("--amp",))),
        )
        for precision, amp in (("fp32", ""), ("amp-fp16", "--amp"))
    ),
    *(
        Command(
            f"004 run_mxnet.sh: {mode}, batch {batch}",
            *(GLUON, f"devices_per_node={gpus},batch_per_device={batch}", 1),
            words=(
                "--network host",
                "--shm-size=1g",
                "train_imagenet.py ",
                "--data-dir /datasets/ImageNet/imagenet_1k",
                "--model mobilenet1.0",
                f"--batch-size {batch} ",
                "--mode hybrid",
                f"--num-gpus {gpus} ",
                *workers,
            ),
            absent=() if workers else (" -j ",),
            before=(
                "docker pull registry.baidubce.com/paddlepaddle/paddle:2.1.2-gpu-cuda10.2-cudnn7",
                "mxnet-cu102==1.8.0",
            ),
        )
        for mode, gpus, workers in (("sp", 1, ()), ("mp", 8, (" -j 32",)))
        for batch in (64, 768)
    ),
]


@pytest.mark.parametrize(
    "command", [*COMMANDS, *PUBLISHED], ids=[command.document for command in (*COMMANDS, *PUBLISHED)]
)
def test_a_documents_command_is_planned(capsys: pytest.CaptureFixture[str], command: Command) -> None:
    suite = SUITES / f"{command.suite}.yaml"
    assert main(["plan", str(suite), "--out", "/results", "--only", command.cases]) == 0
    text = capsys.readouterr().out
    started = [
        line
        for line in commands(text)
        if "/source/" in line and "/results/runs/" in line and "worktree" not in line
    ]
    assert len(started) == command.programs
    for line in started:
        assert not [word for word in command.words if word not in f"{line} "]
        assert not [word for word in command.absent if word in f"{line} "]
    assert not [word for word in command.before if word not in text]


def test_a_batch_that_does_not_divide_into_its_parts_has_no_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    suite = tmp_path / "suite.yaml"
    text = (SUITES / f"{TF_BERT}.yaml").read_text(encoding="utf-8")
    suite.write_text(text.replace("  device: cuda", "  device: cuda\n  accumulation: 5"), encoding="utf-8")
    text = planned(capsys, suite)
    assert "# cannot run here: a batch of 32 does not divide into 5 equal parts (accumulation)" in text


def test_oneflows_real_images_are_a_folder_of_ofrecord(capsys: pytest.CaptureFixture[str]) -> None:
    suite = SUITES / "external-oneflow.yaml"
    assert main(["plan", str(suite), "--out", "/results", "--only", "data=imagenet,devices_per_node=8"]) == 0
    started = [line for line in commands(capsys.readouterr().out) if "of_cnn_train_val.py" in line]
    assert len(started) == 3
    for line in started:
        assert "--train_data_dir=/datasets/ImageNet/ofrecord/train" in line
        assert "--volume /datasets/ImageNet/ofrecord:/datasets/ImageNet/ofrecord:ro" in line
