"""Which native library made a call: its return addresses, looked up in the libraries that the process had mapped."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import msgspec

from cudagraph_doctor.trace import events

if TYPE_CHECKING:
    from cudagraph_doctor.session.model import Session


class Libraries:
    """The mapped libraries of a process. One that is mapped where another one was takes its place."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._begins: list[int] = []
        self._mapped: list[tuple[int, int, str]] = []
        self._unresolved = False

    def library(self, record: events.Library) -> None:
        """A library was seen."""
        try:
            begin, end = int(record.base, 16), int(record.end, 16)
        except ValueError:
            return
        at = bisect_right(self._begins, begin)
        if at and self._begins[at - 1] == begin:
            self._mapped[at - 1] = (begin, end, record.name)
            return
        self._begins.insert(at, begin)
        self._mapped.insert(at, (begin, end, record.name))

    def resolve(self, record: events.Call) -> events.Call:
        """The call with the name of its library: the innermost one of its return addresses that is known."""
        if record.lib or not record.returns:
            return record
        name = next(filter(None, map(self._name_of, record.returns)), "")
        if not name:
            self._unresolved = True
            return record
        return msgspec.structs.replace(record, lib=name)

    def finish(self) -> None:
        """Looks again for the calls of libraries that were told of later: the recorder does so after each capture."""
        if not self._unresolved:
            return
        session = self._session
        for activity in [*session.outside, *(a for capture in session.captures for a in capture.activities)]:
            if isinstance(activity.record, events.Call):
                activity.record = self.resolve(activity.record)

    def _name_of(self, address: str) -> str:
        try:
            number = int(address, 16)
        except ValueError:
            return ""
        at = bisect_right(self._begins, number) - 1
        if at < 0:
            return ""
        _begin, end, name = self._mapped[at]
        return name if number < end else ""
