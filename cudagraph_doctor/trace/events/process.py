"""The process that is recorded: who it is, what the recorder can see, how it ended."""

from msgspec import field

from cudagraph_doctor.trace.events.base import Int64, Record


class Header(Record, tag="header", frozen=True, kw_only=True):
    """First record of every file: which process this is."""

    format: str
    version: tuple[int, int]
    pid: int
    wall: Int64
    """Unix time in nanoseconds at `t`."""
    ppid: int = 0
    host: str = ""
    boot: str = ""
    """Boot id: two processes with one boot id share a monotonic clock."""
    argv: tuple[str, ...] = ()
    python: str = ""
    implementation: str = ""
    platform: str = ""
    tool: str = ""
    """Version of cudagraph-doctor that recorded."""
    run: str = ""
    """Id of the run, the same in all its processes."""
    parent: str = ""
    """Name of the parent's trace file, for followed children."""
    rank: int | None = None
    how: str = "run"
    """How recording began: `run`, `env`, `auto`, `fork`, `child`."""
    backend: str = "cuda"
    """`cuda` or `sim`."""
    env: dict[str, str] = field(default_factory=dict)
    """Variables that change CUDA's or torch's behaviour, of those that were set."""
    config: dict[str, object] = field(default_factory=dict)
    """The recorder's own configuration."""


class Capability(Record, tag="capability", frozen=True, kw_only=True):
    """A part of the recorder is on, off or not available, and why. The newest record of a name holds."""

    name: str
    """`capture`, `ops`, `c-calls`, `streams`, `bindings`, `status`, `log`, `gc`, `threads`, `exceptions`, ..."""
    state: str
    """`on`, `off`, `unavailable`, `removed`."""
    why: str = ""
    versions: dict[str, str] = field(default_factory=dict)


class EvidenceLevel(Record, tag="evidence", frozen=True, kw_only=True):
    """From here on this level of evidence holds."""

    level: str
    """`driver`, `python` or `simulated`."""
    why: str = ""


class Thread(Record, tag="thread", frozen=True, kw_only=True):
    """A thread was first seen, started or ended. `tid` is its own."""

    name: str
    what: str = "seen"
    daemon: bool = False
    ident: int = 0


class Process(Record, tag="process", frozen=True, kw_only=True):
    """A child process was started."""

    child: int
    how: str
    """`fork`, `spawn`, `exec`, `subprocess`."""
    followed: bool = True
    why: str = ""
    argv: tuple[str, ...] = ()


class Limit(Record, tag="limit", frozen=True, kw_only=True):
    """Something that this device or recorder cannot do, met at a line."""

    what: str
    reason: str
    cap: int = 0
    stack: int = 0
    fatal: bool = False
    """The region that holds it is not checked."""


class ProbeError(Record, tag="probe-error", frozen=True, kw_only=True):
    """A hook of the recorder failed; after the third time it takes itself out."""

    hook: str
    error: str
    count: int = 1
    removed: bool = False
    where: str = ""


class Lost(Record, tag="lost", frozen=True, kw_only=True):
    """Records were lost."""

    count: int
    why: str
    bytes: int = 0


class HandOver(Record, tag="hand-over", frozen=True, kw_only=True):
    """CUPTI was given to, or taken back from, somebody else."""

    what: str
    to: str = ""
    why: str = ""


class Seal(Record, tag="seal", frozen=True, kw_only=True):
    """How the process ended, written by its parent. The last record."""

    returncode: int | None = None
    signal: str = ""
    core: bool = False
    timed_out: bool = False
    torn: bool = False
    """The last line before it was torn."""
    fault: str = ""
    """Text of a fatal-error handler, at most 8,000 characters."""
    rss: int | None = None
    """Largest resident set, bytes."""
    user: float | None = None
    """CPU seconds in user mode."""
