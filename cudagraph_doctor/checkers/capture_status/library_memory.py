"""CGD115 in a capture that went well: a library's handle or workspace came into being in it, with memory of its own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cudagraph_doctor._wire import STATUS_ACTIVE
from cudagraph_doctor.checkers.capture_status import library_init
from cudagraph_doctor.checkers.code.expression import find_expression
from cudagraph_doctor.checkers.invalidation.places import telling_stack
from cudagraph_doctor.checkers.wording.finding import finding
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code
from cudagraph_doctor.findings import Confidence, Severity
from cudagraph_doctor.session.apis import Family, base_name, family
from cudagraph_doctor.session.served import served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Finding
    from cudagraph_doctor.session.model import Activity, CaptureState, Session

_LIBRARIES = re.compile(r"^lib(?P<name>cublas|cudnn|cusolver|cusparse|cufft|curand|nccl)", re.IGNORECASE)
_NAMES = {"cublas": "cuBLAS", "cudnn": "cuDNN", "cusolver": "cuSOLVER", "cusparse": "cuSPARSE", "cufft": "cuFFT"}
_MAKES = frozenset({Family.ALLOC, Family.HOST_ALLOC})


def findings(session: Session) -> Iterator[Finding]:
    """One warning a capture and library: it cost time and device memory where nobody expects it."""
    for capture in session.captures:
        if capture.status != "completed":
            continue
        by_library: dict[str, list[Activity]] = {}
        for call in capture.calls():
            library = _library(session, capture, call)
            if library:
                by_library.setdefault(library, []).append(call)
        for library, calls in by_library.items():
            yield finding(
                session,
                library_init.RULE,
                _words(session, capture, library, calls),
                capture=capture,
                stack=telling_stack(session, calls[0]),
                trigger=base_name(calls[0].name),
                confidence=Confidence.PROVEN,
                evidence=tuple(call.q for call in calls),
                level=Severity.WARNING,
            )


def _library(session: Session, capture: CaptureState, call: Activity) -> str:
    """The library that made an allocation for the capturing thread while its stream captured; "" for other calls."""
    if family(call.name) not in _MAKES or call.failed or call.before != STATUS_ACTIVE:
        return ""
    found = _LIBRARIES.match(str(getattr(call.record, "lib", "")))
    if found is None or served(session, capture, call).tid != capture.tid:
        return ""
    name = found["name"].lower()
    return _NAMES.get(name, name.upper() if name == "nccl" else name)


def _words(session: Session, capture: CaptureState, library: str, calls: list[Activity]) -> Words:
    found = find_expression(session, session.location(calls[0].stack), library_init.may_use_library)
    op = next((outer for outer in calls[0].enclosing() if outer.kind == "op"), None)
    subject = code(found.text or (op.name if op is not None else calls[0].name))
    size = sum(getattr(call.record, "size", None) or 0 for call in calls)
    amount = f"{size / 2**20:.1f} MiB" if size >= 1 << 20 else f"{size:,} bytes"
    return Words(
        message=f"{subject} is the first use of {library} here: it creates its handle or workspace ({len(calls)} "
        f"allocations, {amount}) while a stream is capturing. It went well in {code(capture.mode)} mode; in `global` "
        "mode it is refused.",
        remedy=library_init.REMEDY,
        related=begin_place(session, capture),
    )
