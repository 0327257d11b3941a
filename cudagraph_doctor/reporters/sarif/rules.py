"""The rules of the findings as SARIF's reporting descriptors, with their help."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cudagraph_doctor.findings import Rule
    from cudagraph_doctor.report import Report


def of_findings(report: Report) -> dict[str, Rule]:
    """Every rule that was found, by id, sorted."""
    found = {finding.rule.id: finding.rule for finding in report.findings}
    return dict(sorted(found.items()))


def descriptor(rule: Rule) -> dict[str, Any]:
    """One rule: its name, its sentence, and the text of `explain` as help."""
    return {
        "id": rule.id,
        "name": "".join(part.capitalize() for part in rule.slug.split("-")) or rule.id,
        "shortDescription": {"text": rule.what or rule.slug or rule.id},
        "fullDescription": {"text": rule.what or rule.slug or rule.id},
        "help": {"text": rule.text or rule.what or rule.id, "markdown": rule.text or rule.what or rule.id},
        "defaultConfiguration": {"level": rule.level.value},
        "properties": {"tags": ["cuda-graphs"], "problem.severity": _PROBLEM[rule.level.value]},
    }


_PROBLEM = {"error": "error", "warning": "warning", "note": "recommendation"}
"""What GitHub's code scanning calls the levels."""
