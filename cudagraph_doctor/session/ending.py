"""How a process ended, and which evidence was on when."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor._wire import EVIDENCE
from cudagraph_doctor.report import EvidenceSpan, Exit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudagraph_doctor.trace import events


def exit_of(seals: Sequence[events.Seal], exceptions: Sequence[events.ExceptionRecord]) -> Exit:
    """The end of a process. Two seals may stand in a trace: one the process wrote itself, one by who started it."""
    uncaught = next((e for e in reversed(exceptions) if e.where == "uncaught" and e.chain), None)
    exception = None
    if uncaught is not None:
        first_line = uncaught.chain[0].message.split("\n", 1)[0].strip()
        exception = f"{uncaught.chain[0].type}: {first_line}" if first_line else uncaught.chain[0].type
    if not seals:
        # Nothing comes after an uncaught exception but the interpreter's own end, which nobody saw here.
        return Exit(exception=exception, running=exception is None)
    telling = [seal for seal in seals if seal.returncode is not None or seal.signal] or list(seals)
    seal = telling[-1]
    return Exit(
        returncode=seal.returncode,
        signal=seal.signal or None,
        exception=exception,
        timed_out=any(s.timed_out for s in seals),
    )


def evidence_spans(header: events.Header, levels: Sequence[events.EvidenceLevel]) -> tuple[EvidenceSpan, ...]:
    """The levels of evidence in turn. Without any record of one, the weakest that the device allows."""
    known = [level for level in levels if level.level in EVIDENCE]
    if not known:
        return (EvidenceSpan("simulated" if header.backend == "sim" else "python"),)
    starts = [(level.t - header.t) / 1e9 for level in known]
    ends = [*starts[1:], None]
    return tuple(
        EvidenceSpan(level=level.level, start=start, end=end, why=level.why or None)
        for level, start, end in zip(known, starts, ends, strict=True)
    )
