"""The names of the files in a result directory and in the folder of one run."""

SUITE = "suite.yaml"
"""The suite as resolved."""
COMMAND_SUITE, COMMAND_CARD = "command.yaml", "card.yaml"
"""The suite and the card that a command line amounts to, as a person would write them."""
BLOCKS = "blocks.json"
"""The blocks and the ratio of two programs that ran in turn (``run --against``)."""
BISECTION = "bisect.json"
"""The state of a ``trainmark bisect``."""
RESULTS = "results.json"
DATABASE = "results.sqlite"
CHECK = "check.json"
"""What `trainmark check` found of the hosts."""
IDENTITY = "identity"
"""The folder with the entries of each part of the runs' identities, by digest."""
PROFILE, TRACES = "profile.json", "trace"
"""In the folder of a profiled run: its result, and the folder of the profiler's own files."""
DECOMPOSITION = "decomposition.json"
"""What an experiment of `trainmark explain --test` shows: the gap between two cases as a product of tested factors."""
RUNS = "runs"
"""The folder of the runs: ``runs/CASE/REPEAT/``."""

EVENTS = "events.jsonl"
"""The events that a built-in worker writes into a run's folder."""
LOG = "train.log"
"""The output of a run's program."""
TELEMETRY = "telemetry.jsonl"
ARRIVALS = "train.arrivals"
"""When the bytes of another program's output arrived: lines of Unix time and size."""
MANIFEST = "manifest.json"
"""The machine and the software of the run."""
OUTCOME = "outcome.json"
"""The outcome, written last: a run's folder that has it is finished."""


def name_on(file: str, node: int) -> str:
    """Return the name of a run's file for a node: ``train.log``, and for node 1 ``train.node1.log``."""
    stem, dot, end = file.partition(".")
    return f"{stem}.node{node}{dot}{end}" if node else file


STEPS_UNIT = "steps/s"
"""The unit of a run whose work per step is unknown."""
EPOCHS_UNIT = "epochs/s"
"""The unit of a run whose log counts epochs and no steps."""
