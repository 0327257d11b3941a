"""Records as the lines of a trace file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudagraph_doctor.trace.events import Record

_encoder = msgspec.json.Encoder()


def encode_records(records: Iterable[Record]) -> bytes:
    """One line a record, each with its newline."""
    return _encoder.encode_lines(list(records))
