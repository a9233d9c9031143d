"""Naming schemes: what a run's log is called when it is published, so that existing scripts find it.

The run's own folder is always ``runs/<case-id>/<repeat>``; a scheme adds the name that a community expects.
Sources: the log list of the NGC PyTorch report (``pytorch_gpu8_amp_bs256.txt``), DLPerf's log tree
(``1n8g/r50_b128_fp32_1.log``) and the framework-benchmark template (``clas_MobileNetV1_mp_bs64_fp32_8_speed``).
"""

from trainmark.schema.case import Case
from trainmark.schema.suite import NamingScheme
from trainmark.tasks import task_of


def log_name(case: Case, repeat: int, scheme: NamingScheme) -> str:
    """Return the relative path of one run's published log; ``repeat`` counts from 1.

    The NGC and the template's names have no place for a repeat: theirs is added as ``_r2`` from the second
    run on, so that the first one has the documented name.
    """
    precision = case.precision.published
    task = task_of(case)
    published = task.models.get(case.model)
    match scheme:
        case NamingScheme.NGC:
            again = f"_r{repeat}" if repeat > 1 else ""
            return f"{case.framework}_gpu{case.world_size}_{precision}_bs{case.batch_per_device}{again}.txt"
        case NamingScheme.DLPERF:
            short = published.short if published else case.model
            return dlperf_name(case.topology, short, case.batch_per_device, precision, repeat)
        case NamingScheme.PADDLE:
            model = published.published if published else case.model
            return template_name(
                task.repository, model, case.world_size, case.batch_per_device, precision, repeat
            )
        case NamingScheme.CASE:
            return f"{case.id}_{repeat}.log"


def dlperf_name(topology: str, model: str, batch_per_device: int | str, precision: str, repeat: int) -> str:
    """Return the name in DLPerf's tree: ``1n8g/r50_b128_fp32_1.log``."""
    return f"{topology}/{model}_b{batch_per_device}_{precision}_{repeat}.log"


def template_name(
    repository: str | None,
    model: str,
    devices: int,
    batch_per_device: int | str,
    precision: str,
    repeat: int,
) -> str:
    """Return the framework-benchmark template's name: ``clas_MobileNetV1_mp_bs64_fp32_8_speed``."""
    mode = "sp" if devices == 1 else "mp"
    words = (*filter(None, [repository]), model, mode, f"bs{batch_per_device}", precision, str(devices))
    return f"{'_'.join(words)}_speed" + (f"_r{repeat}" if repeat > 1 else "")
