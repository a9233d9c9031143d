"""Slurm's batch script of a job: it measures the suite in its own allocation, requeues and resumes.

The options are documented in Slurm's manual page sbatch(1).
"""

import shlex
from collections.abc import Iterator

from trainmark.schema.job import Job
from trainmark.submission.measuring import measure_command

NOTICE_S = 300
"""The time from the signal to the time limit, in seconds: to end the current run and to copy its files back."""


def sbatch_script(job: Job) -> str:
    """Return the script for ``sbatch``.

    The job gets whole hosts, because a shared host would disturb the measurement. With a time limit, Slurm sends a
    signal before the limit; the script then ends the current run and requeues the job.
    """
    named = ("--hosts", job.hosts_file, "--engine", "slurm") if job.hosts else ("--hosts", "slurm")
    words = shlex.join(measure_command(job, job.suite_path, named))
    options = "".join(f"#SBATCH {option}\n" for option in _options(job))
    if job.settings.time_limit_s is None:
        return f"#!/bin/bash\n{options}exec {words}\n"
    return (
        f"#!/bin/bash\n{options}"
        "measured() {\n"
        '  kill -TERM "$measuring"; wait "$measuring"\n'
        f'  if [ "${{SLURM_RESTART_COUNT:-0}}" -lt {job.settings.restarts} ]; then\n'
        '    scontrol requeue "$SLURM_JOB_ID"\n'
        "  fi\n"
        "  exit 130\n"
        "}\n"
        f"{words} &\n"
        "measuring=$!\n"
        "trap measured USR1\n"
        'wait "$measuring"\n'
    )


def _options(job: Job) -> Iterator[str]:
    settings = job.settings
    yield f"--job-name={job.name}"
    yield f"--nodes={job.nodes}"
    yield "--ntasks-per-node=1"
    yield "--exclusive"
    yield "--mem=0"
    if job.gpus:
        yield f"--gpus-per-node={job.gpus}"
    if job.hosts:
        # Only the first hosts, like a case's nodes; from a longer list Slurm would choose.
        yield f"--nodelist={','.join(job.hosts[: job.nodes])}"
    yield "--requeue"
    yield "--open-mode=append"
    yield f"--output={settings.out}.slurm-%j.out"
    if settings.time_limit_s is not None:
        yield f"--time={-(-settings.time_limit_s // 60)}"
        yield f"--signal=B:USR1@{NOTICE_S}"
    yield from settings.slurm.options
