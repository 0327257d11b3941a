"""Fingerprints seen from the configuration's folder, so that they do not depend on where the tool was started."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from cudagraph_doctor.findings import fingerprint
from cudagraph_doctor.gate.roots import path_from

if TYPE_CHECKING:
    from cudagraph_doctor.findings import Finding
    from cudagraph_doctor.report import Report, Roots


def fingerprinted(report: Report, root: str) -> Report:
    """The report with every finding's fingerprint as seen from `root`."""
    findings = tuple(
        replace(finding, fingerprint=fingerprint(*identity(finding, root, report.roots))) for finding in report.findings
    )
    return replace(report, findings=findings)


def identity(finding: Finding, root: str, roots: Roots) -> tuple[str, str, str, str]:
    """What a finding is recognised by: rule, path, qualified function, kind of trigger."""
    place = finding.location
    if place is None:
        return finding.rule.id, "", "", finding.trigger
    return finding.rule.id, path_from(root, roots, place.file), place.function or "", finding.trigger
