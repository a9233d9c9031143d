"""Named rules from a log to one number, each with its formula and who publishes by it."""

from trainmark.measure.rules.audit import (
    Claim,
    Finding,
    Verdict,
    audit,
    judge,
    read_claims,
    summarise_findings,
)
from trainmark.measure.rules.catalog import catalogue, find_rule, measure_log, rules_for
from trainmark.measure.rules.dlperf import PlacementSummary, summarise
from trainmark.measure.rules.model import Kind, Rule, RuleResult
from trainmark.measure.rules.steady_records import judge_records
from trainmark.measure.rules.tree import Group, Row, read_tree

__all__ = [
    "Claim",
    "Finding",
    "Group",
    "Kind",
    "PlacementSummary",
    "Row",
    "Rule",
    "RuleResult",
    "Verdict",
    "audit",
    "catalogue",
    "find_rule",
    "judge",
    "judge_records",
    "measure_log",
    "read_claims",
    "read_tree",
    "rules_for",
    "summarise",
    "summarise_findings",
]
