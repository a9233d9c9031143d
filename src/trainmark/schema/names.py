"""The names of the files in a result directory and in the folder of one run."""

SUITE = "suite.yaml"
"""The suite as resolved."""
RESULTS = "results.json"
DATABASE = "results.sqlite"
CHECK = "check.json"
"""What `trainmark check` found of the hosts."""
RUNS = "runs"
"""The folder of the runs: ``runs/CASE/REPEAT/``."""

EVENTS = "events.jsonl"
"""What a built-in worker leaves in a run's folder."""
LOG = "train.log"
"""What the program of a run printed."""
TELEMETRY = "telemetry.jsonl"
MANIFEST = "manifest.json"
"""What was really there."""
OUTCOME = "outcome.json"
"""Written last into a run's folder: a run with it is finished."""


def name_on(file: str, node: int) -> str:
    """Return what a file of a run is called for a node: ``train.log``, and for node 1 ``train.node1.log``."""
    stem, dot, end = file.partition(".")
    return f"{stem}.node{node}{dot}{end}" if node else file
