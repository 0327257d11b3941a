"""SARIF 2.1.0 (docs.oasis-open.org/sarif/sarif/v2.1.0), for code scanning and editors."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, TextIO

from cudagraph_doctor.reporters.sarif import invocation, result, rules

if TYPE_CHECKING:
    from cudagraph_doctor.report import Report

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_SURROGATE = re.compile("[\ud800-\udfff]")


def write(report: Report, stream: TextIO) -> None:
    """Write one log with one run, ASCII only."""
    # Neither indented nor in pieces: only so does Python's encoder in C do it, thirty times as fast.
    stream.write(json.dumps(_writable(to_dict(report)), allow_nan=False))
    stream.write("\n")


def to_dict(report: Report) -> dict[str, Any]:
    """The log as plain dictionaries and lists."""
    found = rules.of_findings(report)
    run: dict[str, Any] = {
        "tool": {
            "driver": {
                "name": "cudagraph-doctor",
                "version": report.tool_version,
                "semanticVersion": report.tool_version,
                "rules": [rules.descriptor(rule) for rule in found.values()],
                "notifications": invocation.NOTIFICATIONS,
            }
        },
        "columnKind": "unicodeCodePoints",
        "originalUriBaseIds": {
            "%SRCROOT%": {"description": {"text": "The root of the repository."}},
            "PACKAGES": {"description": {"text": "The folder of installed packages or of the standard library."}},
        },
        "invocations": [invocation.of_run(report)],
        "results": [result.of_finding(report, finding, list(found)) for finding in report.findings],
        "properties": {
            "target": list(report.argv),
            "device": report.device.name or report.device.backend,
            "evidence": report.device.evidence,
        },
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _writable(value: Any) -> Any:
    """JSON of other tools has no lone surrogates; Python has, for bytes that are no UTF-8."""
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_writable(name): _writable(one) for name, one in value.items()}
    return [_writable(one) for one in value] if isinstance(value, list) else value
