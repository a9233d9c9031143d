"""Lists of the rules and log formats that ``trainmark parse`` knows."""

import json


def list_rules(*, as_json: bool) -> str:
    """Return the rules and the publishers that use each, as text or as one JSON object per line."""
    from trainmark.measure.rules import catalogue

    if as_json:
        return "".join(
            json.dumps(
                {
                    "rule": rule.name,
                    "formula": rule.formula,
                    "published_by": rule.published_by,
                    "formats": sorted(rule.formats),
                },
                ensure_ascii=False,
            )
            + "\n"
            for rule in catalogue()
        )
    lines = []
    for rule in catalogue():
        lines += [rule.name, f"    {rule.formula}", f"    published by: {rule.published_by}"]
        lines += [f"    for: {', '.join(sorted(rule.formats)) or 'every format'}"]
    lines += [
        "To choose the number: --skip N with mean, median, harmonic, trimmed or window; or mean-last-N.",
        "",
    ]
    return "\n".join(lines)


def list_formats(*, as_json: bool) -> str:
    """Return the known formats, as a table or as one JSON object per line."""
    from trainmark.programs import formats

    if as_json:
        return "".join(
            json.dumps(
                {
                    "format": f.name,
                    "framework": f.framework,
                    "unit": f.unit,
                    "rate_of": f.scope,
                    "rate_is": f.meaning,
                }
            )
            + "\n"
            for f in formats()
        )
    from trainmark.printable import table

    headings = ("format", "framework", "unit", "printed rate covers", "averaged over")
    return table(headings, [[f.name, f.framework or "-", f.unit, f.scope, f.meaning] for f in formats()])
