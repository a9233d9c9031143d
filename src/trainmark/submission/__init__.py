"""Batch jobs that measure a whole suite, rendered for the queues of clusters; trainmark never submits them."""

from trainmark.submission.job import make_job
from trainmark.submission.rendering import render

__all__ = ["make_job", "render"]
