"""Suites, their cases and protocols, read from YAML; errors name the line."""

from trainmark.suite.hosts import FROM_SLURM, load_hosts, load_job
from trainmark.suite.loading import dump_suite, load_suite, log_name, parse_suite
from trainmark.suite.selection import select, select_baselines

__all__ = [
    "FROM_SLURM",
    "dump_suite",
    "load_hosts",
    "load_job",
    "load_suite",
    "log_name",
    "parse_suite",
    "select",
    "select_baselines",
]
