"""Naming schemes: what a run's log is called when it is published, so that existing scripts find it.

The run's own folder is always ``runs/<case-id>/<repeat>``; a scheme adds the name that a community expects.
Sources: the log list of the NGC PyTorch report (``pytorch_gpu8_amp_bs256.txt``), DLPerf's log tree
(``1n8g/r50_b128_fp32_1.log``) and the framework-benchmark template (``clas_MobileNetV1_mp_bs64_fp32_8_speed``).
"""

from trainmark.tasks import task_of
from trainmark.words.case import Case
from trainmark.words.suite import NamingScheme


def log_name(case: Case, repeat: int, scheme: NamingScheme) -> str:
    """Return the relative path of one run's published log; ``repeat`` counts from 1.

    The NGC and the template's names have no place for a repeat: theirs is added as ``_r2`` from the second
    run on, so that the first one has the documented name.
    """
    precision = case.precision.value
    family = "amp" if precision.startswith("amp") else precision
    again = f"_r{repeat}" if repeat > 1 else ""
    task = task_of(case)
    published = task.models.get(case.model)
    match scheme:
        case NamingScheme.NGC:
            return f"{case.framework}_gpu{case.world_size}_{family}_bs{case.batch_per_device}{again}.txt"
        case NamingScheme.DLPERF:
            short = published.short if published else case.model
            return f"{case.topology}/{short}_b{case.batch_per_device}_{family}_{repeat}.log"
        case NamingScheme.PADDLE:
            mode = "sp" if case.world_size == 1 else "mp"
            model = published.published if published else case.model
            words = (*filter(None, [task.repository]), model, mode, f"bs{case.batch_per_device}", family)
            name = f"{'_'.join(words)}_{case.world_size}_speed"
            return f"{name}{again}"
        case NamingScheme.CASE:
            return f"{case.id}_{repeat}.log"
