"""Commands that start an agent on a host; their standard input and output become the channel."""

import shlex
from pathlib import Path

from trainmark.schema.hosts import EngineName, HostEntry, SshSettings


def agent_command(entry: HostEntry, engine: EngineName, ssh: SshSettings, python: Path) -> tuple[str, ...]:
    """Return the command that starts an agent on a host; ``python`` is the interpreter on that host."""
    agent = (str(python), "-m", "trainmark.node.agent", entry.name)
    variables = tuple(f"{name}={value}" for name, value in entry.variables.items())
    there = ("env", *variables, *agent) if variables else agent
    match engine:
        case EngineName.SSH:
            return (*_ssh(entry, ssh), entry.reached_at, shlex.join(("exec", *there)))
        case EngineName.SLURM:
            # Overlap with other job steps; one task on one node; unbuffered output.
            step = (
                "--overlap",
                "--nodes=1",
                "--ntasks=1",
                "--export=ALL",
                "--unbuffered",
                "--kill-on-bad-exit=0",
            )
            return ("srun", *step, f"--nodelist={entry.name}", *there)
        case EngineName.MPI:
            # mpirun passes our standard input to rank 0. No binding, because jobs would inherit it from the agent.
            one = ("--allow-run-as-root", "-np", "1", "--bind-to", "none", "-H", f"{entry.reached_at}:1")
            return ("mpirun", *one, *there)


def _ssh(entry: HostEntry, settings: SshSettings) -> tuple[str, ...]:
    """Return ``ssh`` with options: never prompt, and detect a lost host within a minute."""
    # ssh uses the first value of an option, so the user's options take precedence.
    words = ["ssh", *settings.options, "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15"]
    # No shared connection: it would outlive ours, and the next one would find it dead.
    words += ["-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3", "-o", "ControlPath=none"]
    if settings.config is not None:
        words += ["-F", str(settings.config)]
    if entry.user is not None:
        words += ["-l", entry.user]
    if entry.port is not None:
        words += ["-p", str(entry.port)]
    return tuple(words)
