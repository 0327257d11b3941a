from __future__ import annotations

import io
import sys
import time

import pytest

from cudagraph_doctor.cli import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _soon(monkeypatch):
    monkeypatch.setattr(progress, "AFTER", 0.05)
    monkeypatch.setattr(progress, "EVERY", 0.05)


def told(monkeypatch, stream, seconds: float) -> str:
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.progress("diagnosing"):
        time.sleep(seconds)
    return stream.getvalue()


def test_long_work_on_a_terminal_is_told_and_the_line_is_cleared(monkeypatch):
    text = told(monkeypatch, Terminal(), 0.3)
    assert "\rcudagraph-doctor: diagnosing, 0 s " in text
    assert text.endswith("\r\x1b[K")


def test_short_work_and_a_pipe_show_nothing(monkeypatch):
    assert told(monkeypatch, Terminal(), 0) == ""
    assert told(monkeypatch, io.StringIO(), 0.3) == ""


def test_a_failure_ends_it(monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    with pytest.raises(KeyboardInterrupt), progress.progress("diagnosing"):
        time.sleep(0.2)
        raise KeyboardInterrupt
    assert stream.getvalue().endswith("\r\x1b[K")
