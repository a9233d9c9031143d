"""The command that measures a job's suite, the same for every queue."""

from trainmark.schema.job import Job


def measure_command(job: Job, suite: str, hosts: tuple[str, ...]) -> tuple[str, ...]:
    """Return ``trainmark run`` for the suite at a path; it resumes if an earlier start of the job was ended."""
    python = job.settings.python
    words = ("trainmark",) if python is None else (str(python), "-m", "trainmark.cli.main")
    only = () if job.only is None else ("--only", job.only)
    return (*words, "run", suite, *hosts, "--out", str(job.settings.out), "--resume", *only)
