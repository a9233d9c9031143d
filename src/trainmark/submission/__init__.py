"""Jobs for the queues of clusters, each of which measures a whole suite: rendered, never submitted from here."""

from trainmark.submission.job import job_of
from trainmark.submission.kubernetes import manifests
from trainmark.submission.rendering import render
from trainmark.submission.slurm import script

__all__ = ["job_of", "manifests", "render", "script"]
