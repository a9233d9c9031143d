"""What a log's name says."""

import pytest

from trainmark.logs import Hints, read_hints
from trainmark.schema.precision import Precision

_SINGLE = frozenset({Precision.FP32, Precision.TF32})
_EITHER_FP16 = frozenset({Precision.FP16, Precision.AMP_FP16})


@pytest.mark.parametrize(
    ("path", "hints"),
    [
        ("4n8g/r50_b128_fp32_1.log", Hints("r50", _SINGLE, 4, 32, 128, 1)),
        ("10n8g/r50_b128_fp32_2.log", Hints("r50", _SINGLE, 10, 80, 128, 2)),
        ("16n16g/bert_b32_fp16_3.log", Hints("bert", _EITHER_FP16, 16, 256, 32, 3)),
        ("pytorch_gpu8_amp_bs256.txt", Hints(None, frozenset({Precision.AMP_FP16}), None, 8, 256)),
        ("clas_MobileNetV1_mp_bs64_fp32_8_speed", Hints("MobileNetV1", _SINGLE, None, 8, 64)),
        ("PaddleClas_ResNet50_bs256_fp32_DP_N1C8_log", Hints(None, _SINGLE, 1, 8, 256)),
        ("PaddleNLP_x_bs5120_pure_fp16_DP_N4C32_log", Hints(None, frozenset({Precision.FP16}), 4, 32, 5120)),
        ("PaddleNLP_x_bs5120_pure_fp16_DP_N4C8_log", Hints(None, frozenset({Precision.FP16}), 4, None, 5120)),
        ("Deeplabv3_FP32_BS4-N8.log", Hints(None, _SINGLE, None, 8, 4)),
        ("deeplabv3p_c32_fp32.log.gz", Hints(None, _SINGLE, None, 32)),
        # A suffix of a compressed log is no batch size.
        ("train.log.bz2", Hints()),
        ("r50_b128_fp32_1.log.xz", Hints("r50", _SINGLE, None, None, 128, 1)),
        ("r50_b128_fp32_1.log.zst", Hints("r50", _SINGLE, None, None, 128, 1)),
        ("CtrDnn_DataLoader_16Thread_8Node", Hints(None, nodes=8)),
        ("resnet50_1node_bz128/1n8c_real.log", Hints(None, nodes=1, gpus=8, batch_per_device=128)),
        ("A100_LOG/transformer_gpu8", Hints(None, gpus=8, hardware="A100")),
        ("train.log", Hints()),
        ("-", Hints()),
        ("1984/report.txt", Hints()),
    ],
)
def test_a_name_is_read_as_a_hint(path: str, hints: Hints) -> None:
    assert read_hints(path) == hints
