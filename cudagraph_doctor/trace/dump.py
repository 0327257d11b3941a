"""A trace in readable lines: for the proof of a finding (`dump TRACE --around 412`), and for bug reports."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

import msgspec

from cudagraph_doctor.trace.events import Header, Record, Source, Stack, Unknown
from cudagraph_doctor.trace.reader import TraceReader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cudagraph_doctor.trace.decode import AnyRecord

VALUE_LIMIT = 160
"""Characters of one value shown at most."""
_HIDDEN = frozenset({"q", "t", "tid", "text"})


def dump(path: Path, *, around: int | None = None, context: int = 20) -> Iterator[str]:
    """The records of a trace as lines of text, oldest first.

    Args:
        path: a trace file, or a pack.
        around: only the records around this sequence number, that one marked with `>`.
        context: how many records before and after it.

    Yields:
        Lines without control characters, each `  q  +milliseconds  thread  kind  field=value ...`.

    Raises:
        TraceError: the file cannot be read at all.
    """
    reader = TraceReader(path)
    names = _Names()
    start = 0
    before: deque[str] = deque(maxlen=context)
    left: int | None = None
    damaged = 0
    for record in reader:
        if isinstance(record, Header):
            start = record.t
            names = _Names()
        names.learn(record)
        hit = around is not None and record.q == around
        line = (">" if hit else " ") + _line(record, start, names)
        if reader.damaged != damaged:
            damaged = reader.damaged
            line = f"  … {damaged} damaged so far …\n{line}" if damaged else line
        if around is None:
            yield line
        elif hit:
            yield from before
            before.clear()
            yield line
            left = context
        elif left is None:
            before.append(line)
        elif left > 0:
            left -= 1
            yield line
    if around is not None and left is None:
        yield f"no record {around} in {path.name}"


class _Names:
    """Sources and stacks seen so far, so that a stack is shown as its innermost line."""

    def __init__(self) -> None:
        self._sources: dict[int, str] = {}
        self._stacks: dict[int, str] = {}

    def learn(self, record: AnyRecord) -> None:
        if isinstance(record, Source):
            self._sources[record.id] = record.path
        elif isinstance(record, Stack) and record.frames:
            source, line, function, *_ = record.frames[0]
            self._stacks[record.id] = f"{self._sources.get(source, '?')}:{line} in {function}"

    def stack(self, number: int) -> str:
        return self._stacks.get(number, "")


def _line(record: AnyRecord, start: int, names: _Names) -> str:
    if isinstance(record, Unknown):
        fields = ((key, value) for key, value in record.data.items() if key != "k")
        return _join(record.q, None, 0, f"{record.kind} (unknown)", fields, names)
    milliseconds = (record.t - start) / 1e6
    return _join(record.q, milliseconds, record.tid, str(record.__struct_config__.tag), _told(record), names)


def _told(record: Record) -> Iterator[tuple[str, object]]:
    """The fields that say something: those that differ from their defaults."""
    for field in msgspec.structs.fields(record):
        value = getattr(record, field.name)
        if field.default is not msgspec.NODEFAULT and value == field.default:
            continue
        if value not in ((), {}):
            yield field.name, value


def _join(
    q: int, milliseconds: float | None, tid: int, kind: str, fields: Iterator[tuple[str, object]], names: _Names
) -> str:
    shown = []
    for name, value in fields:
        if name in _HIDDEN:
            continue
        text = f"{name}={_value(value)}"
        if name == "stack" and isinstance(value, int) and names.stack(value):
            text += f" ({names.stack(value)})"
        shown.append(text)
    clock = f"{milliseconds:+12.3f}" if milliseconds is not None else " " * 12
    return _printable(f" {q:>7} {clock} ms  {tid or '':>8}  {kind:<14} {' '.join(shown)}".rstrip())


def _value(value: object) -> str:
    if isinstance(value, str):
        text = value if value.isprintable() and " " not in value and value else repr(value)
    elif isinstance(value, msgspec.Struct) or (
        isinstance(value, tuple) and value and isinstance(value[0], msgspec.Struct)
    ):
        text = msgspec.json.encode(value).decode()
    else:
        text = str(value)
    return text if len(text) <= VALUE_LIMIT else text[: VALUE_LIMIT - 1] + "…"


def _printable(text: str) -> str:
    """Without control characters: a hostile trace must not speak to the terminal."""
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)
