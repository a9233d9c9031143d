"""The real logs: format, devices, precision, batch and unit, or null."""

from pathlib import Path

import pytest

from trainmark.logs import Status
from trainmark.programs import read_log

_PERF = {
    "ResNet50V1.5/V100-LOG/PaddleClas_ResNet50_bs256_fp32_DP_N1C8_log": (
        "paddleclas",
        "paddle",
        8,
        "fp32",
        256,
        "images/s",
        80,
    ),
    "ResNet50V1.5/OtherReports/PyTorch/V100-LOG/pytorch_gpu1_amp_bs256.txt": (
        "ngc-pytorch-convnets",
        "pytorch",
        1,
        "amp-fp16",
        256,
        "images/s",
        99,
    ),
    "ResNet50V1.5/OtherReports/TensorFlow/V100_LOG/tf_gpu8_amp_bs256.txt": (
        "ngc-tensorflow-convnets",
        "tensorflow",
        8,
        "amp-fp16",
        256,
        "images/s",
        30,
    ),
    "ResNet50V1.5/OtherReports/MxNet/V100_LOG/mxnet_gpu8_fp32_bs128.txt": (
        "ngc-mxnet-convnets",
        "mxnet",
        8,
        "fp32",
        128,
        "images/s",
        75,
    ),
    "Bert/V100_LOG/PaddleNLP_bert_base_seqlen128_bs96_fp32_DP_N1C8_log": (
        "paddlenlp-bert",
        "paddle",
        8,
        "fp32",
        96,
        "sequences/s",
        50,
    ),
    "Bert/OtherReports/PyTorch/V100_LOG/bert_base_lamb_pretraining.pyt_bert_pretraining_phase1_fp32_bs96_gpu32.log": (
        "ngc-pytorch-bert",
        "pytorch",
        32,
        "fp32",
        96,
        "sequences/s",
        4,
    ),
    "Bert/OtherReports/TensorFlow/V100_LOG/tf_bert_pretraining_lamb_base_fp32_bs96_gpu32.log": (
        "ngc-tensorflow-bert",
        "tensorflow",
        32,
        "fp32",
        96,
        "sequences/s",
        27,
    ),
    "Transformer/V100_LOG/PaddleNLP_transformer_big_bs5120_pure_fp16_DP_N1C8_log": (
        "paddlenlp-transformer",
        "paddle",
        8,
        "fp16",
        5120,
        "words/s",
        29,
    ),
    # TF32 or FP32 on an A100: the log does not say, so null.
    "Transformer/OtherReports/PyTorch/A100_LOG/transformer_pytorch_bs5120_fp32_gpu8": (
        "fairseq",
        "pytorch",
        8,
        None,
        5120,
        "tokens/s",
        394,
    ),
    "DeepLabV3P/paddle/Deeplabv3_FP32_BS4-N8.log": ("paddleseg", "paddle", 8, "fp32", 4, "samples/s", 40),
    "DeepLabV3P/OtherReports/PyTorch/pytorch/deeplabv3p_c8_fp32.log": (
        "mmsegmentation",
        "pytorch",
        8,
        "fp32",
        4,
        "samples/s",
        5,
    ),
    "CtrDnn/CtrDnn_DataLoader_16Thread_8Node": ("paddlerec", "paddle", None, None, None, "example/s", 3),
}


@pytest.mark.parametrize("path", sorted(_PERF))
def test_the_format_of_a_real_log_is_recognised(corpus: Path, path: str) -> None:
    log = read_log(corpus / path)
    facts = log.facts

    assert log.status is Status.OK
    assert (
        log.format,
        log.framework,
        facts.gpus,
        facts.precision,
        facts.batch_per_device,
        log.unit,
        log.records.count,
    ) == _PERF[path]


def test_the_number_of_workers_comes_from_the_header(corpus: Path) -> None:
    assert read_log(corpus / "CtrDnn/CtrDnn_DataLoader_16Thread_8Node").facts.nodes == 8


def test_the_recipe_of_a_real_log_is_stored_as_strings(corpus: Path) -> None:
    log = read_log(corpus / "ResNet50V1.5/OtherReports/PyTorch/V100-LOG/pytorch_gpu1_amp_bs256.txt")

    assert log.parameters["memory_format"] == "nchw"
    assert log.parameters["data_backend"] == "dali-cpu"
    assert log.figures == {"summary": 782.08}
