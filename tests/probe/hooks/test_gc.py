from __future__ import annotations

import gc
import sys

import pytest

from cudagraph_doctor.probe.hooks import gc as gc_hook


@pytest.fixture
def collected(recorder):
    gc_hook.install(None, recorder.context)
    gc.collect()
    gc.disable()
    yield recorder
    gc.enable()


class Cycle:
    def __init__(self, last_words=None):
        self.owner = self
        self.last_words = last_words

    def __del__(self):
        if self.last_words is not None:
            self.last_words()


def test_a_collection_of_nothing_is_not_told(collected):
    collected.window()
    gc.collect()
    collected.context.write("thread", name="later")
    assert collected.records("gc") == []
    assert collected.records("stack") == []


def test_a_collection_of_something_is_told_with_its_line(collected):
    window = collected.window()
    Cycle()
    gc.collect()  # marker
    start, stop = collected.records("gc")
    assert (start.phase, stop.phase, start.cap, stop.generation) == ("start", "stop", window.id, 2)
    assert stop.collected >= 1
    with open(__file__) as file:
        assert file.readlines()[collected.line_of(start) - 1].strip() == "gc.collect()  # marker"
    assert start.stack == stop.stack


def test_what_a_finaliser_does_stands_between_start_and_stop(collected):
    collected.window()
    Cycle(lambda: collected.context.write("thread", name="finaliser"))
    gc.collect()
    kinds = [one.__struct_config__.tag for one in collected.records() if one.q]
    told = [kind for kind in kinds if kind in {"gc", "thread"}]
    assert told == ["gc", "thread", "gc"]


def test_start_is_written_at_once_where_c_writes_records_too(collected):
    collected.context.operator_runs = lambda q, stack: None
    collected.window()
    gc.collect()
    assert [one.phase for one in collected.records("gc")] == ["start", "stop"]
    collected.context.operator_runs = None


def test_a_collection_in_an_import_is_told_at_the_import(collected, tmp_path, monkeypatch):
    (tmp_path / "imported_in_a_window.py").write_text("import gc\na = []\na.append(a)\ndel a\ngc.collect()\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    collected.window()
    import imported_in_a_window  # noqa: F401

    start, _stop = collected.records("gc")
    assert collected.stack_of(start).frames[0][2] == sys._getframe().f_code.co_qualname
    assert not any("imported_in_a_window" in source.path for source in collected.records("source"))
