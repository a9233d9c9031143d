"""The text of a job for its queue."""

import yaml

from trainmark.schema.job import Job, JobKind
from trainmark.submission.kubernetes import kubernetes_manifests
from trainmark.submission.slurm import sbatch_script


def render(job: Job, kind: JobKind) -> str:
    """Return the job as input for ``sbatch`` or ``kubectl apply -f -``."""
    if kind is JobKind.SBATCH:
        return sbatch_script(job)
    documents = kubernetes_manifests(job, kind)
    return yaml.dump_all(documents, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


class _Dumper(yaml.SafeDumper):
    """A YAML writer that keeps multi-line texts readable and uses no aliases."""

    def ignore_aliases(self, _data: object) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Dumper.add_representer(str, _text)
