"""CGD101: the host waits for the device inside the capture."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.capture_status.host_sync_fix import fix_for
from cudagraph_doctor.checkers.code.expression import Expression, called, dotted, find_expression
from cudagraph_doctor.checkers.code.reads import is_read
from cudagraph_doctor.checkers.invalidation import calls, context, operators
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code, graph_name, refused
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.session.model import CaptureState, Session

RULE = Rule(
    id="CGD101",
    slug="host-sync-in-capture",
    level=Severity.ERROR,
    what="The host waits for or reads from the GPU while a stream is capturing: .item(), .cpu(), .tolist(), bool(t), "
    "nonzero/mask index, repr, torch.cuda.synchronize, a stream or event wait, a library's info check.",
    see_also=("CGD102", "CGD103", "CGD105"),
    text="""\
## What it detects

A line inside the captured region that makes the host wait for the GPU or read a value from it: `.item()`, `.tolist()`,
`.cpu()`, `if tensor:`, a boolean mask as index, `nonzero`, printing a tensor, `torch.cuda.synchronize()`,
`stream.synchronize()`, or a library call that looks at its own info code on the host.

## Why it breaks

While a stream captures, its work is recorded and not run, so there is nothing to wait for and no value to read yet.
CUDA refuses the call (cudaError 900) and invalidates the capture; every later call then fails with 901, and the
traceback usually shows one of those instead of this line.

## Bad

```python
with torch.cuda.graph(g):
    nxt = (x @ head).argmax(-1)
    if nxt.item() == EOS:
        finished = True
```

## Good

```python
with torch.cuda.graph(g):
    nxt = (x @ head).argmax(-1)
    stop = nxt == EOS       # stays on the GPU
g.replay()
if stop.item():             # read behind the replay
    finished = True
```

## Evidence needed

Python evidence: the operator or call across which the capture's status went from Active to Invalidated, or torch's own
refusal of the copy. Driver evidence also sees waits made by libraries and extensions.
""",
)

_INFO_CHECKED = "checks the solver's info code on the host"


def explain(session: Session, capture: CaptureState, cause: Cause) -> Words:
    """The read or wait in the user's words."""
    location = cause.line(session)
    found = find_expression(session, location, _likes(cause))
    graph = graph_name(session, capture)
    validates = context.under_distribution(session, cause.stack)
    what, remedy = _describe(cause, found, graph, validates=validates)
    fix = fix_for(found, location, cause, graph, validates=validates) if location is not None else None
    return Words(
        message=f"{what} while a stream is capturing{refused(cause)}.",
        remedy=remedy,
        fix=fix,
        related=begin_place(session, capture),
    )


def _likes(cause: Cause) -> Callable[[ast.expr], bool]:
    """What the blamed expression looks like, where the columns do not tell."""
    if cause.op is None and (cause.family in calls.WAITS or cause.family in calls.QUERIES):
        return lambda node: called(node) in _WAITING or "ynchronize" in called(node) or is_read(node)
    if cause.why == "mask":
        return lambda node: isinstance(node, ast.Subscript) or called(node) in {"where", "masked_select"}
    if cause.why == "info-check":
        return lambda node: isinstance(node, ast.Call) and ("linalg" in dotted(node.func) or called(node) in _SOLVERS)
    if cause.why == "data-dependent":
        names = {operators.short(cause.operator).strip("_").rstrip("2"), "where", "unique", "nonzero"}
        return lambda node: called(node) in names or isinstance(node, ast.Subscript)
    if cause.operator in {"equal", "multinomial", "repeat_interleave"}:
        return lambda node: called(node) == cause.operator
    return is_read


_WAITING = frozenset({"synchronize", "wait", "query", "result"})

_REMEDIES = {
    "repeat_interleave": "Pass `output_size=`, the number of rows of the result: then nothing has to be read back.",
    "clip_grad_norm_": "Leave out `error_if_nonfinite=True`, and look at the returned norm behind the replay.",
    "multinomial": "Draw on the GPU alone: `(p / torch.empty_like(p).exponential_()).argmax(-1)` is one sample of `p`.",
}
"""Calls that wait in one known way, by their name."""

_SOLVERS = frozenset({"inverse", "cholesky", "svd", "qr", "eigh", "solve", "det", "slogdet", "lstsq", "inv", "lu"})


def _describe(cause: Cause, found: Expression, graph: str, *, validates: bool) -> tuple[str, str]:
    """(what happened, what to do)."""
    read = _describe_read(found, graph)
    if read is not None and _is_loop_bound(found):
        read = read[0], _LOOP_BOUND
    waits = cause.op is None and (cause.why in {"wait", ""} or cause.family in calls.WAITS)
    if waits and (read is None or found.method in _WAITING):
        return _describe_wait(cause, found, graph)
    if validates:
        return (
            f"{_subject(found, cause)} checks its arguments on the host, which waits for the GPU",
            "Pass `validate_args=False`, or make the distribution before the capture.",
        )
    if cause.why == "info-check":
        return (
            f"{_subject(found, cause)} {_INFO_CHECKED}, which waits for the GPU",
            (
                "Use the `_ex` variant with `check_errors=False` and look at its info tensor behind "
                f"{code(graph + '.replay()')}, or move the solve out of the captured region."
            ),
        )
    if cause.why in {"mask", "data-dependent"} and not (found.node is not None and is_read(found.node)):
        return _describe_shape(cause, found)
    if read is not None:
        return read
    if found.method in _REMEDIES:
        return f"{_subject(found, cause)} waits for the GPU", _REMEDIES[found.method]
    if cause.operator == "equal":
        return (
            f"{_subject(found, cause)} returns a Python bool, so it waits for the GPU",
            "Compare on the GPU with `(a == b).all()` and read the result behind the replay.",
        )
    return (
        f"{_subject(found, cause)} waits for the GPU",
        (
            f"Move it out of the captured region: before the capture if its result never changes, else behind "
            f"{code(graph + '.replay()')}."
        ),
    )


def _describe_wait(cause: Cause, found: Expression, graph: str) -> tuple[str, str]:
    whole = calls.is_device_wide(cause.api or cause.call)
    subject = code(found.text) if found.call is not None else code(_api(cause))
    what = "the whole GPU" if whole else "a stream or event"
    if found.method == "synchronize" and found.receiver is not None and not whole:
        what = code(found.show(found.receiver))
    return (
        f"{subject} makes the host wait for {what}",
        (
            f"Wait outside the captured region: put the call behind {code(graph + '.replay()')}, or skip it with "
            "`if not torch.cuda.is_current_stream_capturing():`. For order between streams use `wait_stream`, which is "
            "captured."
        ),
    )


def _describe_read(found: Expression, graph: str) -> tuple[str, str] | None:
    """Reads that Python syntax shows."""
    node, after = found.node, code(graph + ".replay()")
    if node is None:
        return None
    receiver = found.show(found.receiver)
    if found.method in {"item", "tolist"}:
        return (
            f"{code(found.text)} waits for the GPU and copies from it",
            (
                f"Keep {code(receiver)} on the GPU inside the captured region and call `.{found.method}()` on it "
                f"behind {after}."
            ),
        )
    if found.method in {"cpu", "numpy", "__array__", "to"}:
        return (
            f"{code(found.text)} copies from the GPU to host memory that is not pinned",
            (
                f"Read {code(receiver)} behind {after}: the replay refreshes it in place. To keep the copy in the "
                "graph, copy into a pinned buffer made before the capture, with `non_blocking=True`."
            ),
        )
    if isinstance(node, ast.JoinedStr) or found.method in {"print", "repr", "str", "format", "debug", "info"}:
        return (
            f"formatting a CUDA tensor in {code(found.text)} copies its values from the GPU",
            (
                "Log its shape and dtype instead, or skip the line while capturing: "
                "`if not torch.cuda.is_current_stream_capturing():`."
            ),
        )
    if found.method in {"int", "float", "bool"}:
        return (
            f"{code(found.text)} needs the value on the host, so it waits for the GPU",
            f"Compute it before the capture if it never changes; else keep it a tensor and read it behind {after}.",
        )
    if _is_test(found):
        return (
            f"Python needs {code(found.text)} as a bool to go on, so it waits for the GPU",
            f"Decide on the GPU (`torch.where`, a mask), or keep the test a tensor and look at it behind {after}.",
        )
    return None


def _describe_shape(cause: Cause, found: Expression) -> tuple[str, str]:
    """Results whose size only the device knows."""
    node = found.node
    if isinstance(node, ast.Subscript):
        what = f"the boolean mask in {code(found.text)} selects a number of elements that only the GPU knows"
        remedy = (
            "Keep the shape static: `torch.where(mask, x, fill)` or `masked_fill` over the whole tensor, or a `topk` "
            "of fixed size."
        )
    else:
        what = f"{_subject(found, cause)} returns a size that only the GPU knows"
        remedy = (
            "Use a form with a fixed size (`torch.nonzero_static`, `torch.where` with three arguments, "
            "`output_size=`), or do it before the capture."
        )
    return f"{what}: the count is copied to the host", remedy


_LOOP_BOUND = (
    "A graph has a fixed number of steps: loop over the largest number and mask the rest on the GPU (`torch.where`), "
    "or capture one graph per bound."
)


def _is_loop_bound(found: Expression) -> bool:
    """The value decides how often a `for` loop runs."""
    loop = found.statement
    return isinstance(loop, ast.For) and found.node is not None and any(n is found.node for n in ast.walk(loop.iter))


def _is_test(found: Expression) -> bool:
    """The expression decides a jump."""
    node, statement = found.node, found.statement
    if node is None:
        return False
    parent = found.source.parents.get(node)
    if isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)) and parent.test is node:
        return True
    if isinstance(parent, (ast.BoolOp, ast.UnaryOp)):
        return True
    return statement is not None and getattr(statement, "test", None) is node


def _subject(found: Expression, cause: Cause) -> str:
    if found.text and isinstance(found.node, (ast.Call, ast.Subscript, ast.Compare, ast.BinOp)):
        return code(found.text)
    return code(_api(cause))


def _api(cause: Cause) -> str:
    return cause.op.name if cause.op is not None else (cause.api or cause.call)
