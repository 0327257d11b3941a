"""A recorder without a process around it: the real writer and stacks, a driver whose answers the test sets."""

from __future__ import annotations

import os
import sys
from typing import Any

import msgspec
import pytest

from cudagraph_doctor.probe import guard
from cudagraph_doctor.probe.arm import Window, windows_of
from cudagraph_doctor.probe.config import Config
from cudagraph_doctor.probe.context import Context
from cudagraph_doctor.probe.stacks import Stacks
from cudagraph_doctor.probe.writer import Writer
from cudagraph_doctor.trace.events import RECORDS

sys.path.insert(0, os.path.dirname(__file__))  # for fake_torch: importlib mode has no package here


class FakeDriver:
    """Answers by raw handle."""

    def __init__(self) -> None:
        self.statuses: dict[int, int] = {}
        self.nodes = 0
        self.lines: list[str] = []

    def status(self, handle: int) -> int | None:
        return self.statuses.get(handle, 0)

    def capture_info(self, handle: int) -> tuple[int | None, int, int | None]:
        return self.status(handle), handle, self.nodes

    def error_log(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines


class Recorder:
    """The context under test, and what was written so far."""

    def __init__(self, folder: str) -> None:
        config = Config({"trace": folder, "target": os.path.dirname(__file__), "cwd": "", "device": "cuda"}, "run")
        self.writer = Writer(folder, list)
        self.context = Context(config, self.writer)
        self.context.use_stacks(Stacks(self.context))
        self.driver = FakeDriver()
        self.context.driver = self.driver
        self.windows = windows_of(self.context)
        self.failures: list[str] = []

    def records(self, kind: str | None = None) -> list[Any]:
        with open(self.writer.path, "rb") as file:
            found = [DECODE(line) for line in file]
        return found if kind is None else [one for one in found if one.__struct_config__.tag == kind]

    def window(self, handle: int = 0x10) -> Window:
        """Opens a window on a stream that captures."""
        self.windows.prepare()
        self.driver.statuses[handle] = 1
        window = Window(self.context.ids.next("capture"), handle, 1, 0, "global", 1)
        self.windows.enter(window)
        return window

    def stack_of(self, record: Any) -> Any:
        return next(one for one in self.records("stack") if one.id == record.stack)

    def line_of(self, record: Any) -> int:
        """Line of the innermost frame."""
        return int(self.stack_of(record).frames[0][1])


def _decoder() -> Any:
    union: Any = RECORDS[0]
    for kind in RECORDS[1:]:
        union |= kind
    return msgspec.json.Decoder(union).decode


DECODE = _decoder()


@pytest.fixture
def recorder(tmp_path):
    made = Recorder(str(tmp_path))
    guard._states.clear()
    guard.report_failures_to(lambda state, error: made.failures.append(f"{state.name}: {error!r}"))
    yield made
    for window in made.windows.open:
        made.windows.leave(window)
    assert made.failures == []
    guard.report_failures_to(lambda state, error: None)
