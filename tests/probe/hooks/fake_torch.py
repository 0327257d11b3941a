"""A torch without a device: the classes that hooks patch, over a driver whose answers the test sets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any


class RefusedError(RuntimeError):
    """Stands for torch.AcceleratorError."""

    def __init__(self, code: int) -> None:
        super().__init__(f"CUDA error {code}")
        self.error_code = code


def make(driver: Any) -> SimpleNamespace:
    """A module like torch: one device, streams by raw handle; `torch.fails[name]` makes a call raise and break captures."""
    fails: dict[str, int] = {}
    state = SimpleNamespace(stream=0x0)

    def act(name: str) -> None:
        code = fails.get(name, 0)
        if code:
            if code not in {901, 904}:
                for handle, status in list(driver.statuses.items()):
                    driver.statuses[handle] = 2 if status == 1 else status
            raise RefusedError(code)

    class Stream:
        def __init__(self, handle: int) -> None:
            self.cuda_stream = handle
            self.device_index = 0

        def wait_event(self, event):
            event.wait(self)

        def wait_stream(self, stream):
            self.wait_event(stream.record_event())

        def record_event(self, event=None):
            event = event or Event()
            event.record(self)
            return event

        def query(self):
            act("query")
            return True

        def synchronize(self):
            act("synchronize")

    class ExternalStream(Stream):
        pass

    class Event:
        def __new__(cls, enable_timing=False, blocking=False, interprocess=False, external=False):
            return super().__new__(cls)

        cuda_event = 0

        def record(self, stream=None):
            self.cuda_event = id(self)
            act("record")

        def wait(self, stream=None):
            act("wait")

        def query(self):
            act("query")
            return True

        def synchronize(self):
            act("event_synchronize")

        def elapsed_time(self, end):
            act("elapsed")
            return 1.0

    class CUDAGraph:
        def __init__(self, keep_graph=False):
            self.keep_graph = keep_graph

        def capture_begin(self, pool=None, capture_error_mode="global"):
            act("begin")
            driver.statuses[state.stream] = 1

        def capture_end(self):
            broken = driver.statuses[state.stream] == 2
            driver.statuses[state.stream] = 0
            act("end")
            if broken:
                raise RefusedError(901)

        def instantiate(self):
            act("instantiate")

        def replay(self):
            act("replay")

        def reset(self):
            pass

        def raw_cuda_graph(self):
            if not self.keep_graph:
                raise RuntimeError("not kept")
            return 0x77

    class graph:  # noqa: N801 - torch's name
        def __init__(self, cuda_graph):
            self.cuda_graph = cuda_graph

        def __enter__(self):
            self.before, state.stream = state.stream, 0x10
            self.cuda_graph.capture_begin()

        def __exit__(self, *args):
            self.cuda_graph.capture_end()
            state.stream = self.before

    cuda = SimpleNamespace(
        Stream=Stream,
        ExternalStream=ExternalStream,
        Event=Event,
        CUDAGraph=CUDAGraph,
        graph=graph,
        is_initialized=lambda: True,
        synchronize=lambda device=None: act("device"),
        current_stream=lambda device=None: Stream(state.stream),
    )
    internals = SimpleNamespace(_cuda_getCurrentRawStream=lambda device: state.stream, _cuda_getDevice=lambda: 0)
    return SimpleNamespace(cuda=cuda, _C=internals, __version__="2.11.0", fails=fails, state=state)
