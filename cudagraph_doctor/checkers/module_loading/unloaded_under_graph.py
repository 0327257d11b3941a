"""CGD304: a module or library unloaded while a graph that uses its kernels is alive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudagraph_doctor._wire import STATUS_ACTIVE
from cudagraph_doctor.checkers.code.expression import called, find_expression
from cudagraph_doctor.checkers.invalidation import context
from cudagraph_doctor.checkers.invalidation.places import telling_stack
from cudagraph_doctor.checkers.wording.finding import finding
from cudagraph_doctor.checkers.wording.kernel_names import shown
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code
from cudagraph_doctor.findings import Confidence, Rule, Severity
from cudagraph_doctor.session.apis import Family, base_name, family
from cudagraph_doctor.session.graph_life import alive_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudagraph_doctor.findings import Finding
    from cudagraph_doctor.session.model import Activity, CaptureState, Session

RULE = Rule(
    id="CGD304",
    slug="module-unloaded-under-graph",
    level=Severity.WARNING,
    what="A module or library was unloaded while a graph that uses its kernels is alive.",
    needs=("driver", "bindings"),
    see_also=("CGD302", "CGD401"),
    text="""\
## What it detects

`cuModuleUnload` or `cuLibraryUnload` after a capture whose graph launches kernels of that module and may still be
replayed: called directly, or by a finaliser (cupy's `RawModule`, a compiled extension) once the last reference is gone.

## Why it breaks

The graph holds the kernel's code by reference. Driver 580 keeps it until the graph is destroyed, so that replay works
there; CUDA does not promise that, and other drivers read freed code.

## Bad

```python
with torch.cuda.graph(g):
    launch(kernel, x)
driver.cuModuleUnload(module)
g.replay()
```

## Good

```python
with torch.cuda.graph(g):
    launch(kernel, x)
g.module = module          # keep it as long as the graph
g.replay()
```

## Evidence needed

Driver evidence with CUDA 12.4 or newer, which tells the functions of a module that is unloaded; or loads, launches and
unloads made through cuda-bindings.
""",
)


@dataclass
class Unload:
    """A module that went while graphs use it."""

    call: Activity
    launch: Activity
    """The first captured launch of one of its functions."""
    capture: CaptureState
    graphs: int = 1


def unloads(session: Session) -> Iterator[Unload]:
    """Unloads that went well, with the graph that they concern, in order; one seen by two layers once."""
    seen: set[tuple[int, str]] = set()
    for call in session.outside:
        if family(call.name) is not Family.MODULE_UNLOAD or call.failed:
            continue
        functions = set(getattr(call.record, "ptrs", ()))
        users = [found for c in session.captures if (found := _user(session, c, call, functions)) is not None]
        key = (call.tid, getattr(call.record, "ptr", ""))
        if users and key not in seen:
            seen.add(key)
            yield Unload(call, users[0].launch, users[0].capture, len(users))


def findings(session: Session) -> Iterator[Finding]:
    """A warning where the graph was replayed afterwards, a note where it was not."""
    for unload in unloads(session):
        again = _replayed_after(session, unload)
        yield finding(
            session,
            RULE,
            _words(session, unload, again=again),
            capture=unload.capture,
            stack=telling_stack(session, unload.call),
            trigger=base_name(unload.call.name),
            confidence=Confidence.PROVEN,
            evidence=(unload.launch.q, unload.call.q),
            level=RULE.level if again else Severity.NOTE,
        )


def _user(session: Session, capture: CaptureState, unload: Activity, functions: set[str]) -> Unload | None:
    if capture.status != "completed" or capture.last_q > unload.q or not functions:
        return None
    launch = next(
        (
            call
            for call in capture.calls()
            if family(call.name) is Family.LAUNCH
            and call.on == STATUS_ACTIVE
            and not call.failed
            and getattr(call.record, "ptr", "") in functions
        ),
        None,
    )
    if launch is None or not alive_at(session, capture, unload.q):
        return None
    return Unload(unload, launch, capture)


def _replayed_after(session: Session, unload: Unload) -> bool:
    """Whether the graph ran afterwards: a replay told apart, or more of them in the end than before."""
    mine = [r for r in session.replays if session.exec_captures.get(r.exec) is unload.capture]
    before = sum(r.count for r in mine if not r.total and r.q < unload.call.q)
    return any(r.q > unload.call.q and (not r.total or r.count > before) for r in mine)


def _words(session: Session, unload: Unload, *, again: bool) -> Words:
    kernel = shown(str(getattr(unload.launch.record, "kernel", ""))) or "a kernel of it"
    found = find_expression(session, session.location(unload.call.stack), lambda n: "nload" in called(n))
    subject = code(found.text) if found.text else code(base_name(unload.call.name))
    finalised = " in a finaliser" if context.under_finaliser(session, unload.call.stack) else ""
    graphs = "a graph that is alive uses" if unload.graphs == 1 else f"{unload.graphs} graphs that are alive use"
    after = "; it was replayed afterwards" if again else ""
    launched = session.location(unload.launch.stack)
    note = (launched.with_note(f"{kernel} was captured here"),) if launched is not None else ()
    return Words(
        message=f"{subject} unloads a module{finalised} while {graphs} its kernel {code(kernel)}{after}.",
        remedy="Keep the module (the object that owns it) as long as the graph, or reset the graph first.",
        related=(*note, *begin_place(session, unload.capture)),
    )
