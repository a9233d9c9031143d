"""The words that measure a job's suite, wherever the job runs."""

from trainmark.schema.job import Job


def measure_command(job: Job, suite: str, hosts: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``trainmark run`` of the suite at a path, which goes on where an earlier start of the job was ended."""
    python = job.settings.python
    words = ("trainmark",) if python is None else (str(python), "-m", "trainmark.cli.main")
    only = () if job.only is None else ("--only", job.only)
    return (*words, "run", suite, *hosts, "--out", str(job.settings.out), "--resume", *only)
