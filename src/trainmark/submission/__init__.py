"""Jobs for the queues of clusters, each of which measures a whole suite: rendered, never submitted from here."""

from trainmark.submission.job import make_job
from trainmark.submission.kubernetes import kubernetes_manifests
from trainmark.submission.rendering import render
from trainmark.submission.slurm import sbatch_script

__all__ = ["kubernetes_manifests", "make_job", "render", "sbatch_script"]
