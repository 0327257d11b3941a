import runpy
from pathlib import Path

import msgspec
import pytest

from cudagraph_doctor._wire import KINDS
from cudagraph_doctor.trace import events
from cudagraph_doctor.trace.decode import decode_line
from cudagraph_doctor.trace.encode import encode_records

EXAMPLES: dict[str, str] = runpy.run_path(str(Path(__file__).with_name("examples.py")))["EXAMPLES"]

CLASSES = {record.__struct_config__.tag: record for record in events.RECORDS}


def test_every_kind_has_a_class_and_an_example_in_the_published_order():
    assert list(CLASSES) == list(KINDS)
    assert list(EXAMPLES) == list(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_is_read_as_its_kind_and_written_back_the_same(kind):
    line = EXAMPLES[kind].encode()
    record = decode_line(line)
    assert type(record) is CLASSES[kind]
    again = encode_records([record])
    assert again.endswith(b"\n")
    assert again.count(b"\n") == 1
    assert decode_line(again) == record


@pytest.mark.parametrize("kind", KINDS)
def test_the_example_shows_every_field_with_something_else_than_its_default(kind):
    cls = CLASSES[kind]
    told = msgspec.json.decode(EXAMPLES[kind])
    fields = {field.encode_name: field for field in msgspec.structs.fields(cls)}
    assert set(told) - {"k"} <= set(fields)
    # `tid` stands in every record; one example that shows it is enough.
    missing = [name for name in fields if name not in told and name != "tid"]
    assert missing == []


@pytest.mark.parametrize("kind", KINDS)
def test_a_later_minor_version_may_add_fields(kind):
    line = EXAMPLES[kind][:-1] + ',"added_later":{"deep":[1,2,{"x":null}]}}'
    assert decode_line(line.encode()) == decode_line(EXAMPLES[kind].encode())


def test_a_kind_of_a_later_minor_version_is_kept():
    record = decode_line(b'{"k":"teleport","q":9,"t":1,"to":"moon"}')
    assert isinstance(record, events.Unknown)
    assert (record.kind, record.q, record.data["to"]) == ("teleport", 9, "moon")


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\x00\x01\x02",
        b"\xff\xfe",
        b'{"k":"seal"}',
        b'{"k":"seal","q":"1","t":1}',
        b'{"k":"seal","q":1e999,"t":1}',
        b'{"k":"seal","q":99999999999999999999999999,"t":1}',
        b'{"k":"seal","q":1,"t":' + b"9" * 5000 + b"}",
        b'{"k":7,"q":1,"t":1}',
        b'{"q":1,"t":1}',
        b'{"k":"seal","q":1,"t":1}garbage',
        b'{"k":"seal","q":1,"t":1,"fault":"\xff"}',
        b'{"k":"seal","q":1,"t":1,"fault":"\\ud800"}',
        b'{"k":"seal","q":1,"t":1,"user":' + b"[" * 100_000 + b"}",
        b'{"k":"new","q":1,"x":' + b"[" * 100_000 + b"}",
    ],
)
def test_a_line_that_is_no_record_is_damaged_not_fatal(line):
    assert decode_line(line) is None
