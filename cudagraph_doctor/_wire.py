"""The names of the trace: format, version and its history, record kinds, shared numbers.

The recorder inside the target and the reader outside of it both import this module and agree on nothing else, so it
imports nothing. The fields of each kind, with their types and meaning, are in `cudagraph_doctor.trace.events`; the page
docs/trace-format.md is generated from there.

A trace is JSON Lines: one object a line, one `write(2)` a line. Every record has

    k    kind, one of `KINDS`
    q    sequence number, one counter a process, shared by every writer in it (Python, C, simulated device)
    t    CLOCK_MONOTONIC in nanoseconds; the header pairs it with wall clock and boot id
    tid  native id of the thread that wrote it

Pointers and raw handles are hexadecimal strings ("0x7f..."), because JSON numbers lose bits above 2**53. Objects get a
small integer id at birth; a raw handle names an object only within one life. An *intention* is written before a call
that may not return and is completed by an `outcome` record whose `of` is the intention's `q`; a call that was seen only
after it returned carries its outcome itself.
"""

FORMAT = "cudagraph-doctor-trace"
VERSION = (1, 1)
HISTORY = {
    (1, 0): "first version",
    (1, 1): "storages and what becomes of them, outputs and their holders, uses of skipped side effects",
}
"""A line for each version. Readers ignore unknown fields, keep unknown kinds, refuse only another major number."""

TRACE_SUFFIX = ".jsonl"
SLOTS_SUFFIX = ".slots"
PACK_SUFFIX = ".jsonl.gz"

KINDS = (
    "header",
    "capability",
    "evidence",
    "source",
    "stack",
    "library",
    "thread",
    "stream",
    "event",
    "capture",
    "capture-status",
    "capture-end",
    "op",
    "pycall",
    "call",
    "outcome",
    "launch",
    "copy",
    "alloc",
    "storage",
    "free",
    "rewrite",
    "touch",
    "graph",
    "node",
    "edge",
    "exec",
    "update",
    "replay",
    "destroy",
    "module",
    "function",
    "context",
    "slot",
    "slot-change",
    "slot-use",
    "output",
    "held",
    "gc",
    "exception",
    "state",
    "log",
    "limit",
    "race",
    "process",
    "probe-error",
    "lost",
    "hand-over",
    "seal",
)

# Capture status of a stream, as CUDA numbers it (cuda.h, CUstreamCaptureStatus).
STATUS_NONE = 0
STATUS_ACTIVE = 1
STATUS_INVALIDATED = 2

# Capture modes by CUDA's number (CUstreamCaptureMode), spelled as torch spells them.
MODES = ("global", "thread_local", "relaxed")

# Evidence levels, strongest first.
EVIDENCE = ("driver", "python", "simulated")

# Whose frame a source file is (docs/how-it-works.md, "Whose line is it?").
ROLE_USER = "user"
ROLE_THIRD_PARTY = "third_party"
ROLE_LIBRARY = "library"
ROLE_GENERATED = "generated"
ROLES = (ROLE_USER, ROLE_THIRD_PARTY, ROLE_LIBRARY, ROLE_GENERATED)

# Named roots of paths. A recorded path is "root:relative/path", so that a recording names no machine.
ROOTS = ("target", "cwd", "site", "stdlib", "cache", "abs")

SOURCE_LIMIT = 256 * 1024
"""Bytes of a source file above which its text is not recorded."""

SLOT_SIZE = 64
"""Bytes of one replay slot: eight unsigned 64-bit words, see `SLOT_WORDS`."""
SLOT_WORDS = ("exec", "begun", "done", "last_t", "stream", "tid", "line", "reserved")

# Environment variables.
ENV_TRACE = "CUDAGRAPH_DOCTOR_TRACE"
ENV_CONFIG = "CUDAGRAPH_DOCTOR_CONFIG"
