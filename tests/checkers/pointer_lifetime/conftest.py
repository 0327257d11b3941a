"""Graphs with storages whose fate is written by hand."""

import pytest

from cudagraph_doctor.checkers.pointer_lifetime import PointerLifetime
from cudagraph_doctor.testing import diagnose_trace
from cudagraph_doctor.trace import events


class Fate:
    """A region whose storages are told: what a look before a replay found of them."""

    def __init__(self, region, **options):
        self.region, self.trace = region, region.trace
        self.trace.capability("storages")

    def storage(self, number, ptr, capture, **fields):
        fields.setdefault("size", 256)
        fields.setdefault("dev", "cuda:0")
        fields.setdefault("pool", "general" if fields["dev"] != "cpu" else "")
        self.trace.add(events.Storage, id=number, ptr=hex(ptr), cap=capture.id, **fields)

    def graph(self, capture, pool="0,2"):
        self.trace.add(events.Graph, id=capture.graph, cap=capture.id, pool=pool)

    def free(self, number, ptr, capture, *, at="", function="<module>", replay=1, **fields):
        stack = self.trace.stack(self.region.script.line(at), function=function) if at else 0
        fields.setdefault("stack", stack)
        self.trace.add(events.Free, id=number, ptr=hex(ptr), exec=capture.exec, replay=replay, **fields)

    def replay(self, capture, at, *, stream=0, count=1, **fields):
        line = self.region.script.line(at)
        return self.trace.replay(capture.graph, line=line, count=count, exec=capture.exec, stream=stream, **fields)

    def touch(self, what, ptr, at, *, stream=0, name="aten::mul", **fields):
        stack = self.trace.stack(self.region.script.line(at))
        self.trace.add(
            events.Touch, storage=0, what=what, name=name, ptr=hex(ptr), size=8, stream=stream, stack=stack, **fields
        )

    @property
    def report(self):
        return diagnose_trace(self.trace, checkers=[PointerLifetime])

    @property
    def found(self):
        return [(f.rule.id, f.location.line, f.level.value, f.confidence.value) for f in self.report.findings]


@pytest.fixture
def fate(region):
    """`fate(TEXT)`: a script with a region and storages."""
    return lambda text, **options: Fate(region(text, **options))
