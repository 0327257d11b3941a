"""`--deep`: torch's history of allocations is turned on when CUDA comes up, and a program's own is left alone."""

from types import SimpleNamespace

import pytest

from cudagraph_doctor.probe.config import Config
from cudagraph_doctor.probe.hooks import allocation_history
from cudagraph_doctor.probe.hooks.allocation_history import history_of

STEP = {"filename": "<string>", "line": 7, "name": "step"}
OUTER = {"filename": "<string>", "line": 2, "name": "serve"}


class Torch:
    """As much of torch as the hook touches; `initialise` is what the first use of CUDA does."""

    def __init__(self, *, enabled=False, traces=()):
        self.calls = []
        self.queued = []
        self.cuda = SimpleNamespace(
            _lazy_call=self.queued.append,
            memory=SimpleNamespace(
                _record_memory_history=lambda *args, **kwargs: self.calls.append((args, kwargs)),
                _snapshot=lambda: {"device_traces": traces},
            ),
        )
        self._C = SimpleNamespace(_cuda_isHistoryEnabled=lambda: enabled)

    def initialise(self):
        for queued in self.queued:
            queued()


def deep(recorder, torch, **config):
    recorder.context.config = Config({"trace": "/nowhere", "deep": True, **config}, "run")
    return allocation_history.install(torch, recorder.context)


def told(recorder):
    return [(r.state, r.why) for r in recorder.records("capability") if r.name == "allocations"]


def test_nothing_happens_before_cuda_is_up(recorder):
    torch = Torch()
    assert deep(recorder, torch) is None
    assert torch.calls == []
    torch.initialise()
    [(args, kwargs)] = torch.calls
    assert args == ("all",)
    assert (kwargs["stacks"], kwargs["max_entries"]) == ("python", allocation_history.ENTRIES)
    assert told(recorder) == [("on", "")]


@pytest.mark.parametrize("config", [{"deep": False}, {"device": "sim"}])
def test_only_when_asked_for(recorder, config):
    torch = Torch()
    assert deep(recorder, torch, **config) is None
    assert torch.queued == []


def test_a_history_that_is_on_is_the_programs(recorder):
    torch = Torch(enabled=True)
    deep(recorder, torch)
    torch.initialise()
    assert torch.calls == []
    assert not history_of(recorder.context).on
    assert told(recorder)[0][0] == "off"


def test_a_program_that_begins_its_own_later_gets_it(recorder):
    torch = Torch()
    deep(recorder, torch)
    torch.initialise()
    torch.cuda.memory._record_memory_history(enabled=None)
    assert torch.calls[-1] == ((), {"enabled": None})
    assert not history_of(recorder.context).on
    assert [state for state, _ in told(recorder)] == ["on", "off"]


def test_who_freed_a_block_first_after_a_time(recorder):
    frees = [
        {"action": "free_requested", "addr": 0x100, "time_us": 5, "frames": [OUTER]},
        {"action": "alloc", "addr": 0x100, "time_us": 6, "frames": [OUTER]},
        {"action": "free_requested", "addr": 0x200, "time_us": 7, "frames": [OUTER]},
        {"action": "free_requested", "addr": 0x100, "time_us": 8, "frames": [STEP, OUTER]},
        {"action": "free_requested", "addr": 0x100, "time_us": 9, "frames": [OUTER]},
    ]
    torch = Torch(traces=[[], frees])
    deep(recorder, torch)
    history = history_of(recorder.context)
    assert history.freed(0x100, 0) == 0  # it is not on yet
    torch.initialise()
    [stack] = _stacks(recorder, history.freed(0x100, 6))
    assert [frame[1:3] for frame in stack.frames] == [(7, "step"), (2, "serve")]
    assert history.freed(0x300, 0) == 0


def _stacks(recorder, number):
    return [r for r in recorder.records("stack") if r.id == number]
