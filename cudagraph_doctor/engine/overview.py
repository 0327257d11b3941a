"""The facts around the findings: processes, device, captures."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor._wire import EVIDENCE
from cudagraph_doctor.report import CaptureInfo, DeviceInfo, ProcessInfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from cudagraph_doctor.findings import Finding, Location
    from cudagraph_doctor.session.model import Session


def root_of(sessions: Sequence[Session]) -> Session:
    """The process that the user started: the one nobody recorded started; of several, the first by wall clock."""
    parentless = [s for s in sessions if not s.header.parent and s.header.how not in ("fork", "child")]
    return min(parentless or sessions, key=lambda s: s.header.wall)


def processes_of(sessions: Sequence[Session], findings: Iterable[Finding]) -> tuple[ProcessInfo, ...]:
    """Every process, with the texts of the files that findings and captures point into."""
    shown: dict[int, set[int]] = {}
    for finding in findings:
        for place in _places(finding):
            if place.source is not None:
                shown.setdefault(finding.process, set()).add(place.source)
    return tuple(_process(session, sessions, shown.get(session.index, set())) for session in sessions)


def device_of(sessions: Sequence[Session], root: Session) -> DeviceInfo:
    """The device of the process that captured, else of the root."""
    session = next((s for s in sessions if s.captures), root)
    levels = {span.level for s in sessions for span in s.evidence}
    strongest = min(levels, key=EVIDENCE.index)
    versions = session.versions
    return DeviceInfo(
        backend="sim" if session.header.backend == "sim" else "cuda",
        evidence=strongest,
        name=versions.get("device"),
        driver=versions.get("driver"),
        torch=versions.get("torch"),
    )


def captures_of(sessions: Iterable[Session]) -> tuple[CaptureInfo, ...]:
    """Every stream capture, in order, by process."""
    return tuple(
        CaptureInfo(
            id=state.id,
            process=session.index,
            status=state.status,
            replays=state.replays,
            location=session.location(state.begin.stack),
            nodes=state.nodes,
        )
        for session in sessions
        for state in session.captures
    )


def _process(session: Session, sessions: Sequence[Session], shown: set[int]) -> ProcessInfo:
    header = session.header
    texts = {source: session.text(source) for source in sorted(shown)}
    return ProcessInfo(
        id=session.index,
        pid=header.pid,
        argv=header.argv,
        exit=session.exit,
        evidence=session.evidence,
        host=header.host,
        parent=_parent(session, sessions),
        rank=header.rank,
        trace=session.trace,
        started=header.wall,
        sources={source: text for source, text in texts.items() if text is not None},
    )


def _parent(session: Session, sessions: Sequence[Session]) -> int | None:
    """Number of the process that started this one: by the trace's name, else by process id on the same machine."""
    header = session.header
    for other in sessions:
        if other is not session and header.parent and _stem(other.trace) == _stem(header.parent):
            return other.index
    for other in sessions:
        same_machine = (other.header.host, other.header.boot) == (header.host, header.boot)
        if other is not session and same_machine and header.ppid and other.header.pid == header.ppid:
            return other.index
    return None


def _stem(name: str) -> str:
    return name.removesuffix(".gz").removesuffix(".jsonl")


def _places(finding: Finding) -> Iterator[Location]:
    if finding.location is not None:
        yield finding.location
    yield from finding.chain
    yield from finding.related
    yield from (c.location for c in finding.consequences if c.location is not None)
