"""What could not be seen, in words: the report's `limits`. "Not seen" is never shown as "clean"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.report import Limit

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.model import Session
    from cudagraph_doctor.trace import events

_COVERED = ("covered by", "records its calls itself", "records these calls itself")
"""A hook that is off for such a reason leaves no gap: the simulated device or driver evidence sees the same."""
_REASONS_SHOWN = 3


def limits_of_run(sessions: Sequence[Session]) -> Iterator[Limit]:
    """The limits of all processes: what several share is said once, with their number."""
    shared: dict[tuple[str, str, Location | None, bool], dict[int, int]] = {}
    for session in sessions:
        for limit in _limits(session):
            key = (limit.what, limit.reason, limit.location, limit.incomplete)
            shared.setdefault(key, {})[session.index] = session.header.pid
    for (what, reason, location, incomplete), pids in shared.items():
        who = f"{len(pids)} processes" if len(pids) > 1 else f"process {next(iter(pids.values()))}"
        yield Limit(what if len(sessions) == 1 else f"{who}: {what}", reason, location, incomplete)
    yield from _not_followed([child for session in sessions for child in session.children if not child.followed])


def _not_followed(children: Sequence[events.Process]) -> Iterator[Limit]:
    """One limit for all: a data loader starts dozens."""
    if not children:
        return
    reasons = list(dict.fromkeys(child.why or child.how for child in children))
    more = f" and {len(reasons) - _REASONS_SHOWN} more reasons" if len(reasons) > _REASONS_SHOWN else ""
    one = f"child process {children[0].child} was not followed"
    what = one if len(children) == 1 else f"{len(children):,} child processes were not followed"
    yield Limit(what, "; ".join(reasons[:_REASONS_SHOWN]) + more)


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
    told = [span.why for span in session.evidence if span.why]
    given = [hand_over.to for hand_over in session.hand_overs if any(hand_over.to in why for why in told)]
    for name, capability in sorted(session.capabilities.items()):
        if name == "driver" and any(to in capability.why for to in given):
            continue  # the evidence's own span says it, with its time
        if capability.state != "on" and capability.why and not any(said in capability.why for said in _COVERED):
            yield Limit(f"{name}: {capability.state}", capability.why)
    for hand_over in session.hand_overs:
        if hand_over.to in given:
            continue
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
