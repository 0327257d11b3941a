"""What a capture broke on: the result of the classification, before it is put into words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudagraph_doctor.findings import Confidence
from cudagraph_doctor.session.apis import Family

if TYPE_CHECKING:
    from cudagraph_doctor.findings import Location
    from cudagraph_doctor.session.model import Activity, Session
    from cudagraph_doctor.trace import events

OWN_CODES = frozenset({900, 902, 903, 904, 905, 906, 907, 908})
"""Codes that only the refused call itself returns (facts: 901 is never the cause, every later call returns it)."""

CONSEQUENCE = 901


@dataclass(frozen=True)
class Cause:
    """The one thing that a failed capture failed on, and the rule that owns it."""

    rule: str
    """Id of the rule; one of another checker says "not mine"."""
    trigger: str
    """The kind of trigger, free of names and numbers: the refused API, else the operator, else the exception."""
    key: int
    """Sequence number of the record that is the cause: two captures that one call broke share it."""
    tid: int
    stack: int = 0
    """Whose line it is; 0 where no Python line is known."""
    confidence: Confidence = Confidence.PROVEN
    family: Family = Family.OTHER
    api: str = ""
    """The refused CUDA call, where somebody named it."""
    code: int = 0
    op: Activity | None = None
    """The torch operator inside which it happened."""
    activity: Activity | None = None
    """The recorded activity across which it happened."""
    exc: events.Raised | None = None
    """The exception that told of it."""
    log: events.Log | None = None
    """The driver's own words."""
    why: str = ""
    """What in the evidence chose the rule, for rules that have several ways: `autotune`, `cudnn-benchmark`, `mask`."""
    unseen: bool = False
    """It ran unseen between two looks; the stack is that of the last look before it."""
    place: Location | None = None
    """The line, where it is known better than from the stack."""
    evidence: tuple[int, ...] = ()

    def line(self, session: Session) -> Location | None:
        """The user's line to blame; None where no Python line is known."""
        return self.place if self.place is not None else session.location(self.stack)

    @property
    def operator(self) -> str:
        """Name of the operator without its namespace, empty where there is none."""
        return self.op.name.rpartition("::")[2] if self.op is not None else ""

    @property
    def call(self) -> str:
        """The refused call in words: `cudaMalloc` (cuMemAlloc_v2), the operator, or the C function."""
        if self.api:
            return self.api
        return self.activity.name if self.activity is not None else self.trigger
