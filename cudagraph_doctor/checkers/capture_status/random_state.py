"""CGD107: random state misused inside the capture."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from cudagraph_doctor.checkers.code.expression import Expression, called, dotted, find_expression
from cudagraph_doctor.checkers.invalidation.texts import first_line
from cudagraph_doctor.checkers.wording.words import Words, begin_place, code, graph_name
from cudagraph_doctor.findings import Rule, Severity

if TYPE_CHECKING:
    from cudagraph_doctor.checkers.invalidation.cause import Cause
    from cudagraph_doctor.session.model import CaptureState, Session

RULE = Rule(
    id="CGD107",
    slug="rng-misuse-in-capture",
    level=Severity.ERROR,
    what="Seeding, saving or restoring RNG state in a capture, or a generator that is not registered with the graph.",
    see_also=("CGD116", "CGD118"),
    text="""\
## What it detects

`torch.manual_seed`, `get_rng_state`/`set_rng_state` or reading a seed inside the captured region, and random operators
that use a generator of the user's own which was never registered with the graph.

## Why it breaks

While capturing, a registered generator lives in graph mode: its seed and offset come from device memory that each
replay advances. A new seed cannot be set in it, and a generator that is not registered has no such memory. torch raises
a Python error; the CUDA capture itself stays active.

## Bad

```python
with torch.cuda.graph(g):
    torch.cuda.manual_seed(1234)
    noise = torch.rand(8, device="cuda", generator=request_rng)
```

## Good

```python
g.register_generator_state(request_rng)
request_rng.manual_seed(1234)
with torch.cuda.graph(g):
    noise = torch.rand(8, device="cuda", generator=request_rng)
```

## Evidence needed

Python evidence: torch's own error and the line that raised it. A later `Offset increment outside graph capture` is a
consequence of an earlier failed capture and hangs under that.
""",
)

_SEEDS = frozenset({"manual_seed", "manual_seed_all", "seed", "seed_all", "initial_seed"})
_STATES = frozenset({"get_rng_state", "set_rng_state", "get_state", "set_state", "fork_rng"})


def explain(session: Session, capture: CaptureState, cause: Cause) -> Words:
    """Seeding, a saved state, or an unregistered generator."""
    location = cause.line(session)
    found = find_expression(session, location, lambda n: called(n) in _SEEDS | _STATES or bool(_generator(n)))
    subject = code(found.text) if found.text else code(cause.trigger)
    graph, generator = graph_name(session, capture), _outermost_generator(session, cause, _generator(found.node))
    said = cause.exc.message if cause.exc is not None else ""
    if "increase offset" in said or "not registered" in said or (generator and found.method not in _SEEDS | _STATES):
        what, remedy = _unregistered(session, found, cause, generator, graph)
    elif found.method in _STATES:
        what = f"{subject} saves or restores random state while a stream is capturing"
        remedy = (
            "Save and restore the state around the capture, not in it: each replay advances the generator by itself."
        )
    else:
        what = f"{subject} touches the seed of a generator while a stream is capturing"
        again = code(graph + ".replay()")
        remedy = f"Seed before the capture, or between replays: {again} advances the generator by itself."
    reason = f" ({first_line(said).rstrip('.')})" if said else ""
    return Words(f"{what}; torch refuses that{reason}.", remedy, related=begin_place(session, capture))


def _unregistered(session: Session, found: Expression, cause: Cause, generator: str, graph: str) -> tuple[str, str]:
    del session
    name = code(generator) if generator else "its generator"
    register = f"{graph}.register_generator_state({generator or 'generator'})"
    subject = code(found.text) if found.text else code(cause.trigger)
    return (
        f"{subject} draws from {name}, which is not registered with the graph",
        f"Call {code(register)} before the capture, or use the default generator, which registers itself.",
    )


def _outermost_generator(session: Session, cause: Cause, name: str) -> str:
    """The caller's name for a generator that was handed down as an argument: `request_rng`, not `generator`."""
    for caller in session.callers(cause.stack) if name else ():
        found = find_expression(session, caller, lambda n: bool(_generator(n)))
        name = _generator(found.node) or name
    return name


def _generator(node: ast.AST | None) -> str:
    """`request_rng` of `x.exponential_(generator=request_rng)`."""
    if not isinstance(node, ast.Call):
        return ""
    return next((dotted(k.value) for k in node.keywords if k.arg == "generator"), "")
