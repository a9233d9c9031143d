"""Doubts about numbers that depend on facts from a file's name or on an assumed single node."""

from dataclasses import replace

from trainmark.logs.model import Meaning, ParsedLog, Problem, Scope, Severity

FROM_NAME = "from-name"
ONE_NODE = "one-node-assumed"


def weigh_name_hints(log: ParsedLog) -> tuple[Problem, ...]:
    """Return the log's problems; facts from the name or assumed become doubts if the number depends on them."""
    needed = _needed(log)
    if "devices" in needed and log.facts.gpus_per_node is not None and (log.facts.nodes or 1) > 1:
        needed = (*needed, "nodes")  # the devices are those of one node times the number of nodes
    return tuple(
        replace(problem, severity=Severity.DOUBT)
        if (problem.code == FROM_NAME and problem.message.startswith(needed))
        or (problem.code == ONE_NODE and "devices" in needed)
        else problem
        for problem in log.problems
    )


def _needed(log: ParsedLog) -> tuple[str, ...]:
    """Return the first words of the sentences about facts on which the number depends."""
    if log.scope is Scope.NODE:
        return ("nodes",)
    if log.records.rate is None and log.global_batch is None:
        return ()  # no number can be computed: the tool's own figure is used, if there is one
    by_batch = log.records.rate is None or (
        log.meaning is not Meaning.INTERVAL and log.records.clock_s is not None
    )
    if by_batch:
        return ("devices", "batch per device")
    return ("devices",) if log.scope is Scope.DEVICE else ()
