"""Naming schemes: what a run's log is called when it is published, so that existing scripts find it.

The run's own folder is always ``runs/<case-id>/<repeat>``; a scheme adds the name that a community expects.
Sources: the log list of the NGC PyTorch report (``pytorch_gpu8_amp_bs256.txt``), DLPerf's log tree
(``1n8g/r50_b128_fp32_1.log``) and the framework-benchmark template (``clas_MobileNetV1_mp_bs64_fp32_8_speed``).
"""

from enum import StrEnum

from trainmark.suite.case import Case


class NamingScheme(StrEnum):
    """How published log files are called."""

    CASE = "case"
    NGC = "ngc"
    DLPERF = "dlperf"
    PADDLE = "paddle"


_SHORT = {"resnet50_v1.5": "r50", "mobilenet_v1": "mbv1"}
_CAMEL = {"resnet50_v1.5": "ResNet50V1.5", "mobilenet_v1": "MobileNetV1"}


def log_name(case: Case, repeat: int, scheme: NamingScheme) -> str:
    """Return the relative path of one run's published log; ``repeat`` counts from 1.

    The NGC and the template's names have no place for a repeat: theirs is added as ``_r2`` from the second
    run on, so that the first one has the documented name.
    """
    precision = case.precision.value
    family = "amp" if precision.startswith("amp") else precision
    again = f"_r{repeat}" if repeat > 1 else ""
    match scheme:
        case NamingScheme.NGC:
            return f"{case.framework}_gpu{case.world_size}_{family}_bs{case.batch_per_device}{again}.txt"
        case NamingScheme.DLPERF:
            short = _SHORT.get(case.model, case.model)
            return f"{case.topology}/{short}_b{case.batch_per_device}_{family}_{repeat}.log"
        case NamingScheme.PADDLE:
            mode = "sp" if case.world_size == 1 else "mp"
            model = _CAMEL.get(case.model, case.model)
            name = f"clas_{model}_{mode}_bs{case.batch_per_device}_{family}_{case.world_size}_speed"
            return f"{name}{again}"
        case NamingScheme.CASE:
            return f"{case.id}_{repeat}.log"
