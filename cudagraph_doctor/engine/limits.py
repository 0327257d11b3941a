"""What could not be seen, in words: the report's `limits`. "Not seen" is never shown as "clean"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.report import Limit

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.session.model import Session

_QUIET = frozenset({"on"})


def limits_of(session: Session, *, several: bool) -> Iterator[Limit]:
    """The limits of one process; `several` adds its number to what is said."""
    prefix = f"process {session.header.pid}: " if several else ""
    for limit in _limits(session):
        yield Limit(prefix + limit.what, limit.reason, limit.location, limit.incomplete)


def _limits(session: Session) -> Iterator[Limit]:
    yield from _damage(session)
    lost = sum(record.count for record in session.lost)
    if lost:
        why = next((record.why for record in session.lost if record.why), "")
        yield Limit(
            f"{_count(lost, 'record was', 'records were')} lost", why or "no reason was recorded", incomplete=True
        )
    for kind, count in sorted(session.unknown.items()):
        yield Limit(
            f"{_count(count, 'record', 'records')} of kind {kind[:60]!r} not understood",
            f"recorded by cudagraph-doctor {session.header.tool or '?'}, newer: pip install -U cudagraph-doctor",
        )
    for error in session.probe_errors:
        if error.removed or error.count == 1:
            state = "took itself out" if error.removed else "failed"
            yield Limit(f"hook {error.hook} {state}", error.error)
    for name, capability in sorted(session.capabilities.items()):
        if capability.state not in _QUIET and capability.why:
            yield Limit(f"{name}: {capability.state}", capability.why)
    for child in session.children:
        if not child.followed:
            yield Limit(f"child process {child.child} was not followed", child.why or child.how)
    for hand_over in session.hand_overs:
        yield Limit(f"driver evidence: {hand_over.what}", hand_over.why or hand_over.to)
    for met in session.limits:
        yield Limit(met.what, met.reason, session.location(met.stack), incomplete=met.fatal)


def _damage(session: Session) -> Iterator[Limit]:
    damaged = session.damaged
    if not damaged:
        return
    killed = session.torn_end and session.seal is not None and session.seal.torn
    inside = damaged - killed
    if inside:
        yield Limit(
            f"{_count(inside, 'damaged line', 'damaged lines')} skipped in {session.trace or 'the trace'}",
            "the file was cut off or changed; what those lines said is not known",
            incomplete=True,
        )
    if killed:
        yield Limit("the last record is torn", "the process was killed while it wrote it")


def _count(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"
