"""How an engine starts the agent on a host: the command here whose standard input and output become the channel."""

import shlex
from pathlib import Path

from trainmark.schema.hosts import EngineName, HostEntry, SshSettings


def agent_command(entry: HostEntry, engine: EngineName, ssh: SshSettings, python: Path) -> tuple[str, ...]:
    """Return the words that start an agent on a host; ``python`` is the interpreter there."""
    agent = (str(python), "-m", "trainmark.node.agent", entry.name)
    variables = tuple(f"{name}={value}" for name, value in entry.variables.items())
    there = ("env", *variables, *agent) if variables else agent
    match engine:
        case EngineName.SSH:
            return (*_ssh(entry, ssh), entry.reached_at, shlex.join(("exec", *there)))
        case EngineName.SLURM:
            # Beside the steps of others, one task on one node, its bytes as they are.
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
            # The first rank, which is the only one, is given our standard input. Bound to a core, all ranks would be.
            one = ("--allow-run-as-root", "-np", "1", "--bind-to", "none", "-H", f"{entry.reached_at}:1")
            return ("mpirun", *one, *there)


def _ssh(entry: HostEntry, settings: SshSettings) -> tuple[str, ...]:
    """Return ``ssh`` and its options: it asks nobody anything, and notices within a minute that a host is gone."""
    # Of two values ssh takes the first: the user's own.
    words = ["ssh", *settings.options, "-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15"]
    # A connection that others share would outlive ours, and be found dead by the next.
    words += ["-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3", "-o", "ControlPath=none"]
    if settings.config is not None:
        words += ["-F", str(settings.config)]
    if entry.user is not None:
        words += ["-l", entry.user]
    if entry.port is not None:
        words += ["-p", str(entry.port)]
    return tuple(words)
