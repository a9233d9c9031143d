"""Named rules from a log to one number, each with its formula and who publishes by it."""

from typing import TYPE_CHECKING

from trainmark.imports import attach

if TYPE_CHECKING:
    from trainmark.measure.rules.auditing import (
        AuditFinding,
        AuditVerdict,
        audit,
        judge,
        summarise_findings,
    )
    from trainmark.measure.rules.catalog import catalogue, find_rule, measure_log, rules_for
    from trainmark.measure.rules.claims import Claim, read_claims
    from trainmark.measure.rules.dlperf import no_speedup, summarise
    from trainmark.measure.rules.model import Rule, RuleKind, RuleResult
    from trainmark.measure.rules.naming import read_naming
    from trainmark.measure.rules.tree import PlacementRow, read_tree
    from trainmark.measure.steadiness import judge_records, noise

__all__ = [
    "AuditFinding",
    "AuditVerdict",
    "Claim",
    "PlacementRow",
    "Rule",
    "RuleKind",
    "RuleResult",
    "audit",
    "catalogue",
    "find_rule",
    "judge",
    "judge_records",
    "measure_log",
    "no_speedup",
    "noise",
    "read_claims",
    "read_naming",
    "read_tree",
    "rules_for",
    "summarise",
    "summarise_findings",
]

__getattr__ = attach(
    __name__,
    {
        ".auditing": (
            "AuditFinding",
            "AuditVerdict",
            "audit",
            "judge",
            "summarise_findings",
        ),
        ".catalog": ("catalogue", "find_rule", "measure_log", "rules_for"),
        ".claims": ("Claim", "read_claims"),
        ".dlperf": ("no_speedup", "summarise"),
        ".model": ("Rule", "RuleKind", "RuleResult"),
        ".naming": ("read_naming",),
        ".tree": ("PlacementRow", "read_tree"),
        "trainmark.measure.steadiness": ("judge_records", "noise"),
    },
)
