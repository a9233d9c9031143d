"""Batch jobs that measure a whole suite, rendered for the queues of clusters; trainmark never submits them."""

from trainmark.submission.job import make_job
from trainmark.submission.kubernetes import kubernetes_manifests
from trainmark.submission.rendering import render
from trainmark.submission.slurm import sbatch_script

__all__ = ["kubernetes_manifests", "make_job", "render", "sbatch_script"]
