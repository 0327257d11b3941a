"""What a checker says: a finding, made from its rule, that cannot be built wrong."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace

from msgspec import Struct


class Severity(enum.Enum):
    """SARIF's levels. What each rule's level means is in the rule catalogue."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return list(Severity).index(self)


class Confidence(enum.Enum):
    """`proven`: evidence excludes other causes. `likely` and `possible` lie below; the gate counts the first two."""

    PROVEN = "proven"
    LIKELY = "likely"
    POSSIBLE = "possible"

    @property
    def rank(self) -> int:
        """0 is the surest."""
        return list(Confidence).index(self)


class Evidence(enum.Enum):
    """How an observation was made."""

    DRIVER = "driver"
    PYTHON = "python"
    SIMULATED = "simulated"


@dataclass(frozen=True)
class Location:
    """A place in somebody's source. Lines start at 1; columns at 0, as Python counts them; `end_line` is inclusive."""

    file: str
    """Path to show: relative to the working directory where the file lies below it, else `root:path`."""
    line: int
    end_line: int | None = None
    column: int | None = None
    end_column: int | None = None
    function: str | None = None
    """Qualified name of the function, `<module>` at module level."""
    code: str | None = None
    """The source line, stripped; None where the text was not recorded."""
    note: str | None = None
    """Why this place matters, for related places."""
    source: int | None = None
    """Id of the source record that holds the file's text, in the finding's process."""

    def with_note(self, note: str) -> Location:
        """The same place with another note."""
        return replace(self, note=note)


class Consequence(Struct, frozen=True):
    """Something that failed because of the finding's cause: shown under it, never on its own."""

    message: str
    code: int | str | None = None
    """CUDA's error code, or the exception's type name."""
    location: Location | None = None


class Fix(Struct, frozen=True):
    """Changed code: `replacement` takes the place of lines `start` to `end` (inclusive, from 1) of `file`."""

    file: str
    start: int
    end: int
    replacement: str
    source: int | None = None
    """Id of the source record with the text that is replaced."""


class Rule(Struct, frozen=True):
    """One rule of the catalogue, with the text that `explain`, SARIF and the docs show.

    `text` is Markdown with the headings `What it detects`, `Why it breaks`, `Bad`, `Good`, `Evidence needed`,
    in this order (a test holds it there).
    """

    id: str
    slug: str
    level: Severity
    """The level when harm is proven; one step lower without harm in the evidence."""
    what: str
    """One sentence, equal to the catalogue's."""
    text: str
    needs: tuple[str, ...] = ()
    """Names of capabilities any one of which lets this rule be decided; empty: always decidable."""
    see_also: tuple[str, ...] = ()

    def finding(
        self,
        message: str,
        *,
        location: Location | None,
        remedy: str,
        confidence: Confidence,
        process: int,
        trigger: str,
        **rest: object,
    ) -> Finding:
        """A finding of this rule. `location=None` says that no Python line can be named, and must be true."""
        return Finding(
            rule=self,
            level=rest.pop("level", self.level),  # type: ignore[arg-type]
            message=message,
            location=location,
            remedy=remedy,
            confidence=confidence,
            process=process,
            trigger=trigger,
            **rest,  # type: ignore[arg-type]
        )


class Suppression(Struct, frozen=True):
    """Who said that a finding is accepted, and why."""

    kind: str
    """`inline` (a comment on the line), `per-file` (the configuration)."""
    reason: str = ""


class Runs(Struct, frozen=True):
    """In how many runs of a repeated target a finding was seen."""

    seen: int
    of: int
    low: float
    """Lower end of the 95 % interval of its rate (Wilson's score interval), 0 to 1."""
    high: float

    @property
    def flaky(self) -> bool:
        """It was seen in some runs only."""
        return self.seen < self.of


class Finding(Struct, frozen=True):
    """What happened, where, why, what to change, how sure we are."""

    rule: Rule
    level: Severity
    confidence: Confidence
    message: str
    """The cause in one sentence, in the user's own terms (`nxt.item()` waits for the GPU)."""
    location: Location | None
    remedy: str
    """What to change, naming the user's variable, stream or call. One to three sentences."""
    process: int
    """Index of the process in the report."""
    trigger: str
    """The kind of trigger, free of names and numbers ("aten::_local_scalar_dense", "cuMemAlloc"): for fingerprints."""
    chain: tuple[Location, ...] = ()
    """From the user's line into the library, outermost first: what the finding's line called."""
    related: tuple[Location, ...] = ()
    consequences: tuple[Consequence, ...] = ()
    fix: Fix | None = None
    evidence: tuple[int, ...] = ()
    """Sequence numbers of the records that prove it, in this process."""
    evidence_level: Evidence = Evidence.PYTHON
    capture: int | None = None
    """Id of the capture in the report, where there is one."""
    count: int = 1
    aftermath: tuple[str, ...] = ()
    """The state a failed capture left behind, one fact a line, with what undoes it."""
    state: str = "new"
    """`new`, `known` (in the baseline) or `suppressed`."""
    fingerprint: str = ""
    """Filled in by the engine."""
    suppression: Suppression | None = None
    """Of a suppressed finding."""
    runs: Runs | None = None
    """Of a finding of a repeated target."""

    def __post_init__(self) -> None:
        if not self.message or not self.remedy:
            msg = f"{self.rule.id}: a finding needs a message and a remedy"
            raise ValueError(msg)
        if self.state not in ("new", "known", "suppressed"):
            msg = f"{self.rule.id}: no such state: {self.state}"
            raise ValueError(msg)


def fingerprint(rule: str, path: str, function: str, trigger: str) -> str:
    """16 hexadecimal digits, stable over line shifts, renamed temporaries, addresses and machines.

    Args:
        rule: id of the rule.
        path: of the file, with slashes; "" for a finding without a line.
        function: its qualified name.
        trigger: as `Finding.trigger`.
    """
    import hashlib  # loads OpenSSL: not for a report without findings

    parts = (rule, path, function, trigger)
    return hashlib.sha256("\x1f".join(parts).encode(errors="surrogatepass")).hexdigest()[:16]


class RuleState(Struct, frozen=True):
    """Whether a rule was decided. "Not checked" is never shown as "clean"."""

    rule: str
    checked: bool
    reason: str | None = None
    """Why it was not checked."""


class CheckerState(Struct, frozen=True):
    """What became of a checker: it ran, was skipped (why), or failed (with our own error's text)."""

    name: str
    state: str
    """`ran`, `skipped` or `failed`."""
    reason: str | None = None
    rules: tuple[RuleState, ...] = ()
