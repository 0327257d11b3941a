"""The illegal address (cudaError 700) that a replay on unmapped memory ends in, told at some later call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudagraph_doctor.findings import Consequence

if TYPE_CHECKING:
    from cudagraph_doctor.session.model import Session

_CODES = (700, 719)
"""Illegal address, and launch failure, which older drivers say instead."""


def illegal_access(session: Session) -> Consequence | None:
    """The exception with that code, as a consequence; None where none was told."""
    for record in session.exceptions:
        for link in record.chain:
            if link.code in _CODES:
                first = link.message.partition("\n")[0]
                return Consequence(first or link.type, link.code, session.location(link.stack))
    failed = next((a for a in session.outside if a.code in _CODES), None)
    if failed is None:
        return None
    return Consequence(f"{failed.name} reports an illegal memory access", failed.code, session.location(failed.stack))
