"""One line of a trace becomes one record, whatever the line holds."""

from __future__ import annotations

from functools import reduce
from operator import or_
from typing import Any, TypeAlias, cast

import msgspec

from cudagraph_doctor._wire import KINDS
from cudagraph_doctor.trace.events import RECORDS, Record, Unknown

AnyRecord: TypeAlias = Record | Unknown

_typed: msgspec.json.Decoder[Record] = msgspec.json.Decoder(reduce(or_, cast("Any", RECORDS)))
_untyped = msgspec.json.Decoder()

INT64_MAX = 2**63 - 1


def decode_line(line: bytes) -> AnyRecord | None:
    """The record of a line; `Unknown` for a kind of a later minor version; None for a damaged line.

    Raises nothing: text that is not JSON, not UTF-8, nested without end, or of the wrong types is a damaged line.
    """
    try:
        return _typed.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _decode_unknown(line)


def _decode_unknown(line: bytes) -> Unknown | None:
    data = decode_object(line)
    if data is None:
        return None
    kind, q = data.get("k"), data.get("q")
    if not isinstance(kind, str) or not kind or kind in KINDS:
        return None  # a kind we know whose fields are wrong: damaged
    return Unknown(kind=kind, q=q if isinstance(q, int) and 0 <= q <= INT64_MAX else 0, data=data)


def decode_object(line: bytes) -> dict[str, Any] | None:
    """A line as a plain dictionary, None where it is not one. Raises nothing."""
    try:
        data = _untyped.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return data if isinstance(data, dict) else None
