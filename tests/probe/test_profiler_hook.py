"""CUPTI is given to a profiler before it asks for it."""

import types

import pytest

from cudagraph_doctor.probe.config import Config
from cudagraph_doctor.probe.context import Context
from cudagraph_doctor.probe.hooks import native, profiler


class Writer:
    def __init__(self):
        self.records = []

    def write(self, kind, fields):
        self.records.append((kind, fields))
        return len(self.records)


@pytest.fixture
def context():
    return Context(Config({"trace": "/nowhere"}, "run"), Writer())


@pytest.fixture
def released(context, monkeypatch):
    names = []
    monkeypatch.setattr(native.native_probe(context), "release", names.append)
    return names


def torch_profiler():
    module = types.ModuleType("torch.autograd.profiler")

    class profile:  # noqa: N801
        def __init__(self, order):
            self.order = order

        def __enter__(self):
            self.order.append("enter")
            self._prepare_trace()
            self._start_trace()
            return self

        def _prepare_trace(self):
            self.order.append("prepare")

        def _start_trace(self):
            self.order.append("start")

    module.profile = profile
    return module


def test_torch_profiler_gets_cupti_before_it_is_prepared(context, released):
    module = torch_profiler()
    profiler.install(module, context)
    module.profile(released).__enter__()
    assert released == ["torch.profiler", "enter", "torch.profiler", "prepare", "torch.profiler", "start"]


@pytest.mark.parametrize("way", ["_prepare_trace", "_start_trace"])
def test_every_way_in_is_seen(context, released, way):
    module = torch_profiler()
    profiler.install(module, context)
    getattr(module.profile(released), way)()
    assert released[0] == "torch.profiler"


def test_other_users_of_cupti_get_it_too(context, released):
    module = types.ModuleType("cupti.cupti")
    module.subscribe = lambda callback, data: 5
    profiler.install(module, context)
    assert module.subscribe(None, None) == 5
    assert released == ["cupti-python"]


def test_a_profiler_is_no_news_where_no_driver_evidence_was_wanted(context):
    native.native_probe(context).release("torch.profiler")
    assert context.writer.records == []


def test_a_profiler_that_came_first_keeps_cupti(context, monkeypatch):
    probe = native.native_probe(context)
    probe.wanted = True
    probe.release("torch.profiler")
    monkeypatch.setattr(probe, "_arm", lambda: pytest.fail("subscribed beside a profiler"))
    probe.prepare()
    [(kind, fields)] = context.writer.records
    assert (kind, fields["state"]) == ("capability", "off")
    assert "torch.profiler" in fields["why"]
