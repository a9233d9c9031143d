"""Slurm's batch script of a job: it measures the suite in its own allocation, requeues and resumes.

The options are documented in Slurm's manual page sbatch(1).
"""

import shlex
from collections.abc import Iterable, Iterator

from trainmark.schema.job import Job
from trainmark.submission.measuring import measure_command

FIRST_OUTPUT = "/tmp/slurm-%j.out"  # noqa: S108 (Slurm creates it)
"""Where Slurm puts a job's output until the script has opened its log: without that folder no script starts."""

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
    inputs = (job.suite_path, job.hosts_file) if job.hosts else (job.suite_path,)
    start = f"#!/bin/bash\n{options}{_log(job)}{_readable(inputs)}"
    if job.settings.time_limit_s is None:
        return f"{start}exec {words}\n"
    return (
        f"{start}"
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


def _log(job: Job) -> str:
    """Return the lines that open the job's log, or end the job with a comment that ``scontrol show job`` prints."""
    if _has_output(job):
        return ""
    return (
        f"log={shlex.quote(str(job.settings.out))}.slurm-$SLURM_JOB_ID.out\n"
        'if ! { : >> "$log"; } 2> /dev/null; then\n'
        '  why="$SLURMD_NODENAME: $log cannot be written; create its folder there or change job.out, '
        'and submit again"\n'
        f"{_END}"
        "fi\n"
        'exec >> "$log" 2>&1\n'
        f'rm -f "{FIRST_OUTPUT.replace("%j", "$SLURM_JOB_ID")}"\n'
    )


_END = '  echo "$why"; scontrol update JobId="$SLURM_JOB_ID" Comment="$why"; exit 2\n'


def _readable(files: Iterable[str]) -> str:
    """Return the lines that end the job, in the same way, if its first host lacks a file of the suite."""
    return (
        f"for file in {shlex.join(files)}; do\n"
        '  [ -r "$file" ] && continue\n'
        '  why="$SLURMD_NODENAME: $file cannot be read; put the suite, its cards and the hosts file into a folder '
        "that the job's hosts have, and submit again\"\n"
        f"{_END}"
        "done\n"
    )


def _has_output(job: Job) -> bool:
    return any(option.startswith(("--output", "-o")) for option in job.settings.slurm.options)


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
    if not _has_output(job):
        yield f"--output={FIRST_OUTPUT}"
    if settings.time_limit_s is not None:
        yield f"--time={-(-settings.time_limit_s // 60)}"
        yield f"--signal=B:USR1@{NOTICE_S}"
    yield from settings.slurm.options
