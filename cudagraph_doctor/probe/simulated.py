"""What turns records of the simulated device into records of the trace: ids for handles, the line, the operator."""

from __future__ import annotations

from _thread import get_ident

from cudagraph_doctor.probe.arm import windows_of
from cudagraph_doctor.probe.objects import events_of, streams_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from cudagraph_doctor.probe.context import Context


def make_emit(context: Context) -> Callable[[dict[str, Any]], int]:
    """The function that the simulated device calls with each of its records.

    A record is a dictionary with its kind as `k`, without `q`, `t` and `tid`. `stream`, `other` and `event` are raw
    handles, and become ids; `origin`, the raw handle of a capture's origin stream, becomes `cap`; `capture`, the
    device's own number of it, is left out. `stack` and `op` are added where they are missing. Returns the sequence
    number, 0 when the record could not be written.
    """
    windows, streams, events = windows_of(context), streams_of(context), events_of(context)

    def emit(record: dict[str, Any]) -> int:
        fields = dict(record)
        kind = str(fields.pop("k"))
        fields.pop("capture", None)
        origin = fields.pop("origin", None)
        device = fields.get("device") or 0
        event = None
        for name in ("stream", "other", "first"):
            if name in fields:
                fields[name] = streams.id(int(fields[name]), device)
        if "event" in fields:
            handle = int(fields["event"])
            event = events.by_handle(handle)
            if fields.get("api") == "cuStreamWaitEvent":
                event.tell_record(context, windows)
                fields.setdefault("other", event.stream)
            fields["event"] = event.tell(context, handle)
        window = next((one for one in windows.open if one.handle == origin), None) if origin is not None else None
        if "cap" not in fields:
            ended = origin is not None and window is None and "EndCapture" in str(fields.get("api"))
            cap = windows.newest.get(int(origin or 0), 0) if ended else 0
            window = window or windows.here()
            cap = cap or (window.id if window is not None else 0)
            if cap:
                fields["cap"] = cap
        if "op" not in fields and kind in _WITH_OPERATOR:
            fields["op"] = windows.operators.get(get_ident(), 0)
        if "stack" not in fields and kind in _WITH_STACK:
            fields["stack"] = context.stack()
        if kind == "exception":
            fields["chain"][0].setdefault("stack", context.stack())
        q = context.write(kind, **fields)
        if event is not None and fields.get("api") == "cuEventRecord" and not fields.get("code"):
            event.recorded(fields.get("stream", 0), fields.get("cap", 0) if fields.get("on") else 0)
        if kind == "call" and windows.open:
            windows.look(q, "call")
            if window is not None and fields.get("code"):
                windows.failed(window, q)
        return q

    def guarded(record: dict[str, Any]) -> int:
        return body(record) or 0

    body = context.guard("sim")(emit)
    return guarded


_WITH_OPERATOR = frozenset({"call", "launch", "copy"})
_WITH_STACK = _WITH_OPERATOR | {"alloc", "free", "limit", "race", "stream", "event", "graph", "exec", "replay"}
