"""The writer: one line a record, valid JSON whatever it is given, never an exception."""

from __future__ import annotations

import json
import math
import os
import threading

import pytest

from cudagraph_doctor.probe.sequence import Sequence
from cudagraph_doctor.probe.writer import Writer


@pytest.fixture
def writer(tmp_path):
    made = Writer(str(tmp_path / "trace"), lambda: [("header", {"format": "test"})])
    yield made
    if made._file is not None:
        made._file.close()


def lines(writer: Writer) -> list[dict]:
    with open(writer.path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_every_record_carries_kind_number_time_and_thread(writer) -> None:
    q = writer.write("log", {"message": "x"})
    header, record = lines(writer)
    assert header["k"] == "header"
    assert record.items() >= {"k": "log", "q": q, "tid": threading.get_native_id(), "message": "x"}.items()
    assert record["t"] >= header["t"]


def test_one_write_a_record(writer, monkeypatch) -> None:
    calls = []
    real = os.write
    monkeypatch.setattr("os.write", lambda fd, data: calls.append(data) or real(fd, data))
    writer.write("log", {"message": "x"})
    assert len(calls) == 1
    assert calls[0].endswith(b"\n")


CYCLE: list = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    "value",
    [math.nan, math.inf, CYCLE, {1: "number as key", (1, 2): "tuple as key"}, object(), {1, 2}, b"bytes", type],
    ids=["nan", "inf", "cycle", "odd keys", "object", "set", "bytes", "class"],
)
def test_values_that_json_cannot_say_become_text(writer, value) -> None:
    writer.write("log", {"message": "before"})
    writer.write("log", {"value": value})
    writer.write("log", {"message": "after"})
    found = lines(writer)
    assert [record.get("message") for record in found[1:]] == ["before", None, "after"]
    assert "value" in found[2]


@pytest.mark.parametrize("text", ["\udc80 not UTF-8", "a\nb\r\u2028\x00\x1b[31m", "漢字 עברית 🦊", '"quoted" \\'])
def test_text_stays_on_one_line_and_is_utf8(writer, text: str) -> None:
    writer.write("log", {"message": text})
    with open(writer.path, "rb") as file:
        assert file.read().count(b"\n") == 2
    assert lines(writer)[1]["message"] == text.replace("\udc80", "?")


def test_repr_of_a_foreign_object_is_not_run(writer) -> None:
    class Foreign:
        def __repr__(self):
            raise AssertionError("the target's code ran")

        __str__ = __repr__

    writer.write("log", {"value": Foreign()})
    assert "Foreign" in lines(writer)[1]["value"]


def test_cut_write_tears_one_line_only_and_is_told(writer, monkeypatch) -> None:
    real = os.write
    with monkeypatch.context() as patch:
        patch.setattr("os.write", lambda fd, data: real(fd, data[:10]))
        writer.write("log", {"message": "torn"})
    writer.write("log", {"message": "whole"})
    with open(writer.path, encoding="utf-8") as file:
        found = file.read().splitlines()
    assert len(found) == 4
    assert json.loads(found[2]).items() >= {"k": "lost", "count": 1}.items()
    assert json.loads(found[3])["message"] == "whole"


def test_refused_writes_are_counted_in_shared_memory(writer, monkeypatch) -> None:
    def full(fd, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.write", full)
        for _ in range(3):
            writer.write("log", {})
        assert list(writer.slots.head[1:3]) == [3, 28]
    writer.write("log", {"message": "room again"})
    lost, record = lines(writer)[1:]
    assert (lost["count"], lost["why"]) == (3, "No space left on device")
    assert record["message"] == "room again"
    assert writer.slots.head[1] == 0


def test_folder_that_cannot_be_made_loses_and_raises_nothing() -> None:
    lost = Writer("/proc/no/such", lambda: [("header", {})])
    assert lost.write("log", {}) == 2
    assert lost.slots.head[1] == 2


def test_number_drawn_by_threads_is_drawn_once() -> None:
    sequence, drawn = Sequence(), []

    def draw() -> None:
        drawn.extend([sequence.draw() for _ in range(5000)])

    threads = [threading.Thread(target=draw) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(drawn) == list(range(1, 40001))


def test_shared_sequence_goes_on_above_what_was_drawn() -> None:
    sequence, word = Sequence(), memoryview(bytearray(8)).cast("Q")
    before = [sequence.draw() for _ in range(10)]
    straggler = sequence.draw  # a thread that has read the counter and not yet called it

    def fetch_add() -> int:
        word[0] += 1
        return word[0] - 1

    sequence.share(word, fetch_add)
    after = [sequence.draw() for _ in range(5)]
    assert min(after) > max(before)
    assert straggler() not in after
