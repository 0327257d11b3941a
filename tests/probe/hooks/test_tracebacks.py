"""What the target prints of an exception is the same, to the line, with the recorder and without."""

from __future__ import annotations

import traceback
from types import SimpleNamespace

import fake_torch
import pytest

torch = pytest.importorskip("torch")

from cudagraph_doctor.probe.hooks import graph, graph_block, ops, replay, streams  # noqa: E402
from cudagraph_doctor.probe.tracebacks import hide  # noqa: E402


class Story:
    """Tracebacks as a target would print them, each of another call that fails."""

    def __init__(self, torch, driver):
        self.torch, self.driver = torch, driver
        self.told = []

    def fail(self, what, code, action):
        self.torch.fails[what] = code
        try:
            action()
        except Exception:
            self.told.append(traceback.format_exc())
        else:
            self.told.append(f"{what} did not fail")
        del self.torch.fails[what]

    def block(self, body):
        with self.torch.cuda.graph(self.torch.cuda.CUDAGraph()):
            body()

    def run(self):
        cuda = self.torch.cuda
        graph, event, stream = cuda.CUDAGraph(), cuda.Event(), cuda.Stream(0x20)
        event.record()
        self.calls(lambda action: action(), graph, event, stream)
        self.calls(self.block, graph, event, stream)
        self.fail("nothing", 0, lambda: self.block(lambda: 1 / 0))
        self.fail("nothing", 0, lambda: graph.capture_begin("not", "a", "pool"))
        return self.told

    def calls(self, where, graph, event, stream):
        self.fail("begin", 900, lambda: where(graph.capture_begin))
        self.fail("end", 904, lambda: where(graph.capture_end))
        self.fail("replay", 900, lambda: where(graph.replay))
        self.fail("instantiate", 1, lambda: where(graph.instantiate))
        self.fail("record", 900, lambda: where(event.record))
        self.fail("record", 900, lambda: where(lambda: stream.wait_stream(stream)))
        self.fail("wait", 905, lambda: where(lambda: stream.wait_event(event)))
        self.fail("event_synchronize", 900, lambda: where(event.synchronize))
        self.fail("query", 900, lambda: where(stream.query))
        self.fail("elapsed", 1, lambda: where(lambda: event.elapsed_time(event)))
        self.fail("device", 900, lambda: where(self.torch.cuda.synchronize))


def test_tracebacks_of_wrapped_methods_are_the_same(recorder):
    def driver():
        return SimpleNamespace(statuses={})

    plain_driver = driver()
    plain = Story(fake_torch.make(plain_driver), plain_driver).run()
    patched = fake_torch.make(recorder.driver)
    for hook in (graph, graph_block, replay, streams):
        hook.install(patched, recorder.context)
    recorded = Story(patched, recorder.driver).run()
    assert recorded == plain
    assert len([text for text in plain if "Traceback" in text]) >= 22
    assert recorder.records("call")


def test_tracebacks_of_operators_are_the_same(recorder):
    @torch.library.custom_op("cgd_test::raises", mutates_args=())
    def raises(x: torch.Tensor) -> torch.Tensor:
        raise ValueError("mine")

    def story():
        told = []
        x = torch.ones(2, 3)
        actions = (
            lambda: x @ x,
            lambda: torch.add(x, torch.ones(5)),
            lambda: torch.nn.functional.linear(x, x.T),
            lambda: torch.ops.aten.mm.default(x, x),
            lambda: x.view(7),
            lambda: x.add_(torch.ones(9, 9)),
            lambda: raises(x),
        )
        for action in actions:
            try:
                action()
            except Exception:
                told.append(traceback.format_exc())
        with torch.inference_mode():
            try:
                torch.ones(2, 3).reshape(7)
            except Exception:
                told.append(traceback.format_exc())
        return told

    plain = story()
    ops.install(torch, recorder.context)
    window = recorder.window()
    recorded = story()
    recorder.windows.leave(window)
    assert recorded == plain
    assert len(plain) == 8
    assert recorder.records("op")


def test_only_the_top_of_a_traceback_is_taken():
    def inner():
        raise KeyError("kept")

    with pytest.raises(KeyError) as raised:
        inner()
    before = raised.value.__traceback__
    hide(raised.value)
    assert raised.value.__traceback__ is before


class StubbornError(Exception):
    """An exception class that will have none of it."""

    def with_traceback(self, frames):
        raise AssertionError("the target's code ran")

    def __setattr__(self, name, value):
        raise AssertionError("the target's code ran")


def test_no_code_of_the_target_runs():
    try:
        raise StubbornError
    except StubbornError as error:
        hide(error)
