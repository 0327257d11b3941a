"""CGD113: work that ran once, at capture time, and is missing from every replay."""

from __future__ import annotations

import ast
import re
import textwrap
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.capture_status.uncaptured import Tie, Uncaptured
from cudagraph_doctor.checkers.code.edit import indent_of, replace_lines
from cudagraph_doctor.checkers.code.expression import called, find_expression
from cudagraph_doctor.checkers.wording.kernel_names import shown
from cudagraph_doctor.checkers.wording.stream_names import StreamBlock, stream_block
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code, stream_words
from cudagraph_doctor.findings import Confidence, Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.capture_status.pool_work import PoolWork
    from cudagraph_doctor.findings import Fix
    from cudagraph_doctor.session.model import Activity, CaptureState, Session

RULE = Rule(
    id="CGD113",
    slug="work-not-captured",
    level=Severity.ERROR,
    what="A kernel, copy or memset was launched during the capture window on a stream that is not part of the capture: "
    "it ran once, at capture time, and is missing from every replay.",
    needs=("driver", "ops"),
    see_also=("CGD109", "CGD112", "CGD201"),
    text="""\
## What it detects

Work that the capturing thread gave to a stream which does not capture, while it was capturing, and that the graph
needs: it reads what captured work computes, or writes what captured work uses. Work of other threads counts where the
capturing thread waits for it and captured work reads its result. Other work of theirs, and a prefetch into memory that
the graph does not read, are deliberate and not reported. An update in place (`pos += 1`) of memory from before the
capture that the graph never touches is a note: it ran once, which may be meant.

## Why it breaks

torch's capture streams are non-blocking: work on the default stream or on a private stream is not refused. It runs at
once, on whatever is in memory at that moment, and is not recorded. Every replay leaves it out, without an error.

## Bad

```python
private = torch.cuda.Stream()
with torch.cuda.graph(g):
    h = x + 1
    with torch.cuda.stream(private):
        torch.mul(h, 2, out=out)
```

## Good

```python
with torch.cuda.graph(g):
    h = x + 1
    private.wait_stream(torch.cuda.current_stream())      # fork
    with torch.cuda.stream(private):
        torch.mul(h, 2, out=out)
    torch.cuda.current_stream().wait_stream(private)      # join
```

## Evidence needed

Python evidence: torch's operators with their stream, whether it captures, and their memory; launches through
cuda-bindings. Driver evidence also sees the launches of libraries and extensions.
""",
)

_PLUMBING = re.compile(r"python|_C\.|libtorch|libc10|(?:cy)?(?:driver|runtime)\.|libffi|_ctypes|libcudart")
"""Libraries that launch on behalf of somebody else: their names say nothing."""

_WHY = {
    Tie.READS_RESULT: "it uses what the graph computes",
    Tie.FEEDS_GRAPH: "it writes what the graph uses",
    Tie.SHARES_INPUT: "it calculates from the same inputs as the graph",
    Tie.UNKNOWN_MEMORY: "",
    Tie.UNTIED: "what it reads and writes is not known",
    Tie.ONCE: "",
    Tie.WAITED_FOR: "the capturing thread waits for it, and the graph uses its result",
}
CONFIDENCE = {
    Tie.READS_RESULT: Confidence.PROVEN,
    Tie.FEEDS_GRAPH: Confidence.PROVEN,
    Tie.SHARES_INPUT: Confidence.LIKELY,
    Tie.UNKNOWN_MEMORY: Confidence.LIKELY,
    Tie.UNTIED: Confidence.POSSIBLE,
    Tie.WAITED_FOR: Confidence.LIKELY,
    Tie.ONCE: Confidence.POSSIBLE,
}


def explain(session: Session, capture: CaptureState, work: Uncaptured) -> Words:
    """The missing work, its stream, and what ties it to the graph."""
    activity = work.activity
    location = session.location(activity.stack)
    found = find_expression(session, location, lambda n: bool(called(n)))
    block = stream_block(session, activity.stack)
    name = block.name if block is not None else ""
    text = found.text or (found.show(found.statement) if isinstance(found.statement, ast.AugAssign) else "")
    subject = code(text or getattr(activity.record, "kernel", "") or activity.name)
    stream = stream_words(session, activity.stream, name)
    why = f"; {_WHY[work.tie]}" if _WHY[work.tie] else ""
    tied = session.location(work.other.stack) if work.other is not None else None
    note = {Tie.READS_RESULT: "captured; computes what it reads", Tie.FEEDS_GRAPH: "captured; uses what it writes"}
    related = (
        (tied.with_note(note.get(work.tie, "captured; uses the same memory")),)
        if tied is not None and tied != location
        else ()
    )
    elsewhere = work.tie is Tie.WAITED_FOR
    thread = f" on thread {code(session.thread_name(activity.tid))}," if elsewhere else ""
    if work.tie is Tie.ONCE:
        return Words(
            message=f"{subject}{_launched(activity)} runs once, at capture time: it is on {stream}, which is not part "
            "of the capture, and the graph does not touch its memory.",
            remedy=f"If every replay should do it: {_lower(_remedy(activity.kind == 'call', stream, name))} If once is "
            "meant, move it out of the captured region.",
            fix=_fork_and_join(block) if block is not None else None,
            related=begin_place(session, capture),
            confidence=CONFIDENCE[work.tie],
        )
    return Words(
        message=f"{subject}{_launched(activity)} runs{thread} on {stream}, which is not part of the capture: it ran "
        f"once, at capture time, and is missing from every replay{why}.",
        remedy=_OTHER_THREAD if elsewhere else _remedy(activity.kind == "call", stream, name),
        fix=_fork_and_join(block) if block is not None and not elsewhere else None,
        related=(*related, *begin_place(session, capture)),
        confidence=CONFIDENCE[work.tie],
    )


def explain_pool(session: Session, capture: CaptureState, work: PoolWork) -> Words:
    """What the region hands to a pool of threads, whose work nobody saw."""
    read = session.location(work.reader.stack)
    return Words(
        message=f"{code(work.text)} is run by the threads of a pool, which start on the default stream: what they "
        "launch is not part of the capture and missing from every replay; the graph uses its result.",
        remedy=_OTHER_THREAD,
        location=work.place,
        related=(
            work.wait.with_note("the capturing thread waits for the pool here"),
            *((read.with_note("captured; uses what it writes"),) if read is not None else ()),
            *begin_place(session, capture),
        ),
    )


_OTHER_THREAD = (
    "Launch it from the capturing thread; or make the capturing stream current in the worker, with "
    "`torch.cuda.stream(...)` around its work: streams belong to threads, a worker starts on the default one."
)


def _launched(activity: Activity) -> str:
    """` (kernel add_one, launched by libfoo.so)` of a launch that the driver saw; may be empty."""
    kernel, library = getattr(activity.record, "kernel", ""), getattr(activity.record, "lib", "")
    by = f"launched by {library}" if library and not _PLUMBING.match(library) else ""
    said = ", ".join(part for part in (f"kernel {code(shown(kernel))}" if kernel else "", by) if part)
    return f" ({said})" if said else ""


def _remedy(raw: bool, stream: str, name: str) -> str:
    if raw and not name:
        return (
            "Pass `torch.cuda.current_stream().cuda_stream` as the stream of the launch (in an extension "
            "`at::cuda::getCurrentCUDAStream()`)."
        )
    if "default" in stream or "default" in name:
        return "Leave out the switch to the default stream, so that the work runs on the capturing stream."
    return (
        f"Run it on `torch.cuda.current_stream()`, or make {stream} part of the capture: let it wait for the capturing "
        "stream before (fork) and let the capturing stream wait for it after (join)."
    )


def _lower(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def _fork_and_join(block: StreamBlock) -> Fix | None:
    """A fork before the `with torch.cuda.stream(…)` block and a join behind it."""
    source, statement = block.source, block.statement
    if "default_stream" in block.name or not all(p.isidentifier() for p in block.name.split(".")):
        return None
    indent = indent_of(source, statement)
    start, end = statement.lineno, statement.end_lineno or statement.lineno
    fork = textwrap.indent(f"{block.name}.wait_stream(torch.cuda.current_stream())", indent)
    join = textwrap.indent(f"torch.cuda.current_stream().wait_stream({block.name})", indent)
    return replace_lines(source, block.location, start, end, [fork, *source.lines[start - 1 : end], join])
