from __future__ import annotations

import contextlib
import ctypes
import sys
import threading

import msgspec
import pytest

from cudagraph_doctor.probe.c_call_records import CCallRecords, worth_telling
from cudagraph_doctor.probe.callables import Watched, name_of
from cudagraph_doctor.probe.hooks import ccalls
from cudagraph_doctor.probe.hooks.ccalls import CCalls
from cudagraph_doctor.probe.profile_watch import ProfileWatch

needs_monitoring = pytest.mark.skipif(not hasattr(sys, "monitoring"), reason="sys.monitoring came with Python 3.12")
LIBC = ctypes.CDLL(None)
REFUSED = "CUDA error: operation not permitted when stream is capturing"


def break_capture(recorder):
    recorder.driver.statuses[0x10] = 2
    msgspec.json.encode(1)  # marker


@pytest.fixture
def profiled(recorder):
    watch = ProfileWatch(CCallRecords(recorder.context, "c-calls"))
    recorder.windows.add(CCalls(recorder.context, watch))
    recorder.windows.pause, recorder.windows.resume = watch.pause, watch.resume
    return recorder


@pytest.fixture
def monitored(recorder):
    ccalls.install(None, recorder.context)
    return recorder


def culprit(recorder):
    (call,) = recorder.records("pycall")
    (status,) = recorder.records("capture-status")
    assert (status.across, status.by) == (call.q, "pycall")
    assert (call.before, call.after) == (1, 2)
    with open(__file__) as file:
        assert file.readlines()[recorder.line_of(call) - 1].rstrip().endswith("# marker")
    return call


def test_the_profiler_names_the_call_and_goes_away(profiled):
    window = profiled.window()
    break_capture(profiled)
    msgspec.json.encode(2)
    profiled.windows.leave(window)
    assert sys.getprofile() is None
    assert culprit(profiled).name.endswith("encode")


def test_somebody_elses_profiler_is_left_alone(profiled):
    def theirs(*_):
        return None

    sys.setprofile(theirs)
    try:
        window = profiled.window()
        assert sys.getprofile() is theirs
        profiled.windows.leave(window)
        assert sys.getprofile() is theirs
    finally:
        sys.setprofile(None)
    said = [one for one in profiled.records("capability") if one.name == "c-calls"]
    assert said[-1].state == "off"


@needs_monitoring
def test_the_call_is_named_on_another_thread(monitored):
    go, done = threading.Event(), threading.Event()

    def work():
        go.wait(10)
        break_capture(monitored)
        done.set()

    worker = threading.Thread(target=work)
    worker.start()
    window = monitored.window()
    go.set()
    done.wait(10)
    monitored.windows.leave(window)
    worker.join()
    assert culprit(monitored).tid == worker.native_id


@needs_monitoring
def test_an_exception_is_told_once_where_it_was_raised(monitored):
    def fails():
        raise RuntimeError(REFUSED)

    window = monitored.window()
    for _ in range(2):
        with contextlib.suppress(RuntimeError):
            fails()
    monitored.windows.leave(window)
    told = monitored.records("pycall")
    assert [(one.exc.type, one.exc.code) for one in told] == [("RuntimeError", 900)] * 2
    assert monitored.stack_of(told[0]).frames[0][2].endswith("fails")


@needs_monitoring
def test_nothing_is_left_after_the_window(monitored):
    before = [sys.monitoring.get_tool(number) for number in range(6)]
    window = monitored.window()
    assert "cudagraph-doctor" in [sys.monitoring.get_tool(number) for number in range(6)]
    monitored.windows.leave(window)
    assert [sys.monitoring.get_tool(number) for number in range(6)] == before
    break_capture(monitored)
    assert monitored.records("pycall") == []


@needs_monitoring
def test_tool_ids_of_others_are_left_alone(monitored):
    taken = [number for number in range(6) if sys.monitoring.get_tool(number) is None]
    for number in taken:
        sys.monitoring.use_tool_id(number, "theirs")
    try:
        window = monitored.window()
        monitored.windows.leave(window)
    finally:
        for number in taken:
            sys.monitoring.free_tool_id(number)
    said = [one for one in monitored.records("capability") if one.name == "c-calls"]
    assert (said[-1].state, said[-1].why) == ("off", "every tool id of sys.monitoring is taken")


@needs_monitoring
def test_tracebacks_of_the_target_do_not_hold_our_frames(monitored):
    torch = pytest.importorskip("torch")
    from cudagraph_doctor.probe.hooks import ops

    ops.install(torch, monitored.context)
    window = monitored.window()
    try:
        torch.ones(2, 3) @ torch.ones(2, 3)
    except RuntimeError as error:
        depth = 0
        frames = error.__traceback__
        while frames is not None:
            depth += 1
            frames = frames.tb_next
    monitored.windows.leave(window)
    assert depth == 1


@needs_monitoring
def test_reading_a_tensor_through_a_function_of_python_is_seen(monitored):
    torch = pytest.importorskip("torch")
    x = torch.ones(1)
    window = monitored.window()
    isinstance(x, torch.Tensor)
    monitored.driver.statuses[0x10] = 2
    float(x)  # marker
    monitored.windows.leave(window)
    assert culprit(monitored).name == "builtins.float"


def test_harmless_functions_are_not_looked_at():
    watched = Watched()
    assert not any(watched(function) for function in (len, [].append, threading.Lock().acquire, dict.get, int, print))
    assert watched(LIBC.getpid)
    assert not watched(Watched())


def test_no_code_of_the_target_runs_to_decide():
    class Hostile:
        def __hash__(self):
            pytest.fail("hashed")
            return 0

        def __eq__(self, other):
            pytest.fail("compared")

        def __call__(self):
            pass

    assert Watched()(Hostile()) is False


def test_names():
    assert name_of(len) == "builtins.len"
    assert name_of(dict.get) == "builtins.dict.get"
    torch = pytest.importorskip("torch")
    assert name_of(torch.masked_select) == "torch.masked_select"
    assert name_of(torch.Tensor.item) == "torch._C.TensorBase.item"


@pytest.mark.parametrize(
    ("error", "filename", "told"),
    [
        (RuntimeError(REFUSED), "/home/me/run.py", True),
        (RuntimeError("mine"), "/home/me/run.py", False),
        (RuntimeError("capturable is False"), "/x/torch/optim/adam.py", True),
        (KeyError("x"), "/x/torch/nn/module.py", False),
        (RuntimeError("unsupported"), "/x/torch/_dynamo/symbolic_convert.py", False),
        (RuntimeError(REFUSED), "/x/torch/_inductor/runtime.py", True),
        (FileNotFoundError("x"), "/x/triton/cache.py", False),
    ],
)
def test_which_exceptions_are_told(error, filename, told):
    assert worth_telling(error, None, filename) is told
