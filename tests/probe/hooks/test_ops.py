"""Operators under the dispatch mode, on CPU tensors: what needs a device is tested under tests/gpu."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from cudagraph_doctor.probe.hooks import ops  # noqa: E402
from cudagraph_doctor.probe.operator_facts import facts_of  # noqa: E402
from cudagraph_doctor.probe.tensor_summary import Summaries  # noqa: E402


@pytest.fixture
def watched(recorder):
    ops.install(torch, recorder.context)
    return recorder


def names(recorder):
    return [record.name for record in recorder.records("op")]


def test_operators_are_recorded_only_inside_a_window_with_their_line(watched):
    x = torch.ones(4, 4)
    x + 1
    window = watched.window()
    y = x @ x  # marker
    watched.windows.leave(window)
    y + 1
    (op,) = watched.records("op")
    assert (op.name, op.cap, op.before, op.kind) == ("aten::mm", window.id, 1, "host")
    with open(__file__) as file:
        assert file.readlines()[watched.line_of(op) - 1].strip() == "y = x @ x  # marker"
    assert op.tensors[0].ptr == hex(x.untyped_storage().data_ptr())
    assert op.tensors[0].size == 64
    (outcome,) = watched.records("outcome")
    assert (outcome.of, outcome.after) == (op.q, 1)


def test_a_change_inside_an_operator_blames_it(watched):
    @torch.library.custom_op("cgd_test::breaks", mutates_args=())
    def breaks(x: torch.Tensor) -> torch.Tensor:
        watched.driver.statuses[0x10] = 2
        return x.clone()

    watched.window()
    breaks(torch.ones(2))
    torch.ones(2) + 1
    op = next(record for record in watched.records("op") if record.name == "cgd_test::breaks")
    (status,) = watched.records("capture-status")
    assert (status.across, status.by) == (op.q, "op")
    assert watched.records("op")[-1].before == 2


def test_an_exception_of_an_operator_goes_on_and_is_told(watched):
    window = watched.window()
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch.ones(2, 3) @ torch.ones(2, 3)
    watched.windows.leave(window)
    assert watched.records("outcome")[-1].exc.type == "RuntimeError"


def test_the_parts_of_a_composite_operator_come_one_by_one_under_inference_mode(watched):
    x = torch.ones(2, 2)
    with torch.inference_mode():
        window = watched.window()
        x.reshape(4).sum().item()
        watched.windows.leave(window)
    assert names(watched) == ["aten::view", "aten::sum", "aten::_local_scalar_dense"]


def test_higher_order_operators_are_handed_on(watched):
    x = torch.ones(3)
    window = watched.window()
    y = torch.ops.higher_order.cond(torch.tensor(True), torch.sin, torch.cos, (x,))
    watched.windows.leave(window)
    assert torch.equal(y, x.sin())
    assert "higher_order::cond" in names(watched)


def test_other_modes_count_as_without_the_recorder(watched):
    from torch.utils.flop_counter import FlopCounterMode

    def region():
        return torch.ones(8, 8) @ torch.ones(8, 8)

    with FlopCounterMode(display=False) as around:
        region()
        window = watched.window()
        region()
        with FlopCounterMode(display=False) as inside:
            region()
        watched.windows.leave(window)
    assert inside.get_total_flops() == 2 * 8**3
    assert around.get_total_flops() == 3 * 2 * 8**3


def test_a_mode_left_on_top_is_left_alone_and_said(watched):
    from torch.utils._python_dispatch import TorchDispatchMode, _get_current_dispatch_mode

    class Theirs(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*args, **(kwargs or {}))

    theirs = Theirs()
    window = watched.window()
    theirs.__enter__()
    watched.windows.leave(window)
    assert _get_current_dispatch_mode() is theirs
    before = len(watched.records("op"))
    torch.ones(2) + 1
    assert len(watched.records("op")) == before
    theirs.__exit__(None, None, None)
    _get_current_dispatch_mode().__exit__(None, None, None)
    said = [one for one in watched.records("capability") if one.name == "ops"]
    assert "another dispatch mode was on top" in said[-1].why


def test_traced_operators_are_no_work(watched):
    from torch._subclasses.fake_tensor import FakeTensorMode

    window = watched.window()
    with FakeTensorMode():
        torch.ones(2, 2) @ torch.ones(2, 2)
    torch.fx.experimental.proxy_tensor.make_fx(lambda x: x + 1, tracing_mode="fake")(torch.ones(2))
    watched.windows.leave(window)
    assert "aten::mm" not in names(watched)


def test_backward_is_seen(watched):
    w = torch.ones(3, 3, requires_grad=True)
    window = watched.window()
    (w @ w).sum().backward()
    watched.windows.leave(window)
    assert names(watched).count("aten::mm") == 3
    assert all(record.stack for record in watched.records("op"))


def test_a_failing_body_never_reaches_the_target(watched, monkeypatch):
    monkeypatch.setattr(Summaries, "of_arguments", lambda *_: 1 / 0)
    window = watched.window()
    assert (torch.ones(2) + 1).tolist() == [2, 2]
    watched.windows.leave(window)
    assert any("ZeroDivisionError" in failure for failure in watched.failures)
    watched.failures.clear()


@pytest.mark.parametrize(
    ("operator", "kind"),
    [
        (torch.ops.aten.view.default, "view"),
        (torch.ops.aten._unsafe_view.default, "view"),
        (torch.ops.aten.empty.memory_format, "alloc"),
        (torch.ops.aten.copy_.default, "compute"),
        (torch.ops.aten.add.out, "compute"),
        (torch.ops.aten.detach.default, "view"),
    ],
)
def test_kinds(operator, kind):
    assert facts_of(operator, torch).kind == kind


def test_written_arguments_are_marked():
    summaries = Summaries(torch, lambda address: False)
    a, b = torch.ones(4), torch.ones(8)[2:6]
    summary = summaries.of_arguments((a, b), {}, facts_of(torch.ops.aten.copy_.default, torch).written)
    tensors = [json.loads(text) for text in summary.tensors]
    assert [tensor.get("written", False) for tensor in tensors] == [True, False]
    assert (tensors[1]["offset"], tensors[1]["size"], tensors[1]["shape"]) == (8, 32, [4])


def test_values_are_told_and_tensors_never_formatted():
    summaries = Summaries(torch, lambda address: False)
    summary = summaries.of_arguments((torch.ones(2), [1, 2], 3.5), {"dtype": torch.float16}, frozenset())
    assert [json.loads(text) for text in summary.values] == [["1", "[1, 2]"], ["2", "3.5"], ["dtype", "float16"]]


def test_text_of_any_kind_stays_json():
    value = 'a "b"\n\\ \udcff ☃'
    (text,) = Summaries(torch, lambda address: False).of_arguments((value,), {}, frozenset()).values
    assert json.loads(text) == ["0", value]


def test_page_locked_memory_beside_a_device_tensor_is_marked():
    summaries = Summaries(torch, lambda address: True)
    summaries._devices[torch.device("meta")] = ("cuda:0", 0, False)
    summary = summaries.of_arguments((torch.empty(4, device="meta"), torch.ones(4)), {}, frozenset())
    assert summary.device == 0
    assert [json.loads(text).get("pinned") for text in summary.tensors] == [None, True]


def test_a_function_mode_of_the_target_does_not_see_the_recorder(watched):
    from torch.overrides import TorchFunctionMode

    seen = []

    class Theirs(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    window = watched.window()
    with Theirs():
        torch.ones(2).add(1)
    watched.windows.leave(window)
    assert [func.__name__ for func in seen] == ["ones", "add"]
    assert "aten::add" in names(watched)


def test_copy_on_write_is_not_materialised():
    x = torch.ones(4)
    lazy = torch._lazy_clone(x)
    Summaries(torch, lambda address: False).of_arguments((lazy,), {}, frozenset())
    assert torch._C._is_cow_tensor(lazy)


SCRIPT = """
import sys, torch
from cudagraph_doctor.probe.dispatch_mode import mode_class
from cudagraph_doctor.probe.operator_facts import facts_of
class Nothing:
    before = staticmethod(lambda func, args, kwargs: None)
    after = staticmethod(lambda *a: None)
    known = {}; learn = staticmethod(lambda func: facts_of(func, torch))
    class windows: pause = resume = staticmethod(lambda: None)
mode = mode_class(torch)(Nothing)
with mode:
    torch.ones(2) + 1
print("torch._dynamo" in sys.modules)
"""


def test_the_first_operator_does_not_import_dynamo():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


COMPILED = """
import os, sys, tempfile, torch
sys.path.insert(0, sys.argv[1])
from conftest import Recorder
from cudagraph_doctor.probe.hooks import ops
recorder = Recorder(tempfile.mkdtemp())
ops.install(torch, recorder.context)
compiled = torch.compile(lambda x: (x.sin() + 1).cos(), fullgraph=True, backend="aot_eager")
window = recorder.window() if sys.argv[2] == "recorded" else None
y = compiled(torch.ones(3))
if window is not None:
    recorder.windows.leave(window)
from torch._dynamo.utils import counters
print(len(recorder.records("op")), recorder.failures, file=sys.stderr)
print(y.tolist(), {name: dict(counters[name]) for name in ("frames", "stats", "graph_break", "unimplemented")})
"""


@pytest.mark.slow
def test_a_first_compilation_inside_a_window_compiles_as_without():
    command = [sys.executable, "-c", COMPILED, os.path.dirname(__file__)]
    plain, recorded = (
        subprocess.run([*command, how], capture_output=True, text=True, check=True) for how in ("plain", "recorded")
    )
    assert recorded.stdout == plain.stdout
    assert "'unique_graphs': 1" in recorded.stdout
    told, failures = recorded.stderr.splitlines()[-1].split(maxsplit=1)
    assert int(told) >= 3
    assert failures == "[]"
