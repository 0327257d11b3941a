import gzip
import os
import struct

import pytest

from cudagraph_doctor._wire import SLOT_SIZE
from cudagraph_doctor.errors import TraceError, UsageError
from cudagraph_doctor.testing import TraceBuilder
from cudagraph_doctor.trace import events
from cudagraph_doctor.trace.lines import LINE_LIMIT
from cudagraph_doctor.trace.reader import TraceReader, find_traces, read_header


@pytest.fixture
def builder():
    trace = TraceBuilder(source="x = 1\n")
    with trace.capture(line=1) as capture:
        capture.op("aten::mm", line=1)
    return trace


def lines_of(trace):
    return trace.encode().splitlines(keepends=True)


def write(tmp_path, *parts, name="t.jsonl"):
    path = tmp_path / name
    path.write_bytes(b"".join(parts))
    return path


def read(path):
    reader = TraceReader(path)
    return reader, list(reader)


def test_records_come_in_the_order_of_the_file(tmp_path, builder):
    builder.seal()
    reader, records = read(write(tmp_path, builder.encode()))
    assert records == builder.records
    assert (reader.damaged, reader.torn_end) == (0, False)


def test_gzip_is_known_by_content_not_by_name(tmp_path, builder):
    builder.seal()
    for name in ("t.jsonl", "t.jsonl.gz"):
        _, records = read(write(tmp_path, gzip.compress(builder.encode()), name=name))
        assert records == builder.records
    _, records = read(write(tmp_path, builder.encode(), name="plain.jsonl.gz"))
    assert records == builder.records


@pytest.mark.parametrize("position", [1, 5, -2])
@pytest.mark.parametrize("torn", [b'{"k":"op","q":99,\n', b"\x00\xff\xfe\n", b"[" * 50_000 + b"\n", b"\n"])
def test_a_torn_line_anywhere_is_skipped_and_counted(tmp_path, builder, position, torn):
    builder.seal()
    lines = lines_of(builder)
    lines.insert(position, torn)
    reader, records = read(write(tmp_path, *lines))
    assert records == builder.records
    assert reader.damaged == 1
    assert not reader.torn_end or position == -2


def test_a_line_beyond_the_limit_is_skipped_without_being_held(tmp_path, builder):
    lines = lines_of(builder)
    lines.insert(3, b'{"k":"log","q":5,"t":1,"message":"' + b"x" * (LINE_LIMIT + 100) + b'"}\n')
    reader, records = read(write(tmp_path, *lines))
    assert records == builder.records
    assert reader.damaged == 1


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1000])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_lines_are_the_same_wherever_the_blocks_end(tmp_path, builder, monkeypatch, size, pack):
    monkeypatch.setattr("cudagraph_doctor.trace.lines._BLOCK", size)
    monkeypatch.setattr("cudagraph_doctor.trace.lines.LINE_LIMIT", 400)
    lines = lines_of(builder)
    assert max(map(len, lines)) < 400
    lines.insert(2, b"x" * 400 + b"\n")
    reader, records = read(write(tmp_path, pack(b"".join(lines))))
    assert records == builder.records
    assert reader.damaged == 1


def test_a_growing_trace_ends_with_a_torn_line_until_its_writer_goes_on(tmp_path, builder):
    lines = lines_of(builder)
    path = write(tmp_path, *lines[:-1], lines[-1][:20])
    reader, records = read(path)
    assert records == builder.records[:-1]
    assert (reader.damaged, reader.torn_end) == (1, True)
    path.write_bytes(b"".join(lines))
    reader, records = read(path)
    assert records == builder.records
    assert (reader.damaged, reader.torn_end) == (0, False)


def test_a_line_torn_by_the_death_of_the_process_is_told_from_other_damage(tmp_path, builder):
    torn = builder.encode() + b'{"k":"op","q":1\n'
    builder.seal(signal="SIGKILL", torn=True)
    reader, _ = read(write(tmp_path, torn, lines_of(builder)[-1]))
    assert (reader.damaged, reader.torn_end) == (1, True)


def test_a_last_line_without_newline_counts_if_it_is_whole(tmp_path, builder):
    reader, records = read(write(tmp_path, builder.encode()[:-1]))
    assert records == builder.records
    assert reader.damaged == 0


@pytest.mark.parametrize("keep", [0.5, 0.9, 0.99])
def test_a_cut_gzip_gives_what_came_before_the_cut(tmp_path, keep):
    trace = TraceBuilder()
    for number in range(500):
        trace.call("cuMemAlloc_v2", size=number * 7919)
    packed = gzip.compress(trace.encode())
    reader, records = read(write(tmp_path, packed[: int(len(packed) * keep)]))
    assert records == trace.records[: len(records)]
    assert len(records) > 10
    assert reader.damaged >= 1


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\x7fELF\x02\x01\x01\x00" * 100, "is not a trace"),
        (b"hello\nworld\n", "is not a trace"),
        (b'{"k":"op"', "is not a trace"),
        (b"\n" * 5, "is not a trace"),
        (b"[" * 1_000_000, "is not a trace"),
        (b"\x1f\x8bgarbage", "is not a trace"),
        (b'{"traceEvents":[]}\n', "is not a trace"),
        (b'{"k":"stack","q":4,"t":1,"id":1,"frames":[]}\n', "has no header"),
        (
            b'{"k":"header","q":1,"t":1,"format":"cudagraph-doctor-trace","version":[1,0]}\n',
            "header of t.jsonl is damaged",
        ),
        (b'{"k":"header","q":1,"t":1,"format":"other","version":[1,0],"pid":1,"wall":1}\n', "is not a trace"),
    ],
)
def test_what_cannot_be_a_trace_is_refused_in_one_line(tmp_path, content, message):
    with pytest.raises(TraceError, match=message) as caught:
        read(write(tmp_path, content))
    assert "\n" not in caught.value.message
    assert caught.value.hint
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(("version", "way_out"), [("[2,0]", "update"), ("[0,9]", "that recorded it")])
@pytest.mark.parametrize("rest", ['"pid":1,"wall":1', '"process":{"new":"shape"}'])
def test_another_major_version_is_refused_even_if_its_header_changed_shape(tmp_path, version, way_out, rest):
    line = f'{{"k":"header","q":1,"t":1,"format":"cudagraph-doctor-trace","version":{version},{rest}}}\n'
    with pytest.raises(TraceError, match="trace of format") as caught:
        read(write(tmp_path, line.encode()))
    assert way_out in caught.value.hint


def test_a_later_minor_version_is_read(tmp_path):
    line = b'{"k":"header","q":1,"t":1,"format":"cudagraph-doctor-trace","version":[1,7],"pid":1,"wall":1,"extra":0}\n'
    assert read_header(write(tmp_path, line)).version == (1, 7)


def test_a_folder_names_its_traces_and_a_wrong_path_is_usage(tmp_path, builder):
    one = write(tmp_path, builder.encode(), name="b.jsonl")
    two = write(tmp_path, builder.encode(), name="a.jsonl.gz")
    write(tmp_path, b"x", name="notes.txt")
    assert find_traces([tmp_path, one]) == [two, one]
    with pytest.raises(UsageError, match="no such file"):
        find_traces([tmp_path / "missing"])
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(TraceError, match="no trace in"):
        find_traces([empty])


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="needs a user whom permissions stop")
def test_an_unreadable_file_is_one_line(tmp_path, builder):
    path = write(tmp_path, builder.encode())
    path.chmod(0)
    with pytest.raises(TraceError, match="cannot read"):
        read(path)


# ── slots ────────────────────────────────────────────────────────────────────────────────────


def slots(*units):
    return b"".join(struct.pack("<8Q", *unit) for unit in units)


HEAD = (0, 0, 0, 2, 0, 0, 0, 0)


def test_the_slots_of_an_unsealed_trace_become_replays(tmp_path, builder):
    path = write(tmp_path, builder.encode())
    (tmp_path / "t.slots").write_bytes(
        slots(HEAD, (1, 40, 39, 5_000, 3, 77, 0, 0), (0,) * 8) + b"\x00" * (SLOT_SIZE // 2)
    )
    _, records = read(path)
    replay = records[-1]
    assert isinstance(replay, events.Replay)
    assert (replay.exec, replay.count, replay.done, replay.tid, replay.total) == (1, 40, 39, 77, True)
    assert replay.q > builder.records[-1].q


def test_the_slots_of_a_sealed_trace_are_not_counted_twice(tmp_path, builder):
    builder.seal()
    path = write(tmp_path, builder.encode())
    (tmp_path / "t.slots").write_bytes(slots(HEAD, (1, 40, 39, 5_000, 3, 77, 0, 0)))
    assert read(path)[1] == builder.records


def test_losses_noted_in_the_slots_are_told(tmp_path, builder):
    path = write(tmp_path, builder.encode())
    (tmp_path / "t.slots").write_bytes(slots((0, 12, 28, 0, 0, 0, 0, 0)))
    lost = read(path)[1][-1]
    assert isinstance(lost, events.Lost)
    assert lost.count == 12
    assert lost.why == os.strerror(28)


@pytest.mark.parametrize("content", [b"", b"\xff" * 640, b"short"])
def test_a_broken_slot_file_costs_nothing(tmp_path, builder, content):
    path = write(tmp_path, builder.encode())
    (tmp_path / "t.slots").write_bytes(content)
    assert read(path)[1] == builder.records


def test_an_empty_file_beside_traces_is_a_child_that_never_began(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b"")
    (tmp_path / "b.jsonl").write_bytes(b"x")
    assert find_traces([tmp_path]) == [tmp_path / "b.jsonl"]
    (tmp_path / "b.jsonl").unlink()
    assert find_traces([tmp_path]) == [tmp_path / "a.jsonl"]
