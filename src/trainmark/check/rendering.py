"""A check report as lines for a terminal: the worst findings first, the verdict last."""

from trainmark.schema.check import CheckFinding, CheckReport, Level

_ORDER = (Level.FAILURE, Level.WARNING, Level.NOTE, Level.OK)


def format_report(report: CheckReport) -> str:
    """Return a report as lines: level, host, check, and finding."""
    findings = sorted(report.findings, key=lambda finding: _ORDER.index(finding.level))
    rows = [
        (finding.level.value, _hosts(finding, report), finding.check, sentence(finding))
        for finding in findings
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(3)] if rows else [0, 0, 0]
    lines = [
        "  ".join([*(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)), row[3]])
        for row in rows
    ]
    return "\n".join([*lines, "", _verdict(report)]) + "\n"


def sentence(finding: CheckFinding) -> str:
    """Return a finding, the other hosts' value and the remedy, as one line."""
    parts = [finding.found]
    if finding.others:
        parts.append(f"others: {finding.others}")
    if finding.remedy:
        parts.append(f"do: {finding.remedy}")
    return "; ".join(parts)


def _hosts(finding: CheckFinding, report: CheckReport) -> str:
    """Return a short description of a finding's hosts."""
    if len(finding.hosts) > 1 and set(finding.hosts) == set(report.hosts):
        return f"all {len(finding.hosts)}"
    shown = ",".join(finding.hosts[:3])
    return shown if len(finding.hosts) <= 3 else f"{shown},… ({len(finding.hosts)})"


def _verdict(report: CheckReport) -> str:
    counts = {level: sum(finding.level is level for finding in report.findings) for level in _ORDER}
    for_what = f" for {report.suite}" if report.suite else ""
    hosts = "this host is" if len(report.hosts) == 1 else f"these {len(report.hosts)} hosts are"
    counted = ", ".join(
        f"{count} {level.value}{'s' if count > 1 and level is not Level.OK else ''}"
        for level, count in counts.items()
        if count
    )
    return f"{hosts} {'ready' if report.fit else 'not ready'}{for_what}: {counted}"
