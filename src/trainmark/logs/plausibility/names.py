"""A file's name is hearsay, and one node a guess: a number that rests on them alone is in doubt."""

from dataclasses import replace

from trainmark.logs.model import Meaning, ParsedLog, Problem, Scope, Severity

FROM_NAME = "from-name"
ONE_NODE = "one-node-assumed"


def weigh_names(log: ParsedLog) -> tuple[Problem, ...]:
    """Return the log's problems; what is only named or assumed is a doubt where the number is built on it."""
    needed = _needed(log)
    if "devices" in needed and log.facts.gpus_per_node is not None and (log.facts.nodes or 1) > 1:
        needed = (*needed, "nodes")  # the devices are those of one node, times the nodes
    return tuple(
        replace(problem, severity=Severity.DOUBT)
        if (problem.code == FROM_NAME and problem.message.startswith(needed))
        or (problem.code == ONE_NODE and "devices" in needed)
        else problem
        for problem in log.problems
    )


def _needed(log: ParsedLog) -> tuple[str, ...]:
    """Return how the sentences begin that are about facts on which the number is built."""
    if log.scope is Scope.NODE:
        return ("nodes",)
    if log.records.rate is None and log.global_batch is None:
        return ()  # no number can be built on them: the tool's own figure is given, if there is one
    by_batch = log.records.rate is None or (
        log.meaning is not Meaning.INTERVAL and log.records.clock_s is not None
    )
    if by_batch:
        return ("devices", "batch per device")
    return ("devices",) if log.scope is Scope.DEVICE else ()
