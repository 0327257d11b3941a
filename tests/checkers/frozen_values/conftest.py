"""Runs of the checker on hand-written regions."""

import pytest

from cudagraph_doctor.checkers.frozen_values import FrozenValues
from cudagraph_doctor.testing import diagnose_trace


@pytest.fixture
def found():
    """`found(region)`: the findings, as (rule, line, level) with the findings themselves."""

    def look(region):
        findings = diagnose_trace(region.trace, checkers=[FrozenValues]).findings
        return list(findings)

    return look


@pytest.fixture
def finds(found):
    """`finds(region, "CGD601", line=3)`: the only finding, which must be this one."""

    def check(region, rule, *, line=None, level="error", confidence=None, message=None):
        findings = found(region)
        assert [f.rule.id for f in findings] == [rule], [f"{f.rule.id} {f.message}" for f in findings]
        finding = findings[0]
        assert line is None or finding.location.line == line, finding
        assert finding.level.value == level
        assert confidence is None or finding.confidence.value == confidence
        assert message is None or message in finding.message, finding.message
        return finding

    return check


@pytest.fixture
def quiet(found):
    """`quiet(region)`: no finding, not even a note."""

    def check(region):
        assert [f"{f.rule.id} {f.message}" for f in found(region)] == []

    return check
