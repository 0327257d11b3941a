"""What reporters receive: everything that was found, and everything that was not looked at."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct, field
from msgspec.structs import replace

from cudagraph_doctor.findings import Confidence, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.findings import CheckerState, Finding, Location


class Exit(Struct, frozen=True):
    """How a process ended. All None: it is still running, or nobody saw it end."""

    returncode: int | None = None
    signal: str | None = None
    """Name of the signal that ended it, e.g. `SIGSEGV`."""
    exception: str | None = None
    """`Type: first line of the message` of the uncaught exception."""
    timed_out: bool = False
    running: bool = False
    """Neither seal nor uncaught exception: the process had not ended when the trace was read."""

    @property
    def abnormal(self) -> bool:
        """It ended by a signal or with a non-zero status; where nobody saw the status, by an uncaught exception."""
        return bool(self.signal) or bool(self.returncode) or (self.returncode is None and self.exception is not None)


class EvidenceSpan(Struct, frozen=True):
    """One level of evidence and when it was on; times are seconds from the start of the process."""

    level: str
    start: float | None = None
    end: float | None = None
    why: str | None = None


class ProcessInfo(Struct, frozen=True):
    """One process of the run."""

    id: int
    pid: int
    argv: tuple[str, ...]
    exit: Exit
    evidence: tuple[EvidenceSpan, ...]
    host: str = ""
    parent: int | None = None
    rank: int | None = None
    trace: str = ""
    """Name of the trace file."""
    started: int = 0
    """Unix time at its start, in nanoseconds; 0 where not known."""
    sources: dict[int, str] = field(default_factory=dict)
    """Text of each recorded source file, by the id that locations carry."""


class DeviceInfo(Struct, frozen=True):
    """The device the target ran on."""

    backend: str
    """`cuda` or `sim`."""
    evidence: str
    """The strongest level that was on."""
    name: str | None = None
    driver: str | None = None
    torch: str | None = None


class CaptureInfo(Struct, frozen=True):
    """One stream capture of the run."""

    id: int
    process: int
    status: str
    """`completed`, `failed`, `abandoned` (never ended, process over) or `unfinished` (process still running)."""
    replays: int
    location: Location | None
    nodes: int | None = None
    key: str | None = None


class StatusStep(Struct, frozen=True):
    """Something that changed the capture status of a stream."""

    what: str
    """`begin`, `fork`, `join`, `invalidated` or `end`."""
    seq: int
    """Sequence number of the record across which it changed, in its process."""
    time: float
    """Seconds from the start of the process."""
    stream: str
    """Raw handle of the stream; `default` or `per-thread` for those streams, empty where it is not known."""
    before: str | None
    """`none`, `active` or `invalidated`."""
    after: str | None
    call: str | None
    """The CUDA call or operator; None where nobody saw it."""
    thread: str
    location: Location | None
    code: int | None = None
    """CUDA's error code that the call ended with."""


class Timeline(Struct, frozen=True):
    """The capture status of a capture's streams, from its begin to its end."""

    capture: int
    process: int
    status: str
    """As in `CaptureInfo`."""
    thread: str
    """The thread that began it."""
    steps: tuple[StatusStep, ...]


class Limit(Struct, frozen=True):
    """Something that could not be seen, with the reason."""

    what: str
    reason: str
    location: Location | None = None
    incomplete: bool = False
    """It makes the whole diagnosis incomplete (exit code 4): a damaged trace, lost records, a region not simulated."""


class Roots(Struct, frozen=True):
    """Folders that relative paths are understood from; absolute, empty where not known."""

    cwd: str = ""
    """Working directory: what the paths of locations are relative to."""
    repository: str = ""
    """Root of the repository: what CI systems want paths relative to."""


class Violation(Struct, frozen=True):
    """A condition of the gate that does not hold; it fails the run as a finding does."""

    what: str
    location: Location | None = None


class Notice(Struct, frozen=True):
    """Something about the gate's own files that somebody should tidy up; it fails nothing."""

    what: str
    location: Location | None = None


class Gate(Struct, frozen=True):
    """What the run is failed on, and what came of it."""

    fail_on: Severity | None = Severity.ERROR
    """Findings of this level or worse fail the run; None: no finding does."""
    strict: bool = False
    """Findings that are only `possible` count too."""
    baseline: str | None = None
    """Path of the baseline that the findings were held against."""
    violations: tuple[Violation, ...] = ()
    notices: tuple[Notice, ...] = ()
    exit_code: int | None = None
    """The exit status (docs/exit-codes.md); None: not decided yet."""
    meaning: str = ""
    """That status in one sentence."""

    def counts(self, finding: Finding) -> bool:
        """Whether a finding fails the run. Known (baseline) and suppressed findings never do."""
        if self.fail_on is None or finding.state != "new":
            return False
        if finding.confidence is Confidence.POSSIBLE and not self.strict:
            return False
        return finding.level.rank <= self.fail_on.rank


class Report(Struct, frozen=True):
    """The whole result of a diagnosis. Findings are ordered by confidence, then level, then time."""

    argv: tuple[str, ...]
    exit: Exit
    processes: tuple[ProcessInfo, ...]
    device: DeviceInfo
    captures: tuple[CaptureInfo, ...]
    checkers: tuple[CheckerState, ...]
    findings: tuple[Finding, ...]
    limits: tuple[Limit, ...]
    tool_version: str
    timelines: tuple[Timeline, ...] = ()
    """Where they were asked for."""
    refusal: str | None = None
    """What the user required and the run did not have (exit code 3); it stands among the limits too."""
    roots: Roots = Roots()
    gate: Gate = Gate()

    @property
    def unexplained_end(self) -> bool:
        """The target ended abnormally, and no finding, of any level, says why."""
        return self.exit.abnormal and not any(explains(finding, self.exit) for finding in self.findings)


def explains(finding: Finding, ended: Exit) -> bool:
    """Whether a finding, of any level, names how the target ended.

    It does when its message or one of its consequences names the signal, or carries the uncaught exception: its whole
    first line, or its type as the consequence's code.
    """
    texts = [finding.message, *(c.message for c in finding.consequences)]
    if ended.signal and any(ended.signal in text for text in texts):
        return True
    if not ended.exception:
        return False
    kind, _, message = ended.exception.partition(": ")
    if any(str(c.code) == kind and (not message or message in c.message) for c in finding.consequences):
        return True
    return any(ended.exception in text or (len(message) > 12 and message in text) for text in texts)


def refused(report: Report, why: str | None) -> Report:
    """The report with what the user required and the run did not have; the same report where `why` is None."""
    if why is None:
        return report
    limit = Limit(why, "`--require-evidence` was given")
    return replace(report, refusal=why, limits=(limit, *report.limits))
