"""The collector of Python 3.12 and newer, with a region that only notes what it is told."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from cudagraph_doctor.probe.region.bytecode import table_of
from cudagraph_doctor.probe.region.monitoring_collector import MonitoringCollector

if TYPE_CHECKING:
    from types import CodeType

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is of Python 3.12")

SCALE = 2


def captured() -> int:
    return SCALE


class Noted:
    """Stands in for a region: follows the code of `captured`."""

    def __init__(self) -> None:
        self.entered: dict[int, Any] = {}
        self.names: list[str] = []

    def table(self, code: CodeType, _space: Any) -> Any:
        return table_of(code) if code is captured.__code__ else None

    def access(self, access: Any, _frame: Any, *, keep: bool) -> bool:
        self.names.append(access.expression.name)
        return True


def _fail(error: BaseException) -> None:
    raise error


def test_the_second_of_two_windows_sees_code_that_did_not_run_in_between() -> None:
    collector = MonitoringCollector(_fail)
    for _ in range(2):
        region: Any = Noted()
        collector.start(region, [])
        try:
            captured()
        finally:
            collector.stop(region)
        assert region.names == ["SCALE"]
