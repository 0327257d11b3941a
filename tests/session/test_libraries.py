"""Which native library made a call."""

from cudagraph_doctor.session.build import build_from
from cudagraph_doctor.trace import events

HEADER = events.Header(q=1, t=0, format="cudagraph-doctor-trace", version=(1, 0), pid=1, wall=0)


def library(q, name, base, end):
    return events.Library(q=q, t=q, id=q, name=name, base=hex(base), end=hex(end))


def call(q, *returns):
    return events.Call(q=q, t=q, tid=7, api="cuMemAlloc_v2", code=0, returns=tuple(hex(at) for at in returns))


def libs(*records):
    return [activity.record.lib for activity in build_from([HEADER, *records]).outside]


def test_the_innermost_known_library_is_named():
    known = [library(2, "libcublasLt.so.13", 0x1000, 0x2000), library(3, "libtorch_cuda.so", 0x5000, 0x9000)]
    assert libs(*known, call(4, 0x1800, 0x5800)) == ["libcublasLt.so.13"]
    assert libs(*known, call(4, 0x2000, 0x5800)) == ["libtorch_cuda.so"]  # the end is no part of it


def test_a_library_that_is_told_of_later_is_found():
    assert libs(call(2, 0x1800), library(3, "extension.so", 0x1000, 0x2000)) == ["extension.so"]


def test_an_address_in_no_library_names_none():
    assert libs(library(2, "a.so", 0x1000, 0x2000), call(3, 0x10)) == [""]
    assert libs(call(2, 0x1800)) == [""]


def test_a_library_mapped_over_another_takes_its_place():
    assert libs(library(2, "a.so", 0x1000, 0x2000), library(3, "b.so", 0x1000, 0x1800), call(4, 0x1100)) == ["b.so"]
